"""`dpl calibrate`: probabilities and thresholds of a run, fitted to tags that it was not trained on."""

from pathlib import Path
from typing import Any, Unpack

from deep_patch_learning.commands.options import Work, check_options
from deep_patch_learning.common.errors import DplError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import TaggedImages, limited
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
    force: bool = False,
    **work: Unpack[Work],
) -> Calibration:
    """Return the calibration of a finished run, fitted to the tags of `data` and written into the run folder.

    The images must be others than the run was trained on, unless `force` is set. A calibration that was there before is
    replaced. For `work` see `Work`: limit, workers, device.
    """
    check_options(work, Work, "calibrate")
    folder, limit, device = RunFolder(run), work.get("limit"), work.get("device", "auto")
    images = limited(read_tags(Path(data), split, classes=folder.describe()["classes"]), limit)
    if not force:
        must_be_others(folder, images)
    prepared = prepare(images, recipe_patches(Recipe.load(folder.config)), workers=work.get("workers"))
    source = {"path": str(Path(data).resolve()), "split": split, "limit": limit}
    return calibrate_run(run, prepared, source, None if device == "auto" else device, force)


def must_be_others(run: RunFolder, images: TaggedImages) -> None:
    """Raise `RunError` if the run was trained on any of the images; its training set is read again from where it was."""
    about = run.describe()
    if not about.get("path"):
        return
    try:
        trained, _ = run.read_images()
    except DplError as error:
        said = f"{run.folder}: its training images cannot be read again, so that shared ones are not noticed ({error})"
        console.print(said, markup=False, soft_wrap=True, style="yellow")
        return
    known = {path.resolve() for path in trained.paths}
    shared = [path for path in images.paths if path.resolve() in known]
    if shared:
        raise RunError(
            f"{run.folder}: was trained on {len(shared)} of these {len(images)} images, such as {min(shared)}, and its scores on "
            "them are too high. Give others with --split, or insist with --force."
        )


def calibrate_run(
    folder: str | Path,
    held_out: Prepared,
    source: dict[str, Any] | None = None,
    device: str | None = None,
    force: bool = False,
) -> Calibration:
    """Return the calibration of a finished run, fitted on held-out images and written into its folder.

    `source` says in the file where the images come from. A calibration that was there before is replaced. With `force` they
    may be those that the run was trained on.
    """
    run = RunFolder(folder)
    if not force and run.describe()["fingerprint"] == fingerprint(held_out.images):
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
