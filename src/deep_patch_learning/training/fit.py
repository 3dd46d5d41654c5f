"""One training from its first step, or where it stopped, to its last: trainer, run folder, forecast, progress bar."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.common.memory import keep_memory
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training import forecast
from deep_patch_learning.training.loop import Progress, Trainer
from deep_patch_learning.training.process import TrainingOptions

if TYPE_CHECKING:
    from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes


class FitOptions(TypedDict, total=False):
    """What a training may have beside images, recipe, folder and device.

    `devices`: how many of them, 1 if not given. `held_out`: images whose tags choose the weights that are kept, and end the
    training when the mAP on them falls clearly (see `training.early_stopping`). `pseudo_boxes`: those that the refinement
    learns from, one entry an image (see `training.self_training`). `writing`: how often log and checkpoint are written.
    `description`: the words before the progress bar. `chain`: the forecast of several trainings, of which this is one.
    `trainer`: one made with `RunFolder(out)` and the same recipe, such as that of a peer; it takes care of its own held-out
    images.
    """

    devices: int
    held_out: Prepared | None
    pseudo_boxes: "Sequence[PseudoBoxes] | None"
    writing: TrainingOptions | None
    description: str
    chain: forecast.ChainForecast | None
    trainer: Trainer | None


def train_prepared(
    prepared: Prepared,
    recipe: Recipe,
    out: str | Path,
    source: dict[str, Any] | None = None,
    device: str = "auto",
    **options: Unpack[FitOptions],
) -> Trainer:
    """Return the trainer after its last step; a run that was begun in `out` resumes where it stopped.

    `source` says in the run folder where the images come from. The returned trainer is not `finished` when Ctrl-C ended it
    early; everything is saved then too.
    """
    unknown = options.keys() - FitOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"train_prepared() has no option {', '.join(sorted(unknown))}")
    keep_memory(training=True)
    trainer = options.get("trainer") or _trainer(prepared, recipe, RunFolder(out), device, options)
    _begin(trainer, prepared, source or {}, options)
    start = str(trainer.filled or "all layers start at random: give --weights for pretrained ones")
    console.print(start, markup=False, soft_wrap=True)
    begun = trainer.resume()
    if begun:
        console.print(f"{out}: resumed at step {begun} of {recipe.total_steps}", markup=False)
    _fit(trainer, options.get("description", "training"), options.get("chain"))
    return trainer


def _trainer(prepared: Prepared, recipe: Recipe, run: RunFolder, device: str, options: FitOptions) -> Trainer:
    """Return the trainer of a recipe: with pseudo boxes where they are given, with held-out images where there are any."""
    held_out, pseudo_boxes = options.get("held_out"), options.get("pseudo_boxes")
    if (recipe.refinement.seeds == "pseudo-boxes") != (pseudo_boxes is not None):
        raise SettingError(
            f"recipe: seeds = '{recipe.refinement.seeds}' and pseudo boxes "
            f"{'not ' if pseudo_boxes is None else ''}given do not fit together."
        )
    measured = None
    if held_out is not None:
        from deep_patch_learning.training.early_stopping import HeldOut, TagMeasure

        measured = HeldOut(run, recipe.total_steps, TagMeasure(held_out.images, held_out.patches, recipe))
    kind: Any = Trainer
    if pseudo_boxes is not None:
        from deep_patch_learning.training.self_training import PseudoBoxTrainer

        kind = partial(PseudoBoxTrainer, pseudo_boxes=pseudo_boxes)
    process = replace(options.get("writing") or TrainingOptions(), device=device, devices=options.get("devices", 1))
    return kind(recipe, prepared, run, process, held_out=measured)


def _begin(trainer: Trainer, prepared: Prepared, source: dict[str, Any], options: FitOptions) -> None:
    """Write the run folder's first files, on the first rank: after all that may fail, so that nothing half-made is left."""
    run, images = trainer.run, prepared.images
    held_out, pseudo_boxes = options.get("held_out"), options.get("pseudo_boxes")
    if trainer.ranks.first:
        run.begin(trainer.recipe, images, source, None if held_out is None else held_out.images)
        if pseudo_boxes is not None:
            from deep_patch_learning.refinement.pseudo_boxes import keep_pseudo_boxes, waiting

            keep_pseudo_boxes(run.pseudo_boxes, waiting(run.folder), images.names, images.classes, pseudo_boxes)
    trainer.ranks.wait()


def _fit(trainer: Trainer, description: str, chain: forecast.ChainForecast | None) -> None:
    """Train to the last step, with a progress bar and one line that says how long it will take, with what follows."""
    device = trainer.fabric.device
    chain = chain or forecast.ChainForecast(description)
    later_steps = chain.later_samples // trainer.recipe.optimiser.batch_images
    expected = forecast.Forecast(forecast.clock_of(device))
    with bar(description) as show:

        def on_step(progress: Progress) -> None:
            show(progress.step, progress.total, "" if progress.loss is None else f"loss {progress.loss:.3f}")
            seconds = expected.after_step(progress.step, progress.total + later_steps)
            if seconds is not None and not chain.said:
                words = forecast.in_words(seconds, forecast.memory_used(device), device.type == "cuda")
                console.print(f"{chain.name}: {words}", markup=False)
                chain.said = True

        trainer.fit(on_step)
