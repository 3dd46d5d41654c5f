"""`dpl patches`: the patches of every image, made now or found in the cache, and their recall where boxes are known."""

from pathlib import Path
from typing import Any, Unpack

import numpy as np
from rich.table import Table

from deep_patch_learning.commands.options import Work, check_options
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.dataset import TaggedImages, limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.patch_recall import measure
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.patches.proposals import read_proposals
from deep_patch_learning.recipe.build import selective_search

RECALLS = ("recall_50", "recall_70", "mean_best_overlap")


def patches(
    data: str | Path,
    *,
    method: str = "selective-search",
    mode: str = "fast",
    split: str | None = None,
    fresh: bool = False,
    **work: Unpack[Work],
) -> dict[str, Any]:
    """Return the figures of the patches of every image, after making those that the cache lacks.

    `boxes` is their mean number per image, `seconds_per_image` the time on one core; where `data` has boxes, `recall_50`,
    `recall_70` and `mean_best_overlap`, from 0 to 1. `method` is selective-search, edge-boxes, sliding-window, or a proposal
    file (.mat, .pkl); `mode` of Selective Search is fast, quality or original. `fresh` ignores the cache. For `work` see
    `Work`: limit, workers.
    """
    check_options(work, Work, "patches")
    made = _generator_or_proposals(method, mode)
    images = limited(read_tags(Path(data), split), work.get("limit"))
    truth = read_truth(Path(data), images)
    if isinstance(made, dict):
        return measure(_proposals_of(made, images), images, truth)
    with bar(made.name) as progress:
        return measure(made, images, truth, workers=work.get("workers"), fresh=fresh, progress=progress)


def _generator_or_proposals(method: str, mode: str) -> PatchGenerator | dict[str, np.ndarray]:
    """Return the patch generator of this name, or the boxes by image name of a proposal file."""
    if Path(method).suffix in (".mat", ".pkl"):
        return read_proposals(Path(method))
    return selective_search(mode, min_side=8) if method == "selective-search" else generator(method)


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
        stdout.print(f"{per_image}; no boxes are known, so recall is not measured")
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
