"""`dpl train`: tags in, a run folder out; the same call again resumes. True boxes are never read."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_patch_learning.common.devices import check_device_count, usable_device
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.checks.names import names_written_twice
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.holdout import read_apart
from deep_patch_learning.model.backbones.registry import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.generator import in_full
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.choose import AskedRecipe, ask, default_recipe
from deep_patch_learning.recipe.presets import SELF_TRAINING_ROUND
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared

if TYPE_CHECKING:
    from deep_patch_learning.data.reviewed import ReviewedImage
    from deep_patch_learning.inference.model import Model
    from deep_patch_learning.training.patch_layers import PatchLayers


@dataclass(frozen=True)
class Distillation:
    """Patch layers filled from a classifier before the training, in the folder OUT-patch-layers.

    `teacher` is imagenet, a torchvision name, or a file with its fc; `backbone` the teacher's network.
    """

    teacher: str = "imagenet"
    backbone: str = "resnet50"
    steps: int | None = None


@dataclass(frozen=True)
class TrainOptions:
    """What `train` takes beside settings of the recipe.

    `limit`: only the first images. `workers`: cores that make patches, all if not given. `devices`: how many GPUs share every
    step. `pseudo_boxes_from`: finished runs whose boxes on these images the refinement learns from (a self-training round);
    several agree on them. `distillation`: first fill the patch layers that the weights lack. `reviewed`: the store of
    `dpl review`, whose boxes and tags are taught.
    """

    limit: int | None = None
    workers: int | None = None
    devices: int = 1
    pseudo_boxes_from: Sequence[str | Path] = ()
    distillation: Distillation | None = None
    reviewed: str | Path | None = None


@dataclass(frozen=True)
class Run:
    """A training that ended: its folder, the steps done, its figures, and the images that could not be read with the reason.

    `finished` is false when Ctrl-C ended it early; the same call resumes it. `figures` is what `dpl train --json` prints; it
    is empty in the processes that train together with the first.
    """

    folder: Path
    steps: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[tuple[Path, str]] = field(default_factory=list)
    finished: bool = True

    def load(self, device: str = "auto", scales: Sequence[int] | None = None) -> "Model":
        """Return the trained model."""
        from deep_patch_learning.inference.loading import load

        return load(self.folder, device, scales)


def train(
    data: str | Path,
    out: str | Path,
    *,
    split: str | None = None,
    val: str | float | None = None,
    recipe: str | Recipe | None = None,
    device: str = "auto",
    **settings: Any,
) -> Run:
    """Return the run in the folder `out`, trained on the tags of `data`; a run that was begun there resumes.

    `val` holds images out, a split's name or a share such as 0.1: weights that do well on their tags are kept, and calibrated
    at the end. Without a `recipe` the machine decides: a large network with a GPU, else `fast`. `settings` are flat settings
    of the recipe (steps=500, learning_rate=1e-4, seed=1, ...) and those of `TrainOptions` (limit, workers, devices,
    pseudo_boxes_from, distillation, reviewed).
    """
    names = [one.name for one in dataclasses.fields(TrainOptions)]
    options = TrainOptions(**{name: settings.pop(name) for name in names if name in settings})
    if isinstance(options.pseudo_boxes_from, str | Path):
        options = dataclasses.replace(options, pseudo_boxes_from=[options.pseudo_boxes_from])
    if options.pseudo_boxes_from:
        if "seeds" in settings:
            raise SettingError("--pseudo-boxes-from and --set seeds: the boxes are the seeds. Give one of the two.")
        settings = SELF_TRAINING_ROUND | settings
    for key in ("patches", "data.patches"):
        if key in settings:
            settings[key] = in_full(str(settings[key]))  # the run finds a file again, wherever it is used from
    run = RunFolder(out)
    asked = _asked(recipe, settings, device, run.begun_with())
    chosen = asked.recipe()
    # what can fail at once fails before an hour of patches
    check_source(chosen.model.weights)
    usable_device(device)
    check_device_count(options.devices, device)
    _check_pseudo_boxes(chosen, run, options)
    _check_rounds(chosen, options)
    val_split, val_share = (None, val) if isinstance(val, float) else (val, None)
    apart_by = val_split, val_share, chosen.machine.seed, options.limit, run.drawing(val_share)
    images, held_out = read_apart(Path(data), split, *apart_by)
    images, reviewed = _reviewed(chosen, run, options, images)
    _check_pseudo_boxes(chosen, run, options, images.classes)
    chosen, layers = _sized(asked, images, run, options)
    prepared = prepare(images, recipe_patches(chosen), workers=options.workers)
    apart = None if held_out is None else prepare(held_out, recipe_patches(chosen), workers=options.workers)
    source: dict[str, Any] = {"path": str(Path(data).resolve()), "split": split, "limit": options.limit}
    source |= {} if apart is None else {"val_split": val_split, "val_share": val_share}
    if val_share is not None:  # a training of several has a seed of its own
        source["val_seed"] = chosen.machine.seed
    if layers is not None and not _distilled(prepared, layers, source, device):
        return Run(run.folder, broken=prepared.broken, finished=False)
    ready = _Ready(prepared, apart, chosen, run, source, device, reviewed)
    return _fit_rounds(ready, options) if chosen.rounds.rounds else _fit(ready, options)


@dataclass(frozen=True)
class _HandedIn:
    """A recipe that the caller made, which keeps its steps: it stands for one that was asked for by name."""

    whole: Recipe

    def recipe(self) -> Recipe:
        return self.whole

    def sized(self, images: int, begun: Recipe | None = None) -> tuple[Recipe, str]:
        return self.whole, ""


def _asked(
    recipe: str | Recipe | None, settings: dict[str, Any], device: str, begun: Recipe | None
) -> AskedRecipe | _HandedIn:
    """Return the recipe that is asked for with its settings; the default of this machine, in one line, where none is named."""
    if "backbone" in settings:
        check_name(settings["backbone"])  # a recipe fits other settings to its backbone
    if isinstance(recipe, Recipe):
        return _HandedIn(recipe.replace(**settings))
    if recipe is None:
        recipe, why = default_recipe(device, begun)
        console.print(why, markup=False, soft_wrap=True)
    settings = dict(settings)
    heads, seed = settings.pop("heads", ""), int(settings.pop("seed", 0))
    return ask(str(recipe), heads if isinstance(heads, str) else ",".join(heads), seed, (), settings)


def _check_pseudo_boxes(
    recipe: Recipe, run: RunFolder, options: TrainOptions, classes: tuple[str, ...] | None = None
) -> None:
    if recipe.refinement.seeds == "pseudo-boxes":
        from deep_patch_learning.training.self_training import check_pseudo_box_source

        check_pseudo_box_source(recipe, run.folder, options.pseudo_boxes_from, classes)


def _check_rounds(recipe: Recipe, options: TrainOptions) -> None:
    if recipe.rounds.rounds:
        from deep_patch_learning.training.rounds import check_rounds

        check_rounds(recipe, options.devices)


def _reviewed(
    recipe: Recipe, run: RunFolder, options: TrainOptions, images: TaggedImages
) -> "tuple[TaggedImages, dict[str, ReviewedImage] | None]":
    """Return the images with corrected tags, and what people said about them; None where no store is given."""
    if options.reviewed is None:
        run.must_have_reviewed("")
        return images, None
    from deep_patch_learning.data.reviewed import as_lines, reviewed_of, with_reviewed_tags
    from deep_patch_learning.training.reviewed import check_reviewed, in_words

    check_reviewed(recipe)
    own = reviewed_of(options.reviewed, images)
    run.must_have_reviewed(as_lines(own, images.classes))
    console.print(f"{options.reviewed}: {in_words(own, images)}", markup=False, soft_wrap=True)
    return with_reviewed_tags(images, own), own


def _sized(
    asked: AskedRecipe | _HandedIn, images: TaggedImages, run: RunFolder, options: TrainOptions
) -> tuple[Recipe, "PatchLayers | None"]:
    """Return the recipe in the size of these images and the distillation before it, after the last checks."""
    chosen, size = asked.sized(len(images), run.begun_with())
    layers = None
    if options.distillation is not None:
        from deep_patch_learning.training.patch_layers import before_training

        distillation = options.distillation
        layers = before_training(
            "distil", chosen, run.folder, distillation.steps, distillation.teacher, distillation.backbone
        )
        assert layers is not None  # as a method is given
        chosen = chosen.replace(weights=str(layers.weights))
    run.check(chosen)
    if size:
        console.print(size, markup=False, soft_wrap=True)
    for finding in names_written_twice(images.classes, images.labels):
        said = f"{finding.title}: {finding.examples()}. {finding.fix}"
        console.print(said, markup=False, soft_wrap=True, style="yellow")
    return chosen, layers


def _distilled(prepared: Prepared, layers: "PatchLayers", source: dict[str, Any], device: str) -> bool:
    from deep_patch_learning.training.patch_layers import distil_patch_layers

    return distil_patch_layers(prepared, layers, source, device) is not None


@dataclass(frozen=True)
class _Ready:
    """What the training itself starts from."""

    prepared: Prepared
    held_out: Prepared | None
    recipe: Recipe
    run: RunFolder
    source: dict[str, Any]
    device: str
    reviewed: "dict[str, ReviewedImage] | None" = None


def _fit(ready: _Ready, options: TrainOptions) -> Run:
    """Return the run after its last step, calibrated where images were held out."""
    prepared, recipe, run, source = ready.prepared, ready.recipe, ready.run, ready.source
    device = None if ready.device == "auto" else ready.device
    pseudo_boxes = None
    if recipe.refinement.seeds == "pseudo-boxes":
        from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes

        teachers = options.pseudo_boxes_from
        found_by = PseudoBoxSource(teachers, device, options.workers)
        pseudo_boxes = find_pseudo_boxes(prepared, recipe, run.folder, found_by)
        if ready.reviewed and pseudo_boxes is not None:
            from deep_patch_learning.training.reviewed import with_exact_boxes

            pseudo_boxes = with_exact_boxes(pseudo_boxes, prepared.images, ready.reviewed)
        source = source | ({"boxes_from": [str(Path(one).resolve()) for one in teachers]} if teachers else {})
    extra: Any = {"devices": options.devices, "held_out": ready.held_out, "pseudo_boxes": pseudo_boxes}
    extra["reviewed"] = ready.reviewed
    trainer = train_prepared(prepared, recipe, run.folder, source, ready.device, **extra)
    if not trainer.finished:
        said = f"stopped at step {trainer.step} of {recipe.total_steps}. Repeat the command to go on."
        console.print(said, markup=False, soft_wrap=True)
        return Run(run.folder, trainer.step, broken=prepared.broken, finished=False)
    said = f"{run.folder}: trained {trainer.step} steps on {len(prepared.images)} images"
    console.print(said, markup=False, soft_wrap=True)
    if not trainer.ranks.first:
        return Run(run.folder, trainer.step, broken=prepared.broken)
    return _finished(ready, trainer.step, trainer.ends_early)


def _fit_rounds(ready: _Ready, options: TrainOptions) -> Run:
    """Return the run after first networks and self-training rounds, calibrated where images were held out."""
    from deep_patch_learning.runs.checkpoint import step_of
    from deep_patch_learning.training.rounds import RoundsInput, train_rounds

    prepared, run = ready.prepared, ready.run
    given = RoundsInput(prepared, ready.held_out, ready.source, ready.device, options.workers, reviewed=ready.reviewed)
    record = train_rounds(given, ready.recipe, run.folder)
    if record is None:
        return Run(run.folder, broken=prepared.broken, finished=False)
    step = step_of(run.checkpoint)
    said = f"{run.folder}: the network of {record.network}, {record.samples_in_all:,} samples in all trainings together"
    console.print(said, markup=False, soft_wrap=True)
    done = _finished(ready, step, ends_early=False)
    figures = {"network": record.network, "samples_in_all": record.samples_in_all, "judgements": [*record.judgements]}
    return dataclasses.replace(done, figures=done.figures | figures)


def _finished(ready: _Ready, step: int, ends_early: bool) -> Run:
    """Return a run that is trained to its end, with its figures, after its calibration."""
    run, broken = ready.run, ready.prepared.broken
    figures: dict[str, Any] = {"run": str(run.folder), "steps": step, "broken": len(broken)}
    if ready.held_out is not None:
        ended = f"ended at step {step}: the mAP on held-out images fell clearly; " if ends_early else ""
        figures |= _finish_with_held_out(ready, ready.held_out, ended)
    log = run.read_log()
    return Run(run.folder, step, figures | {"loss": log[-1]["loss"] if log else None}, broken)


def _finish_with_held_out(ready: _Ready, held_out: Prepared, ended: str) -> dict[str, Any]:
    """Return which step's weights a finished training kept, and its calibration, which is made now unless it is there."""
    from deep_patch_learning.commands.calibrate import calibrate_run
    from deep_patch_learning.inference.calibration import read_calibration
    from deep_patch_learning.training.early_stopping import kept_measurement

    run, device = ready.run, None if ready.device == "auto" else ready.device
    kept = kept_measurement(run)
    said = f"{ended}kept the weights of step {kept.step}, mAP {kept.mean_ap:.1f} on held-out images"
    console.print(said, markup=False, soft_wrap=True)
    found = read_calibration(run.calibration, held_out.images.classes)
    found = found or calibrate_run(run.folder, held_out, ready.source, device)
    return {"kept_step": kept.step, "held_out_mAP": kept.mean_ap, "calibration": found.as_dict()}
