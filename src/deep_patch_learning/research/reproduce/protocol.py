"""Which lists of VOC are trained and measured on, and in what a row differs from the paper's experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deep_patch_learning.common.atomic_files import read_json
from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import UNKNOWN, TaggedImages
from deep_patch_learning.data.readers.read import Kind, recognise
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.recipe.settings import PAPER_SCALES
from deep_patch_learning.research.reproduce import paper
from deep_patch_learning.runs.folder import AGAIN

YEARS = {"voc2007": 2007, "voc2012": 2012}


class Splits(NamedTuple):
    """The list of images to train on, and the one to measure on."""

    trained_on: str
    measured_on: str

    @property
    def seen(self) -> bool:
        """Return whether the measured images were trained on; tags are never measured on those."""
        return self.measured_on == self.trained_on


@dataclass(frozen=True)
class Protocol:
    """A VOC folder and its lists.

    `has_test`: the official test images have tags here, so that all is measured as in the paper.
    `unlabelled_test`: the test images are here without tags, for the evaluation server (VOC 2012).
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
        """Return the lists for tags: trainval -> test as in the paper if the test images have tags, else train -> val."""
        return Splits("trainval", "test") if self.has_test else Splits("train", "val")

    def discovery(self, table: str) -> Splits:
        """Return the lists for CorLoc: trainval as in the paper in the main table, elsewhere only where that costs no training.

        Peers are measured on one list, and the table of times has no boxes.
        """
        as_in_paper = table == "main" or (self.has_test and table not in ("peers", "time"))
        return Splits("trainval", "trainval") if as_in_paper else self.classification


def find_protocol(data: Path, name: str) -> Protocol:
    """Return the protocol that the lists and images of a VOC folder allow; an incomplete test list is reported."""
    kind, folder = recognise(data)
    if kind is not Kind.VOC:
        raise DataError(f"{data}: is a {kind.value}. Give the folder of {name.upper()} that holds JPEGImages.")
    lists = folder / "ImageSets" / "Main"
    ids = _ids(lists / "test.txt")
    lacking = [one for one in ids if not (folder / "JPEGImages" / f"{one}.jpg").exists()]
    if lacking and len(lacking) < len(ids):
        console.print(
            f"{lists / 'test.txt'} names {len(ids)} images; {len(lacking)} are not there, such as {lacking[0]}. "
            "The list is not used.",
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
    """Return the images of a list without tags: every tag is unknown."""
    names = tuple(_ids(folder / "ImageSets" / "Main" / f"{split}.txt"))
    paths = tuple(folder.absolute() / "JPEGImages" / f"{name}.jpg" for name in names)
    return TaggedImages(classes, names, paths, np.full((len(names), len(classes)), UNKNOWN, np.int8))


def missing_images(protocol: Protocol, split: str, found: int) -> str:
    """Return a clause on images of the paper that this list lacks; empty when none is missing."""
    wanted = paper.IMAGES[protocol.year].get(split)
    return f"{found:,} of the {wanted:,} images of {split}" if wanted is not None and found < wanted else ""


_BACKBONES = {
    "alexnet": "torchvision's AlexNet is not the paper's CaffeNet",
    "caffenet": "",
    "vgg16": "",
    "vgg16-caffe": "",
}


def differences(
    recipe: Recipe, protocol: Protocol, splits: Splits, images: int, limit: int | None = None, ablation: bool = False
) -> str:
    """Return what differs from the paper's experiment, as clauses joined by `; `; empty when nothing does.

    `images` is the number measured; `ablation` says that the paper's figures beside the row are of AlexNet on VOC 2007.
    """
    clauses = [
        _split_clause(protocol, splits),
        f"the first {limit:,} images of each list" if limit else missing_images(protocol, splits.measured_on, images),
        _BACKBONES.get(recipe.model.backbone, f"{recipe.model.backbone} in place of the paper's AlexNet and VGG16"),
        _weights_clause(recipe),
        *_recipe_clauses(recipe),
    ]
    if ablation and paper.counterpart(recipe.model.backbone) == paper.VGG16:
        clauses.append("the paper compares with AlexNet here")
    if ablation and protocol.year != 2007:
        clauses.append("the paper compares on VOC 2007 here")
    return "; ".join(clause for clause in clauses if clause)


def _split_clause(protocol: Protocol, splits: Splits) -> str:
    if splits.measured_on == "val":
        return "trained on train and measured on val: not the paper's split"
    return ""


def _weights_clause(recipe: Recipe) -> str:
    if not recipe.model.weights:
        return "all layers start at random"
    if recipe.model.weights.lower() == "imagenet" and recipe.model.backbone == "vgg16":
        return "torchvision's VGG16 weights, not Caffe's"
    path = Path(recipe.model.weights)
    if path.suffix == ".safetensors" and path.is_file() and paper.counterpart(recipe.model.backbone):
        return _file_clause(path)
    return ""


def _file_clause(path: Path) -> str:
    """Return a clause on the patch layers, fc6 and fc7, of a weight file of AlexNet or VGG16."""
    from safetensors import safe_open

    about = path.with_name("data.json")  # in the run folder of the weights
    if about.is_file() and "distilling" in read_json(about, dict[str, Any], RunError, AGAIN):
        return "fc6 and fc7 distilled"
    with safe_open(path, "pt") as file:
        names = list(file.keys())
    if not any(part in name for name in names for part in ("fc6", "classifier.")):
        return "fc6 and fc7 start at random"
    return ""


def _recipe_clauses(recipe: Recipe) -> list[str]:
    samples = recipe.total_steps * recipe.optimiser.batch_images
    usual = paper.SAMPLES + (10_000 if paper.counterpart(recipe.model.backbone) == paper.VGG16 else 0)
    clauses = []
    if samples != usual:
        clauses.append(f"{samples:,} training samples, {usual:,} in the paper")
    if recipe.name != "paper":
        clauses.append(
            f"the {recipe.name} recipe ({recipe.optimiser.optimiser}, {recipe.optimiser.batch_images} images per step)"
        )
    elif recipe.model.corners != "inclusive":
        clauses.append("half-open corners of patches in the SPP layer")
    if recipe.name == "paper" and recipe.optimiser.momentum_convention != "caffe":
        clauses.append("torch's momentum, Caffe's in the paper")
    if recipe.data.patches == "selective-search" and recipe.data.search_mode != "original":
        clauses.append("this package's faster Selective Search")
    if recipe.data.patches_per_sample:
        clauses.append(f"{recipe.data.patches_per_sample} patches drawn per sample, all in the paper")
    if recipe.data.scales not in (PAPER_SCALES, (paper.SINGLE_SCALE,)):
        clauses.append(f"scales {', '.join(map(str, recipe.data.scales))}")
    if recipe.data.test_scales:
        clauses.append(f"tested at {', '.join(map(str, recipe.data.test_scales))}")
    if recipe.test.box_selection != "max" and "discovery" in recipe.model.heads:
        clauses.append("boxes by vote, the best patch in the paper")
    return clauses
