"""Patch layers filled by distillation, in a run folder of their own: images in, a weight file out."""

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file
from torch import nn

from deep_patch_learning.common.atomic_files import read_json, write_whole, written_afresh
from deep_patch_learning.common.errors import RunError, SettingError, did_you_mean
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.model.backbones.registry import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.choose import choose
from deep_patch_learning.recipe.recipe import Recipe, setting_name
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.distillation import Distilling, DistilTrainer, distilling
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.teacher import check_teacher_backbone, read_teacher


@dataclass(frozen=True)
class PatchLayers:
    """A distillation that is planned or done: its settings and its run folder."""

    recipe: Recipe
    settings: Distilling
    folder: Path

    @property
    def weights(self) -> Path:
        """The file that a training starts from, with `weights` set to its path."""
        return self.folder / "weights.safetensors"

    @property
    def figures(self) -> Path:
        """The figures of the distillation; the file is written last, so its presence says that all is done."""
        return self.folder / "figures.json"

    def read_figures(self) -> dict[str, Any]:
        """Return the figures of a finished distillation: steps, patches, seconds, agreement (per cent) and cosine."""
        return read_json(self.figures, dict[str, Any], RunError, "Restore it, or distil again in a new folder.")

    def check(self) -> None:
        """Raise an error for what can be seen to be wrong before any work; nothing is written."""
        check_name(self.recipe.model.backbone)
        check_source(self.recipe.model.weights)
        check_teacher_backbone(self.settings.teacher_backbone)
        check_source(self.settings.teacher)
        run = RunFolder(self.folder)
        run.check(self.recipe)
        stored = run.describe().get("distilling") if run.config.exists() else None
        now = dataclasses.asdict(self.settings)
        changed = [
            f"{key} was {stored.get(key)!r}, now {now[key]!r}" for key in now if stored and stored.get(key) != now[key]
        ]
        if changed:
            raise RunError(
                f"{self.folder}: holds a distillation made with other settings: {'; '.join(changed)}. "
                "Repeat the first command to resume it, or give a new folder with --out."
            )


def plan(
    folder: Path, backbone: str, seed: int, changes: Sequence[str], options: dict[str, Any], settings: dict[str, Any]
) -> PatchLayers:
    """Return the distilling that the command line asks for; `changes` are KEY=VALUE texts for the recipe or `Distilling`."""
    defaults = dataclasses.asdict(Distilling())
    own = [change for change in changes if change.partition("=")[0].strip() in defaults]
    for change in own:
        key, _, text = (part.strip() for part in change.partition("="))
        settings = settings | {key: _typed(key, text, defaults[key])}
    others = [change for change in changes if change not in own]
    # the texts are read, and misspelt names refused, as for any recipe
    typed = choose("modern", "both", seed, others, {"backbone": backbone, **options})
    named = {"seed", *options, *(setting_name(change.partition("=")[0].strip(), "--set") for change in others)}
    length = {"steps": typed.optimiser.steps} if "steps" in named else {}
    kept = {key: typed.settings()[key] for key in named - {"backbone", "steps"}}
    recipe = distilling(typed.model.backbone, **length).replace(**kept)
    return PatchLayers(recipe, Distilling(**settings), folder)


def _typed(key: str, text: str, default: Any) -> Any:
    try:
        return {"true": True, "false": False}[text.lower()] if isinstance(default, bool) else type(default)(text)
    except (ValueError, KeyError):
        raise SettingError(f"{key} = {text}: should be like {str(default).lower()}.") from None


def before_training(
    method: str | None, recipe: Recipe, out: Path, steps: int | None, teacher: str | None, teacher_backbone: str
) -> PatchLayers | None:
    """Return the distillation that comes before a training in `out`: beside it, with the same patches and seed; None without."""
    if method is None:
        if teacher is not None or steps is not None:
            raise SettingError(
                "--teacher and --distil-steps belong to --patch-layers distil. Add it, or leave them out."
            )
        return None
    if method != "distil":
        raise SettingError(f"--patch-layers {method}: not known.{did_you_mean(method, ['distil'])}")
    shared = ("weights", "patches", "search_mode", "min_patch_side", "seed")
    length = {} if steps is None else {"steps": steps}
    made = distilling(recipe.model.backbone, **length).replace(**{key: recipe.settings()[key] for key in shared})
    settings = Distilling(teacher or "imagenet", teacher_backbone)
    layers = PatchLayers(made, settings, out.parent / f"{out.name}-patch-layers")
    layers.check()
    return layers


def distil_patch_layers(
    prepared: Prepared,
    layers: PatchLayers,
    source: dict[str, Any] | None = None,
    device: str = "auto",
    teacher: nn.Module | None = None,
    options: TrainingOptions | None = None,
) -> Path | None:
    """Return the weight file whose patch layers follow the teacher, or None when Ctrl-C ended it early.

    The file holds the backbone and the patch layers under the network's own names. What was begun goes on where it stopped;
    what is finished is left as it is. Tags are not read. Another `teacher` can be handed in (see `DistilTrainer`).
    """
    layers.check()
    if layers.figures.exists():
        show_figures(layers)
        return layers.weights
    settings = layers.settings
    teacher = teacher or read_teacher(settings.teacher, settings.teacher_backbone)
    untagged = dataclasses.replace(prepared, images=without_tags(prepared.images))
    options = dataclasses.replace(options or TrainingOptions(), device=device)
    trainer = DistilTrainer(layers.recipe, untagged, RunFolder(layers.folder), teacher, settings, options)
    described = {**(source or {}), "distilling": dataclasses.asdict(settings)}
    begun = time.monotonic()
    train_prepared(untagged, layers.recipe, layers.folder, described, device, description="distilling", trainer=trainer)
    if trainer.step < layers.recipe.total_steps:
        console.print(f"stopped at step {trainer.step} of {layers.recipe.total_steps}. Repeat the command to go on.")
        return None
    figures = {"steps": trainer.step, "patches": trainer.patches_seen(), "seconds": time.monotonic() - begun}
    figures |= trainer.measure()
    _write(trainer, layers.weights)
    write_whole(layers.figures, json.dumps({key: round(value, 4) for key, value in figures.items()}))
    show_figures(layers)
    return layers.weights


def show_figures(layers: PatchLayers) -> None:
    """Print the figures of a finished distillation in one line."""
    found = layers.read_figures()
    console.print(
        f"{layers.weights}: {found['patches']:,} patches in {found['seconds']:.0f} s; names the teacher's class for "
        f"{found['agreement']:.1f} % of new patches, features at a cosine of {found['cosine']:.3f}",
        markup=False,
        soft_wrap=True,
    )


def without_tags(images: TaggedImages) -> TaggedImages:
    """Return the images with no class and no tag, so that what sees them cannot have read any."""
    return TaggedImages((), images.names, images.paths, np.zeros((len(images), 0), np.int8))


def _write(trainer: DistilTrainer, path: Path) -> None:
    try:
        with written_afresh(path) as part:
            save_file(trainer.bare.plain_weights(), part)
    except OSError as error:
        raise RunError(f"{path}: could not be written ({error}). Make room and repeat the command.") from None
