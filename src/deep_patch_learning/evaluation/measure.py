"""Predictions -> all figures: tags and, where boxes are known, CorLoc and detection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.evaluation.discovery import corloc, detection_mean_ap, instance_recall

Truth = list[Any]


def measure_predictions(
    predictions: Sequence[Any],
    labels: np.ndarray,
    truth: Truth | None,
    strict: bool = False,
    difficult: bool = True,
) -> dict[str, Any]:
    """Return the figures of predictions: mAP from the tags and, where boxes are known, CorLoc and detection mAP."""

    classes = predictions[0].classes
    scores = np.stack([prediction.image_scores for prediction in predictions])
    figures: dict[str, Any] = {"images": len(predictions)}
    figures |= classification_report(scores, labels, classes).as_dict()
    boxes = [prediction.best_boxes for prediction in predictions if prediction.best_boxes is not None]
    if truth is None or not boxes:
        return figures
    best = np.stack(boxes)
    figures |= corloc(best, truth, classes, strict=strict, with_difficult=difficult).as_dict()
    figures |= detection_mean_ap(predictions, truth, classes, strict=strict).as_dict()
    figures |= instance_recall(predictions, truth, classes, strict=strict).as_dict()
    return figures
