"""One training, from its first step or where it stopped to its last: trainer, run folder, progress bar, forecast."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import torch

from deep_patch_learning.common.devices import keep_memory
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Progress, Trainer
from deep_patch_learning.training.process import TrainingOptions

if TYPE_CHECKING:
    from deep_patch_learning.data.dataset import TaggedImages
    from deep_patch_learning.data.reviewed import ReviewedImage
    from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes

# the memory of a training on the CPU, images apart, as a ratio to that of its first steps: oneDNN's and the allocator's caches
# meet new sizes of images for some hundred steps (1.0 to 1.2 in benchmarks/reliability/load.py)
SETTLED = 1.1
WARMING_UP = 3  # steps in which a device chooses its kernels and images are decoded for the first time
TIMED = 7  # steps after them


@dataclass
class ChainForecast:
    """The time of several trainings in a row, said once: `later_samples` are those that follow the one in progress."""

    name: str
    later_samples: int = 0
    said: bool = False


class Forecast:
    """Called after every step, it returns once, after `WARMING_UP` + `TIMED` of them, the seconds that are left.

    Steps differ, since their scale is drawn, so that the figure is rough. Measurements on held-out images come on top of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps = 0
        self._warm = 0.0

    def after_step(self, step: int, total: int) -> float | None:
        """Return the seconds that are left after step `step` of `total`, or None where it is not the time to say so."""
        self._steps += 1
        if self._steps == WARMING_UP:
            self._warm = self._clock()
        if self._steps != WARMING_UP + TIMED or step >= total:
            return None
        return seconds_left(self._clock() - self._warm, TIMED, total - step)


def clock_of(device: torch.device) -> Callable[[], float]:
    """Return a clock that first waits until a GPU has finished its queue."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.monotonic()

    return now


def seconds_left(seconds: float, steps: int, steps_left: int) -> float:
    """Return how long `steps_left` steps take where `steps` took `seconds`."""
    return seconds / steps * steps_left


def in_words(seconds: float, memory: int | None, on_gpu: bool) -> str:
    """Return the forecast in one line; `memory` is in bytes, None where the system does not say."""
    said = f"about {time_in_words(seconds)} to go"
    if memory is None:
        return said
    whose = "the GPU's memory" if on_gpu else "memory"
    return f"{said}, {memory / 2**30:.1f} GiB of {whose}"


def time_in_words(seconds: float) -> str:
    """Return a time as people say it: in seconds up to a minute and a half, in minutes up to an hour and a half, in hours."""
    if seconds < 90:
        count, unit = f"{max(round(seconds), 1)}", "second"
    elif seconds < 90 * 60:
        count, unit = f"{round(seconds / 60)}", "minute"
    else:
        count, unit = f"{seconds / 3600:.1f}", "hour"
    return f"{count} {unit}" + ("" if count == "1" else "s")


def memory_used(device: torch.device) -> int | None:
    """Return the most bytes that this process has held so far: on the GPU, or on other devices in the machine's memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource
    except ImportError:  # not on this system
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # elsewhere in KiB


def memory_expected(trainer: Trainer) -> int | None:
    """Return the most bytes that a training that has begun is expected to hold: images are decoded at their first use."""
    so_far = memory_used(trainer.fabric.device)
    if so_far is None:
        return None
    if trainer.fabric.device.type == "cpu":
        so_far = round(so_far * SETTLED)
    samples = trainer.recipe.total_steps * trainer.recipe.optimiser.batch_images
    return so_far + trainer.images.expected_growth(samples)


class FitOptions(TypedDict, total=False):
    """What a training may have beside images, recipe, folder and device.

    `devices`: how many of them, 1 if not given. `held_out`: images whose tags choose the weights that are kept, and end the
    training when the mAP on them falls clearly (see `training.early_stopping`). `pseudo_boxes`: those that the refinement
    learns from, one entry an image (see `training.self_training`). `reviewed`: what people said about boxes, by the images'
    names (see `training.reviewed`). `writing`: how often log and checkpoint are written.
    `description`: the words before the progress bar. `chain`: the forecast of several trainings, of which this is one.
    `trainer`: one made with `RunFolder(out)` and the same recipe, such as that of a peer; it takes care of its own held-out
    images.
    """

    devices: int
    held_out: Prepared | None
    pseudo_boxes: "Sequence[PseudoBoxes] | None"
    reviewed: "Mapping[str, ReviewedImage] | None"
    writing: TrainingOptions | None
    description: str
    chain: ChainForecast | None
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
    # before anything is written: what another process trains there is not touched
    with trainer.run.locked() if trainer.ranks.first else nullcontext():
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
    held_out, pseudo_boxes, reviewed = (options.get("held_out"), options.get("pseudo_boxes"), options.get("reviewed"))
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
    if reviewed:
        from deep_patch_learning.training.reviewed import ReviewedTrainer, shown_images

        if pseudo_boxes is not None:  # which have the exact boxes among them
            kind = partial(kind, shown=shown_images(prepared.images, reviewed))
        else:
            kind = partial(ReviewedTrainer, reviewed=reviewed)
    process = replace(options.get("writing") or TrainingOptions(), device=device, devices=options.get("devices", 1))
    return kind(recipe, prepared, run, process, held_out=measured)


def _begin(trainer: Trainer, prepared: Prepared, source: dict[str, Any], options: FitOptions) -> None:
    """Write the run folder's first files, on the first rank: after all that may fail, so that nothing half-made is left."""
    run, images = trainer.run, prepared.images
    held_out, pseudo_boxes = options.get("held_out"), options.get("pseudo_boxes")
    if trainer.ranks.first:
        lines = _reviewed_lines(options, images)
        run.begin(trainer.recipe, images, source, None if held_out is None else held_out.images, lines)
        if pseudo_boxes is not None:
            from deep_patch_learning.refinement.pseudo_boxes import keep_pseudo_boxes, waiting

            keep_pseudo_boxes(run.pseudo_boxes, waiting(run.folder), images.names, images.classes, pseudo_boxes)
    trainer.ranks.wait()


def _reviewed_lines(options: FitOptions, images: "TaggedImages") -> str:
    reviewed = options.get("reviewed")
    if not reviewed:
        return ""
    from deep_patch_learning.data.reviewed import as_lines

    return as_lines(reviewed, images.classes)


def _fit(trainer: Trainer, description: str, chain: ChainForecast | None) -> None:
    """Train to the last step, with a progress bar and one line that says how long it will take, with what follows."""
    device = trainer.fabric.device
    chain = chain or ChainForecast(description)
    later_steps = chain.later_samples // trainer.recipe.optimiser.batch_images
    expected = Forecast(clock_of(device))
    with bar(description) as show:

        def on_step(progress: Progress) -> None:
            show(progress.step, progress.total, "" if progress.loss is None else f"loss {progress.loss:.3f}")
            seconds = expected.after_step(progress.step, progress.total + later_steps)
            if seconds is not None and not chain.said:
                words = in_words(seconds, memory_expected(trainer), device.type == "cuda")
                console.print(f"{chain.name}: {words}", markup=False)
                chain.said = True

        trainer.fit(on_step)
