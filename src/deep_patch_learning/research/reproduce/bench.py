"""Trains a way in a run folder and measures it: each training once, each measurement once, whoever asks again."""

import gc
import json
import os
import platform
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import TaggedImages, limited
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce.plan import Protocol, Splits, Way
from deep_patch_learning.runs.folder import RunFolder, fingerprint
from deep_patch_learning.training.fit import train_prepared


class ImageMemory:
    """Decoded images by path, kept until `limit` bytes are held; the rest is decoded at each use."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = min(MOST_BYTES, _machine_memory() // 3) if limit is None else limit
        self.held = 0
        self._images: dict[Path, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> np.ndarray:
        """Return the image (H, W, 3) uint8 RGB of a file; it is shared, and so not to be written to."""
        image = self._images.get(path)
        if image is not None:
            return image
        image = read_image(path)
        with self._lock:
            if path not in self._images and self.held + image.nbytes <= self.limit:
                self._images[path] = image
                self.held += image.nbytes
        return self._images.get(path, image)

    def fill(self, paths: Sequence[Path]) -> None:
        """Decode the images now, on all cores, until the memory is full."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(self._fill_one, paths))

    def _fill_one(self, path: Path) -> None:
        if self.held < self.limit:
            self(path)


TIMED = 300  # images whose patches' seconds are averaged


@dataclass(frozen=True)
class Measured:
    """What one run gave on one list of images; `figures` is what `measure` says of it.

    `seconds` is the time of one image with its patches at hand, `patch_seconds` that of making them on one core.
    """

    figures: dict[str, Any]
    images: int
    seconds: float
    patch_seconds: float
    machine: str
    date: str
    fingerprint: str


@dataclass
class Bench:
    """The data, the output folder and the device that all trainings of a reproduction share."""

    protocol: Protocol
    out: Path
    device: str = "auto"
    limit: int | None = None
    workers: int | None = None
    memory: ImageMemory = field(default_factory=ImageMemory)
    _prepared: dict[tuple[str, str], Prepared] = field(default_factory=dict)
    _truth: dict[str, list[TrueBoxes] | None] = field(default_factory=dict)

    def folder(self, way: Way, seed: int, trained_on: str) -> Path:
        """Return the run folder of a training."""
        return self.group(way.recipe) / f"{way.run}_{trained_on}_seed{seed}"

    def group(self, recipe: Recipe) -> Path:
        """Return the folder of all runs with one backbone and one recipe."""
        return self.out / "runs" / re.sub(r"[^\w.-]+", "-", f"{recipe.backbone}-{recipe.name}")

    def prepared(self, split: str, recipe: Recipe) -> Prepared:
        """Return the images of a list with the patches of a recipe, prepared once for each list and method."""
        patches = recipe_patches(recipe)
        key = (split, patches.key())
        if key not in self._prepared:
            images = limited(read_tags(self.protocol.data, split), self.limit)
            self._prepared[key] = self.remembered(prepare(images, patches, workers=self.workers))
        return self._prepared[key]

    def remembered(self, made: Prepared) -> Prepared:
        """Return prepared images that are read through the shared memory."""
        tagged = made.images
        images = RememberedImages(tagged.classes, tagged.names, tagged.paths, tagged.labels, self.memory)
        return Prepared(images, made.patches, made.broken)

    def truth(self, split: str, prepared: Prepared) -> list[TrueBoxes] | None:
        """Return the true boxes of the images of a list, read once."""
        key = f"{split} {fingerprint(prepared.images)}"
        if key not in self._truth:
            self._truth[key] = read_truth(self.protocol.data, prepared.images)
        return self._truth[key]

    def check(self, way: Way, seed: int, trained_on: str) -> None:
        """Raise `RunError` if the training's folder holds something else; nothing is written."""
        RunFolder(self.folder(way, seed, trained_on)).check(way.recipe.replace(seed=seed))

    def trained(self, way: Way, seed: int, trained_on: str) -> RunFolder:
        """Return the run folder of a finished training: found so, gone on with, or made now."""
        run = RunFolder(self.folder(way, seed, trained_on))
        recipe = way.recipe.replace(seed=seed)
        prepared = self.prepared(trained_on, recipe)
        source = {"path": str(self.protocol.data.resolve()), "split": trained_on, "limit": self.limit}
        if run.weights.exists():
            run.begin(recipe, prepared.images, source)  # the same settings and data, or an error
            return run
        self.memory.fill(prepared.images.paths)
        said = f"{way.name}, seed {seed}, on {trained_on}"
        trainer = train_prepared(prepared, recipe, run.folder, source, self.device, description=said)
        if trainer.step < recipe.total_steps:
            console.print(
                f"{run.folder}: stopped at step {trainer.step} of {recipe.total_steps}. Repeat the command to go on.",
                markup=False,
            )
            raise KeyboardInterrupt
        del trainer
        gc.collect()  # its optimiser and network leave the device before the next one comes
        return run

    def measured(self, way: Way, seed: int, splits: Splits) -> Measured:
        """Return what a training gives on a list of images: read from its run folder, or measured now and kept there."""
        run = self.trained(way, seed, splits.trained_on)
        prepared = self.prepared(splits.measured_on, way.recipe)
        kept = run.folder / f"measured_{splits.measured_on}.json"
        mark = fingerprint(prepared.images)
        before = read_measured(kept)
        if before is not None and before.fingerprint == mark:
            return before
        self.memory.fill(prepared.images.paths)
        said = f"{way.name}, seed {seed}, on {splits.measured_on}"
        predictions, seconds = timed_predictions(self.model(run), prepared, said)
        figures = measure_predictions(predictions, prepared.images.labels, self.truth(splits.measured_on, prepared))
        found = Measured(
            figures=without_seen_tags(figures) if splits.seen else figures,
            images=len(prepared.images),
            seconds=seconds,
            patch_seconds=patch_seconds(prepared, way.recipe),
            machine=machine(self.device),
            date=date.today().isoformat(),
            fingerprint=mark,
        )
        write_whole(kept, json.dumps(vars(found), indent=1))
        return found

    def model(self, run: RunFolder) -> Model:
        """Return the model of a finished training."""
        return load(run.folder, None if self.device == "auto" else self.device)


def read_measured(path: Path) -> Measured | None:
    """Return what was measured before, or None when there is nothing, or nothing that this version wrote."""
    try:
        return Measured(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def timed_predictions(model: Model, prepared: Prepared, said: str) -> tuple[list[Any], float]:
    """Return the predictions, and the seconds per image once the device is warm and the image decoded."""
    first = Prepared(prepared.images.subset([0]), prepared.patches[:1], [])
    predict_prepared(model, first, description="warming up")
    begun = time.perf_counter()
    predictions = predict_prepared(model, prepared, description=said)
    return predictions, (time.perf_counter() - begun) / len(predictions)


def without_seen_tags(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures without those of tags, which say little on images whose tags were trained on."""
    return {key: value for key, value in figures.items() if not key.startswith(("mAP", "AP"))}


def patch_seconds(prepared: Prepared, recipe: Recipe) -> float:
    """Return the seconds that the patches of an image took on one core, as the mean over some images."""
    cache = PatchCache(None, recipe_patches(recipe))
    paths = prepared.images.paths
    return float(np.mean([cache.seconds_of(path) for path in paths[:: max(1, len(paths) // TIMED)]]))


def training_time(log: Sequence[dict[str, Any]]) -> tuple[float, float | None]:
    """Return the seconds that a training took and its samples per second, from its log.

    A run that was resumed has several clocks, each from 0; their times are added up. The speed leaves out the first entry of
    each clock, in which the device warms up, unless there is no other.
    """
    seconds, steady_seconds, steady_samples = 0.0, 0.0, 0
    before: dict[str, Any] | None = None
    for entry in log:
        goes_on = before is not None and entry["seconds"] >= before["seconds"]
        took = entry["seconds"] - (before["seconds"] if before is not None and goes_on else 0.0)
        seconds += took
        if before is not None and goes_on:
            steady_seconds += took
            steady_samples += entry["samples"] - before["samples"]
        before = entry
    if not steady_seconds and log and log[0]["seconds"]:
        return seconds, log[0]["samples"] / log[0]["seconds"]
    return seconds, steady_samples / steady_seconds if steady_seconds else None


def machine(device: str) -> str:
    """Return the machine in words: its processor, the cores that may be used, and the GPU when that is what works."""
    import torch

    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    said = f"{platform.machine()}, {cores} cores"
    return f"{said}, {torch.cuda.get_device_name()}" if usable_device(device) == "cuda" else said


MOST_BYTES = 12 << 30


@dataclass(frozen=True)
class RememberedImages(TaggedImages):
    """Images with tags that are read through a shared memory."""

    memory: ImageMemory

    def read(self, index: int) -> np.ndarray:
        """Return image `index` as (H, W, 3) uint8 RGB, decoded now or before."""
        return self.memory(self.paths[index])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not told on this system
        return 8 << 30
