"""What each part beyond the paper adds on VOC 2007, to tags and to boxes.

    python benchmarks/voc_parts.py VOC2007 --weights resnet50_imagenet.safetensors --out parts [--rows NAME,...] [--seeds 0,1,2]
    python benchmarks/voc_parts.py VOC2007 --weights resnet50_imagenet.safetensors --out parts --collect

Each row is trained on the tags of --split and measured on --test-split at one scale. Several processes may work on different
rows in one folder; finished parts are not repeated. `--collect` writes results/voc2007_parts.csv from what is finished.
"""

import argparse
import json
import re
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.choose import seed_numbers
from deep_patch_learning.recipe.presets import modern
from deep_patch_learning.refinement.pseudo_boxes import waiting
from deep_patch_learning.runs.folder import RunFolder, training_time
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes
from rows import RESULTS, write_rows

FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP", "detection_mAP_11pt", "recall_at_80")
SPEEDS = ("training_seconds", "samples_per_second", "test_images_per_second")
SCALES, TEST_SCALES = (480, 600, 720), (600,)


@dataclass(frozen=True)
class Row:
    """A row of the table: its changes to `modern`, the rows whose boxes it learns from, and the scales those are found at.

    `times` multiplies the steps. With `of_seeds` its teachers are the runs of those seeds, not only of its own.
    """

    changes: dict[str, Any] = field(default_factory=dict)
    boxes_from: tuple[str, ...] = ()
    times: int = 1
    found_at: tuple[int, ...] = (600,)
    of_seeds: tuple[int, ...] = ()


REFINED = {"heads": ALL_HEADS, "patches_per_sample": 256, "vote_sharpness": 8.0, "area_power": 0.0}
VOTED = REFINED | {"seeds": "vote"}
MOVED = VOTED | {"regression": True}
PLACED = MOVED | {"refinement_cells": 2}
SECOND = PLACED | {"seeds": "pseudo-boxes", "refinements": 1, "seeds_per_class": 1}
ROWS = {
    "two heads": Row(),
    "one refinement": Row(REFINED | {"refinements": 1}),
    "three refinements": Row(REFINED),
    "several seeds": Row(REFINED | {"seeds": "several"}),
    "seeds by vote": Row(VOTED),
    "boxes moved": Row(MOVED),
    "places told apart": Row(PLACED),
    "near patches": Row(PLACED | {"near": True}),
    "self-training round": Row(SECOND, ("two heads",), found_at=SCALES),
    "self-training round of refined": Row(SECOND, ("places told apart",), found_at=SCALES),
    "self-training round of both": Row(SECOND, ("places told apart", "near patches")),
    "long self-training round of both": Row(SECOND, ("places told apart", "near patches"), 2),
    "long third round": Row(SECOND, ("long self-training round of both",), 2),
    "fourth round of three": Row(SECOND, ("long third round",), 2, of_seeds=(0, 1, 2)),
}


def recipe_of(row: Row, options: argparse.Namespace, seed: int) -> Any:
    """Return the recipe of a row."""
    changes = dict(row.changes)
    backbone = options.backbone + ("-near" if changes.pop("near", False) else "")
    weights = str(Path(options.weights).resolve())
    return modern(backbone, options.steps * row.times).replace(weights=weights, scales=SCALES, seed=seed, **changes)


def folder_name(name: str) -> str:
    """Return a row's name as that of a folder."""
    return re.sub(r"[^a-z]+", "-", name).strip("-")


def folder_of(name: str, options: argparse.Namespace, seed: int) -> Path:
    """Return the run folder of a row."""
    return options.out / f"{folder_name(name)}-{options.split}-{seed}"


def has_boxes(folder: Path) -> bool:
    """Return whether the boxes that a row learns from are there."""
    return RunFolder(folder).pseudo_boxes.exists() or waiting(folder).exists()


def train_row(name: str, options: argparse.Namespace, seed: int) -> None:
    """Train a row unless it is finished; the rows whose boxes it learns from come first, unless those are there."""
    row, folder = ROWS[name], folder_of(name, options, seed)
    if RunFolder(folder).weights.exists():
        return
    teachers = (
        [] if has_boxes(folder) else [(teacher, own) for teacher in row.boxes_from for own in row.of_seeds or (seed,)]
    )
    for teacher, its_seed in teachers:
        train_row(teacher, options, its_seed)
    recipe = recipe_of(row, options, seed)
    training = prepared(options, options.split, recipe)
    asked = [folder_of(teacher, options, its_seed) for teacher, its_seed in teachers]
    given = find_pseudo_boxes(
        training, recipe, folder, PseudoBoxSource(asked, device=options.device, scales=row.found_at)
    )
    trainer = train_prepared(
        training, recipe, folder, device=options.device, pseudo_boxes=given, description=f"{name}, {seed}"
    )
    if not trainer.finished:
        raise KeyboardInterrupt


def measure_row(name: str, options: argparse.Namespace, seed: int) -> None:
    """Train and measure a row unless it is finished."""
    row, folder = ROWS[name], folder_of(name, options, seed)
    kept = folder / "measured.json"
    if kept.exists():
        return
    train_row(name, options, seed)
    torch.cuda.empty_cache()
    recipe = recipe_of(row, options, seed)
    testing = prepared(options, options.test_split, recipe)
    model = load(folder, options.device if options.device != "auto" else None, scales=TEST_SCALES)
    began = time.perf_counter()
    found = list(predict_prepared(model, testing, description=f"{name}, {seed}"))
    spent = time.perf_counter() - began
    figures = measure_predictions(found, testing.images.labels, read_truth(options.data, testing.images))
    seconds, speed = training_time(RunFolder(folder).read_log())
    result = {key: round(figures[key], 2) for key in FIGURES}
    if options.split == options.test_split or options.split == "trainval":
        result |= {"mAP": "", "mAP_11pt": ""}  # of tags that were trained on
    result |= {"samples": recipe.optimiser.steps * recipe.optimiser.batch_images, "training_seconds": round(seconds, 1)}
    result |= {"samples_per_second": round(speed or 0, 1), "test_images_per_second": round(len(found) / spent, 1)}
    result |= {"boxes_found_at": " ".join(map(str, row.found_at)) if row.boxes_from else ""}
    result |= {"CorLoc_per_class": figures["CorLoc_per_class"], "machine": machine_name(options.device)}
    write_whole(kept, json.dumps(result | {"date": date.today().isoformat()}))
    print(name, seed, {key: result[key] for key in FIGURES}, flush=True)


def prepared(options: argparse.Namespace, split: str, recipe: Any) -> Prepared:
    """Return the images of a list with their patches."""
    return prepare(limited(read_tags(options.data, split), options.limit), recipe_patches(recipe))


def collect(options: argparse.Namespace) -> None:
    """Write every finished measurement, of all splits and seeds."""
    rows = []
    for name in ROWS:
        places = sorted(options.out.glob(f"{folder_name(name)}-train*-*/measured.json"))
        for place in places:
            _, split, seed = place.parent.name.rsplit("-", 2)
            found = json.loads(place.read_text())
            for left_out in ("CorLoc_per_class", *SPEEDS):  # rows are trained in parallel, which distorts their speeds
                found.pop(left_out)
            tested = "val" if split == "train" else split
            about = {"row": name, "seed": int(seed), "trained_on": split, "measured_on": tested}
            options_of = f'--rows "{name}" --seeds {seed} --split {split} --test-split {tested}'
            command = f"python benchmarks/voc_parts.py {options.data.name} --weights FILE --out FOLDER {options_of}"
            rows.append(about | {"boxes_found_at": ""} | found | {"backbone": options.backbone, "command": command})
    write_rows(RESULTS / "voc2007_parts.csv", rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--backbone", default="resnet50-v1")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--split", default="train")
    parser.add_argument("--test-split", default="val")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    seeds = seed_numbers(options.seeds)
    if options.collect:
        collect(options)
        return
    for name in options.rows.split(","):
        for seed in seeds:
            measure_row(name.strip(), options, seed)


if __name__ == "__main__":
    main()
