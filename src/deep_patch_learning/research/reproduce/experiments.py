"""Trains and measures the variants of a reproduction in run folders: each training and each measurement once."""

import gc
import json
import os
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

from deep_patch_learning.common.atomic_files import UnfitError, fitting, parsed, write_whole
from deep_patch_learning.common.devices import machine_name
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
from deep_patch_learning.research.reproduce.protocol import Protocol, Splits
from deep_patch_learning.research.reproduce.tables import Variant
from deep_patch_learning.runs.folder import RunFolder, fingerprint
from deep_patch_learning.training.fit import train_prepared


class ImageMemory:
    """Decoded images by path, up to `limit` bytes; the rest is decoded at each use."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = min(MOST_BYTES, _machine_memory() // 3) if limit is None else limit
        self.held = 0
        self._images: dict[Path, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> np.ndarray:
        """Return the image (H, W, 3) uint8 RGB of a file; it is shared: do not write to it."""
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


TIMED = 300  # images over which the time to make patches is averaged


@dataclass(frozen=True)
class Measured:
    """The figures of one run on one list of images, as `measure_predictions` gives them.

    `seconds` is the time of one image without making its patches, `patch_seconds` the time to make them on one core.
    """

    figures: dict[str, Any]
    images: int
    seconds: float
    patch_seconds: float
    machine: str
    date: str
    fingerprint: str


@dataclass
class Experiments:
    """What all trainings of a reproduction share: data, output folder, device, patches and true boxes."""

    protocol: Protocol
    out: Path
    device: str = "auto"
    limit: int | None = None
    workers: int | None = None
    memory: ImageMemory = field(default_factory=ImageMemory)
    _prepared: dict[tuple[str, str], Prepared] = field(default_factory=dict)
    _truth: dict[str, list[TrueBoxes] | None] = field(default_factory=dict)

    def folder(self, variant: Variant, seed: int, trained_on: str) -> Path:
        """Return the run folder of a training."""
        return self.group(variant.recipe) / f"{variant.run}_{trained_on}_seed{seed}"

    def group(self, recipe: Recipe) -> Path:
        """Return the folder of all runs with one backbone and one recipe."""
        return self.out / "runs" / re.sub(r"[^\w.-]+", "-", f"{recipe.model.backbone}-{recipe.name}")

    def prepared(self, split: str, recipe: Recipe) -> Prepared:
        """Return the images of a list with the patches of a recipe, prepared once per list and patch generator."""
        patches = recipe_patches(recipe)
        key = (split, patches.key())
        if key not in self._prepared:
            images = limited(read_tags(self.protocol.data, split), self.limit)
            self._prepared[key] = self.remembered(prepare(images, patches, workers=self.workers))
        return self._prepared[key]

    def remembered(self, made: Prepared) -> Prepared:
        """Return the same images, read through the shared memory."""
        tagged = made.images
        images = RememberedImages(tagged.classes, tagged.names, tagged.paths, tagged.labels, self.memory)
        return Prepared(images, made.patches, made.broken)

    def truth(self, split: str, prepared: Prepared) -> list[TrueBoxes] | None:
        """Return the true boxes of a list, read once."""
        key = f"{split} {fingerprint(prepared.images)}"
        if key not in self._truth:
            self._truth[key] = read_truth(self.protocol.data, prepared.images)
        return self._truth[key]

    def check(self, variant: Variant, seed: int, trained_on: str) -> None:
        """Raise `RunError` if the training's folder holds something else; nothing is written."""
        RunFolder(self.folder(variant, seed, trained_on)).check(variant.recipe.replace(seed=seed))

    def trained(self, variant: Variant, seed: int, trained_on: str) -> RunFolder:
        """Return the run folder of a training after finishing it: done before, resumed, or trained now."""
        run = RunFolder(self.folder(variant, seed, trained_on))
        recipe = variant.recipe.replace(seed=seed)
        prepared = self.prepared(trained_on, recipe)
        source = {"path": str(self.protocol.data.resolve()), "split": trained_on, "limit": self.limit}
        if run.weights.exists():
            run.begin(recipe, prepared.images, source)  # the same settings and data, or an error
            return run
        self.memory.fill(prepared.images.paths)
        title = f"{variant.name}, seed {seed}, on {trained_on}"
        trainer = train_prepared(prepared, recipe, run.folder, source, self.device, description=title)
        if trainer.step < recipe.total_steps:
            console.print(
                f"{run.folder}: stopped at step {trainer.step} of {recipe.total_steps}. Repeat the command to resume.",
                markup=False,
            )
            raise KeyboardInterrupt
        del trainer
        gc.collect()  # frees its network and optimiser on the device before the next training
        return run

    def measured(self, variant: Variant, seed: int, splits: Splits) -> Measured:
        """Return the figures of a training on a list of images: read from its run folder, or measured now and saved there."""
        run = self.trained(variant, seed, splits.trained_on)
        prepared = self.prepared(splits.measured_on, variant.recipe)
        kept = run.folder / f"measured_{splits.measured_on}.json"
        mark = fingerprint(prepared.images)
        before = read_measured(kept)
        if before is not None and before.fingerprint == mark:
            return before
        self.memory.fill(prepared.images.paths)
        title = f"{variant.name}, seed {seed}, on {splits.measured_on}"
        predictions, seconds = timed_predictions(self.model(run), prepared, title)
        figures = measure_predictions(predictions, prepared.images.labels, self.truth(splits.measured_on, prepared))
        found = Measured(
            figures=without_seen_tags(figures) if splits.seen else figures,
            images=len(prepared.images),
            seconds=seconds,
            patch_seconds=patch_seconds(prepared, variant.recipe),
            machine=machine_name(self.device),
            date=date.today().isoformat(),
            fingerprint=mark,
        )
        write_whole(kept, json.dumps(vars(found), indent=1))
        return found

    def model(self, run: RunFolder) -> Model:
        """Return the model of a finished training."""
        return load(run.folder, None if self.device == "auto" else self.device)


def read_measured(path: Path) -> Measured | None:
    """Return what was measured before, or None when there is no such file or it has other fields."""
    try:
        found = fitting(parsed(path.read_bytes()), dict[str, Any])
        return Measured(
            **{"images" if key == "pictures" else key: value for key, value in found.items()}
        )  # an older name
    except (FileNotFoundError, UnfitError, TypeError):
        return None


def timed_predictions(model: Model, prepared: Prepared, title: str) -> tuple[list[Any], float]:
    """Return the predictions, and the seconds per decoded image on a warm device."""
    first = Prepared(prepared.images.subset([0]), prepared.patches[:1], [])
    list(predict_prepared(model, first, description="warming up"))
    begun = time.perf_counter()
    predictions = list(predict_prepared(model, prepared, description=title))
    return predictions, (time.perf_counter() - begun) / len(predictions)


def without_seen_tags(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures without those of tags, which mean little on images that were trained on."""
    return {key: value for key, value in figures.items() if not key.startswith(("mAP", "AP"))}


def patch_seconds(prepared: Prepared, recipe: Recipe) -> float:
    """Return the seconds to make the patches of an image on one core, averaged over some images."""
    cache = PatchCache(None, recipe_patches(recipe))
    paths = prepared.images.paths
    return float(np.mean([cache.seconds_of(path) for path in paths[:: max(1, len(paths) // TIMED)]]))


MOST_BYTES = 12 << 30


@dataclass(frozen=True)
class RememberedImages(TaggedImages):
    """Tagged images, read through a shared memory."""

    memory: ImageMemory

    def read(self, index: int) -> np.ndarray:
        """Return image `index` as (H, W, 3) uint8 RGB, decoded now or before."""
        return self.memory(self.paths[index])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 8 << 30
