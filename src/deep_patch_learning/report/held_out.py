"""Whether the images of a report were trained on: only figures on others say what the network has learned."""

from pathlib import Path
from typing import NamedTuple

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.holdout import read_apart
from deep_patch_learning.data.readers.read import named_splits, read_tags
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.report.page import Notice
from deep_patch_learning.runs.folder import RunFolder

PREFERRED = ("val", "valid", "validation", "dev", "test")  # what held-out splits are called, the likeliest first


class Seen(NamedTuple):
    """The images that a run was trained on, and those that it held out to measure with, where it did."""

    trained: TaggedImages
    held_out: TaggedImages | None


def images_of_run(run: RunFolder) -> Seen | None:
    """Return the images of a run; None where it does not say which, or they are no longer there."""
    about = run.describe() if run.data.is_file() else {}
    if not about.get("path") or not Path(about["path"]).exists():
        return None
    held = about.get("val_split"), about.get("val_share")
    seed = Recipe.load(run.config).seed
    return Seen(*read_apart(Path(about["path"]), about.get("split"), *held, seed, about.get("limit")))


def held_out_split(data: Path, trained: TaggedImages) -> str | None:
    """Return the name of a split of the data that shares no image with training; None when it has none."""
    seen = set(trained.paths)
    names = named_splits(data)
    ranked = [name for name in PREFERRED if name in names] + [name for name in names if name not in PREFERRED]
    for name in ranked:
        images = read_tags(data, name, trained.classes)
        if len(images) and seen.isdisjoint(images.paths):
            return name
    return None


def notice(seen: Seen | None, images: TaggedImages) -> Notice:
    """Return what the reader must know first: whether the images measured on were trained on."""
    if seen is None:
        return Notice("Whether these images were trained on is not known: the run's own images are gone.", "careful")
    shared = len(_real(seen.trained).intersection(_real(images)))
    if not shared:
        return Notice("None of these images was trained on, so the figures say what to expect of new ones.", "good")
    how_many = "All" if shared == len(images) else f"{shared:,} of the {len(images):,}"
    return Notice(
        f"{how_many} images here were trained on: the figures are better than on new ones, and the network may have "
        "learned wrong tags by heart. Give held-out images with --data and --split.",
        "careful",
    )


def _real(images: TaggedImages) -> set[Path]:
    return {path.resolve() for path in images.paths}
