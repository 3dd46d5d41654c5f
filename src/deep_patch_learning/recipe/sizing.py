"""How long to train, from the number of images, where the user does not say."""

import math
from collections.abc import Sequence
from typing import Any

from deep_patch_learning.recipe.presets import choose
from deep_patch_learning.recipe.recipe import Recipe

SIZED = (
    "modern",
    "refined",
    "fast",
)  # the paper's steps are the paper's, and those of the world are made for its images
SAMPLES_PER_ROOT = 160  # 2,501 images, VOC 2007's train, are well served by 8,000 samples
FEWEST_SAMPLES = 2_400  # new heads learn little in less, however few the images are
MOST_SAMPLES = 160_000


def samples_for(images: int) -> int:
    """Return how many samples a training on this many images takes.

    They grow with the root of the number of images: few images are sampled often, many seldom. From 25,600 images on each
    is sampled once, and from `MOST_SAMPLES` on not all of them are.
    """
    grown = SAMPLES_PER_ROOT * math.sqrt(images)
    return round(min(max(grown, images, FEWEST_SAMPLES), MOST_SAMPLES))


def steps_for(images: int, batch_images: int) -> int:
    """Return how many steps of `batch_images` images those samples are, in two digits and zeros."""
    steps = samples_for(images) / batch_images
    step = 10 ** max(math.floor(math.log10(steps)) - 1, 0)
    return max(round(steps / step) * step, 1)


def in_words(images: int, recipe: Recipe) -> str:
    """Return the size of a training in one line."""
    samples = recipe.total_steps * recipe.batch_images / images
    return (
        f"{images:,} images: {recipe.total_steps:,} steps of {recipe.batch_images} images, "
        f"{samples:.1f} samples of each; --steps changes it"
    )


def choose_sized(
    name: str,
    heads: str,
    seed: int,
    changes: Sequence[str],
    options: dict[str, Any],
    images: int,
    begun: Recipe | None,
) -> tuple[Recipe, str]:
    """Return the recipe as `choose` does, with steps that fit the images where none are given, and a line that says so.

    A run that was `begun` keeps its steps. The line is empty where nothing was fitted.
    """
    recipe = choose(name, heads, seed, changes, options)
    given = "steps" in options or any(change.partition("=")[0].strip() == "steps" for change in changes)
    if given or name not in SIZED:
        return recipe, ""
    if begun is not None:
        return choose(name, heads, seed, changes, {**options, "steps": begun.steps}), ""
    recipe = choose(name, heads, seed, changes, {**options, "steps": steps_for(images, recipe.batch_images)})
    return recipe, in_words(images, recipe)
