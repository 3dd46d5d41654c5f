"""How good patches are: how many of the objects that people drew have a patch close to them."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.boxes import pairwise_iou
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.generator import PatchGenerator

NUMBERS = (100, 500, 1000)


def measure(
    patches: PatchGenerator | Sequence[np.ndarray],
    images: TaggedImages | Sequence[str | Path],
    truth: Sequence[TrueBoxes] | None = None,
    *,
    numbers: Sequence[int] = NUMBERS,
    workers: int | None = None,
    fresh: bool = False,
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the patches' figures, ready for JSON.

    `boxes` is their mean number per image and `seconds_per_image` the processor time of one core when they were made,
    reading the file not included. With `truth`, one per image: `recall_50`, `recall_70` (shares from 0 to 1 of the
    objects, those marked difficult left out, that some patch overlaps with an IoU of at least 0.5 and 0.7) and
    `mean_best_overlap` with all boxes; `at` the same with each image's first 100, 500 and 1000; `objects`, their
    number. `broken` lists images that could not be read; they are left out.

    Patches come from the cache in `folder`, where missing ones are made by `workers` threads; with `fresh` all are made
    anew and not kept. `patches` may instead be ready boxes, one array per image, that are not timed.
    """
    paths = [Path(path) for path in (images.paths if isinstance(images, TaggedImages) else images)]
    for name, given in (("true boxes", truth), ("ready boxes", patches)):
        if isinstance(given, Sequence) and len(given) != len(paths):
            raise ValueError(f"{len(given)} {name} for {len(paths)} images; wanted one for each image")
    if isinstance(patches, Sequence):
        return _figures(((boxes, None) for boxes in patches), truth, numbers, [])
    with tempfile.TemporaryDirectory() as scratch:
        cache = PatchCache(Path(scratch) if fresh else folder, patches)
        report = cache.fill(paths, workers, progress)
        broken = {path for path, _ in report.broken}
        known = [index for index, path in enumerate(paths) if path not in broken]
        found = ((cache.patches_of(paths[index]), cache.seconds_of(paths[index])) for index in known)
        drawn = None if truth is None else [truth[index] for index in known]
        return _figures(found, drawn, numbers, [{"image": str(p), "reason": why} for p, why in report.broken])


def _figures(
    found: Iterable[tuple[np.ndarray, float | None]],
    truth: Sequence[TrueBoxes] | None,
    numbers: Sequence[int],
    broken: list[dict[str, str]],
) -> dict[str, Any]:
    counts, seconds = [], []
    overlaps: dict[int | None, list[np.ndarray]] = {number: [] for number in (*numbers, None)}
    for index, (boxes, took) in enumerate(found):
        counts.append(len(boxes))
        seconds += [] if took is None else [took]
        if truth is not None:
            for number, best in zip(overlaps, best_overlaps(boxes, truth[index], list(overlaps)), strict=True):
                overlaps[number].append(best)
    figures: dict[str, Any] = {
        "images": len(counts),
        "boxes": float(np.mean(counts)) if counts else 0.0,
        "seconds_per_image": float(np.mean(seconds)) if seconds else None,
        "broken": broken,
    }
    if truth is not None:
        figures |= _shares(overlaps[None])
        figures["at"] = {str(number): _shares(overlaps[number]) for number in numbers}
        figures["objects"] = int(sum(len(best) for best in overlaps[None]))
    return figures


def best_overlaps(boxes: np.ndarray, truth: TrueBoxes, numbers: Sequence[int | None]) -> list[np.ndarray]:
    """Return, for the first n boxes of each n in `numbers` (None: all), each not difficult object's best IoU: (G,)."""
    objects = truth.boxes[~truth.difficult]
    if len(objects) == 0 or len(boxes) == 0:
        return [np.zeros(len(objects)) for _ in numbers]
    overlap = pairwise_iou(objects, boxes)  # (G, P)
    return [overlap[:, :number].max(axis=1) for number in numbers]


def _shares(overlaps: Sequence[np.ndarray]) -> dict[str, float | None]:
    every = np.concatenate(overlaps) if overlaps else np.zeros(0)
    if len(every) == 0:
        return {"recall_50": None, "recall_70": None, "mean_best_overlap": None}
    return {
        "recall_50": float((every >= 0.5).mean()),
        "recall_70": float((every >= 0.7).mean()),
        "mean_best_overlap": float(every.mean()),
    }
