"""Predictions -> all figures: tags and, where boxes are known, CorLoc and detection."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.evaluation.discovery import corloc, detection_mean_ap, instance_recall

Truth = list[Any]
OTHERWISE = {"CorLoc_argmax": "argmax_boxes", "CorLoc_vote": "voted_boxes"}


class Measurable(NamedTuple):
    """What of a prediction is measured: a fraction of its memory, where the predictions of a whole data set are kept."""

    classes: tuple[str, ...]
    image_scores: np.ndarray
    best_boxes: np.ndarray | None
    argmax_boxes: np.ndarray | None
    voted_boxes: np.ndarray | None
    found_boxes: np.ndarray
    found_classes: np.ndarray
    found_scores: np.ndarray


def measurable(prediction: Any) -> Measurable:
    """Return what of a prediction is measured."""
    part = Measurable(*(getattr(prediction, name) for name in Measurable._fields))
    return part._replace(found_classes=part.found_classes.astype(np.int32))


def measure_predictions(
    predictions: Sequence[Any],
    labels: np.ndarray,
    truth: Truth | None,
    strict: bool = False,
    difficult: bool = True,
) -> dict[str, Any]:
    """Return the figures of predictions: mAP from the tags and, where boxes are known, CorLoc and detection mAP.

    With the paper's heads alone CorLoc is measured twice: `CorLoc_argmax` is that of the highest scores, as in the paper, where
    boxes are selected by vote, and `CorLoc_vote` that of a vote where they are not.
    """
    classes = predictions[0].classes
    scores = np.stack([prediction.image_scores for prediction in predictions])
    figures: dict[str, Any] = {"images": len(predictions)}
    figures |= classification_report(scores, labels, classes).as_dict()
    boxes = [prediction.best_boxes for prediction in predictions if prediction.best_boxes is not None]
    if truth is None or not boxes:
        return figures
    best = np.stack(boxes)
    figures |= corloc(best, truth, classes, strict=strict, with_difficult=difficult).as_dict()
    for name, field in OTHERWISE.items():
        other = [getattr(prediction, field) for prediction in predictions if getattr(prediction, field) is not None]
        if len(other) == len(predictions):
            report = corloc(np.stack(other), truth, classes, strict=strict, with_difficult=difficult).as_dict()
            figures |= {name: report["CorLoc"], f"{name}_per_class": report["CorLoc_per_class"]}
    figures |= detection_mean_ap(predictions, truth, classes, strict=strict).as_dict()
    figures |= instance_recall(predictions, truth, classes, strict=strict).as_dict()
    return figures
