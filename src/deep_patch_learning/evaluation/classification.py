"""How well an image's tags are told: average precision per class, in its three definitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_patch_learning.common.errors import DplError
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN
from deep_patch_learning.evaluation.average_precision import (
    DEFINITIONS,
    Definition,
    PerClass,
    check_definition,
    interpolated_ap,
    mean_of_known,
    non_interpolated_ap,
    or_none,
    per_class,
    without_nan,
)


def average_precision(scores: np.ndarray, labels: np.ndarray, definition: Definition = "all-point") -> float:
    """Return the average precision of one class over I images, in [0, 1]; nan when no image shows the class.

    `scores` (I,), higher for surer. `labels` (I,) of 1 present, 0 absent, -1 unknown; an image whose label is unknown
    is neither a hit nor a false alarm: it is left out.

    - `all-point`: area under the envelope of the precision-recall curve (VOC 2010 and later).
    - `11-point`: mean of the envelope at recall 0, 0.1, ..., 1 (VOC 2007).
    - `non-interpolated`: mean precision at each positive, equal to scikit-learn's `average_precision_score`.

    Ties: the two devkit definitions rank equal scores in the order they come in, as the devkit's stable sort does;
    the non-interpolated one takes equal scores as one step, as scikit-learn does, and does not see their order.
    """
    check_definition(definition)
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    if scores.ndim != 1 or labels.shape != scores.shape:
        raise ValueError(f"scores are {scores.shape} and labels {labels.shape}; wanted (I,) and (I,)")
    _check_labels(labels)
    if np.isnan(scores).any():
        at = int(np.isnan(scores).argmax())
        raise DplError(f"the score of image {at} is nan: the network's weights have diverged. Train it anew.")
    known = labels != UNKNOWN
    scores, present = scores[known], labels[known] == PRESENT
    order = np.argsort(-scores, kind="stable")
    hits = present[order]
    if definition == "non-interpolated":
        return non_interpolated_ap(scores[order], hits)
    return interpolated_ap(hits, int(hits.sum()), definition)


@dataclass(frozen=True)
class ClassificationReport:
    """Average precision of each class, in percent, by the three definitions; nan for a class that no image shows.

    `positives` counts the images that show each class. The means are over the classes with at least one.
    """

    all_point: PerClass
    eleven_point: PerClass
    non_interpolated: PerClass
    positives: dict[str, int]

    @property
    def mean_ap(self) -> float:
        """Return the headline figure: the mean all-point average precision, in percent."""
        return mean_of_known(self.all_point)

    @property
    def mean_ap_11_point(self) -> float:
        """Return the mean 11-point average precision, in percent."""
        return mean_of_known(self.eleven_point)

    @property
    def mean_ap_non_interpolated(self) -> float:
        """Return the mean non-interpolated average precision, in percent."""
        return mean_of_known(self.non_interpolated)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in percent, ready for JSON: the means and, per class, None where there is no figure."""
        return {
            "mAP": or_none(self.mean_ap),
            "mAP_11pt": or_none(self.mean_ap_11_point),
            "mAP_non_interpolated": or_none(self.mean_ap_non_interpolated),
            "AP": without_nan(self.all_point),
            "AP_11pt": without_nan(self.eleven_point),
            "AP_non_interpolated": without_nan(self.non_interpolated),
            "positives": dict(self.positives),
        }


def classification_report(scores: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> ClassificationReport:
    """Return the average precision of every class, in percent, by the three definitions.

    `scores` (I, C), `labels` (I, C) of 1 present, 0 absent, -1 unknown.
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    if scores.ndim != 2 or labels.shape != scores.shape or scores.shape[1] != len(classes):
        raise ValueError(f"scores are {scores.shape} and labels {labels.shape}; wanted (I, {len(classes)}) for both")
    by_definition = {
        definition: per_class(
            classes,
            (100.0 * average_precision(scores[:, c], labels[:, c], definition) for c in range(len(classes))),
        )
        for definition in DEFINITIONS
    }
    return ClassificationReport(
        all_point=by_definition["all-point"],
        eleven_point=by_definition["11-point"],
        non_interpolated=by_definition["non-interpolated"],
        positives=dict(zip(classes, (labels == PRESENT).sum(0).tolist(), strict=True)),
    )


def _check_labels(labels: np.ndarray) -> None:
    wrong = ~np.isin(labels, (PRESENT, ABSENT, UNKNOWN))
    if wrong.any():
        index = int(wrong.argmax())
        raise ValueError(f"label {index} is {labels[index]}; wanted 1 (present), 0 (absent) or -1 (unknown)")
