"""Which trainings each table needs: ways that differ from the recipe in one setting each, and what the paper claims of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import UNKNOWN, TaggedImages
from deep_patch_learning.data.readers.read import Kind, recognise
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import paper
from deep_patch_learning.research.reproduce.paper import Ablation

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
    """Return the time of a training and of an image."""
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


YEARS = {"voc2007": 2007, "voc2012": 2012}


class Splits(NamedTuple):
    """The list of images to train on and the one to measure on."""

    trained_on: str
    measured_on: str

    @property
    def seen(self) -> bool:
        """Whether what is measured was trained on; tags are never measured on such images."""
        return self.measured_on == self.trained_on


@dataclass(frozen=True)
class Protocol:
    """The data, and which of its lists take part.

    `has_test`: the official test images are there with their tags, so that all is measured as in the paper.
    `unlabelled_test`: the test images are there without tags, for the evaluation server (VOC 2012).
    """

    data: Path
    year: int
    has_test: bool
    unlabelled_test: bool

    @property
    def name(self) -> str:
        """Return the name of the data set: voc2007 or voc2012."""
        return f"voc{self.year}"

    @property
    def classification(self) -> Splits:
        """Return where the tags are measured: the paper's way if its test images are there, else train -> val."""
        return Splits("trainval", "test") if self.has_test else Splits("train", "val")

    def discovery(self, table: str) -> Splits:
        """Return where CorLoc is measured: the paper's way in the main table; elsewhere without a training of its own.

        Peers are measured on one list alone, and where time is measured no boxes are.
        """
        paper_way = table == "main" or (self.has_test and table not in ("peers", "time"))
        return Splits("trainval", "trainval") if paper_way else self.classification


def find_protocol(data: Path, name: str) -> Protocol:
    """Return the protocol that the lists and images of a VOC folder allow; what is amiss with its test list is said."""
    kind, folder = recognise(data)
    if kind is not Kind.VOC:
        raise DataError(f"{data}: is a {kind.value}. Give the folder of {name.upper()} that holds JPEGImages.")
    lists = folder / "ImageSets" / "Main"
    ids = _ids(lists / "test.txt")
    lacking = [one for one in ids if not (folder / "JPEGImages" / f"{one}.jpg").exists()]
    if lacking and len(lacking) < len(ids):
        console.print(
            f"{lists / 'test.txt'} names {len(ids)} images and {len(lacking)} are not there, such as {lacking[0]}: "
            "it is not used.",
            markup=False,
        )
    there = bool(ids) and not lacking
    tagged = there and _has_tags(folder, ids)
    needed = ("trainval",) if tagged else ("train", "val", "trainval")
    for split in needed:
        if not (lists / f"{split}.txt").is_file():
            raise DataError(f"{lists / split}.txt: there is no such list. Give a VOC folder with its ImageSets/Main.")
    return Protocol(folder, YEARS[name], tagged, there and not tagged)


def _ids(listing: Path) -> list[str]:
    return listing.read_text(encoding="utf-8").split() if listing.is_file() else []


def _has_tags(folder: Path, ids: list[str]) -> bool:
    lists = folder / "ImageSets" / "Main"
    if any(lists.glob("*_test.txt")):
        return True
    return all((folder / "Annotations" / f"{one}.xml").exists() for one in ids)


def untagged_images(folder: Path, split: str, classes: tuple[str, ...]) -> TaggedImages:
    """Return the images of a list whose tags nobody gave: every tag is unknown."""
    names = tuple(_ids(folder / "ImageSets" / "Main" / f"{split}.txt"))
    paths = tuple(folder.absolute() / "JPEGImages" / f"{name}.jpg" for name in names)
    return TaggedImages(classes, names, paths, np.full((len(names), len(classes)), UNKNOWN, np.int8))


def missing_images(protocol: Protocol, split: str, found: int) -> str:
    """Return a sentence on images that the paper had and this list has not; empty when none is missing."""
    wanted = paper.IMAGES[protocol.year].get(split)
    return f"{found:,} of the {wanted:,} images of {split}" if wanted is not None and found < wanted else ""
