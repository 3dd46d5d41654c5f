"""The paper's tables: the variants that fill their rows, the paper's claims about them, and how a claim is judged."""

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import paper
from deep_patch_learning.research.reproduce.paper import Ablation

TABLES = ("main", "tasks", "scales", "patches", "peers", "time")


@dataclass(frozen=True)
class Variant:
    """One row of a table: its name, its recipe, and the paper's figures.

    `run` names the training: tables that share it train it once.
    """

    name: str
    run: str
    recipe: Recipe
    paper: Ablation | None = None


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about two rows: the first has the higher figure (of seconds, the lower).

    `alike` claims that the two differ by at most HARDLY points.
    """

    words: str
    measure: str
    first: str
    second: str
    alike: bool = False

    @property
    def lower_is_better(self) -> bool:
        """Return whether the claim is about a time."""
        return self.measure.startswith("seconds")


@dataclass(frozen=True)
class Table:
    """A table of the paper: its title, the variants in its rows, and its claims."""

    name: str
    title: str
    variants: list[Variant]
    claims: list[Claim] = field(default_factory=list)


def _variant(base: Recipe, name: str, changes: dict[str, Any], figures: Ablation | None = None) -> Variant:
    recipe = base.replace(**changes)
    run = "both-heads" if recipe == base else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Variant(name, run, recipe, figures)


def main_table(base: Recipe) -> Table:
    """Return the paper's two main tables as one: both heads, per class."""
    return Table("main", "Classification and discovery", [_variant(base, "both heads", {})])


def tasks_table(base: Recipe) -> Table:
    """Return the comparison of both heads with each head alone."""
    variants = [
        _variant(base, "both heads", {"heads": HEADS}, paper.TASKS["both"]),
        _variant(base, "classification alone", {"heads": ("classification",)}, paper.TASKS["classification"]),
        _variant(base, "discovery alone", {"heads": ("discovery",)}, paper.TASKS["discovery"]),
    ]
    claims = [
        Claim("two tasks classify better than classification alone", "mAP", "both heads", "classification alone"),
        Claim("two tasks classify better than discovery alone", "mAP", "both heads", "discovery alone"),
        Claim("two tasks find objects better than discovery alone", "CorLoc", "both heads", "discovery alone"),
    ]
    return Table("tasks", "Two tasks or one", variants, claims)


def scales_table(base: Recipe) -> Table:
    """Return the comparison of all scales with a single one, in training and testing."""
    base = base.replace(test_scales=())
    if len(base.data.scales) < 2:
        raise SettingError(
            f"table scales: the recipe has the one scale {base.data.scales[0]}. Give several: --set scales=480,688"
        )
    one = single_scale(base.data.scales)
    many = f"{_count(len(base.data.scales))} scales"
    single = f"one scale ({one})"
    variants = [
        _variant(base, many, {}, paper.SCALES["five"]),
        _variant(base, single, {"scales": (one,)}, paper.SCALES["one"]),
    ]
    claims = [
        Claim(f"{many} classify better than one", "mAP", many, single),
        Claim(f"{many} find objects better than one", "CorLoc", many, single),
        Claim("one scale is faster", "seconds", single, many),
    ]
    return Table("scales", "Several scales or one", variants, claims)


def patches_table(base: Recipe) -> Table:
    """Return the comparison of the patch generators."""
    names = {"selective-search": "Selective Search", "edge-boxes": "EdgeBoxes", "sliding-window": "sliding windows"}
    variants = [_variant(base, name, {"patches": key}, paper.PATCHES[key]) for key, name in names.items()]
    search, edges, sliding = names.values()
    claims = [
        Claim("Selective Search finds objects better than EdgeBoxes", "CorLoc", search, edges),
        Claim("Selective Search finds objects better than sliding windows", "CorLoc", search, sliding),
        Claim("sliding windows classify as well as Selective Search", "mAP", sliding, search, alike=True),
        Claim("sliding windows are fastest with the making of patches", "seconds_with_patches", sliding, search),
    ]
    return Table("patches", "Where the patches come from", variants, claims)


def time_table(base: Recipe) -> Table:
    """Return the table of times: of a training, and of a test image."""
    return Table("time", "Time", [_variant(base, "both heads", {})])


def peers_table(base: Recipe) -> Table:
    """Return the comparison with peers; of our own variants it has both heads."""
    claims = [
        Claim("DPL classifies better than HCP", "mAP", "both heads", "HCP"),
        Claim("DPL classifies better than support vector machines on frozen features", "mAP", "both heads", "SVM"),
        Claim("DPL is faster than HCP", "seconds", "both heads", "HCP"),
    ]
    return Table("peers", "Beside its peers", [_variant(base, "both heads", {})], claims)


BUILDERS: dict[str, Callable[[Recipe], Table]] = {
    "main": main_table,
    "tasks": tasks_table,
    "scales": scales_table,
    "patches": patches_table,
    "peers": peers_table,
    "time": time_table,
}


def single_scale(scales: tuple[int, ...]) -> int:
    """Return the single scale to compare with: the paper's 600, or the middle one where 600 is outside their range."""
    inside = min(scales) <= paper.SINGLE_SCALE <= max(scales)
    return paper.SINGLE_SCALE if inside else sorted(scales)[len(scales) // 2]


def _count(number: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else str(number)


HOLDS, FAILS, WITHIN, ONE_SEED, UNMEASURED = (
    "holds here",
    "does not hold",
    "within the spread",
    "one seed, so no spread to judge it by",
    "not measured",
)
HARDLY = 1.0  # points: figures that the paper calls similar differ by at most this


class Spread(NamedTuple):
    """A figure over seeds: mean, sample standard deviation (None for one seed), and number of seeds."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread | None":
        """Return the spread of the known values, or None when there is none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


class Verdict(NamedTuple):
    """The verdict on a claim in words, with the difference of the means and the spread it was compared with."""

    words: str
    difference: float | None = None
    spread: float | None = None


def verdict(
    first: Spread | None, second: Spread | None, *, lower_is_better: bool = False, alike: bool = False
) -> Verdict:
    """Return whether the first figure is better than the second by more than the spread over seeds.

    The spread is the standard deviation of the difference: the root of the sum of both variances. `alike` asks instead whether
    the figures differ by at most HARDLY points, which a larger spread leaves open.
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
    """Return the claim and its verdict as one line."""
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
