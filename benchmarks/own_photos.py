"""300 photos on a laptop: what `--recipe fast` finds after minutes of training.

    python benchmarks/own_photos.py VOC2007 --out FOLDER [--seeds 0,1,2]

The photos are of VOC's val: 25 of each of 12 classes to train on, a third of them held out, and 500 others to measure on; which
ones does not depend on the seed. Each row is `dpl train` and `dpl evaluate` as a user calls them, on the CPU; finished parts in
FOLDER are not repeated. Writes results/own_photos.csv.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.recipe.choose import seed_numbers
from rows import RESULTS, write_rows

CLASSES = ("aeroplane", "bicycle", "bird", "boat", "bus", "car", "cat", "cow", "dog", "horse", "sheep", "train")
EACH, HELD_OUT, OTHERS = 25, 8, 500
FIGURES = ("mAP", "CorLoc", "detection_mAP", "recall_at_80")


def choose(voc: Path, listing: Path, seed: int) -> None:
    """Write the photos, their tags and their boxes: `train` and `val` to train on, `others` to measure on."""
    images = read_tags(voc, "val")
    truth = read_truth(voc, images)
    assert truth is not None
    columns = [images.classes.index(name) for name in CLASSES]
    labels = images.labels[:, columns]  # (I, 12)
    there = labels == PRESENT
    random = np.random.default_rng(seed)
    splits: dict[int, str] = {}
    for column in range(len(CLASSES)):
        alone = np.flatnonzero(there[:, column] & (there.sum(axis=1) == 1))
        own = random.permutation(alone)[:EACH].tolist()
        splits |= {index: "train" if n < EACH - HELD_OUT else "val" for n, index in enumerate(own)}
    rest = [index for index in np.flatnonzero(there.any(axis=1)).tolist() if index not in splits]
    splits |= dict.fromkeys(random.permutation(rest)[:OTHERS].tolist(), "others")
    with listing.open("w") as file:
        for index, split in splits.items():
            path = os.path.relpath(images.paths[index], listing.parent)
            line: dict[str, object] = {"image": path, "split": split, "boxes": boxes_of(truth[index], images.classes)}
            for key, state in (("tags", PRESENT), ("unknown", UNKNOWN)):
                line[key] = [name for name, label in zip(CLASSES, labels[index], strict=True) if label == state]
            file.write(json.dumps(line) + "\n")


def boxes_of(truth: TrueBoxes, classes: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the true boxes of the chosen classes as a line of JSON has them."""
    each = zip(truth.boxes.tolist(), truth.classes.tolist(), truth.difficult.tolist(), strict=True)
    named = [{"tag": classes[index], "box": box, "difficult": difficult} for box, index, difficult in each]
    return [one for one in named if one["tag"] in CLASSES]


def dpl(*words: object) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "deep_patch_learning", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    listing = options.out / "photos.jsonl"
    choose(options.data, listing, seed=0)
    command = f"python benchmarks/own_photos.py {options.data.name} --out FOLDER --seeds {options.seeds}"
    about = {"photos": EACH * len(CLASSES), "command": command}
    rows = []
    for seed in seed_numbers(options.seeds):
        run = options.out / f"seed-{seed}"
        splits = ("--split", "train", "--val-split", "val", "--seed", seed, "--device", "cpu")
        dpl("train", listing, *splits, "--recipe", "fast", "--out", run)
        for split, measured_on in (("train", "those trained on"), ("others", "others")):
            kept = options.out / f"{run.name}-{split}.json"
            if not kept.exists():
                said = dpl("evaluate", listing, "--split", split, "--model", run, "--device", "cpu", "--json")
                kept.write_text(said.splitlines()[-1])
            found = json.loads(kept.read_text())
            row = {"layers": "ImageNet's", "recipe": "fast", "measured_on": measured_on}
            row |= {key: round(found[key], 2) for key in FIGURES} | about
            rows.append(row | {"seed": seed, "machine": machine_name(), "date": date.today().isoformat()})
            print(rows[-1], flush=True)
    write_rows(RESULTS / "own_photos.csv", rows)


if __name__ == "__main__":
    main()
