"""Predictions -> numbers: how well the tags are told (classification) and the objects found (discovery)."""

from deep_patch_learning.evaluation.classification import (
    ClassificationReport,
    average_precision,
    classification_report,
)
from deep_patch_learning.evaluation.discovery import (
    CorLocReport,
    DetectionReport,
    RecallReport,
    corloc,
    detection_mean_ap,
    instance_recall,
)

__all__ = [
    "ClassificationReport",
    "CorLocReport",
    "DetectionReport",
    "RecallReport",
    "average_precision",
    "classification_report",
    "corloc",
    "detection_mean_ap",
    "instance_recall",
]
