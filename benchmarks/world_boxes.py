"""Boxes on the synthetic world: the paper's, best-first, elected, refined; and how well wrong ones are recognised.

    python benchmarks/world_boxes.py [--seeds 0 1 2] [--out FOLDER] [--split test]

Trains three networks per seed on the tags of the ordinary world: with the paper's two heads, with a refinement, and in a
self-training round on the boxes of the latter. Measures on that world and on a crowded one, whose images show two to four objects
of one class. Finished runs and worlds in FOLDER are used again. Writes results/world_boxes.csv.
"""

import argparse
import csv
import dataclasses
from datetime import date
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from deep_patch_learning.common.boxes import area, box_iou
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.data.world import World, make_world
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.labels.select import looks_like_a_part
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_box_selection, recipe_patches
from deep_patch_learning.recipe.presets import refined_world, self_training_round, world
from deep_patch_learning.refinement.selection import agreement
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes

RESULTS = Path(__file__).parent.parent / "results"
FIGURES = ("mAP", "detection_mAP", "detection_mAP_11pt", "recall_at_80", "instance_recall", "CorLoc")
SECOND = self_training_round(refined_world()).replace(name="second-world")
# name, the network, how its boxes are selected
WAYS = (
    ("the paper's", world(), {"box_selection": "max", "boxes": "best-first"}),
    ("best-first", world(), {"boxes": "best-first"}),
    ("elected", world(), {}),
    ("refined", refined_world(), {}),
    ("self-training round", SECOND, {}),
)
HINTS = (
    "best_boxes",
    "wrong",
    "parts",
    "look_like_parts",
    "of_these_parts",
    "of_these_wrong",
    "AUC_agreement",
    "AUC_score",
)
CROWD = World(min_objects=2, max_objects=4, max_classes=1)


def trained(folder: Path, seed: int) -> tuple[Path, Path]:
    """Return the listings of both worlds, after training both networks on the first one."""
    ordinary = make_world(folder / "world", 600, 300, seed)
    for made in (world(), refined_world(), SECOND):
        recipe, run = made.replace(seed=seed), folder / f"run-{made.name}"
        ready = prepare(read_tags(ordinary, "train"), recipe_patches(recipe), folder / "patches")
        given = find_pseudo_boxes(
            ready, recipe, run, PseudoBoxSource([folder / "run-refined-world"], device="cpu", cache=folder / "patches")
        )
        train_prepared(ready, recipe, run, device="cpu", pseudo_boxes=given)
    return ordinary, make_world(folder / "crowd", 150, 300, seed + 100, CROWD)


def fewer(predictions: list[Prediction], most: int) -> list[Prediction]:
    """Return the predictions with the first `most` boxes of each class."""
    kept = []
    for one in predictions:
        rows = np.concatenate([np.flatnonzero(one.found_classes == c)[:most] for c in range(len(one.classes))])
        arrays = {name: getattr(one, name)[rows] for name in ("found_boxes", "found_classes", "found_scores")}
        kept.append(dataclasses.replace(one, **arrays))
    return kept


def recognised(model: Model, ready: Prepared, predictions: list[Prediction], truth: list[TrueBoxes]) -> dict:
    """Return how well right and wrong best boxes of tagged classes, and parts and wholes, are distinguished."""
    right, part, looks, agreed, scores = [], [], [], [], []
    for i, (found, true) in enumerate(zip(predictions, truth, strict=True)):
        patches = ready.patches[i].astype(np.float32)
        raw = model.scores([ImageInput(found.name, ready.images.read(i), patches)])[0].patches / len(model.scales)
        boxes, raw_scores = torch.from_numpy(patches), torch.from_numpy(raw)
        rows = model.settings.box_selection.rank_scores(boxes, raw_scores, 1).rows[:, :1]
        agrees = agreement(boxes, raw_scores, rows)[:, 0]
        for c in np.flatnonzero(ready.images.labels[i] == 1):
            box, own = patches[rows[c]].reshape(1, 4), found.found_classes == c
            on = true.boxes[true.classes == c]
            iou = box_iou(box, on)[0]
            held = iou / (1 + iou) * (area(box) + area(on)) / area(box)
            right.append(iou.max() >= 0.5)
            part.append(iou.max() < 0.5 and held.max() >= 0.8)
            looks.append(looks_like_a_part(box, found.found_boxes[own], found.found_scores[own])[0])
            agreed.append(float(agrees[c]))
            scores.append(float(found.found_scores[own].max()))
    part_, looks_ = np.array(part), np.array(looks)
    figures = (
        len(right),
        int(np.sum(~np.array(right))),
        int(part_.sum()),
        int(looks_.sum()),
        int((part_ & looks_).sum()),
        int((~np.array(right) & looks_).sum()),
        round(roc_auc_score(right, agreed), 3),
        round(roc_auc_score(right, scores), 3),
    )
    return dict(zip(HINTS, figures, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/world_boxes"))
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    machine = machine_name()
    about = {"command": "python benchmarks/world_boxes.py", "machine": machine, "date": date.today().isoformat()}
    rows = []
    for seed in options.seeds:
        listings = trained(options.out / f"w{seed}", seed)
        for name, listing in zip(("ordinary", "crowded"), listings, strict=True):
            for way, recipe, changes in WAYS:
                model = load(options.out / f"w{seed}" / f"run-{recipe.name}", "cpu")
                model = model.with_settings(box_selection=recipe_box_selection(recipe.replace(**changes)))
                tags = read_tags(listing, options.split, classes=model.classes)
                ready = prepare(tags, model.patch_generator, options.out / f"w{seed}" / "patches")
                truth = read_truth(listing, ready.images)
                assert truth is not None
                found = list(predict_prepared(model, ready, description=f"{name}, {way}"))
                row: dict = {"seed": seed, "world": name, "split": options.split, "boxes": way}
                measured = measure_predictions(found, ready.images.labels, truth)
                row |= {key: round(measured[key], 2) for key in FIGURES}
                for most in (1, 2, 3, 5):
                    few = measure_predictions(fewer(found, most), ready.images.labels, truth)
                    row[f"recall_of_{most}"] = round(few["instance_recall"], 2)
                row["boxes_per_class"] = round(np.mean([len(one.found_boxes) / len(one.classes) for one in found]), 1)
                # the hints use the scores of the discovery head, which refined boxes do not come from
                rows.append(
                    row
                    | (
                        dict.fromkeys(HINTS, "")
                        if "refinement" in recipe.model.heads
                        else recognised(model, ready, found, truth)
                    )
                    | about
                )
                print(rows[-1], flush=True)
    with (RESULTS / "world_boxes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
