"""Discovery figures: CorLoc, detection average precision and recall, all against true boxes.

The IoU is the VOC devkit's and must be at least the threshold; with `strict` it must exceed the threshold, as in many later
papers. Each report states which rule it used.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    Block,
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
    detections: Iterable[Detections],
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
    tally = DetectionTally(classes, threshold=threshold, strict=strict)
    for block in blocks(detections, truth, len(classes)):
        tally.add(block)
    return tally.report()


class DetectionTally:
    """Detection average precision of images that come block by block; of each found box it keeps the score and the match."""

    def __init__(self, classes: Sequence[str], *, threshold: float = 0.5, strict: bool = False) -> None:
        self.classes, self.threshold, self.strict = classes, threshold, strict
        # of each class, block by block: scores, and true boxes or -1
        self._matched: defaultdict[int, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        self._difficult: list[np.ndarray] = []  # of each true box so far
        self._true_boxes = 0
        self._positives = np.zeros(len(classes), np.int64)

    def add(self, block: Block) -> None:
        """Match the boxes of a block."""
        match = best_match(block.found, block.true, len(self.classes), self.threshold, self.strict)
        match[match >= 0] += self._true_boxes
        self._true_boxes += len(block.difficult)
        self._difficult.append(block.difficult)
        self._positives += np.bincount(block.true.classes[~block.difficult], minlength=len(self.classes))
        order = np.argsort(block.found.classes, kind="stable")
        present, starts = np.unique(block.found.classes[order], return_index=True)
        scores, matches = block.scores[order], match[order].astype(np.int32)
        bounds = np.append(starts, len(order))
        for index, start, end in zip(present.tolist(), bounds[:-1], bounds[1:], strict=True):
            self._matched[index].append((scores[start:end], matches[start:end]))

    def report(self) -> DetectionReport:
        """Return the figures of the blocks so far."""
        difficult = joined(self._difficult).astype(bool)
        all_point, eleven_point, recall = [], [], []
        for index, positives in enumerate(self._positives.tolist()):
            of_class = self._matched.get(index, [])
            scores, match = joined([one for one, _ in of_class]), joined([one for _, one in of_class]).astype(np.int32)
            hits = _hits(match[np.argsort(-scores, kind="stable")], difficult)
            all_point.append(100.0 * interpolated_ap(hits, positives, "all-point"))
            eleven_point.append(100.0 * interpolated_ap(hits, positives, "11-point"))
            recall.append(100.0 * recall_at(0.8, hits, positives))
        return DetectionReport(
            per_class(self.classes, all_point),
            per_class(self.classes, eleven_point),
            per_class(self.classes, recall),
            dict(zip(self.classes, self._positives.tolist(), strict=True)),
            f"{rule_in_words(self.threshold, self.strict)}, difficult boxes ignored",
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
    detections: Iterable[Detections],
    truth: Sequence[TrueBoxes],
    classes: Sequence[str],
    *,
    threshold: float = 0.5,
    strict: bool = False,
    with_difficult: bool = True,
) -> RecallReport:
    """Return the percentage of all true boxes that a found box of their class matches, whatever its score."""
    tally = RecallTally(classes, threshold=threshold, strict=strict, with_difficult=with_difficult)
    for block in blocks(detections, truth, len(classes)):
        tally.add(block)
    return tally.report()


class RecallTally:
    """The share of true boxes that were found, of images that come block by block."""

    def __init__(
        self, classes: Sequence[str], *, threshold: float = 0.5, strict: bool = False, with_difficult: bool = True
    ) -> None:
        self.classes, self.threshold, self.strict, self.with_difficult = classes, threshold, strict, with_difficult
        self._there, self._found = np.zeros((2, len(classes)), np.int64)

    def add(self, block: Block) -> None:
        """Count the boxes of a block."""
        found, true, classes = block.found, block.true, len(self.classes)
        found_index, true_index = same_image_and_class(found, true, classes)
        iou = paired_iou(found.boxes[found_index], true.boxes[true_index])
        hit = np.zeros(len(true.boxes), bool)
        hit[true_index[overlaps(iou, self.threshold, self.strict)]] = True
        counts = np.ones_like(block.difficult) if self.with_difficult else ~block.difficult
        self._there += np.bincount(true.classes[counts], minlength=classes)
        self._found += np.bincount(true.classes[counts & hit], minlength=classes)

    def report(self) -> RecallReport:
        """Return the figures of the blocks so far."""
        there, found = self._there, self._found
        return RecallReport(
            share(found.sum(), there.sum()),
            per_class(self.classes, map(share, found.tolist(), there.tolist())),
            int(there.sum()),
            f"{rule_in_words(self.threshold, self.strict)}, difficult boxes {'in' if self.with_difficult else 'out'}",
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
