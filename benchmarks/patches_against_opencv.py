"""Selective Search, ours and OpenCV's, and EdgeBoxes on the same photos, one thread each, alternately.

    DPL_VOC=/data/VOCdevkit/VOC2007 python benchmarks/patches_against_opencv.py

OpenCV's is in opencv-contrib-python-headless, which cannot be installed beside opencv-python-headless. It runs in its own
virtual environment, made here if --venv does not exist, as a process that answers one image at a time (`opencv_worker.py`).
Seconds are CPU time of the search, without file reading and compilation. The segmentations of our `original` mode are
compared with OpenCV's, region by region, on the first --segmented images.
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

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.patch_recall import best_ious
from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes
from deep_patch_learning.patches.selective_search import segmentation
from deep_patch_learning.patches.selective_search.search import (
    BLUR,
    LARGEST_MIN_SIZE,
    MODES,
    TWO,
    SelectiveSearch,
    in_space,
)
from opencv_worker import SCALES as OPENCV_SCALES
from opencv_worker import digest
from rows import write_rows

WORKER = Path(__file__).parent / "opencv_worker.py"
MODES["OpenCV's k"] = MODES["original"]._replace(scales=tuple((k, TWO) for k in OPENCV_SCALES))
MODES["published k"] = MODES["original"]._replace(scales=tuple((k, TWO) for k in (50, 100)))
Search = Callable[[Path], tuple[np.ndarray, float]]


class OpenCV:
    """OpenCV's search in its process; `segments` holds the digests of the segmentations of each of the first images."""

    def __init__(self, folder: Path, segmented: int) -> None:
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", "opencv-contrib-python-headless", "numpy"], check=True
            )
        self.segmented = segmented
        self.segments: list[list[str]] = []
        self.process = subprocess.Popen([python, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, path: Path) -> tuple[np.ndarray, float]:
        """Return the boxes and seconds of an image file."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{int(len(self.segments) < self.segmented)} {path}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if len(self.segments) < self.segmented:
            self.segments.append(answer["segments"])
        x, y, w, h = np.array(answer["boxes"]).T
        return np.stack([x, y, x + w, y + h], axis=1), answer["seconds"]


def our_segmentations(path: Path) -> list[str]:
    """Return the digests of the six segmentations of our original mode."""
    image = read_image(path)
    found = []
    for space in MODES["original"].spaces:
        blurred = cv2.GaussianBlur(in_space(image, space).astype(np.float32), (0, 0), BLUR)
        edges = segmentation.exact_edges(blurred)
        for k in OPENCV_SCALES:
            found.append(digest(segmentation.segment(edges, *image.shape[:2], float(k), LARGEST_MIN_SIZE, True)[0]))
    return found


def ours(method: type[SelectiveSearch] | type[EdgeBoxes] = SelectiveSearch, **settings: object) -> Search:
    """Return a function from an image file to our boxes and seconds."""
    generator = method(**settings)  # type: ignore[arg-type]
    generator(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))  # compile

    def search(path: Path) -> tuple[np.ndarray, float]:
        image = read_image(path)
        before = time.thread_time()
        boxes = generator(image)
        return boxes, time.thread_time() - before

    return search


def figures(boxes: list[np.ndarray], truth: list[TrueBoxes], numbers: list[int | None]) -> list[float]:
    """Return recall at IoU 0.5 and 0.7 and mean best IoU with the first numbers[i] boxes of image i."""
    rows = zip(boxes, truth, numbers, strict=True)
    best = np.concatenate([best_ious(box, drawn, [number])[0] for box, drawn, number in rows])
    return [float((best >= 0.5).mean()), float((best >= 0.7).mean()), float(best.mean())]


def main() -> None:
    """Print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", default=os.environ.get("DPL_VOC"), help="the VOC2007 folder ($DPL_VOC)")
    parser.add_argument(
        "--venv",
        type=Path,
        default=Path(".venv-opencv"),
        help="virtual environment of OpenCV's extra modules; made if missing",
    )
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segmented", type=int, default=20, help="images whose segmentations are compared")
    parser.add_argument("--out", type=Path, default=Path("results/patches_against_opencv.csv"))
    given = parser.parse_args()
    if not given.voc:
        parser.error("set DPL_VOC or give --voc")
    cv2.setNumThreads(1)
    images = read_tags(given.voc, "trainval")
    images = images.subset(sorted(random.Random(given.seed).sample(range(len(images)), given.images)))
    truth = read_truth(given.voc, images)
    assert truth is not None
    rival = OpenCV(given.venv, given.segmented)
    searches: dict[str, Search] = {
        "opencv fast": rival,
        "ours original, 500 px": ours(mode="original", max_side=500, min_side=1),
        "ours original, OpenCV's k": ours(mode="OpenCV's k", max_side=500, min_side=1),
        "ours original, published k": ours(mode="published k", max_side=500, min_side=1),
        "ours fast": ours(),
        "ours fast, 500 px": ours(max_side=500),
        "ours quality": ours(mode="quality"),
        "our EdgeBoxes": ours(EdgeBoxes),
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
    pairs = zip(rival.segments, map(our_segmentations, images.paths), strict=False)
    same = [one == other for theirs, mine in pairs for one, other in zip(theirs, mine, strict=True)]
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
                    "same_segmentations": f"{sum(same)} of {len(same)}" if name == "ours original, OpenCV's k" else "",
                    "images": given.images,
                    "seed": given.seed,
                    "machine": f"{machine_name()}, one used",
                    "date": datetime.date.today().isoformat(),
                    "command": "python benchmarks/patches_against_opencv.py",
                }
            )
    write_rows(given.out, rows)
    for row in rows:
        print("  ".join(f"{row[key]!s:>20}" for key in list(row)[:9]))


if __name__ == "__main__":
    main()
