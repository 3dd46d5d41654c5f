"""Which trainings each table needs: ways that differ from the recipe in one setting each, and what the paper claims of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deep_patch_learning.errors import RunError
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.reproduce import paper
from deep_patch_learning.reproduce.paper import Ablation
from deep_patch_learning.training.recipe import Recipe

TABLES = ("main", "tasks", "scales", "patches", "peers", "time")


@dataclass(frozen=True)
class Way:
    """One row of a table: its name, the settings that make it, and the paper's figures for it.

    `run` names the training, so that tables which share one train it once.
    """

    name: str
    run: str
    recipe: Recipe
    paper: Ablation | None = None


@dataclass(frozen=True)
class Claim:
    """Something that the paper says of two rows: the first has the higher figure (or the lower, of seconds).

    `alike` claims that the two hardly differ.
    """

    words: str
    measure: str
    first: str
    second: str
    alike: bool = False

    @property
    def lower_is_better(self) -> bool:
        """Whether the claim is of a time."""
        return self.measure.startswith("seconds")


@dataclass(frozen=True)
class Table:
    """A table of the paper: its title, its rows and the claims that it carries."""

    name: str
    title: str
    ways: list[Way]
    claims: list[Claim] = field(default_factory=list)


def _way(base: Recipe, name: str, changes: dict[str, Any], figures: Ablation | None = None) -> Way:
    recipe = base.replace(**changes)
    run = "both-heads" if recipe == base else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Way(name, run, recipe, figures)


def main_table(base: Recipe) -> Table:
    """Return the paper's main tables in one: both heads, by class."""
    return Table("main", "Classification and discovery", [_way(base, "both heads", {})])


def tasks_table(base: Recipe) -> Table:
    """Return the comparison of both heads together with each alone."""
    ways = [
        _way(base, "both heads", {"heads": HEADS}, paper.TASKS["both"]),
        _way(base, "classification alone", {"heads": ("classification",)}, paper.TASKS["classification"]),
        _way(base, "discovery alone", {"heads": ("discovery",)}, paper.TASKS["discovery"]),
    ]
    claims = [
        Claim("two tasks classify better than classification alone", "mAP", "both heads", "classification alone"),
        Claim("two tasks classify better than discovery alone", "mAP", "both heads", "discovery alone"),
        Claim("two tasks find objects better than discovery alone", "CorLoc", "both heads", "discovery alone"),
    ]
    return Table("tasks", "Two tasks or one", ways, claims)


def scales_table(base: Recipe) -> Table:
    """Return the comparison of all scales with a single one, each trained and measured so."""
    base = base.replace(test_scales=())
    if len(base.scales) < 2:
        raise RunError(
            f"table scales: the recipe has the one scale {base.scales[0]}. Give several: --set scales=480,688"
        )
    one = single_scale(base.scales)
    many = f"{_count(len(base.scales))} scales"
    single = f"one scale ({one})"
    ways = [
        _way(base, many, {}, paper.SCALES["five"]),
        _way(base, single, {"scales": (one,)}, paper.SCALES["one"]),
    ]
    claims = [
        Claim(f"{many} classify better than one", "mAP", many, single),
        Claim(f"{many} find objects better than one", "CorLoc", many, single),
        Claim("one scale is faster", "seconds", single, many),
    ]
    return Table("scales", "Several scales or one", ways, claims)


def patches_table(base: Recipe) -> Table:
    """Return the comparison of the methods that make patches."""
    names = {"selective-search": "Selective Search", "edge-boxes": "EdgeBoxes", "sliding-window": "sliding windows"}
    ways = [_way(base, name, {"patches": key}, paper.PATCHES[key]) for key, name in names.items()]
    search, edges, sliding = names.values()
    claims = [
        Claim("Selective Search finds objects better than EdgeBoxes", "CorLoc", search, edges),
        Claim("Selective Search finds objects better than sliding windows", "CorLoc", search, sliding),
        Claim("sliding windows classify as well as Selective Search", "mAP", sliding, search, alike=True),
        Claim("sliding windows are fastest with the making of patches", "seconds_with_patches", sliding, search),
    ]
    return Table("patches", "Where the patches come from", ways, claims)


def time_table(base: Recipe) -> Table:
    """Return the time of a training and of a picture."""
    return Table("time", "Time", [_way(base, "both heads", {})])


def peers_table(base: Recipe) -> Table:
    """Return the table that peers join: its one way of our own is both heads."""
    claims = [
        Claim("DPL classifies better than HCP", "mAP", "both heads", "HCP"),
        Claim("DPL classifies better than support vector machines on frozen features", "mAP", "both heads", "SVM"),
        Claim("DPL is faster than HCP", "seconds", "both heads", "HCP"),
    ]
    return Table("peers", "Beside its peers", [_way(base, "both heads", {})], claims)


BUILDERS: dict[str, Callable[[Recipe], Table]] = {
    "main": main_table,
    "tasks": tasks_table,
    "scales": scales_table,
    "patches": patches_table,
    "peers": peers_table,
    "time": time_table,
}


def single_scale(scales: tuple[int, ...]) -> int:
    """Return the scale to compare with all: the paper's 600, or the middle one where 600 is not among or between them."""
    inside = min(scales) <= paper.SINGLE_SCALE <= max(scales)
    return paper.SINGLE_SCALE if inside else sorted(scales)[len(scales) // 2]


def _count(number: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[number] if number < len(words) else str(number)
