"""The network's predictions beside the tags: how certain each is, and where the two disagree."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN
from deep_patch_learning.inference.prediction import Prediction

SURE = 0.5  # certainty from which the network is sure: halfway from the threshold to 0 or to 1


class Counts(NamedTuple):
    """Images in which the network is sure of the tag, unsure, and sure of the opposite."""

    agrees: int
    unsure: int
    against: int

    @property
    def total(self) -> int:
        """Return the number of images counted."""
        return sum(self)


class Doubt(NamedTuple):
    """An image and a class of it, as indices."""

    image: int
    class_index: int


@dataclass(frozen=True)
class Opinions:
    """Predictions and tags of I images and C classes: `probabilities`, `thresholds` and `labels`, each (I, C)."""

    probabilities: np.ndarray
    thresholds: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, predictions: Sequence[Prediction], labels: np.ndarray) -> "Opinions":
        """Return the predictions beside the labels (I, C) of the same images."""
        shape = labels.shape
        probabilities = np.array([one.probabilities for one in predictions]).reshape(shape)
        thresholds = np.array([thresholds_of(one) for one in predictions]).reshape(shape)
        return cls(probabilities, thresholds, labels)

    @cached_property
    def certainty(self) -> np.ndarray:
        """Return (I, C): 1 at a probability of 1, 0 at the threshold of the class, -1 at a probability of 0."""
        above = self.probabilities - self.thresholds
        room = np.where(above >= 0, 1 - self.thresholds, self.thresholds)
        return above / np.maximum(room, np.finfo(float).tiny)

    def counts(self, class_index: int, label: int) -> Counts:
        """Return how certain the network is of one class in the images whose tag is `label`, PRESENT or ABSENT."""
        sign = 1 if label == PRESENT else -1
        certainty = sign * self.certainty[self.labels[:, class_index] == label, class_index]
        agrees, against = int((certainty >= SURE).sum()), int((certainty <= -SURE).sum())
        return Counts(agrees, len(certainty) - agrees - against, against)

    def best(self, class_index: int, count: int) -> list[int]:
        """Return the images tagged with the class whose probability is highest, the highest first."""
        return self._ranked(class_index, PRESENT, -1)[:count]

    def worst(self, class_index: int, count: int) -> list[int]:
        """Return `count` images: tagged ones of lowest probability, then untagged ones of highest, half of each.

        Where one kind has too few, the other fills its places. Images whose tag is unknown are left out.
        """
        tagged, untagged = self._ranked(class_index, PRESENT, 1), self._ranked(class_index, ABSENT, -1)
        from_tagged = min(len(tagged), max(count - count // 2, count - len(untagged)))
        return tagged[:from_tagged] + untagged[: count - from_tagged]

    def _ranked(self, class_index: int, label: int, sign: int) -> list[int]:
        rows = np.flatnonzero(self.labels[:, class_index] == label)
        order = np.argsort(sign * self.probabilities[rows, class_index], kind="stable")
        return rows[order].tolist()

    def likely_wrong(self) -> list[Doubt]:
        """Return the tags whose absence the network is sure of, the surest first."""
        return self._doubts((self.labels == PRESENT) & (self.certainty <= -SURE))

    def likely_missing(self) -> list[Doubt]:
        """Return absent tags whose presence the network is sure of, the surest first."""
        return self._doubts((self.labels == ABSENT) & (self.certainty >= SURE))

    def unknown(self) -> list[Doubt]:
        """Return unknown tags, the surest predictions first."""
        return self._doubts(self.labels == UNKNOWN)

    def _doubts(self, wanted: np.ndarray) -> list[Doubt]:
        places = np.argwhere(wanted)
        order = np.argsort(-np.abs(self.certainty[wanted]), kind="stable")
        return [Doubt(*place) for place in places[order].tolist()]


def thresholds_of(prediction: Prediction) -> np.ndarray:
    """Return the threshold of each class, (C,): one for all, or its own where they were calibrated."""
    return np.broadcast_to(np.asarray(prediction.threshold, np.float64), (len(prediction.classes),))
