"""What is trained and measured on which pictures, and in which points that is not what the paper did."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deep_patch_learning.data.dataset import UNKNOWN, TaggedPictures
from deep_patch_learning.data.kinds import Kind, recognise
from deep_patch_learning.errors import DataError
from deep_patch_learning.progress import console
from deep_patch_learning.reproduce import paper

YEARS = {"voc2007": 2007, "voc2012": 2012}


class Splits(NamedTuple):
    """The list of pictures to train on and the one to measure on."""

    trained_on: str
    measured_on: str

    @property
    def seen(self) -> bool:
        """Whether what is measured was trained on; tags are never measured on such pictures."""
        return self.measured_on == self.trained_on


@dataclass(frozen=True)
class Protocol:
    """The data, and which of its lists take part.

    `has_test`: the official test pictures are there with their tags, so that all is measured as in the paper.
    `unlabelled_test`: the test pictures are there without tags, for the evaluation server (VOC 2012).
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
        """Return where the tags are measured: the paper's way if its test pictures are there, else train -> val."""
        return Splits("trainval", "test") if self.has_test else Splits("train", "val")

    def discovery(self, table: str) -> Splits:
        """Return where CorLoc is measured: the paper's way in the main table; elsewhere without a training of its own.

        Peers are measured on one list alone, and where time is measured no boxes are.
        """
        paper_way = table == "main" or (self.has_test and table not in ("peers", "time"))
        return Splits("trainval", "trainval") if paper_way else self.classification


def find_protocol(data: Path, name: str) -> Protocol:
    """Return the protocol that the lists and pictures of a VOC folder allow; what is amiss with its test list is said."""
    kind, folder = recognise(data)
    if kind is not Kind.VOC:
        raise DataError(f"{data}: is a {kind.value}. Give the folder of {name.upper()} that holds JPEGImages.")
    lists = folder / "ImageSets" / "Main"
    ids = _ids(lists / "test.txt")
    lacking = [one for one in ids if not (folder / "JPEGImages" / f"{one}.jpg").exists()]
    if lacking and len(lacking) < len(ids):
        console.print(
            f"{lists / 'test.txt'} names {len(ids)} pictures and {len(lacking)} are not there, such as {lacking[0]}: "
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


def untagged_pictures(folder: Path, split: str, classes: tuple[str, ...]) -> TaggedPictures:
    """Return the pictures of a list whose tags nobody gave: every tag is unknown."""
    names = tuple(_ids(folder / "ImageSets" / "Main" / f"{split}.txt"))
    paths = tuple(folder.absolute() / "JPEGImages" / f"{name}.jpg" for name in names)
    return TaggedPictures(classes, names, paths, np.full((len(names), len(classes)), UNKNOWN, np.int8))


def missing_pictures(protocol: Protocol, split: str, found: int) -> str:
    """Return a sentence on pictures that the paper had and this list has not; empty when none is missing."""
    wanted = paper.PICTURES[protocol.year].get(split)
    return f"{found:,} of the {wanted:,} pictures of {split}" if wanted is not None and found < wanted else ""
