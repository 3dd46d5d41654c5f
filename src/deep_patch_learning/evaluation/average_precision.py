"""From a ranked list of hits and misses to its average precision, by the definitions in use."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from deep_patch_learning.common.errors import DplError, did_you_mean

InterpolatedDefinition = Literal["all-point", "11-point"]
Definition = Literal["all-point", "11-point", "non-interpolated"]
DEFINITIONS: tuple[Definition, ...] = ("all-point", "11-point", "non-interpolated")


def check_definition(definition: str) -> None:
    """Raise `DplError` unless this is the name of a definition of average precision."""
    if definition not in DEFINITIONS:
        hint = did_you_mean(definition, DEFINITIONS)
        raise DplError(f"there is no average precision called {definition!r}.{hint}")


def interpolated_ap(hits: np.ndarray, positives: int, definition: InterpolatedDefinition) -> float:
    """Return the VOC devkit's average precision, in [0, 1], of a list ranked best first; nan without positives.

    `hits` (N,) bool says which ranks are right. `positives` counts all there is to find, found or not.
    Both definitions read the envelope: the best precision at this recall or at any higher one.
    """
    if positives == 0:
        return math.nan
    hits = np.asarray(hits, bool)
    found = np.cumsum(hits)  # (N,)
    precision = found / np.arange(1, len(hits) + 1)  # (N,)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]  # (N,)
    if definition == "all-point":
        # Recall rises by 1 / positives at each hit and nowhere else: these are the steps of the area.
        return float(envelope[hits].sum() / positives)
    # The first rank whose recall is at least t / 10, in whole numbers: 3 / 10 >= 0.3 must not hang on rounding.
    first = np.searchsorted(10 * found, positives * np.arange(11))  # (11,), N where that recall is never reached
    return float(envelope[first[first < len(hits)]].sum() / 11)


def recall_at(precision: float, hits: np.ndarray, positives: int) -> float:
    """Return the highest recall, in [0, 1], at which a list ranked best first has this precision; nan without positives.

    `hits` and `positives` as of `interpolated_ap`. 0 where no beginning of the list is precise enough.
    """
    if positives == 0:
        return math.nan
    found = np.cumsum(np.asarray(hits, bool))  # (N,)
    enough = found >= precision * np.arange(1, len(found) + 1) - 1e-9
    return float(found[enough].max(initial=0) / positives)


def non_interpolated_ap(scores: np.ndarray, hits: np.ndarray) -> float:
    """Return the mean, over the positives, of the precision at the positive; nan without positives.

    `scores` (N,) fall, `hits` (N,) bool belong to them. Equal scores are one step: each positive among them takes the
    precision at the end of the step, so the order within a tie does not matter.
    """
    positives = int(np.count_nonzero(hits))
    if positives == 0:
        return math.nan
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # (S,) the last rank of each step
    found = np.cumsum(hits)[ends]  # (S,)
    gained = np.diff(found, prepend=0)  # (S,)
    return float((gained * found / (ends + 1)).sum() / positives)


PerClass = dict[str, float]


def per_class(classes: Sequence[str], figures: Iterable[float]) -> PerClass:
    """Return the figures by class name, as plain floats."""
    if len(set(classes)) != len(classes):
        raise ValueError(f"class names must differ from each other; got {list(classes)}")
    return {name: float(figure) for name, figure in zip(classes, figures, strict=True)}


def share(part: float, whole: float) -> float:
    """Return 100 * part / whole, or nan when there is nothing to measure."""
    return 100.0 * float(part) / float(whole) if whole else math.nan


def mean_of_known(figures: PerClass) -> float:
    """Return the mean over the classes that have a figure, or nan when none has."""
    known = [figure for figure in figures.values() if not math.isnan(figure)]
    return math.fsum(known) / len(known) if known else math.nan


def or_none(figure: float) -> float | None:
    """Return the figure, or None in place of nan, which JSON does not know."""
    return None if math.isnan(figure) else figure


def without_nan(figures: PerClass) -> dict[str, float | None]:
    """Return the figures with None in place of nan, which JSON does not know."""
    return {name: or_none(figure) for name, figure in figures.items()}
