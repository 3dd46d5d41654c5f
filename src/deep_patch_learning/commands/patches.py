"""`dpl patches`: the patches of every image, made now or found in the cache, and their recall where boxes are known."""

from pathlib import Path
from typing import Any, Unpack

import numpy as np
from rich.table import Table

from deep_patch_learning.commands.options import Work, check_options, is_ray
from deep_patch_learning.common.errors import DataError, SettingError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.dataset import TaggedImages, limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.patch_recall import measure
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.generator import PatchGenerator, is_file
from deep_patch_learning.patches.proposals import read_proposals
from deep_patch_learning.recipe.build import recipe_patches, selective_search
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder


class PatchWork(Work, total=False):
    """How patches are made: `Work`, whose patches they are if not those of a method, and the engine as in `LabelOptions`."""

    recipe: str | None
    model: str | Path | None
    engine: str
    address: str | None
    shard_images: int | None


METHOD = ("selective-search", "fast")  # and its mode
RECALLS = ("recall_50", "recall_70", "mean_best_overlap")


def patches(
    data: str | Path,
    *,
    method: str = METHOD[0],
    mode: str = METHOD[1],
    split: str | None = None,
    fresh: bool = False,
    **work: Unpack[PatchWork],
) -> dict[str, Any]:
    """Return the figures of the patches of every image, after making those that the cache lacks.

    `boxes` is their mean number per image, `seconds_per_image` the time on one core; where `data` has boxes, `recall_50`,
    `recall_70` and `mean_best_overlap`, from 0 to 1. `method` is selective-search, edge-boxes, sliding-window, or a proposal
    file (.mat, .pkl, .npz); `mode` of Selective Search is fast, quality or original. With `recipe`, a name, they are those that
    a training with it uses, with `model`, a run folder, those of the run: to fill the cache before a training or labels. `fresh`
    ignores the cache. For `work` see `PatchWork`: limit, workers, recipe, model, engine, address, shard_images.
    """
    check_options(work, PatchWork, "patches")
    made = _generator_or_proposals(method, mode, work.get("recipe"), work.get("model"))
    if is_ray(work.get("engine", "local"), work.get("address"), work.get("shard_images")):
        return _patches_on_ray(data, made, split, fresh, work)
    images = limited(read_tags(Path(data), split), work.get("limit"))
    truth = read_truth(Path(data), images)
    if isinstance(made, dict):
        return measure(_proposals_of(made, images), images, truth)
    with bar(made.name) as progress:
        return measure(made, images, truth, workers=work.get("workers"), fresh=fresh, progress=progress)


def _patches_on_ray(
    data: str | Path, made: PatchGenerator | dict[str, np.ndarray], split: str | None, fresh: bool, work: PatchWork
) -> dict[str, Any]:
    from deep_patch_learning.cluster.parts import PART_IMAGES, read_parts
    from deep_patch_learning.cluster.patches import patches_on_ray
    from deep_patch_learning.cluster.runs import Asked

    if isinstance(made, dict):
        raise SettingError("--engine ray makes patches; a proposal file has its own. Leave --engine ray out.")
    parts = read_parts(data, split, None, work.get("limit"), work.get("shard_images") or PART_IMAGES)
    return patches_on_ray(parts, made, Asked(work.get("address"), work.get("workers"), "cpu"), fresh)


def _generator_or_proposals(
    method: str, mode: str, recipe: str | None, model: str | Path | None
) -> PatchGenerator | dict[str, np.ndarray]:
    """Return the patch generator of a recipe, a run or this name, or the boxes by image name of a proposal file."""
    if recipe is None and model is None:
        if is_file(method):
            return read_proposals(Path(method))
        return selective_search(mode, min_side=8) if method == "selective-search" else generator(method)
    if (method, mode) != METHOD or (recipe is not None and model is not None):
        raise SettingError(
            "--recipe, --model and --method (with --mode) each say which patches to make. Give one of them."
        )
    chosen = _recipe_of(model) if model is not None else Recipe.of(str(recipe))
    return read_proposals(Path(chosen.data.patches)) if is_file(chosen.data.patches) else recipe_patches(chosen)


def _recipe_of(run: str | Path) -> Recipe:
    folder = RunFolder(run)
    folder.must_exist()
    return Recipe.load(folder.config)


def _proposals_of(proposals: dict[str, np.ndarray], images: TaggedImages) -> list[np.ndarray]:
    """Return the boxes of each image, found by its name or its file's stem."""
    found = []
    for name, path in zip(images.names, images.paths, strict=True):
        key = next((key for key in (name, path.name, path.stem) if key in proposals), None)
        if key is None:
            raise DataError(f"the proposal file has no boxes for '{name}'. Choose the --split that it was made for.")
        found.append(proposals[key])
    return found


def show(figures: dict[str, Any], method: str) -> None:
    """Print recall and IoU by the number of patches used."""
    per_image = f"{method}: {figures['boxes']:.0f} patches per image"
    if figures.get("recall_50") is None:
        why = "on a cluster recall is" if "shards" in figures else "no boxes are known, so recall is"
        stdout.print(f"{per_image}; {why} not measured")
    else:
        table = Table(title=per_image, title_justify="left")
        for heading in ("patches", "recall 0.5", "recall 0.7", "mean best IoU"):
            table.add_column(heading, justify="right")
        for count, row in figures.get("at", {}).items():
            table.add_row(str(count), *(f"{row[key]:.3f}" for key in RECALLS))
        table.add_row("all", *(f"{figures[key]:.3f}" for key in RECALLS), style="bold")
        stdout.print(table)
    if figures.get("seconds_per_image") is not None:
        stdout.print(f"{figures['seconds_per_image']:.3f} s per image on one core")
    if "shards_found_done" in figures:
        said = f"{figures['shards_found_done']} of {figures['shards']} shards were done already"
        stdout.print(f"{said}; {len(figures['broken'])} images cannot be read; in {figures['folder']}", soft_wrap=True)
