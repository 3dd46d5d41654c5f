"""What the network says of each tag, beside what the tags say: how sure it is, and where the two disagree."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN
from deep_patch_learning.inference.prediction import Prediction

SURE = 0.5  # from this certainty on: half of the way from the threshold to 0 or to 1


class Counts(NamedTuple):
    """Images in which the network is sure of what the tag says, unsure, and sure of the opposite."""

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
    """Both opinions on I images and C classes: `probabilities`, `thresholds` and `labels`, each (I, C)."""

    probabilities: np.ndarray
    thresholds: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, predictions: Sequence[Prediction], labels: np.ndarray) -> "Opinions":
        """Return the opinions of predictions on images with these labels (I, C)."""
        shape = labels.shape
        probabilities = np.array([one.probabilities for one in predictions]).reshape(shape)
        thresholds = np.array([thresholds_of(one) for one in predictions]).reshape(shape)
        return cls(probabilities, thresholds, labels)

    @cached_property
    def certainty(self) -> np.ndarray:
        """Return (I, C): 1 where a class is surely there, -1 where it surely is not, 0 at its threshold."""
        above = self.probabilities - self.thresholds
        room = np.where(above >= 0, 1 - self.thresholds, self.thresholds)
        return above / np.maximum(room, np.finfo(float).tiny)

    def counts(self, class_index: int, label: int) -> Counts:
        """Return how sure the network is of one class in the images whose tag is `label`, PRESENT or ABSENT."""
        sign = 1 if label == PRESENT else -1
        certainty = sign * self.certainty[self.labels[:, class_index] == label, class_index]
        agrees, against = int((certainty >= SURE).sum()), int((certainty <= -SURE).sum())
        return Counts(agrees, len(certainty) - agrees - against, against)

    def best(self, class_index: int, count: int) -> list[int]:
        """Return the images tagged with the class whose probability is highest, the highest first."""
        return self._ranked(class_index, PRESENT, -1)[:count]

    def worst(self, class_index: int, count: int) -> list[int]:
        """Return `count` images: tagged ones of lowest probability, then untagged ones of highest, half of each.

        Where one kind is short, the other fills its places. Images whose tag is unknown are neither.
        """
        tagged, untagged = self._ranked(class_index, PRESENT, 1), self._ranked(class_index, ABSENT, -1)
        from_tagged = min(len(tagged), max(count - count // 2, count - len(untagged)))
        return tagged[:from_tagged] + untagged[: count - from_tagged]

    def _ranked(self, class_index: int, label: int, sign: int) -> list[int]:
        rows = np.flatnonzero(self.labels[:, class_index] == label)
        order = np.argsort(sign * self.probabilities[rows, class_index], kind="stable")
        return rows[order].tolist()

    def likely_wrong(self) -> list[Doubt]:
        """Return the tags that the network is sure are not there, the surest first."""
        return self._doubts((self.labels == PRESENT) & (self.certainty <= -SURE))

    def likely_missing(self) -> list[Doubt]:
        """Return what is not tagged and the network is sure is there, the surest first."""
        return self._doubts((self.labels == ABSENT) & (self.certainty >= SURE))

    def unknown(self) -> list[Doubt]:
        """Return what nobody decided, that which the network is surest of first."""
        return self._doubts(self.labels == UNKNOWN)

    def _doubts(self, wanted: np.ndarray) -> list[Doubt]:
        places = np.argwhere(wanted)
        order = np.argsort(-np.abs(self.certainty[wanted]), kind="stable")
        return [Doubt(*place) for place in places[order].tolist()]


def thresholds_of(prediction: Prediction) -> np.ndarray:
    """Return the probability from which each class is shown, (C,): one for all, or its own where they were calibrated."""
    return np.broadcast_to(np.asarray(prediction.threshold, np.float64), (len(prediction.classes),))
