"""The share of found boxes that are right, from a random sample that a person judged, with a 95 % interval.

Images are judged in a random order. The boxes of a class in the first n of them are a random sample of the boxes of that class,
drawn without replacement, so that the number of right ones among them is hypergeometric. The interval is that of Clopper and
Pearson for this distribution: the shares under which at least so many right boxes, and at most so many, are not rarer than 2.5 %.
It covers the truth at least 95 % of the time, for small classes too, and closes as the last boxes are judged.

Boxes of one image are right or wrong together more often than boxes of two images. Over all classes the sample is therefore
counted as if it were smaller, by the factor by which the variance between images exceeds that of single boxes (Kish's design
effect), as Korn and Graubard do for surveys.

A box of the sample that a person left open may be either: the lower end of the interval counts it as wrong, the upper one as
right.
"""

from typing import Any, NamedTuple

import numpy as np

from deep_patch_learning.data.reviewed import LEFT_OPEN, UNJUDGED, Judged

CONFIDENCE = 0.95


class Share(NamedTuple):
    """The estimated share of right boxes and its interval, from 0 to 1.

    `right` of the `judged` boxes in the sample were right, and `left_open` were seen and not judged; `boxes` is how many there
    are in all.
    """

    share: float
    low: float
    high: float
    right: int
    judged: int
    boxes: int
    left_open: int = 0

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} %)"


class RightBoxes(NamedTuple):
    """The share of right boxes over all, and of each class (C); None where no box was sampled."""

    overall: Share | None
    per_class: list[Share | None]

    def as_dict(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Return the shares ready for JSON, by class name."""
        own = {name: share._asdict() for name, share in zip(classes, self.per_class, strict=True) if share is not None}
        return {"overall": None if self.overall is None else self.overall._asdict(), "per_class": own}


def right_boxes(judged: Judged, confidence: float = CONFIDENCE) -> RightBoxes:
    """Return the share of right boxes over all classes and of each, with intervals.

    Over all classes it needs images that were judged whole: the places that were judged for every class that has boxes.
    """
    per_class = []
    for index, places in enumerate(judged.sample):
        own = judged.classes == index
        per_class.append(_share(judged, own, int(places), confidence))
    there = np.unique(judged.classes)
    together = int(judged.sample[there].min()) if len(there) else 0
    overall = _share(judged, np.ones(len(judged.classes), bool), together, confidence)
    return RightBoxes(overall, per_class)


def _share(judged: Judged, own: np.ndarray, places: int, confidence: float) -> Share | None:
    """Return the share of right ones among some of the boxes, (B,) bool, from those in the first images."""
    sampled = own & (judged.places < places) & (judged.right != UNJUDGED)
    said, images, boxes = judged.right[sampled], judged.images[sampled], int(own.sum())
    right, wrong, left_open = (int((said == one).sum()) for one in (1, 0, LEFT_OPEN))
    if not right + wrong:
        return None
    low, _ = _interval(np.where(said == LEFT_OPEN, 0, said), images, boxes, confidence)
    _, high = _interval(np.where(said == LEFT_OPEN, 1, said), images, boxes, confidence)
    # what was judged outside the sample was not drawn at random, but it is known
    least, most = int((judged.right[own] == 1).sum()) / boxes, 1 - int((judged.right[own] == 0).sum()) / boxes
    low, high = min(max(low, least), most), max(min(high, most), least)
    share = min(max(right / (right + wrong), low), high)
    return Share(share, low, high, right, right + wrong, boxes, left_open)


def _interval(right: np.ndarray, images: np.ndarray, boxes: int, confidence: float) -> tuple[float, float]:
    effect = design_effect(right, images)
    return share_interval(int(right.sum()), len(right), boxes, confidence, effect)


def design_effect(right: np.ndarray, images: np.ndarray) -> float:
    """Return by what factor the variance of the share exceeds that of boxes drawn one by one; at least 1.

    `right` (N,) is 1 or 0, `images` (N,) says which boxes lie in one image. The variance is that of a ratio of two sums over
    images, linearised.
    """
    number, share = len(right), float(right.mean()) if len(right) else 0.0
    _, groups = np.unique(images, return_inverse=True)
    clusters = int(groups.max(initial=-1)) + 1
    if clusters in (0, 1, number) or share in (0.0, 1.0):
        return 1.0
    rest = np.bincount(groups, right - share)  # of each image: right boxes beyond those expected
    variance = clusters / (clusters - 1) * float(rest @ rest) / number**2
    return max(variance / (share * (1 - share) / (number - 1)), 1.0)


def share_interval(
    right: int, judged: int, boxes: int, confidence: float = CONFIDENCE, effect: float = 1.0
) -> tuple[float, float]:
    """Return the interval of the share of right ones among `boxes`, of which `judged` were drawn and `right` were right.

    `effect` is the design effect: the sample and the boxes count as if they were so many times fewer.
    """
    if not 0 <= right <= judged <= boxes or not judged:
        raise ValueError(f"{right} right of {judged} judged of {boxes} boxes; wanted 0 <= right <= judged <= boxes")
    drawn, population = max(int(judged / effect), 1), max(round(boxes / effect), 1)
    least, most = int(right * drawn / judged), -int(-right * drawn // judged)  # rounded outward
    tail = (1 - confidence) / 2
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, population + 1)))))  # of factorials
    low = _fewest(least, drawn, population, tail, logs)
    high = population - _fewest(drawn - most, drawn, population, tail, logs)  # at least so many wrong ones
    return low / population, high / population


def _fewest(right: int, drawn: int, population: int, tail: float, logs: np.ndarray) -> int:
    """Return the fewest right ones in the population under which at least `right` of those drawn are not rarer than `tail`."""
    first, last = right, population - drawn + right
    while first < last:
        middle = (first + last) // 2
        common = _at_least(right, drawn, middle, population, logs) >= tail
        first, last = (first, middle) if common else (middle + 1, last)
    return first


def _at_least(right: int, drawn: int, whole: int, population: int, logs: np.ndarray) -> float:
    """Return the probability of at least `right` among `drawn` of a population with `whole` right ones."""
    counts = np.arange(max(right, drawn - (population - whole)), min(drawn, whole) + 1)
    wrong = population - whole

    def choose(of: Any, some: Any) -> Any:
        return logs[of] - logs[some] - logs[of - some]

    terms = choose(whole, counts) + choose(wrong, drawn - counts) - choose(population, drawn)
    return float(np.exp(terms).sum())
