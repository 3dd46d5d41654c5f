"""What each optimisation adds to the speed and recall of Selective Search, and the time of each stage.

    DPL_VOC=/data/VOCdevkit/VOC2007 python benchmarks/patches_steps.py

Each keeps those before it. All run alternately on the same images, on one thread; seconds are CPU time.
"""

import argparse
import datetime
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data import images as preparing
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.patch_recall import best_ious
from deep_patch_learning.patches.selective_search import grouping, segmentation
from deep_patch_learning.patches.selective_search import search as selective_search
from deep_patch_learning.patches.selective_search.search import MODES, SelectiveSearch
from rows import write_rows

best_first, count_better = grouping.best_first, grouping._count_better


def by_rank(boxes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the different boxes, larger regions first, as the hierarchies' tops are merged."""
    return grouping.unique_scores(*(array[np.argsort(ranks, kind="stable")] for array in (boxes, ranks)))[0]


def no_cells(*_: object) -> None:
    """Count no better boxes."""


MODES["quick original"] = MODES["original"]._replace(spaces=("hsv", "lab"), as_published=False)

# name, mode, longest side, order, cells
STEPS: list[tuple[str, str, int, Callable, Callable]] = [
    ("mode original, 500 px, larger regions first", "original", 500, by_rank, no_cells),
    (
        "whole-number weights, fewer edges for a larger k, one texture direction",
        "quick original",
        500,
        by_rank,
        no_cells,
    ),
    ("searched at 320 px", "quick original", 320, by_rank, no_cells),
    ("k 30, 100, 200; 3, 5, 5 similarity mixes", "fast", 320, by_rank, no_cells),
    ("ordered by 1 / (1 + rank) summed over hierarchies", "fast", 320, best_first, no_cells),
    ("near twins wait", "fast", 320, best_first, count_better),
]
STAGES = [
    (preparing, "scaled"),
    (grouping, "strongest_direction"),
    (selective_search, "in_space"),
    (grouping, "colour_bins"),
    (cv2, "GaussianBlur"),
    (segmentation, "edge_weights"),
    (segmentation, "sorted_edges"),
    (segmentation, "segment"),
    (grouping, "describe"),
    (grouping, "neighbours"),
    (grouping, "group"),
    (grouping, "best_first"),
]


def profile(images: list[np.ndarray]) -> dict[str, float]:
    """Return the seconds per image of each stage of the search."""
    spent: dict[str, float] = defaultdict(float)
    replaced = []
    for module, name in STAGES:
        function = getattr(module, name)

        def timed(*given: object, function: Callable = function, name: str = name, **named: object) -> object:
            before = time.thread_time()
            result = function(*given, **named)
            spent[name] += (time.thread_time() - before) / len(images)
            return result

        holders = [module, selective_search] if hasattr(selective_search, name) else [module]
        for holder in holders:
            replaced.append((holder, name, function))
            setattr(holder, name, timed)
    before = time.thread_time()
    for image in images:
        SelectiveSearch()(image)
    total = (time.thread_time() - before) / len(images)
    for module, name, function in replaced:
        setattr(module, name, function)
    return {**spent, "the rest": total - sum(spent.values()), "total": total}


def main() -> None:
    """Print and save the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", default=os.environ.get("DPL_VOC"), help="the VOC2007 folder ($DPL_VOC)")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    if not given.voc:
        parser.error("set DPL_VOC or give --voc")
    cv2.setNumThreads(1)
    images = read_tags(given.voc, "trainval")
    images = images.subset(sorted(random.Random(given.seed).sample(range(len(images)), given.images)))
    truth = read_truth(given.voc, images)
    assert truth is not None
    pixels = [images.read(index) for index in range(len(images))]
    SelectiveSearch()(pixels[0])
    seconds, found = defaultdict(list), defaultdict(list)
    for image in pixels:
        for name, mode, side, order, cells in STEPS:
            grouping.best_first, grouping._count_better = order, cells
            before = time.thread_time()
            found[name].append(SelectiveSearch(mode=mode, max_side=side)(image))
            seconds[name].append(time.thread_time() - before)
    grouping.best_first, grouping._count_better = best_first, count_better
    about = {
        "images": given.images,
        "seed": given.seed,
        "machine": f"{machine_name()}, one used",
        "date": datetime.date.today().isoformat(),
        "command": "python benchmarks/patches_steps.py",
    }
    rows: list[dict[str, object]] = []
    for name, *_ in STEPS:
        row: dict[str, object] = {"step": name, "seconds": round(float(np.median(seconds[name])), 4)}
        row["boxes"] = round(float(np.mean([len(boxes) for boxes in found[name]])))
        best = zip(*[best_ious(b, t, [256, 1000, None]) for b, t in zip(found[name], truth, strict=True)], strict=True)
        for end, values in zip(("256", "1000", "all"), (np.concatenate(column) for column in best), strict=True):
            row[f"recall_50_{end}"] = round(float((values >= 0.5).mean()), 4)
            row[f"recall_70_{end}"] = round(float((values >= 0.7).mean()), 4)
        rows.append(row | about)
        print(row)
    write_rows(given.results / "patches_steps.csv", rows)
    stages = profile(pixels)
    rows = [{"stage": stage, "milliseconds": round(1000 * spent, 2)} | about for stage, spent in stages.items()]
    for line in rows:
        print(line["stage"], line["milliseconds"])
    write_rows(given.results / "patches_profile.csv", rows)


if __name__ == "__main__":
    main()
