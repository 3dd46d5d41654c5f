"""The verbs of the command line as functions: prepare, train, evaluate. Each command's body calls one or two of them."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.calibration import Calibration, calibrate_predictions, read_calibration, write_calibration
from deep_patch_learning.common.memory import keep_memory
from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.images import image_size
from deep_patch_learning.data.transforms import scaled_size
from deep_patch_learning.errors import DataError, RunError, did_you_mean
from deep_patch_learning.loading import load
from deep_patch_learning.patches import PatchCache, PatchGenerator
from deep_patch_learning.predict import Model, Picture
from deep_patch_learning.prediction import Prediction
from deep_patch_learning.progress import bar, console
from deep_patch_learning.tag_measure import TagMeasure
from deep_patch_learning.training import forecast
from deep_patch_learning.training.early_stop import HeldOut
from deep_patch_learning.training.given_boxes import GivenBoxes, GivenBoxesTrainer, keep_given, waiting
from deep_patch_learning.training.loop import Progress, Trainer, Writing
from deep_patch_learning.training.recipe import Recipe
from deep_patch_learning.training.run import RunFolder, fingerprint
from deep_patch_learning.training.visits import ahead

Truth = list[Any]  # of data.truth.TrueBoxes: named here without importing it, since training comes through this module


@dataclass(frozen=True)
class Prepared:
    """Pictures that can be read, with the patches of each, and the ones that were left out with the reason."""

    pictures: TaggedPictures
    patches: list[np.ndarray]
    broken: list[tuple[Path, str]]


def prepare(
    pictures: TaggedPictures, patches: PatchGenerator, cache: Path | None = None, workers: int | None = None
) -> Prepared:
    """Return the pictures with their patches, made now or found in the cache; broken pictures are named and left out."""
    store = PatchCache(cache, patches)
    with bar("patches") as show:
        report = store.fill(pictures.paths, workers, show)
    if report.broken:
        console.print(
            f"{len(report.broken)} of {len(pictures)} pictures cannot be read and are left out:", style="yellow"
        )
        for path, reason in report.broken[:10]:
            console.print(f"  {reason or path}", markup=False)
        if len(report.broken) > 10:
            console.print(f"  ... and {len(report.broken) - 10} more")
        unreadable = {path for path, _ in report.broken}
        pictures = pictures.subset([i for i, path in enumerate(pictures.paths) if path not in unreadable])
    if not len(pictures):
        raise DataError("none of the pictures can be read. Check the data set's images.")
    return Prepared(pictures, [store.patches_of(path) for path in pictures.paths], report.broken)


def train(
    prepared: Prepared,
    recipe: Recipe,
    out: str | Path,
    source: dict[str, Any] | None = None,
    device: str = "auto",
    writing: Writing | None = None,
    description: str = "training",
    trainer: Trainer | None = None,
    devices: int = 1,
    held_out: Prepared | None = None,
    given: Sequence[GivenBoxes] | None = None,
) -> Trainer:
    """Return the trainer after its last step; a run that was begun in `out` goes on where it stopped.

    A `trainer` can be handed in, made with `RunFolder(out)` and the same recipe: that of a peer, for example.
    With `held_out` pictures weights that do well on their tags are kept, and training ends when those got clearly worse (see
    `training.early_stop`); a trainer that is handed in sees to that itself.
    With `given` boxes (see `second_round`) a refinement learns from them; a recipe with `seeds="given"` needs them.
    The returned trainer is not `finished` when Ctrl-C ended it early; everything is saved then too.
    """
    keep_memory(training=True)
    run = RunFolder(out)
    if trainer is None:
        measured = None if held_out is None else _measured(held_out, recipe, run)
        if (recipe.seeds == "given") != (given is not None):
            raise RunError(
                f"recipe: seeds = '{recipe.seeds}' and boxes {'not ' if given is None else ''}given do not fit together."
            )
        kind = Trainer if given is None else partial(GivenBoxesTrainer, given=given)
        trainer = kind(
            recipe, prepared.pictures, prepared.patches, run, device, writing, devices=devices, held_out=measured
        )
    if trainer.team.first:
        # after all that may fail, so that nothing half-made is left
        run.begin(recipe, prepared.pictures, source or {}, None if held_out is None else held_out.pictures)
        if given is not None:
            keep_given(run.given_boxes, waiting(out), prepared.pictures.names, prepared.pictures.classes, given)
    trainer.team.wait()
    start = str(trainer.filled or "all layers start at random: give --weights for pretrained ones")
    console.print(start, markup=False, soft_wrap=True)
    begun = trainer.resume()
    if begun:
        console.print(f"{run.folder}: resumed at step {begun} of {recipe.total_steps}", markup=False)
    device_used = trainer.fabric.device
    expected = forecast.Forecast(forecast.clock_of(device_used))
    with bar(description) as show:

        def on_step(progress: Progress) -> None:
            show(progress.step, progress.total, "" if progress.loss is None else f"loss {progress.loss:.3f}")
            seconds = expected.after_step(progress.step, progress.total)
            if seconds is not None:
                words = forecast.in_words(seconds, forecast.memory_used(device_used), device_used.type == "cuda")
                console.print(f"{description}: {words}", markup=False)

        trainer.fit(on_step)
    return trainer


def _measured(held_out: Prepared, recipe: Recipe, run: RunFolder) -> HeldOut:
    return HeldOut(run, recipe.total_steps, TagMeasure(held_out.pictures, held_out.patches, recipe))


def finish_with_held_out(
    trainer: Trainer, held_out: Prepared, source: dict[str, Any], device: str | None = None
) -> dict[str, Any]:
    """Return which step's weights a finished training kept, and its calibration, which is made now unless it is there."""
    if trainer.held_out is None:
        raise ValueError("the training held nothing out")
    kept = trainer.held_out.kept
    ended = f"ended at step {trainer.step}: the mAP on held-out pictures fell clearly; " if trainer.ends_early else ""
    console.print(
        f"{ended}kept the weights of step {kept.step}, mAP {kept.mean_ap:.1f} on held-out pictures",
        markup=False,
        soft_wrap=True,
    )
    run = trainer.run
    found = read_calibration(run.calibration, held_out.pictures.classes)
    found = found or calibrate_run(run.folder, held_out, source, device)
    return {"kept_step": kept.step, "held_out_mAP": kept.mean_ap, "calibration": found.as_dict()}


def calibrate_run(
    folder: str | Path, held_out: Prepared, source: dict[str, Any] | None = None, device: str | None = None
) -> Calibration:
    """Return the calibration of a finished run, fitted on held-out pictures and written into its folder.

    `source` says in the file where the pictures come from. A calibration that was there before is replaced.
    """
    run = RunFolder(folder)
    if run.describe()["fingerprint"] == fingerprint(held_out.pictures):
        raise RunError(f"{folder}: was trained on these very pictures. Give others with --split.")
    if not run.weights.exists():
        raise RunError(f"{folder}: is not finished, and would change after it. Repeat its dpl train command first.")
    predictions = predict(load(folder, device), held_out, description="calibrating")
    found = calibrate_predictions(predictions, held_out.pictures.labels, held_out.pictures.classes)
    write_calibration(run.calibration, found, source or {})
    console.print(str(found), markup=False, soft_wrap=True)
    return found


def predict(
    model: Model, prepared: Prepared, images_per_pass: int | None = None, description: str = "predicting"
) -> list[Prediction]:
    """Return the prediction of each picture; without a number, four share a pass, and eight on a GPU."""
    pictures = prepared.pictures
    images_per_pass = images_per_pass or (8 if model.device.type == "cuda" else 4)
    # pictures of one size share a pass
    sizes = [scaled_size(*image_size(path), 1_000, model.shapes) for path in pictures.paths]
    order = sorted(range(len(pictures)), key=lambda i: (sizes[i], len(prepared.patches[i]), i))

    def read(index: int) -> Picture:
        return Picture(pictures.names[index], pictures.read(index), prepared.patches[index])

    threads = min(os.cpu_count() or 1, 8) if model.device.type == "cuda" else 0
    ready = ahead(read, order, depth=8 * images_per_pass, threads=threads)
    found: dict[int, Prediction] = {}
    with bar(description) as show:
        for index, prediction in zip(order, model.predict_pictures(ready, images_per_pass), strict=True):
            found[index] = dataclasses.replace(prediction, source=pictures.paths[index])
            show(len(found), len(pictures))
    return [found[index] for index in range(len(pictures))]


def measure(
    predictions: Sequence[Prediction],
    labels: np.ndarray,
    truth: Truth | None,
    strict: bool = False,
    difficult: bool = True,
) -> dict[str, Any]:
    """Return the figures of predictions: mAP from the tags and, where boxes are known, CorLoc and detection mAP."""
    from deep_patch_learning.evaluation import classification_report, corloc, detection_mean_ap, instance_recall

    classes = predictions[0].classes
    scores = np.stack([prediction.image_scores for prediction in predictions])
    figures: dict[str, Any] = {"pictures": len(predictions)}
    figures |= classification_report(scores, labels, classes).as_dict()
    boxes = [prediction.best_boxes for prediction in predictions if prediction.best_boxes is not None]
    if truth is None or not boxes:
        return figures
    best = np.stack(boxes)
    figures |= corloc(best, truth, classes, strict=strict, with_difficult=difficult).as_dict()
    figures |= detection_mean_ap(predictions, truth, classes, strict=strict).as_dict()
    figures |= instance_recall(predictions, truth, classes, strict=strict).as_dict()
    return figures


def limited(pictures: TaggedPictures, limit: int | None) -> TaggedPictures:
    """Return the first `limit` pictures, or all."""
    return pictures if limit is None else pictures.subset(range(min(limit, len(pictures))))


def image_files(places: Sequence[Path]) -> list[Path]:
    """Return the image files among `places` and in the folders among them, each once, in order."""
    from deep_patch_learning.data.images import IMAGE_SUFFIXES

    files: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
            if not inside:
                raise DataError(f"{place}: holds no images ({', '.join(sorted(IMAGE_SUFFIXES))}).")
            files += inside
        elif place.exists():
            files.append(place)
        else:
            beside = [p.name for p in place.parent.iterdir()] if place.parent.is_dir() else []
            hint = did_you_mean(place.name, beside) if beside else ""
            raise DataError(f"{place}: there is no such image or folder.{hint if 'Did you' in hint else ''}")
    return list(dict.fromkeys(files))
