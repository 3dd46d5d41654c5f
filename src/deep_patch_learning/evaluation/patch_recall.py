"""The recall of patches: the share of true boxes that some patch covers, by IoU."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.boxes import box_iou
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
    workers: int | None = None,
    fresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the patches' figures, ready for JSON.

    `boxes` is their mean number per image and `seconds_per_image` the processor time of one core to make them, without
    reading the file. With `truth`, one per image: `recall_50` and `recall_70`, the shares (0 to 1) of objects that some
    patch covers with an IoU of at least 0.5 and 0.7, and `mean_best_overlap`, the mean best IoU; `at` holds the same
    for each image's first 100, 500 and 1000 patches; `objects` is the number of objects, without difficult ones.
    `broken` lists images that could not be read; they are left out.

    Patches come from the user's cache, in which `workers` threads make the missing ones; with `fresh` all are made anew
    and not kept. `patches` may instead be ready boxes, one array per image; those are not timed.
    """
    paths = [Path(path) for path in (images.paths if isinstance(images, TaggedImages) else images)]
    for name, given in (("true boxes", truth), ("ready boxes", patches)):
        if isinstance(given, Sequence) and len(given) != len(paths):
            raise ValueError(f"{len(given)} {name} for {len(paths)} images; wanted one for each image")
    if isinstance(patches, Sequence):
        return figures_of(((boxes, None) for boxes in patches), truth)
    with tempfile.TemporaryDirectory() as scratch:
        cache = PatchCache(Path(scratch) if fresh else None, patches)
        report = cache.fill(paths, workers, progress)
        broken = {path for path, _ in report.broken}
        known = [index for index, path in enumerate(paths) if path not in broken]
        found = ((cache.patches_of(paths[index]), cache.seconds_of(paths[index])) for index in known)
        drawn = None if truth is None else [truth[index] for index in known]
        unread = [{"image": str(path), "reason": reason} for path, reason in report.broken]
        return figures_of(found, drawn) | {"broken": unread}


def figures_of(
    found: Iterable[tuple[np.ndarray, float | None]],
    truth: Sequence[TrueBoxes] | None,
    numbers: Sequence[int] = NUMBERS,
) -> dict[str, Any]:
    """Return the figures of `measure` for boxes and the seconds they took, one pair per image."""
    counts, seconds = [], []
    ious: dict[int | None, list[np.ndarray]] = {number: [] for number in (*numbers, None)}
    for index, (boxes, took) in enumerate(found):
        counts.append(len(boxes))
        seconds += [] if took is None else [took]
        if truth is not None:
            for number, best in zip(ious, best_ious(boxes, truth[index], list(ious)), strict=True):
                ious[number].append(best)
    figures: dict[str, Any] = {
        "images": len(counts),
        "boxes": float(np.mean(counts)) if counts else 0.0,
        "seconds_per_image": float(np.mean(seconds)) if seconds else None,
        "broken": [],
    }
    if truth is not None:
        figures |= _shares(ious[None])
        figures["at"] = {str(number): _shares(ious[number]) for number in numbers}
        figures["objects"] = int(sum(len(best) for best in ious[None]))
    return figures


def best_ious(boxes: np.ndarray, truth: TrueBoxes, numbers: Sequence[int | None]) -> list[np.ndarray]:
    """Return the best IoU (G,) of each object that is not difficult, among the first n boxes for each n in `numbers`.

    None stands for all boxes.
    """
    objects = truth.boxes[~truth.difficult]
    if len(objects) == 0 or len(boxes) == 0:
        return [np.zeros(len(objects)) for _ in numbers]
    iou = box_iou(objects, boxes)  # (G, P)
    return [iou[:, :number].max(axis=1) for number in numbers]


def _shares(ious: Sequence[np.ndarray]) -> dict[str, float | None]:
    every = np.concatenate(ious) if ious else np.zeros(0)
    if len(every) == 0:
        return {"recall_50": None, "recall_70": None, "mean_best_overlap": None}
    return {
        "recall_50": float((every >= 0.5).mean()),
        "recall_70": float((every >= 0.7).mean()),
        "mean_best_overlap": float(every.mean()),
    }
