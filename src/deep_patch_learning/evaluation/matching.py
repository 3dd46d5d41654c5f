"""Matching found boxes with true boxes: the flat arrays that every discovery figure is computed from.

Boxes are half-open, so x2 - x1 is the number of columns a box covers. The VOC devkit keeps the last pixel inside the
box and adds 1 to every side; that is the same number of pixels, and so the same IoU.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.data.truth import TrueBoxes

BLOCK = 50  # images that are matched at a time


class Detections(Protocol):
    """The found boxes of one image, such as a `Prediction`: (B, 4) boxes, (B,) class indices, (B,) scores."""

    @property
    def found_boxes(self) -> np.ndarray:
        """Return the boxes, (B, 4)."""

    @property
    def found_classes(self) -> np.ndarray:
        """Return the index of each box's class, (B,)."""

    @property
    def found_scores(self) -> np.ndarray:
        """Return the score of each box, (B,), higher for more certain."""


@dataclass(frozen=True)
class FlatBoxes:
    """The boxes of all images in one array, image after image."""

    images: np.ndarray  # (N,)
    classes: np.ndarray  # (N,)
    boxes: np.ndarray  # (N, 4)

    def keys(self, classes: int) -> np.ndarray:
        """Return one number per (image, class), (N,)."""
        return self.images * classes + self.classes


@dataclass(frozen=True)
class Block:
    """The found and the true boxes of some images in a row. Memory for matching is that of a block, not of all images."""

    found: FlatBoxes
    scores: np.ndarray  # (D,)
    true: FlatBoxes
    difficult: np.ndarray  # (G,) bool


def blocks(detections: Iterable[Detections], truth: Sequence[TrueBoxes], classes: int) -> Iterator[Block]:
    """Yield the boxes of all images, some images at a time, in their order; image numbers begin at 0 in each block.

    Detections are taken as they come, so that those of a whole data set need not be in memory.
    """
    coming = iter(detections)
    for first in range(0, len(truth), BLOCK):
        yield _block(list(islice(coming, min(BLOCK, len(truth) - first))), truth, classes, first)
    _must_be_as_many(len(truth) + sum(1 for _ in coming), truth)


def _block(found: list[Detections], truth: Sequence[TrueBoxes], classes: int, first: int) -> Block:
    part = truth[first : first + BLOCK]
    if len(found) < len(part):
        _must_be_as_many(first + len(found), truth)
    true, difficult = flatten_truth(part, classes, first)
    return Block(*flatten_detections(found, classes, first), true, difficult)


def _must_be_as_many(images: int, truth: Sequence[TrueBoxes]) -> None:
    if images != len(truth):
        raise ValueError(f"there are detections for {images} images and true boxes for {len(truth)}")


def flatten_truth(truth: Sequence[TrueBoxes], classes: int, first: int = 0) -> tuple[FlatBoxes, np.ndarray]:
    """Return all true boxes, and which of them are difficult: (G,) bool. Errors count images from `first`."""
    flat = _flatten([one.boxes for one in truth], [one.classes for one in truth], classes, "true box", first)
    return flat, joined([one.difficult for one in truth]).astype(bool)


def flatten_detections(detections: Sequence[Detections], classes: int, first: int = 0) -> tuple[FlatBoxes, np.ndarray]:
    """Return all found boxes and their scores, (D,). Errors count images from `first`."""
    boxes, found = [one.found_boxes for one in detections], [one.found_classes for one in detections]
    flat = _flatten(boxes, found, classes, "found box", first)
    scores = joined([one.found_scores for one in detections])
    if len(scores) != len(flat.boxes) or np.isnan(scores).any():
        raise ValueError(
            f"{len(flat.boxes)} found boxes have {len(scores)} scores, {np.isnan(scores).sum()} of them nan"
        )
    return flat, scores


def paired_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the intersection over union of each row of `first` with the same row of `second`: (N, 4) x2 -> (N,)."""
    return box_iou(first[:, None], second[:, None])[:, 0, 0]


def overlaps(iou: np.ndarray, threshold: float, strict: bool) -> np.ndarray:
    """Return where the IoU is a match: IoU >= threshold, or IoU > threshold when strict."""
    return iou > threshold if strict else iou >= threshold


def rule_in_words(threshold: float, strict: bool) -> str:
    """Return the rule as it is printed beside a figure."""
    return f"IoU {'>' if strict else '>='} {threshold:g}"


def same_image_and_class(found: FlatBoxes, true: FlatBoxes, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of every (found, true) pair of one image and class: (Q,) and (Q,).

    Pairs come in the order of the found boxes and, for one found box, in the order of the true boxes.
    """
    true_keys, found_keys = true.keys(classes), found.keys(classes)
    order = np.argsort(true_keys, kind="stable")
    last = int(max(true_keys.max(initial=-1), found_keys.max(initial=-1)))
    group = np.bincount(true_keys, minlength=last + 1)  # true boxes of each (image, class)
    start = np.cumsum(group) - group
    count = group[found_keys]  # (D,) true boxes that each found box is compared with
    found_index = np.repeat(np.arange(len(found_keys)), count)
    within = np.arange(len(found_index)) - np.repeat(np.cumsum(count) - count, count)
    return found_index, order[start[found_keys][found_index] + within]


def best_match(found: FlatBoxes, true: FlatBoxes, classes: int, threshold: float, strict: bool) -> np.ndarray:
    """Return, for each found box, the true box of its class with the highest IoU, or -1 if that is no match: (D,).

    Of equal IoUs the first true box wins, as in the devkit. Several found boxes may have the same match.
    """
    found_index, true_index = same_image_and_class(found, true, classes)
    iou = paired_iou(found.boxes[found_index], true.boxes[true_index])
    enough = overlaps(iou, threshold, strict)
    found_index, true_index, iou = found_index[enough], true_index[enough], iou[enough]
    order = np.lexsort((-iou, found_index))  # stable: the earlier true box first among equals
    firsts, where = np.unique(found_index[order], return_index=True)
    match = np.full(len(found.boxes), -1, np.int64)
    match[firsts] = true_index[order][where]
    return match


def _flatten(boxes: list[np.ndarray], indices: list[np.ndarray], classes: int, what: str, first: int) -> FlatBoxes:
    images = np.repeat(np.arange(len(boxes)), [len(one) for one in boxes])
    of_class = joined(indices).astype(np.int64)
    if len(of_class) != len(images):
        raise ValueError(f"there are {len(images)} {what}es with {len(of_class)} class indices; wanted one each")
    wrong = (of_class < 0) | (of_class >= classes)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"a {what} of image {first + images[at]} has class {of_class[at]}; wanted 0 to {classes - 1}")
    return FlatBoxes(images, of_class, joined([np.reshape(one, (-1, 4)) for one in boxes], (0, 4)))


def joined(arrays: list[np.ndarray], empty: tuple[int, ...] = (0,)) -> np.ndarray:
    """Return arrays as one, end to end."""
    return np.concatenate(arrays) if arrays else np.zeros(empty)
