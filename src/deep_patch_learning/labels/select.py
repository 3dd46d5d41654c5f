"""Predictions + tags -> the boxes to write. The tags decide: a box is written only for a class that its image is tagged with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.boxes import area, box_iou
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import ABSENT, PRESENT, TaggedImages
from deep_patch_learning.data.reviewed import RIGHT_IOU, ReviewedImage
from deep_patch_learning.inference.prediction import Prediction

BOXES_PER_CLASS = 1  # a second box is more often a part of the same object than another object


TRAINING_SHARE = 0.5  # for training: a further box has at least this share of the best one's probability
TRAINING_INSIDE = 0.85  # for training: share of a box in another one from which both are taken for one object


@dataclass(frozen=True)
class LabelRule:
    """Which boxes are written.

    `min_score` is the lowest probability of a box; None takes the threshold of its class's tag. `boxes_per_class` is the largest
    number of boxes of one class in an image (None: all that were found). `untagged` adds boxes of classes that are tagged as
    absent, where the probability of the class in the image reaches `min_score` as well.

    `precision` is the lowest expected precision of a box; predictions must have one. It then takes the place of the tag's
    threshold, and of the probability as the score that is written.

    With `for_training` the labels are made for a detector, to which an object without a box is background: of each tag the best
    box and those with `TRAINING_SHARE` of its probability, none of them mostly in or around a better one, and no image with a tag
    that is left without a box. Without `min_score` and `precision` every tag has one.
    """

    min_score: float | None = None
    boxes_per_class: int | None = BOXES_PER_CLASS
    untagged: bool = False
    precision: float | None = None
    for_training: bool = False

    def thresholds(self, prediction: Prediction) -> np.ndarray:
        """Return the lowest probability of a box of each class: (C,)."""
        if self.min_score is None and (self.precision is not None or self.for_training):
            return np.zeros(len(prediction.classes))
        return prediction.thresholds if self.min_score is None else np.full(len(prediction.classes), self.min_score)

    def __post_init__(self) -> None:
        for name in ("min_score", "precision"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise DataError(f"{name} is {value}; wanted a probability from 0 to 1.")
        if self.boxes_per_class is not None and self.boxes_per_class < 1:
            raise DataError(f"boxes_per_class is {self.boxes_per_class}; wanted 1 or more.")
        if self.untagged and self.for_training:
            raise DataError("untagged and for_training: a class that is not tagged is no training label. Give one.")


@dataclass(frozen=True)
class LabelledImage:
    """One image with the boxes to write, by class and best first.

    `boxes` (B, 4) in this package's convention, `classes` (B,) indices, `scores` (B,) probabilities, `states` (C,) the tags,
    `parts` (B,) marks boxes that look like a part of an object, `by_people` (B,), where the image was reviewed, those that people
    accepted, corrected or drew.
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
    by_people: np.ndarray | None = None

    @property
    def abstained(self) -> np.ndarray:
        """Return the indices of the classes that are tagged and have no box."""
        return np.setdiff1d(np.flatnonzero(self.states == PRESENT), self.classes)


@dataclass(frozen=True)
class LabelSet:
    """All images with their boxes, the class names, and the name of the split.

    `left_out` are images that are not written, since a tag of theirs has no box.
    """

    classes: tuple[str, ...]
    images: list[LabelledImage]
    split: str
    left_out: list[LabelledImage] = field(default_factory=list)

    def tags(self, image: LabelledImage) -> list[str]:
        """Return the names of the classes an image is tagged with."""
        return [self.classes[index] for index in np.flatnonzero(image.states == PRESENT)]


def select(
    predictions: Iterable[Prediction],
    images: TaggedImages,
    rule: LabelRule | None = None,
    split: str = "train",
    reviewed: Mapping[str, ReviewedImage] | None = None,
) -> LabelSet:
    """Return the boxes to write for each image; `predictions` are those of `images`, in the same order.

    The predictions are read one by one and dropped; only the selected boxes are kept. What people said about an image, in
    `reviewed` by its name, takes the place of what was found: see `as_reviewed`.
    """
    rule, reviewed = rule or LabelRule(), reviewed or {}
    labelled: list[LabelledImage] = []
    for prediction in predictions:
        if len(labelled) == len(images):
            raise DataError(
                f"there are more than {len(images)} predictions for {len(images)} images. Give one for each."
            )
        one = labelled_image(prediction, images, len(labelled), rule)
        said = reviewed.get(one.name)
        labelled.append(one if said is None else as_reviewed(one, said))
    if len(labelled) < len(images):
        raise DataError(f"there are {len(labelled)} predictions for {len(images)} images. Give one for each.")
    if not rule.for_training:
        return LabelSet(images.classes, labelled, split)
    whole = [image for image in labelled if not len(image.abstained)]
    return LabelSet(images.classes, whole, split, [image for image in labelled if len(image.abstained)])


def labelled_image(prediction: Prediction, images: TaggedImages, index: int, rule: LabelRule) -> LabelledImage:
    """Return image `index` with the boxes to write, from its prediction."""
    _check_pair(prediction, images, index)
    return label_image(prediction, images.paths[index], images.labels[index], rule)


def label_image(prediction: Prediction, path: Path, states: np.ndarray, rule: LabelRule) -> LabelledImage:
    """Return the image with the boxes to write; `states` (C,) are its tags, in the order of the prediction's classes."""
    boxes, classes, scores = _selected(prediction, states, rule)
    return LabelledImage(
        name=prediction.name,
        path=path,
        height=prediction.height,
        width=prediction.width,
        boxes=boxes,
        classes=classes,
        scores=scores,
        states=states,
        parts=_parts(prediction, boxes, classes),
    )


def as_reviewed(image: LabelledImage, said: ReviewedImage) -> LabelledImage:
    """Return an image with people's boxes, whose score is 1, in place of those found of their classes, and without rejected ones.

    No other box takes the place of a rejected one. Of an image that is done, people's boxes are all there are.
    """
    kept = ~np.isin(image.classes, said.classes) & (not said.done)
    if len(said.rejected) and len(image.boxes):
        on = box_iou(image.boxes, said.rejected) >= RIGHT_IOU  # (B, R)
        kept &= ~(on & (image.classes[:, None] == said.rejected_classes)).any(axis=1)
    boxes = np.concatenate((image.boxes[kept], said.boxes)).astype(np.float32)
    classes = np.concatenate((image.classes[kept], said.classes))
    scores = np.concatenate((image.scores[kept], np.ones(len(said.boxes))))
    parts = np.concatenate((image.parts[kept], np.zeros(len(said.boxes), bool)))
    order = np.argsort(classes, kind="stable")
    people = np.arange(len(order)) >= kept.sum()
    both = replace(image, boxes=boxes[order], classes=classes[order], scores=scores[order])
    return replace(both, parts=parts[order], by_people=people[order])


def summary(labels: LabelSet) -> dict[str, Any]:
    """Return counts of images, boxes, boxes that look like parts, and abstentions; per class also the mean score."""
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
        "by_people": sum(int(image.by_people.sum()) for image in labels.images if image.by_people is not None),
        "tagged": int((states == PRESENT).sum()),
        "abstained": sum(map(len, abstained.values())),
        "per_class": per_class,
        "abstained_images": {name: names for name, names in abstained.items() if names},
        "left_out": [image.name for image in labels.left_out],
    }


def _selected(prediction: Prediction, states: np.ndarray, rule: LabelRule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = replace(prediction, threshold=0.0, only=None).to_numpy()  # every box, best first
    wanted, thresholds = states == PRESENT, rule.thresholds(prediction)
    if rule.untagged:
        wanted = wanted | ((states == ABSENT) & (prediction.probabilities >= thresholds))
    scores = found["probabilities"]
    keep = wanted[found["classes"]] & (scores >= thresholds[found["classes"]])
    if rule.precision is not None:
        if "precision" not in found:
            raise DataError(
                f"image '{prediction.name}': its boxes have no expected precision. Predict with further views."
            )
        scores = found["precision"]
        keep &= scores >= rule.precision
    if rule.for_training:
        keep = _for_training(found, keep)
    if rule.boxes_per_class is not None:
        keep[np.flatnonzero(keep)] &= _rank_in_class(found["classes"][keep]) < rule.boxes_per_class
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(found["classes"][rows], kind="stable")]
    return found["boxes"][rows], found["classes"][rows], scores[rows]


def _for_training(found: dict[str, np.ndarray], keep: np.ndarray) -> np.ndarray:
    """Return which of the boxes to keep (B,), best first, a detector is trained on: the best of each class, and others that
    score well beside it and lie neither in a better one nor around it."""
    boxes, probabilities = found["boxes"].astype(np.float64), found["probabilities"]
    chosen = np.zeros(len(keep), bool)
    for index in np.unique(found["classes"][keep]):
        rows = np.flatnonzero(keep & (found["classes"] == index))
        for row in rows[probabilities[rows] >= TRAINING_SHARE * probabilities[rows[0]]]:
            better = boxes[rows[chosen[rows]]]
            chosen[row] = not _one_in_the_other(boxes[row], better).any()
    return chosen


def _one_in_the_other(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for which of the others (N, 4) one of the two boxes lies mostly in the other: (N,) bool."""
    if not len(others):
        return np.zeros(0, bool)
    iou, sizes = box_iou(box[None], others)[0], area(others)
    shared = iou / (1 + iou) * (area(box) + sizes)
    return shared >= TRAINING_INSIDE * np.minimum(area(box), sizes)


def _parts(prediction: Prediction, boxes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return which of the selected boxes look like parts, (B,) bool, judged by all boxes found of their class."""
    parts = np.zeros(len(boxes), bool)
    for index in np.unique(classes):
        own = prediction.found_classes == index
        others, scores = prediction.found_boxes[own], prediction.found_scores[own]
        parts[classes == index] = looks_like_a_part(boxes[classes == index], others, scores)
    return parts


def _rank_in_class(classes: np.ndarray) -> np.ndarray:
    """Return for each box the number of boxes of its class that come before it."""
    order = np.argsort(classes, kind="stable")
    starts = np.searchsorted(classes[order], classes[order])
    ranks = np.empty(len(classes), np.int64)
    ranks[order] = np.arange(len(classes)) - starts
    return ranks


def _check_pair(prediction: Prediction, images: TaggedImages, index: int) -> None:
    name = images.names[index]
    if prediction.name != name:
        raise DataError(f"the prediction of '{prediction.name}' stands where '{name}' is. Give both in one order.")
    if prediction.classes != images.classes:
        raise DataError(
            f"image '{name}': the model's classes are {list(prediction.classes)}, those of the data are "
            f"{list(images.classes)}. Read the tags with read_tags(data, classes=model.classes)."
        )
    if prediction.best_boxes is None:
        raise DataError("the model only classifies and finds no boxes. Train one with --heads both or discovery.")


INSIDE = 0.9  # share of a box that must lie in another one for that one to contain it
MUCH_LARGER = 0.5  # below this IoU a containing box is much larger
LIMIT = 0.2  # above this share of the weight on containing boxes, a box looks like a part


def share_of_wholes(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return for each box (B, 4) the share of its class's weight on much larger boxes that contain it: (B,), 0 to 1.

    `others` (P, 4) are boxes or patches of the class with raw `scores` (P,). As in the vote, a box weighs exp(score).
    """
    boxes, others = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(others, np.float64).reshape(-1, 4)
    if not len(others):
        return np.zeros(len(boxes))
    iou = box_iou(boxes, others)  # (B, P)
    shared = iou / (1 + iou) * (area(boxes)[:, None] + area(others))  # the intersection, in pixels
    wholes = (shared >= INSIDE * area(boxes)[:, None]) & (iou < MUCH_LARGER)
    weights = np.exp(np.asarray(scores, np.float64) - np.max(scores))  # (P,)
    return (wholes @ weights) / weights.sum()


def looks_like_a_part(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray, limit: float = LIMIT) -> np.ndarray:
    """Return which boxes (B, 4) look like parts of an object, (B,) bool: larger boxes around them carry much weight.

    `others` (P, 4) are boxes or patches of the same class, with raw `scores` (P,); see `share_of_wholes`.
    """
    return share_of_wholes(boxes, others, scores) > limit
