"""How often the interval of the share of right boxes covers the truth, over simulated reviews.

    python benchmarks/review_interval.py VOC2007

The boxes are those of the tags of VOC 2007 val, one for each tag. A box is right as often as the CorLoc of its class says
(`results/voc2007_per_class.csv`, the network with both heads), and boxes of one image are right or wrong together more often
than by chance: the logit of each image is shifted by a normal number of standard deviation 1. In each review all boxes are drawn
anew, and the first images of a random order are judged. Writes results/review_interval.csv.
"""

import argparse
import csv
from datetime import date
from pathlib import Path

import numpy as np

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.reviewed import UNJUDGED, Judged
from deep_patch_learning.evaluation.right_boxes import right_boxes
from rows import RESULTS, write_rows

REVIEWS = 200
COUNTS = (25, 50, 100, 200, 400)
TOGETHER = 1.0


def rates(classes: tuple[str, ...]) -> np.ndarray:
    """Return the share of right boxes of each class, from the measured CorLoc."""
    with (RESULTS / "voc2007_per_class.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["row"] == "both heads" and row["measured_on"] == "val"]
    measured = [
        [float(row["value"]) / 100 for row in rows if row["class"] == name and row["measure"] == "CorLoc"]
        for name in classes
    ]
    return np.array([np.mean(values) for values in measured])


def drawn_right(random: np.random.Generator, images: np.ndarray, likely: np.ndarray) -> np.ndarray:
    """Return which boxes (B,) are right, likely (B,) as often as their class, those of one image together."""
    shift = random.normal(0, TOGETHER, images.max() + 1)[images]
    # a normal shift draws the mean towards a half; the logit is stretched by what a logistic curve gives way
    stretch = np.sqrt(1 + np.pi * TOGETHER**2 / 8)
    odds = np.log(likely / (1 - likely)) * stretch + shift
    return (random.random(len(images)) < 1 / (1 + np.exp(-odds))).astype(int)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tagged = read_tags(options.data, "val")
    images, classes = np.nonzero(tagged.labels == PRESENT)
    likely, random = rates(tagged.classes)[classes].clip(0.02, 0.98), np.random.default_rng(options.seed)
    rows = []
    for count in COUNTS:
        covered, widths, of_classes, class_widths = [], [], [], []
        for _ in range(REVIEWS):
            right, places = drawn_right(random, images, likely), random.permutation(len(tagged))[images]
            known = np.where(places < count, right, UNJUDGED)
            found = right_boxes(Judged(images, classes, places, known, np.full(len(tagged.classes), count)))
            assert found.overall is not None
            covered.append(found.overall.low <= right.mean() <= found.overall.high)
            widths.append(found.overall.high - found.overall.low)
            for index, share in enumerate(found.per_class):
                if share is not None:
                    of_classes.append(share.low <= right[classes == index].mean() <= share.high)
                    class_widths.append(share.high - share.low)
        figures = {"covered": np.mean(covered), "width": np.mean(widths)}
        figures |= {"covered_classes": np.mean(of_classes), "width_classes": np.mean(class_widths)}
        row = {
            "judged_images": count,
            "of": len(tagged),
            "boxes": round(len(images) * count / len(tagged)),
            "reviews": REVIEWS,
        }
        row |= {name: round(100 * float(value), 1) for name, value in figures.items()}
        row |= {"seed": options.seed, "command": f"python benchmarks/review_interval.py {options.data.name}"}
        rows.append(row | {"machine": machine_name("cpu"), "date": date.today().isoformat()})
        print(rows[-1], flush=True)
    write_rows(RESULTS / "review_interval.csv", rows)


if __name__ == "__main__":
    main()
