"""The three patch generators on all of VOC 2007 trainval: figures, and a plot of recall against the number of boxes.

    DPL_VOC=/data/VOCdevkit/VOC2007 python benchmarks/patches_voc.py --workers 2

Seconds are CPU time of one core, with `--workers` images at a time. Nothing is random.
"""

import argparse
import csv
import datetime
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.patch_recall import best_ious
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.patches.selective_search.search import SelectiveSearch
from deep_patch_learning.patches.sliding_window import SlidingWindow
from rows import write_rows

METHODS: dict[str, tuple[PatchGenerator, str]] = {
    "Selective Search": (SelectiveSearch(), "#0b6e99"),
    "EdgeBoxes": (EdgeBoxes(), "#d9730d"),
    "sliding windows": (SlidingWindow(), "#7a7a7a"),
}
CURVE = [1, 2, 3, 5, 8, 12, 18, 25, 36, 50, 70, 100, 140, 190, 256, 350, 500, 700, 1000, 1400, 2000, 2800, 4000]
TABLE = [100, 256, 500, 1000, 2000, None]


def image(curves: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """Draw recall at IoU 0.5 and 0.7 against the number of boxes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for column, (axis, iou) in enumerate(zip(axes, ("0.5", "0.7"), strict=True), start=1):
        for name, points in curves.items():
            colour = METHODS[name][1]
            numbers, recalls = [point[0] for point in points], [100 * point[column] for point in points]
            axis.plot(numbers, recalls, color=colour, linewidth=2.2, label=name)
            axis.plot(numbers[-1], recalls[-1], "o", color=colour, markersize=5)
            beside = name == "sliding windows" or (name, iou) == ("EdgeBoxes", "0.7")  # where no curve passes
            end = {"ha": "left", "va": "center", "xytext": (8, 0)} if beside else {"ha": "right", "xytext": (2, 7)}
            label = f"{recalls[-1]:.1f} % with {numbers[-1]:,}"
            axis.annotate(
                label, (numbers[-1], recalls[-1]), textcoords="offset points", fontsize=8.5, color=colour, **end
            )
        axis.set_xscale("log")
        axis.set_xlim(1, 6500)
        axis.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
        axis.set_ylim(0, 105)
        axis.set_title(f"objects with a box of IoU {iou} or more", fontsize=11, loc="left")
        axis.set_xlabel("boxes per image, the best first")
        axis.grid(color="#e4e4e4")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("recall, % of the objects not marked difficult")
    axes[0].legend(frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Measure, then write the two tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", default=os.environ.get("DPL_VOC"), help="the VOC2007 folder ($DPL_VOC)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, help="only the first N images")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--redraw", action="store_true", help="only draw the plot, from the saved curve")
    parser.add_argument("--image", type=Path, default=Path("docs/images/patches_recall.png"))
    given = parser.parse_args()
    if given.redraw:
        image(saved_curves(given.results / "patches_recall_curve.csv"), given.image)
        return
    if not given.voc:
        parser.error("set DPL_VOC or give --voc")
    images = read_tags(given.voc, "trainval")
    images = images.subset(range(given.images or len(images)))
    truth = read_truth(given.voc, images)
    assert truth is not None
    rows, curves = [], {}
    for name, (generator, _) in METHODS.items():
        with tempfile.TemporaryDirectory() as folder:
            cache = PatchCache(Path(folder), generator)
            report = cache.fill(images.paths, given.workers)
            found = [cache.patches_of(path) for path in images.paths]
        counts = np.array([len(boxes) for boxes in found])
        numbers = [n for n in CURVE if n < counts.mean()]
        best = [best_ious(boxes, drawn, [*TABLE, *numbers]) for boxes, drawn in zip(found, truth, strict=True)]
        merged = [np.concatenate(column) for column in zip(*best, strict=True)]
        for first, values in zip(TABLE, merged, strict=False):
            rows.append(
                {
                    "method": name,
                    "first": first or "all",
                    "boxes": round(float(np.minimum(counts, first or counts.max()).mean()), 1),
                    "seconds_per_image": round(report.seconds / max(1, report.made), 4),
                    "recall_50": round(float((values >= 0.5).mean()), 4),
                    "recall_70": round(float((values >= 0.7).mean()), 4),
                    "mean_best_overlap": round(float(values.mean()), 4),
                    "images": len(images),
                    "objects": len(values),
                    "settings": generator.key(),
                    "seed": "none",
                    "machine": f"{machine_name()}, {given.workers} used",
                    "date": datetime.date.today().isoformat(),
                    "command": f"python benchmarks/patches_voc.py --workers {given.workers}",
                }
            )
        points = [*zip(numbers, merged[len(TABLE) :], strict=True), (round(counts.mean()), merged[len(TABLE) - 1])]
        curves[name] = [(n, float((v >= 0.5).mean()), float((v >= 0.7).mean())) for n, v in points]
        print(
            name,
            [f"{row['first']}: {row['recall_50']} {row['recall_70']}" for row in rows[-len(TABLE) :]],
            file=sys.stderr,
        )
    write_rows(given.results / "patches_voc2007_trainval.csv", rows)
    points = [(name, *point) for name, curve in curves.items() for point in curve]
    header = ("method", "boxes", "recall_50", "recall_70")
    same = ("settings", "images", "seed", "machine", "date", "command")
    about = {row["method"]: {key: row[key] for key in same} for row in rows}
    drawn = [dict(zip(header, point, strict=True)) | about[point[0]] for point in points]
    write_rows(given.results / "patches_recall_curve.csv", drawn)
    image(curves, given.image)


def saved_curves(path: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Return the curves of an earlier run."""
    curves: dict[str, list[tuple[int, float, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            point = int(row["boxes"]), float(row["recall_50"]), float(row["recall_70"])
            curves.setdefault(row["method"], []).append(point)
    return curves


if __name__ == "__main__":
    main()
