"""`dpl calibrate`: probabilities and thresholds of a run, fitted to tags that it was not trained on."""

from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.inference.calibration import (
    Calibration,
    calibrate_predictions,
    read_calibration,
    write_calibration,
)
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.runs.folder import RunFolder, fingerprint
from deep_patch_learning.training.loop import Trainer


def finish_with_held_out(
    trainer: Trainer, held_out: Prepared, source: dict[str, Any], device: str | None = None
) -> dict[str, Any]:
    """Return which step's weights a finished training kept, and its calibration, which is made now unless it is there."""
    if trainer.held_out is None:
        raise ValueError("the training held nothing out")
    kept = trainer.held_out.kept
    ended = f"ended at step {trainer.step}: the mAP on held-out images fell clearly; " if trainer.ends_early else ""
    console.print(
        f"{ended}kept the weights of step {kept.step}, mAP {kept.mean_ap:.1f} on held-out images",
        markup=False,
        soft_wrap=True,
    )
    run = trainer.run
    found = read_calibration(run.calibration, held_out.images.classes)
    found = found or calibrate_run(run.folder, held_out, source, device)
    return {"kept_step": kept.step, "held_out_mAP": kept.mean_ap, "calibration": found.as_dict()}


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
        raise RunError(f"{folder}: is not finished, and would change after it. Repeat its dpl train command first.")
    predictions = predict_prepared(load(folder, device), held_out, description="calibrating")
    found = calibrate_predictions(predictions, held_out.images.labels, held_out.images.classes)
    write_calibration(run.calibration, found, source or {})
    console.print(str(found), markup=False, soft_wrap=True)
    return found
