"""`dpl calibrate`: probabilities and thresholds of a run, fitted to tags that it was not trained on."""

from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.inference.calibration import Calibration, calibrate_predictions, write_calibration
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder, fingerprint


def calibrate(
    run: str | Path,
    data: str | Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    device: str = "auto",
    workers: int | None = None,
) -> Calibration:
    """Return the calibration of a finished run, fitted to the tags of `data` and written into the run folder.

    The images must be others than the run was trained on. A calibration that was there before is replaced.
    """
    folder = RunFolder(run)
    images = limited(read_tags(Path(data), split, classes=folder.describe()["classes"]), limit)
    prepared = prepare(images, recipe_patches(Recipe.load(folder.config)), workers=workers)
    source = {"path": str(Path(data).resolve()), "split": split, "limit": limit}
    return calibrate_run(run, prepared, source, None if device == "auto" else device)


def calibrate_run(
    folder: str | Path, held_out: Prepared, source: dict[str, Any] | None = None, device: str | None = None
) -> Calibration:
    """Return the calibration of a finished run, fitted on held-out images and written into its folder.

    `source` says in the file where the images come from. A calibration that was there before is replaced.
    """
    run = RunFolder(folder)
    if run.describe()["fingerprint"] == fingerprint(held_out.images):
        raise RunError(f"{folder}: was trained on these very images. Give others with --split.")
    if not run.weights.exists():
        raise RunError(
            f"{folder}: is not finished, and its scores would still change. Repeat its dpl train command first."
        )
    predictions = list(predict_prepared(load(folder, device), held_out, description="calibrating"))
    found = calibrate_predictions(predictions, held_out.images.labels, held_out.images.classes)
    write_calibration(run.calibration, found, source or {})
    console.print(str(found), markup=False, soft_wrap=True)
    return found
