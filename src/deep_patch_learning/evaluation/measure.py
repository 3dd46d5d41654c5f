"""Predictions -> all figures: tags and, where boxes are known, CorLoc and detection."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.evaluation.discovery import DetectionTally, RecallTally, corloc
from deep_patch_learning.evaluation.matching import blocks

Truth = Sequence[Any]
OTHERWISE = {"CorLoc_argmax": "argmax_boxes", "CorLoc_vote": "voted_boxes"}


class _Kept(NamedTuple):
    """What of a prediction is needed until all are there."""

    image_scores: np.ndarray
    best_boxes: np.ndarray | None
    argmax_boxes: np.ndarray | None
    voted_boxes: np.ndarray | None


def measure_predictions(
    predictions: Iterable[Any],
    labels: np.ndarray,
    truth: Truth | None,
    strict: bool = False,
    difficult: bool = True,
) -> dict[str, Any]:
    """Return the figures of predictions: mAP from the tags and, where boxes are known, CorLoc and detection mAP.

    Predictions are taken as they come: of each found box only its score and its match are kept.

    With the paper's heads alone CorLoc is measured twice: `CorLoc_argmax` is that of the highest scores, as in the paper, where
    boxes are selected by vote, and `CorLoc_vote` that of a vote where they are not.
    """
    coming = iter(predictions)
    first = next(coming)
    classes = first.classes
    kept: list[_Kept] = []

    def passing() -> Iterator[Any]:
        for prediction in chain([first], coming):
            kept.append(_Kept(*(getattr(prediction, name) for name in _Kept._fields)))
            yield prediction

    known = None if first.best_boxes is None else truth
    detection, recall = DetectionTally(classes, strict=strict), RecallTally(classes, strict=strict)
    if known is not None:
        for block in blocks(passing(), known, len(classes)):
            detection.add(block)
            recall.add(block)
    else:
        deque(passing(), maxlen=0)
    figures: dict[str, Any] = {"images": len(kept)}
    figures |= classification_report(np.stack([one.image_scores for one in kept]), labels, classes).as_dict()
    if known is None:
        return figures
    how = {"strict": strict, "with_difficult": difficult}
    figures |= corloc(
        np.stack([one.best_boxes for one in kept if one.best_boxes is not None]), known, classes, **how
    ).as_dict()
    for name, field in OTHERWISE.items():
        other = [getattr(one, field) for one in kept if getattr(one, field) is not None]
        if len(other) == len(kept):
            report = corloc(np.stack(other), known, classes, **how).as_dict()
            figures |= {name: report["CorLoc"], f"{name}_per_class": report["CorLoc_per_class"]}
    return figures | detection.report().as_dict() | recall.report().as_dict()
