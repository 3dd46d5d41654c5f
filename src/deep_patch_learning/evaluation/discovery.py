"""Discovery figures: CorLoc, detection average precision and recall, all against true boxes.

The IoU is the VOC devkit's and must be at least the threshold; with `strict` it must exceed the threshold, as in many later
papers. Each report states which rule it used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.evaluation.average_precision import (
    AveragePrecisions,
    PerClass,
    interpolated_ap,
    mean_of_known,
    or_none,
    per_class,
    recall_at,
    share,
    without_nan,
)
from deep_patch_learning.evaluation.matching import (
    Detections,
    best_match,
    blocks,
    flatten_truth,
    joined,
    overlaps,
    paired_iou,
    rule_in_words,
    same_image_and_class,
)


@dataclass(frozen=True)
class CorLocReport:
    """Correct localisation of each class, in percent; nan for a class without a box.

    `images` counts the images with a box of each class: those it was measured on.
    """

    per_class: PerClass
    images: dict[str, int]
    rule: str

    @property
    def mean(self) -> float:
        """Return CorLoc: the mean over the classes that have a box, in percent."""
        return mean_of_known(self.per_class)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in percent, ready for JSON, and the rule they were counted by."""
        return {
            "CorLoc": or_none(self.mean),
            "CorLoc_per_class": without_nan(self.per_class),
            "CorLoc_images": dict(self.images),
            "CorLoc_rule": self.rule,
        }


def corloc(
    best_boxes: np.ndarray,
    truth: Sequence[TrueBoxes],
    classes: Sequence[str],
    *,
    threshold: float = 0.5,
    strict: bool = False,
    with_difficult: bool = True,
) -> CorLocReport:
    """Return, per class, the percentage of the images with a box of it whose best box matches one of them.

    `best_boxes` (I, C, 4) is the single best patch of each class in each image. Without `with_difficult`, difficult
    boxes are ignored: an image whose only boxes of a class are difficult is not counted, and none can be hit.
    """
    best_boxes = np.asarray(best_boxes)
    if best_boxes.shape != (len(truth), len(classes), 4):
        wanted = (len(truth), len(classes), 4)
        raise ValueError(f"best_boxes are {best_boxes.shape}; wanted {wanted}, one box per image and class")
    true, difficult = flatten_truth(truth, len(classes))
    counts = np.ones_like(difficult) if with_difficult else ~difficult
    iou = paired_iou(best_boxes[true.images, true.classes], true.boxes)  # (G,)
    right = counts & overlaps(iou, threshold, strict)
    shown, located = np.zeros((2, *best_boxes.shape[:2]), bool)  # (I, C) each
    shown[true.images[counts], true.classes[counts]] = True
    located[true.images[right], true.classes[right]] = True
    return CorLocReport(
        per_class(classes, map(share, located.sum(0), shown.sum(0))),
        dict(zip(classes, shown.sum(0).tolist(), strict=True)),
        f"{rule_in_words(threshold, strict)}, difficult boxes {'in' if with_difficult else 'out'}",
    )


@dataclass(frozen=True)
class DetectionReport(AveragePrecisions):
    """Detection average precision of each class, in percent; nan for a class without a box that counts.

    `recall_at_80` is the recall at a precision of 80 %. `boxes` counts the true boxes that are to be found: those that are not
    difficult.
    """

    recall_at_80: PerClass
    boxes: dict[str, int]
    rule: str

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in percent, ready for JSON, and the rule they were counted by."""
        return {
            "detection_mAP": or_none(self.mean_ap),
            "detection_mAP_11pt": or_none(self.mean_ap_11_point),
            "recall_at_80": or_none(mean_of_known(self.recall_at_80)),
            "detection_AP": without_nan(self.all_point),
            "detection_AP_11pt": without_nan(self.eleven_point),
            "detection_boxes": dict(self.boxes),
            "detection_rule": self.rule,
        }


def detection_mean_ap(
    detections: Sequence[Detections],
    truth: Sequence[TrueBoxes],
    classes: Sequence[str],
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> DetectionReport:
    """Return the average precision of the found boxes of each class, matched as the VOC devkit does.

    The found boxes of a class in all images are ranked by score (equal scores in the order they come in). Each one is
    matched to the true box it overlaps most. The first match of a true box is right; a second one, and a box that
    overlaps none enough, is wrong; a match with a difficult box is neither.
    """
    found_classes, found_scores, matches, hard = [], [], [], []
    positives, before = np.zeros(len(classes), np.int64), 0
    for block in blocks(detections, truth, len(classes)):
        match = best_match(block.found, block.true, len(classes), threshold, strict)
        match[match >= 0] += before
        before += len(block.difficult)
        positives += np.bincount(block.true.classes[~block.difficult], minlength=len(classes))
        matches.append(match.astype(np.int32))
        found_classes.append(block.found.classes.astype(np.int32))
        found_scores.append(block.scores)
        hard.append(block.difficult)
    of_box, scores = joined(found_classes), joined(found_scores)  # (D,)
    match, difficult = joined(matches).astype(np.int32), joined(hard).astype(bool)  # (D,), (G,)
    all_point, eleven_point, recall = [], [], []
    for index in range(len(classes)):
        of_class = np.flatnonzero(of_box == index)
        ranked = match[of_class[np.argsort(-scores[of_class], kind="stable")]]
        hits = _hits(ranked, difficult)
        all_point.append(100.0 * interpolated_ap(hits, int(positives[index]), "all-point"))
        eleven_point.append(100.0 * interpolated_ap(hits, int(positives[index]), "11-point"))
        recall.append(100.0 * recall_at(0.8, hits, int(positives[index])))
    return DetectionReport(
        per_class(classes, all_point),
        per_class(classes, eleven_point),
        per_class(classes, recall),
        dict(zip(classes, positives.tolist(), strict=True)),
        f"{rule_in_words(threshold, strict)}, difficult boxes ignored",
    )


@dataclass(frozen=True)
class RecallReport:
    """The percentage of true boxes that were found, over all boxes and per class; nan where there is none."""

    overall: float
    per_class: PerClass
    boxes: int
    rule: str

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in percent, ready for JSON, and the rule they were counted by."""
        return {
            "instance_recall": or_none(self.overall),
            "instance_recall_per_class": without_nan(self.per_class),
            "instance_recall_boxes": self.boxes,
            "instance_recall_rule": self.rule,
        }


def instance_recall(
    detections: Sequence[Detections],
    truth: Sequence[TrueBoxes],
    classes: Sequence[str],
    *,
    threshold: float = 0.5,
    strict: bool = False,
    with_difficult: bool = True,
) -> RecallReport:
    """Return the percentage of all true boxes that a found box of their class matches, whatever its score."""
    there, got = np.zeros(len(classes), np.int64), np.zeros(len(classes), np.int64)
    for block in blocks(detections, truth, len(classes)):
        found, true = block.found, block.true
        found_index, true_index = same_image_and_class(found, true, len(classes))
        iou = paired_iou(found.boxes[found_index], true.boxes[true_index])
        hit = np.zeros(len(true.boxes), bool)
        hit[true_index[overlaps(iou, threshold, strict)]] = True
        counts = np.ones_like(block.difficult) if with_difficult else ~block.difficult
        there += np.bincount(true.classes[counts], minlength=len(classes))
        got += np.bincount(true.classes[counts & hit], minlength=len(classes))
    return RecallReport(
        share(got.sum(), there.sum()),
        per_class(classes, map(share, got.tolist(), there.tolist())),
        int(there.sum()),
        f"{rule_in_words(threshold, strict)}, difficult boxes {'in' if with_difficult else 'out'}",
    )


def _hits(ranked: np.ndarray, difficult: np.ndarray) -> np.ndarray:
    """Return which ranks are right, (R,) bool, from the match (or -1) at each rank; ignored ranks are taken out."""
    matched = ranked >= 0
    ignored = matched.copy()
    ignored[matched] = difficult[ranked[matched]]
    ranked = ranked[~ignored]
    matches, first = np.unique(ranked, return_index=True)
    hits = np.zeros(len(ranked), bool)
    hits[first[matches >= 0]] = True
    return hits
