"""How long to train, from the number of pictures, where the user does not say."""

import math
from collections.abc import Sequence
from typing import Any

from deep_patch_learning.recipe.presets import choose
from deep_patch_learning.recipe.recipe import Recipe

SIZED = (
    "modern",
    "refined",
    "fast",
)  # the paper's steps are the paper's, and those of the world are made for its pictures
VISITS_PER_ROOT = 160  # 2,501 pictures, VOC 2007's train, are well served by 8,000 visits
FEWEST_VISITS = 2_400  # new heads learn little in less, however few the pictures are
MOST_VISITS = 160_000


def visits_for(pictures: int) -> int:
    """Return how many visits a training on this many pictures takes.

    They grow with the root of the number of pictures: few pictures are visited often, many seldom. From 25,600 pictures on each
    is visited once, and from `MOST_VISITS` on not all of them are.
    """
    grown = VISITS_PER_ROOT * math.sqrt(pictures)
    return round(min(max(grown, pictures, FEWEST_VISITS), MOST_VISITS))


def steps_for(pictures: int, batch_images: int) -> int:
    """Return how many steps of `batch_images` pictures those visits are, in two digits and zeros."""
    steps = visits_for(pictures) / batch_images
    step = 10 ** max(math.floor(math.log10(steps)) - 1, 0)
    return max(round(steps / step) * step, 1)


def in_words(pictures: int, recipe: Recipe) -> str:
    """Return the size of a training in one line."""
    visits = recipe.total_steps * recipe.batch_images / pictures
    return (
        f"{pictures:,} pictures: {recipe.total_steps:,} steps of {recipe.batch_images} pictures, "
        f"{visits:.1f} visits of each; --steps changes it"
    )


def choose_sized(
    name: str,
    heads: str,
    seed: int,
    changes: Sequence[str],
    options: dict[str, Any],
    pictures: int,
    begun: Recipe | None,
) -> tuple[Recipe, str]:
    """Return the recipe as `choose` does, with steps that fit the pictures where none are given, and a line that says so.

    A run that was `begun` keeps its steps. The line is empty where nothing was fitted.
    """
    recipe = choose(name, heads, seed, changes, options)
    given = "steps" in options or any(change.partition("=")[0].strip() == "steps" for change in changes)
    if given or name not in SIZED:
        return recipe, ""
    if begun is not None:
        return choose(name, heads, seed, changes, {**options, "steps": begun.steps}), ""
    recipe = choose(name, heads, seed, changes, {**options, "steps": steps_for(pictures, recipe.batch_images)})
    return recipe, in_words(pictures, recipe)
