"""The exported ONNX files beside torch on the same photos: differences, size, time in turns in one run; accuracy on VOC 2007 val.

    python benchmarks/onnx_speed.py VOC2007 [--model RUN] [--count 100] [--threads 2] [--accuracy 500]

Patches are made once and shared. Each photo passes torch, ONNX and ONNX with 8-bit weights in turns, in an order that rotates;
the ratio is that of the medians. From pixels and patches to boxes. `--accuracy` takes so many images, spread evenly over val
(its sorted list), for mAP and CorLoc; 0 leaves them out. Writes results/onnx.csv.
"""

import argparse
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import deep_patch_learning as dpl
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare
from rows import RESULTS, write_rows

WARM = 3  # photos that are not counted: compilation and allocation
TORCH = "torch"


def differences(found: Prediction, wanted: Prediction) -> dict[str, float]:
    """Return the largest differences of one photo: of tag probabilities, of scores of best boxes, and of their corners."""
    assert found.best_boxes is not None
    assert wanted.best_boxes is not None
    return {
        "tags": float(np.abs(found.probabilities - wanted.probabilities).max()),
        "scores": float(np.abs(found.best_scores - wanted.best_scores).max()),
        "pixels": float(np.abs(found.best_boxes - wanted.best_boxes).max()),
        "others": float([box.tag for box in found.boxes] != [box.tag for box in wanted.boxes]),
    }


def beside(models: dict[str, Any], photos: list[Path]) -> dict[str, dict[str, float]]:
    """Return for each model the median seconds per photo, and the largest differences from torch."""
    spent: dict[str, list[float]] = {name: [] for name in models}
    worst: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for number, photo in enumerate(photos):
        image = models[TORCH].read(photo)
        found = {}
        for turn in range(len(models)):
            name = list(models)[(turn + number) % len(models)]
            began = time.perf_counter()
            (found[name],) = models[name].finish([image], models[name].begin([image]))
            if number >= WARM:
                spent[name].append(time.perf_counter() - began)
        for name, one in found.items():
            worst[name].append(differences(one, found[TORCH]))
    return {
        name: {
            "seconds": median(spent[name]),
            **{key: max(one[key] for one in worst[name]) for key in ("tags", "scores", "pixels")},
            "photos_with_other_boxes": sum(one["others"] for one in worst[name]),
        }
        for name in models
    }


def accuracy(model: Any, prepared: Any, truth: Any) -> dict[str, float]:
    """Return mAP and CorLoc of a model on prepared images."""
    found = list(predict_prepared(model, prepared))
    figures = measure_predictions(found, prepared.images.labels, truth)
    return {key: round(figures[key], 2) for key in ("mAP", "CorLoc", "detection_mAP")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("voc", type=Path, help="the folder VOC2007")
    parser.add_argument("--model", type=Path, help="a run; the shipped model if not given")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--accuracy", type=int, default=500, help="images of val; 0: none")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    photos = sorted((given.voc / "JPEGImages").glob("*.jpg"))[: given.count + WARM]
    with tempfile.TemporaryDirectory() as scratch:
        files = dict(
            zip(("ONNX", "ONNX, 8-bit weights"), dpl.export(given.model, out=Path(scratch, "m.onnx")), strict=True)
        )
        sizes = {name: file.stat().st_size / 1e6 for name, file in files.items()}
        models = {
            TORCH: dpl.load(given.model, "cpu"),
            **{name: single(file, given.threads) for name, file in files.items()},
        }
        measured = beside(models, photos)
        figures: dict[str, dict[str, float]] = {}
        if given.accuracy:
            images = dpl.read_tags(given.voc, "val", classes=models[TORCH].classes)
            step = max(len(images) // given.accuracy, 1)
            images = images.subset(range(0, step * given.accuracy, step)[: given.accuracy])
            prepared = prepare(images, models[TORCH].patch_generator)
            truth = read_truth(given.voc, prepared.images)
            figures = {name: accuracy(model, prepared, truth) for name, model in models.items()}
    command = f"python benchmarks/onnx_speed.py {given.voc.name} --count {given.count} --threads {given.threads}"
    command += f" --accuracy {given.accuracy}" + (f" --model {given.model.name}" if given.model else "")
    about = {
        "command": command,
        "images": given.count,
        "seed": 0,
        "machine": machine_name(),
        "date": date.today().isoformat(),
    }
    rows = []
    for name, one in measured.items():
        row: dict[str, Any] = {"runtime": name, "megabytes": round(sizes[name], 1) if name in sizes else ""}
        row["seconds"] = round(one["seconds"], 4)
        row["time_ratio"] = round(one["seconds"] / measured[TORCH]["seconds"], 2)
        for key in ("tags", "scores", "pixels"):
            row[f"largest_{key}"] = "" if name == TORCH else f"{one[key]:.2g}"
        row["photos_with_other_boxes"] = "" if name == TORCH else int(one["photos_with_other_boxes"])
        row |= {"val_images": given.accuracy, **figures.get(name, {})}
        rows.append(row | about)
        print(rows[-1])
    write_rows(RESULTS / "onnx.csv", rows)


def single(file: Path, threads: int) -> Any:
    """Return the model of an ONNX file, its one image at a time on all threads, as torch's is here."""
    from deep_patch_learning.inference.exported import onnx_runtime

    model = dpl.load(file)
    model.network._session = onnx_runtime.session_of(file, threads)
    return model


if __name__ == "__main__":
    main()
