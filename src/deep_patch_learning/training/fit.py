"""One training from its first step, or where it stopped, to its last: trainer, run folder, forecast, progress bar."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.memory import keep_memory
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes, keep_pseudo_boxes, waiting
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training import forecast
from deep_patch_learning.training.early_stopping import HeldOut, TagMeasure
from deep_patch_learning.training.loop import Progress, Trainer, Writing
from deep_patch_learning.training.self_training import PseudoBoxTrainer


def train_prepared(
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
    given: Sequence[PseudoBoxes] | None = None,
) -> Trainer:
    """Return the trainer after its last step; a run that was begun in `out` goes on where it stopped.

    A `trainer` can be handed in, made with `RunFolder(out)` and the same recipe: that of a peer, for example.
    With `held_out` images weights that do well on their tags are kept, and training ends when those got clearly worse (see
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
        kind = Trainer if given is None else partial(PseudoBoxTrainer, given=given)
        trainer = kind(
            recipe, prepared.images, prepared.patches, run, device, writing, devices=devices, held_out=measured
        )
    if trainer.ranks.first:
        # after all that may fail, so that nothing half-made is left
        run.begin(recipe, prepared.images, source or {}, None if held_out is None else held_out.images)
        if given is not None:
            keep_pseudo_boxes(run.pseudo_boxes, waiting(out), prepared.images.names, prepared.images.classes, given)
    trainer.ranks.wait()
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
    return HeldOut(run, recipe.total_steps, TagMeasure(held_out.images, held_out.patches, recipe))
