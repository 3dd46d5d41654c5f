"""One figure per class, and their mean; a class that cannot be measured holds nan and stays out of the mean."""

import math
from collections.abc import Iterable, Sequence

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
