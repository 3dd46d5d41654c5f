"""`dpl distil`: the patch layers of a network that has its convolutions only, filled from a classifier."""

import dataclasses
from pathlib import Path
from typing import Any

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.training.distillation import Distilling
from deep_patch_learning.training.patch_layers import distil_patch_layers, plan


def distil(
    data: str | Path,
    out: str | Path,
    *,
    split: str | None = None,
    backbone: str = "vgg16",
    device: str = "auto",
    **settings: Any,
) -> dict[str, Any] | None:
    """Return the figures and the weight file in `out` whose patch layers follow a classifier; tags and boxes are not read.

    The same call again resumes; None when Ctrl-C ended it early. `settings` are `limit`, `workers`, those of the
    distillation (teacher, teacher_backbone, crop, temperature, ...) and flat ones of the recipe (weights, steps, seed, ...).
    """
    limit, workers = settings.pop("limit", None), settings.pop("workers", None)
    names = {field.name for field in dataclasses.fields(Distilling)}
    own = {"teacher": "imagenet"} | {key: value for key, value in settings.items() if key in names}
    seed = int(settings.pop("seed", 0))
    others = {key: value for key, value in settings.items() if key not in names and not isinstance(value, str)}
    texts = [f"{key}={value}" for key, value in (own | settings).items() if isinstance(value, str)]
    layers = plan(Path(out), backbone, seed, texts, others, own)
    layers.check()
    usable_device(device)
    prepared = prepare(limited(read_tags(Path(data), split), limit), recipe_patches(layers.recipe), workers=workers)
    source = {"path": str(Path(data).resolve()), "split": split, "limit": limit}
    if distil_patch_layers(prepared, layers, source, device) is None:
        return None
    return {"weights": str(layers.weights), **layers.read_figures()}
