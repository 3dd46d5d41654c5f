"""What reviewed images buy: boxes after a training on the reviews of a simulated person, in random order and in ours.

    python benchmarks/review_simulated.py VOC2007 --out FOLDER [--seeds 0,1] [--orders random,ours] [--counts 0,25,50,100,200,500]
    python benchmarks/review_simulated.py VOC2007 --out FOLDER --recipe refined --device cuda --backbone resnet50 --weights FILE
    python benchmarks/review_simulated.py VOC2007 --out FOLDER --collect [--recipe refined]

A first network is trained on the tags of some photos of train. The person knows VOC's true boxes: a found box with an IoU of at
least 0.5 with an object of its class is accepted as it is, any other is corrected to the object that it overlaps most, or
rejected where no object is left. Then the network is trained again with `--reviewed`. Measured on the photos that were not
reviewed, before and after, and on photos of val. Finished parts in FOLDER are not repeated; several processes may work on
different --seeds in one folder. With --maps, the maps of a frozen backbone are kept on the disk. `--collect` writes
results/review_simulated.csv, where rows of other recipes stay, and docs/images/review_simulated.svg.
"""

import argparse
import csv
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import deep_patch_learning as dpl
from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.reviewed import CORRECTED, RIGHT, SCHEMA, VERSION, WRONG
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.discovery import corloc as corloc_report
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.box_trust import TrustingModel
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.labels.select import LabelledImage, LabelRule, labelled_image
from deep_patch_learning.labels.usefulness import review_order, usefulness
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.choose import seed_numbers
from kept_maps import keep_maps
from review_curve import draw
from rows import RESULTS, write_rows

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "review_simulated.svg"
FILE = RESULTS / "review_simulated.csv"
RIGHT_IOU = 0.5
RULE = LabelRule(for_training=True)  # the boxes that `dpl review` shows


def choose(voc: Path, listing: Path, train: int, val: int) -> None:
    """Write which photos of VOC's train and val take part, with their tags."""
    with listing.open("w") as file:
        for split, count in (("train", train), ("val", val)):
            images = read_tags(voc, split)
            for index in sorted(np.random.default_rng(0).permutation(len(images))[:count].tolist()):
                line: dict[str, Any] = {"image": str(images.paths[index].resolve()), "split": split}
                for key, state in (("tags", PRESENT), ("unknown", UNKNOWN)):
                    named = zip(images.classes, images.labels[index], strict=True)
                    line[key] = [name for name, label in named if label == state]
                file.write(json.dumps(line) + "\n")


def truth_of(voc: Path, split: str, images: TaggedImages) -> list[TrueBoxes]:
    """Return VOC's true boxes of the photos, by their files, with classes as numbered in `images`."""
    whole = read_tags(voc, split)
    truth = read_truth(voc, whole)
    assert truth is not None
    number = np.array([images.classes.index(name) if name in images.classes else -1 for name in whole.classes])
    of_file = {path.name: one for path, one in zip(whole.paths, truth, strict=True)}
    found = []
    for one in (of_file[path.name] for path in images.paths):
        there = number[one.classes] >= 0
        found.append(TrueBoxes(one.boxes[there], number[one.classes[there]], one.difficult[there]))
    return found


def judged(found: LabelledImage, truth: TrueBoxes) -> list[tuple[int, str, np.ndarray, np.ndarray]]:
    """Return (class, status, box, box as found) of each found box, as the simulated person leaves it."""
    said = []
    for index in np.unique(found.classes).tolist():
        boxes = found.boxes[found.classes == index].astype(np.float64)
        objects = truth.boxes[truth.classes == index].astype(np.float64)
        iou = box_iou(boxes, objects)  # (B, O)
        right = iou.max(axis=1, initial=0) >= RIGHT_IOU
        taken = (iou[right] >= RIGHT_IOU).any(axis=0)  # objects that have a box
        for row, box in enumerate(boxes):
            free = np.flatnonzero(~taken)
            if right[row]:
                said.append((index, RIGHT, box, box))
            elif len(free):
                nearest = free[iou[row, free].argmax()]
                taken[nearest] = True
                said.append((index, CORRECTED, objects[nearest], box))
            else:
                said.append((index, WRONG, box, box))
    return said


def write_store(
    path: Path, images: TaggedImages, found: Sequence[LabelledImage], truth: Sequence[TrueBoxes], chosen: Any
) -> dict:
    """Write the store of a person who reviewed the chosen images; return how many boxes were judged, and how."""
    path.unlink(missing_ok=True)
    counts = {RIGHT: 0, CORRECTED: 0, WRONG: 0}
    columns = "image, class, status, x1, y1, x2, y2, found_class, found_x1, found_y1, found_x2, found_y2"
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(f"PRAGMA user_version = {VERSION}; {SCHEMA}")
        file.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(images.classes))
        for place, index in enumerate(chosen):
            row = (index, images.names[index], str(images.paths[index]), found[index].width, found[index].height, place)
            file.execute("INSERT INTO images (id, name, path, width, height, place) VALUES (?, ?, ?, ?, ?, ?)", row)
            for kind, status, box, before in judged(found[index], truth[index]):
                values = (index, kind, status, *box.tolist(), kind, *before.tolist())
                file.execute(f"INSERT INTO boxes ({columns}) VALUES ({', '.join('?' * len(values))})", values)
                counts[status] += 1
    return counts


class Trial:
    """The trainings of one recipe and seed in one folder."""

    def __init__(self, options: argparse.Namespace, seed: int) -> None:
        self.options, self.seed = options, seed
        self.folder = options.out / options.recipe / f"seed-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.listing = options.out / "photos.jsonl"
        if not self.listing.exists():
            choose(options.data, self.listing, options.train, options.val)
        self.settings: dict[str, Any] = dict(each.split("=", 1) for each in options.set)
        given = {"backbone": options.backbone, "weights": options.weights, "steps": options.steps}
        self.settings |= {key: value for key, value in given.items() if value is not None}

    def train(self, run: Path, store: Path | None) -> Path:
        """Return the folder of a finished training, with the reviews of a store."""
        own = {"recipe": self.options.recipe, "device": self.options.device, "seed": self.seed, "workers": 1}
        done = dpl.train(self.listing, run, split="train", reviewed=store, **own, **self.settings)
        assert done.finished
        return run

    def found(self, run: Path, split: str, views: bool = False) -> tuple[Prepared, list[Prediction]]:
        """Return the photos of a split and what a run finds in them."""
        model = dpl.load(run, self.options.device)
        model = TrustingModel.of(model) if views else model
        images = read_tags(self.listing, split, classes=model.classes)
        prepared = prepare(images, model.patch_generator, workers=1)
        return prepared, list(predict_prepared(model, prepared))

    def first(self) -> None:
        """Train the first network, and write down what a person would look at, in which order."""
        if (self.folder / "first.json").exists():
            return
        run = self.train(self.folder / "first", None)
        prepared, predictions = self.found(run, "train", views=True)
        images = prepared.images
        shown = [labelled_image(one, images, index, RULE) for index, one in enumerate(predictions)]
        useful = [usefulness(one, labelled) for one, labelled in zip(predictions, shown, strict=True)]
        random = np.random.default_rng(self.seed).permutation(len(images))
        orders = {"random": random.tolist(), "ours": review_order(useful, images.labels).tolist()}
        boxes = [
            {"boxes": one.boxes.tolist(), "classes": one.classes.tolist(), "size": [one.height, one.width]}
            for one in shown
        ]
        best = [np.asarray(one.best_boxes, np.float64).round(2).tolist() for one in predictions]
        write_whole(self.folder / "first.json", json.dumps({"orders": orders, "shown": boxes, "best": best}))

    def measure(self, order: str, count: int) -> None:
        """Train with so many reviewed images, and write down the figures."""
        kept = self.folder / f"{order}-{count}.json"
        if kept.exists():
            return
        images = read_tags(self.listing, "train")
        first = json.loads((self.folder / "first.json").read_text())
        truth = truth_of(self.options.data, "train", images)
        run, counts, chosen = self.folder / "first", dict.fromkeys((RIGHT, CORRECTED, WRONG), 0), []
        if count:
            shown = [labelled_from(images, index, one) for index, one in enumerate(first["shown"])]
            chosen, store = first["orders"][order][:count], self.folder / f"{order}-{count}.sqlite"
            counts = write_store(store, images, shown, truth, chosen)
            run = self.train(self.folder / f"{order}-{count}", store)
        rest = np.setdiff1d(np.arange(len(images)), chosen).tolist()
        found = self.found(run, "train")[1]
        after = corloc([found[index].best_boxes for index in rest], images, rest, truth)
        before = corloc([np.array(first["best"][index]) for index in rest], images, rest, truth)
        val, on_val = self.found(run, "val")
        figures = measure_predictions(on_val, val.images.labels, truth_of(self.options.data, "val", val.images))
        row = {"recipe": named(self.options), "order": order, "reviewed": count, "accepted": counts[RIGHT]}
        row |= {"corrected": counts[CORRECTED], "rejected": counts[WRONG], "seed": self.seed}
        row |= {"CorLoc_rest": round(after, 2), "CorLoc_rest_before": round(before, 2)}
        row |= {f"{key}_val": round(figures[key], 2) for key in ("CorLoc", "detection_mAP", "mAP")}
        row |= {"photos": len(images), "photos_val": len(val.images), "command": self.options.command}
        write_whole(kept, json.dumps(row | {"machine": machine_name(), "date": date.today().isoformat()}))
        print(json.dumps(row), flush=True)


def named(options: argparse.Namespace) -> str:
    """Return what the rows of a recipe on a device are called."""
    return f"{options.recipe}, {options.device}"


def labelled_from(images: TaggedImages, index: int, shown: dict[str, Any]) -> LabelledImage:
    """Return the boxes of an image that were written down."""
    boxes, classes = np.array(shown["boxes"]).reshape(-1, 4), np.array(shown["classes"], np.int64)
    name, path, none = images.names[index], images.paths[index], np.zeros(len(classes))
    return LabelledImage(name, path, *shown["size"], boxes, classes, none, images.labels[index], none > 0)


def corloc(best: Sequence[Any], images: TaggedImages, rows: Sequence[int], truth: Sequence[TrueBoxes]) -> float:
    """Return CorLoc of the best boxes (C, 4) of some of the images."""
    return corloc_report(np.stack(best), [truth[index] for index in rows], images.classes).mean


def collect(options: argparse.Namespace) -> None:
    """Write the CSV from what is finished, beside the rows of other recipes, and the curve."""
    parts = (options.out / options.recipe).glob("seed-*/*-*.json")
    rows = [json.loads(path.read_text()) for path in parts]
    rows.sort(key=lambda row: (row["reviewed"], row["order"], row["seed"]))
    if FILE.exists():
        with FILE.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["recipe"] != named(options)] + rows
    write_rows(FILE, rows)
    draw(PICTURE, rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbone")
    parser.add_argument("--weights")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--train", type=int, default=700)
    parser.add_argument("--val", type=int, default=500)
    parser.add_argument("--counts", default="0,25,50,100,200,500")
    parser.add_argument("--orders", default="random,ours")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--maps", type=Path, help="a folder for the maps of a backbone that is frozen")
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    asked = [f"--{key} {getattr(options, key)}" for key in ("recipe", "device", "backbone", "steps", "train", "val")]
    asked = [one for one in asked if not one.endswith(" None")] + [f"--set {one}" for one in options.set]
    options.command = f"python benchmarks/review_simulated.py VOC2007 --out FOLDER {' '.join(asked)}"
    if options.collect:
        return collect(options)
    if options.maps is not None:
        keep_maps(options.maps)
    trials = [Trial(options, seed) for seed in seed_numbers(options.seeds)]
    for trial in trials:
        trial.first()
    for count in map(int, options.counts.split(",")):
        for order in options.orders.split(",") if count else ("none",):
            for trial in trials:
                trial.measure(order, count)
    return None


if __name__ == "__main__":
    main()
