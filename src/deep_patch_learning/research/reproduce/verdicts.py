"""Whether a claim of the paper holds here: the difference of two means against the spread between seeds."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from deep_patch_learning.research.reproduce.plan import Claim

HOLDS, FAILS, WITHIN, ONE_SEED, UNMEASURED = (
    "holds here",
    "does not hold",
    "within the spread",
    "one seed, so no spread to judge it by",
    "not measured",
)
HARDLY = 1.0  # points: figures that the paper calls similar differ by less


class Spread(NamedTuple):
    """A figure over seeds: its mean, the sample standard deviation (None for one seed) and the number of seeds."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread | None":
        """Return the spread of the values that there are, or None when there is none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


class Verdict(NamedTuple):
    """A claim's verdict in words, with the difference of the means and the spread it was held against."""

    words: str
    difference: float | None = None
    spread: float | None = None


def verdict(
    first: Spread | None, second: Spread | None, *, lower_is_better: bool = False, alike: bool = False
) -> Verdict:
    """Return whether the first figure is better than the second by more than the seeds' spread.

    The spread is that of a difference between two seeds: the root of the two variances' sum. `alike` asks instead whether
    the figures differ by no more than HARDLY points, which a wider spread cannot tell.
    """
    if first is None or second is None:
        return Verdict(UNMEASURED)
    difference = first.mean - second.mean
    if first.deviation is None or second.deviation is None:
        return Verdict(ONE_SEED, difference)
    spread = math.hypot(first.deviation, second.deviation)
    if alike and spread <= HARDLY:
        return Verdict(HOLDS if abs(difference) <= HARDLY else FAILS, difference, spread)
    if abs(difference) <= spread:
        return Verdict(WITHIN, difference, spread)
    better = (difference < 0) == lower_is_better
    return Verdict(HOLDS if better and not alike else FAILS, difference, spread)


def judge(claim: Claim, figures: dict[str, dict[str, Spread | None]]) -> Verdict:
    """Return the verdict on a claim from the figures of its table: by row, then by measure."""
    first, second = (figures.get(name, {}).get(claim.measure) for name in (claim.first, claim.second))
    return verdict(first, second, lower_is_better=claim.lower_is_better, alike=claim.alike)


def in_words(claim: Claim, found: Verdict) -> str:
    """Return the claim with its verdict as one line."""
    if found.difference is None:
        return f"{claim.words}: {found.words}"
    unit = " s" if claim.lower_is_better else ""
    form = "+.3f" if claim.lower_is_better else "+.1f"
    against = "" if found.spread is None else f", spread {format(found.spread, form[1:])}{unit}"
    measure = "time" if claim.lower_is_better else claim.measure
    return f"{claim.words}: {found.words} ({measure} {format(found.difference, form)}{unit}{against})"


def as_dict(claim: Claim, found: Verdict) -> dict[str, Any]:
    """Return the claim and its verdict, ready for JSON."""
    return {
        "claim": claim.words,
        "measure": claim.measure,
        "verdict": found.words,
        "difference": found.difference,
        "spread": found.spread,
    }
