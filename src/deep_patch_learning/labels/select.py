"""Predictions + tags -> the boxes to write. The tags are respected: a box is written where its class is known to be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.boxes import area, pairwise_iou
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import ABSENT, PRESENT, TaggedImages
from deep_patch_learning.inference.prediction import Prediction

BOXES_PER_CLASS = 1  # further boxes are more often parts of the same object than objects


@dataclass(frozen=True)
class Choice:
    """Which boxes are written.

    `min_score` is the probability that a box must reach; None: from which a tag of its class is shown. `boxes_per_class` is
    the most boxes of one class in an image (None: all that were found). `untagged`: boxes of classes that the tags call absent
    too, where the class's probability in the image reaches `min_score` as well.
    """

    min_score: float | None = None
    boxes_per_class: int | None = BOXES_PER_CLASS
    untagged: bool = False

    def least(self, prediction: Prediction) -> np.ndarray:
        """Return the probability (C,) that a box of each class must reach."""
        return prediction.thresholds if self.min_score is None else np.full(len(prediction.classes), self.min_score)

    def __post_init__(self) -> None:
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise DataError(f"min_score is {self.min_score}; wanted a probability from 0 to 1.")
        if self.boxes_per_class is not None and self.boxes_per_class < 1:
            raise DataError(f"boxes_per_class is {self.boxes_per_class}; wanted 1 or more.")


@dataclass(frozen=True)
class LabelledImage:
    """One image with the boxes to write, by class and best first.

    `boxes` (B, 4) in this package's convention, `classes` (B,) indices, `scores` (B,) probabilities, `states` (C,) the tags,
    `parts` (B,) says which boxes look like a part of an object only.
    """

    name: str
    path: Path
    height: int
    width: int
    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray
    states: np.ndarray
    parts: np.ndarray

    @property
    def abstained(self) -> np.ndarray:
        """Return the classes that are tagged and have no box."""
        return np.setdiff1d(np.flatnonzero(self.states == PRESENT), self.classes)


@dataclass(frozen=True)
class LabelSet:
    """All images with their boxes, the class names, and the name of the split they came from."""

    classes: tuple[str, ...]
    images: list[LabelledImage]
    split: str

    def tags(self, image: LabelledImage) -> list[str]:
        """Return the names of the classes that the image is tagged with."""
        return [self.classes[index] for index in np.flatnonzero(image.states == PRESENT)]


def select(
    predictions: Sequence[Prediction], images: TaggedImages, choice: Choice | None = None, split: str = "train"
) -> LabelSet:
    """Return the boxes to write for each image; `predictions` are those of `images`, in their order."""
    choice = choice or Choice()
    _check_pairs(predictions, images)
    chosen = []
    for index, prediction in enumerate(predictions):
        states = images.labels[index]
        boxes, classes, scores = _chosen(prediction, states, choice)
        size, parts = (prediction.height, prediction.width), _parts(prediction, boxes, classes)
        chosen.append(
            LabelledImage(images.names[index], images.paths[index], *size, boxes, classes, scores, states, parts)
        )
    return LabelSet(images.classes, chosen, split)


def summary(labels: LabelSet) -> dict[str, Any]:
    """Return the counts: of images, boxes, boxes that look like parts, and abstentions; per class the mean score too."""
    states = np.array([image.states for image in labels.images]).reshape(-1, len(labels.classes))
    classes = np.concatenate([image.classes for image in labels.images] or [np.zeros(0, np.int64)])
    scores = np.concatenate([image.scores for image in labels.images] or [np.zeros(0)])
    parts = np.concatenate([image.parts for image in labels.images] or [np.zeros(0, bool)])
    abstained: dict[str, list[str]] = {name: [] for name in labels.classes}
    for image in labels.images:
        for index in image.abstained:
            abstained[labels.classes[index]].append(image.name)
    per_class = {}
    for index, name in enumerate(labels.classes):
        own = scores[classes == index]
        per_class[name] = {
            "tagged": int((states[:, index] == PRESENT).sum()),
            "boxes": len(own),
            "parts": int(parts[classes == index].sum()),
            "abstained": len(abstained[name]),
            "mean_score": float(own.mean()) if len(own) else None,
        }
    return {
        "images": len(labels.images),
        "images_without_boxes": sum(not len(image.boxes) for image in labels.images),
        "boxes": len(scores),
        "parts": int(parts.sum()),
        "tagged": int((states == PRESENT).sum()),
        "abstained": sum(map(len, abstained.values())),
        "per_class": per_class,
        "abstained_images": {name: names for name, names in abstained.items() if names},
    }


def _chosen(prediction: Prediction, states: np.ndarray, choice: Choice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = replace(prediction, threshold=0.0, only=None).to_numpy()  # every box, best first
    wanted, least = states == PRESENT, choice.least(prediction)
    if choice.untagged:
        wanted = wanted | ((states == ABSENT) & (prediction.probabilities >= least))
    keep = wanted[found["classes"]] & (found["probabilities"] >= least[found["classes"]])
    if choice.boxes_per_class is not None:
        keep &= _rank_in_class(found["classes"]) < choice.boxes_per_class
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(found["classes"][rows], kind="stable")]
    return found["boxes"][rows], found["classes"][rows], found["probabilities"][rows]


def _parts(prediction: Prediction, boxes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return which of the chosen boxes look like parts, (B,) bool, beside all boxes found of their class."""
    parts = np.zeros(len(boxes), bool)
    for index in np.unique(classes):
        own = prediction.found_classes == index
        others, scores = prediction.found_boxes[own], prediction.found_scores[own]
        parts[classes == index] = looks_like_a_part(boxes[classes == index], others, scores)
    return parts


def _rank_in_class(classes: np.ndarray) -> np.ndarray:
    """Return for each box how many of the same class come before it."""
    order = np.argsort(classes, kind="stable")
    starts = np.searchsorted(classes[order], classes[order])
    ranks = np.empty(len(classes), np.int64)
    ranks[order] = np.arange(len(classes)) - starts
    return ranks


def _check_pairs(predictions: Sequence[Prediction], images: TaggedImages) -> None:
    if len(predictions) != len(images):
        raise DataError(f"there are {len(predictions)} predictions for {len(images)} images. Give one for each.")
    for prediction, name in zip(predictions, images.names, strict=True):
        if prediction.name != name:
            raise DataError(f"the prediction of '{prediction.name}' stands where '{name}' is. Give both in one order.")
        if prediction.classes != images.classes:
            raise DataError(
                f"image '{name}': the model's classes are {list(prediction.classes)}, those of the data are "
                f"{list(images.classes)}. Read the tags with read_tags(data, classes=model.classes)."
            )
    if predictions and all(prediction.best_boxes is None for prediction in predictions):
        raise DataError("the model only classifies and finds no boxes. Train one with --heads both or discovery.")


INSIDE = 0.9  # the share of a box that lies in a whole which holds it
MUCH_LARGER = 0.5  # below this IoU a box that holds another is much larger than it
LIMIT = 0.2  # of all voices, the share of wholes from which a box looks like a part


def share_of_wholes(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return for each box (B, 4) how much of what is said for its class is said for larger boxes that hold it: (B,), 0 to 1.

    `others` (P, 4) are boxes or patches of the class with raw `scores` (P,). Each speaks with the exponential of its score, as in
    a vote.
    """
    boxes, others = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(others, np.float64).reshape(-1, 4)
    if not len(others):
        return np.zeros(len(boxes))
    iou = pairwise_iou(boxes, others)  # (B, P)
    shared = iou / (1 + iou) * (area(boxes)[:, None] + area(others))  # the intersection, in pixels
    wholes = (shared >= INSIDE * area(boxes)[:, None]) & (iou < MUCH_LARGER)
    voices = np.exp(np.asarray(scores, np.float64) - np.max(scores))  # (P,)
    return (wholes @ voices) / voices.sum()


def looks_like_a_part(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray, limit: float = LIMIT) -> np.ndarray:
    """Return which boxes (B, 4) look like parts of an object, (B,) bool: much is said for larger boxes that hold them.

    `others` (P, 4) are boxes or patches of the same class, with raw `scores` (P,); see `share_of_wholes`.
    """
    return share_of_wholes(boxes, others, scores) > limit
