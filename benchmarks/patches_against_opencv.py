"""Selective Search: ours and OpenCV's on the same photos, one thread each, in turns.

    DPL_VOC=/data/VOCdevkit/VOC2007 python benchmarks/patches_against_opencv.py

OpenCV's lives in opencv-contrib-python-headless, which cannot be installed beside opencv-python-headless: it runs in a
virtual environment of its own, made here when --venv does not exist yet, as a process that answers one image at a time.
Seconds are processor time of the search alone: no file reading, no compiling.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.patch_recall import best_overlaps
from deep_patch_learning.patches.selective_search.search import SelectiveSearch
from written import this_machine, write_rows

WORKER = """
import json, sys, time
import cv2
cv2.setNumThreads(1)
make = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation
for line in sys.stdin:
    image = cv2.imread(line.rstrip("\\n"))
    before = time.process_time()
    search = make()
    search.setBaseImage(image)
    search.switchToSelectiveSearchFast()
    found = search.process()
    seconds = time.process_time() - before
    print(json.dumps({"seconds": seconds, "boxes": [[int(v) for v in box] for box in found]}), flush=True)
"""
Search = Callable[[Path], tuple[np.ndarray, float]]


def opencv(folder: Path) -> Search:
    """Return a function from an image file to OpenCV's boxes and seconds."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "opencv-contrib-python-headless", "numpy"], check=True)
    process = subprocess.Popen([python, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def search(path: Path) -> tuple[np.ndarray, float]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        x, y, w, h = np.array(answer["boxes"]).T
        return np.stack([x, y, x + w, y + h], axis=1), answer["seconds"]

    return search


def ours(**settings: object) -> Search:
    """Return a function from an image file to our boxes and seconds."""
    generator = SelectiveSearch(**settings)  # type: ignore[arg-type]
    generator(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))  # compile

    def search(path: Path) -> tuple[np.ndarray, float]:
        image = read_image(path)
        before = time.thread_time()
        boxes = generator(image)
        return boxes, time.thread_time() - before

    return search


def figures(boxes: list[np.ndarray], truth: list[TrueBoxes], numbers: list[int | None]) -> list[float]:
    """Return recall at IoU 0.5 and 0.7 and mean best overlap with the first numbers[i] boxes of image i."""
    rows = zip(boxes, truth, numbers, strict=True)
    best = np.concatenate([best_overlaps(box, drawn, [number])[0] for box, drawn, number in rows])
    return [float((best >= 0.5).mean()), float((best >= 0.7).mean()), float(best.mean())]


def main() -> None:
    """Print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", default=os.environ.get("DPL_VOC"), help="the VOC2007 folder ($DPL_VOC)")
    parser.add_argument(
        "--venv",
        type=Path,
        default=Path(".venv-opencv"),
        help="where OpenCV's extra modules are, or shall be, installed",
    )
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/patches_against_opencv.csv"))
    given = parser.parse_args()
    if not given.voc:
        parser.error("set DPL_VOC or give --voc")
    cv2.setNumThreads(1)
    images = read_tags(given.voc, "trainval")
    images = images.subset(sorted(random.Random(given.seed).sample(range(len(images)), given.images)))
    truth = read_truth(given.voc, images)
    assert truth is not None
    searches = {
        "opencv fast": opencv(given.venv),
        "ours fast": ours(),
        "ours original, 500 px": ours(mode="original", max_side=500),
        "ours quality": ours(mode="quality"),
    }
    found: dict[str, list[np.ndarray]] = {name: [] for name in searches}
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for done, path in enumerate(images.paths, start=1):
        for name, search in searches.items():
            boxes, took = search(path)
            found[name].append(boxes)
            seconds[name].append(took)
        if done % 20 == 0:
            print(f"{done} of {len(images)} images", file=sys.stderr)
    own: list[int | None] = [len(boxes) for boxes in found["opencv fast"]]
    ends = {"1000": [1000] * len(own), "opencv's own": own, "all": [None] * len(own)}
    rows = []
    for name in searches:
        ratio = np.median(np.array(seconds["opencv fast"]) / np.array(seconds[name]))
        for end, numbers in ends.items():
            recall_50, recall_70, overlap = figures(found[name], truth, numbers)
            rows.append(
                {
                    "method": name,
                    "first": end,
                    "boxes": round(float(np.mean([len(box[:n]) for box, n in zip(found[name], numbers, strict=True)]))),
                    "seconds_median": round(float(np.median(seconds[name])), 4),
                    "seconds_mean": round(float(np.mean(seconds[name])), 4),
                    "times_opencv": round(float(ratio), 1),
                    "recall_50": round(recall_50, 4),
                    "recall_70": round(recall_70, 4),
                    "mean_best_overlap": round(overlap, 4),
                    "images": given.images,
                    "seed": given.seed,
                    "machine": f"{this_machine()}, one used",
                    "date": datetime.date.today().isoformat(),
                    "command": "python benchmarks/patches_against_opencv.py",
                }
            )
    write_rows(given.out, rows)
    for row in rows:
        print("  ".join(f"{row[key]!s:>20}" for key in list(row)[:9]))


if __name__ == "__main__":
    main()
