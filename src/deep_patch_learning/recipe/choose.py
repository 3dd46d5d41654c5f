"""Which recipe a command trains with: the default of the machine, or what the user asked for, with steps that fit the images."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import SettingError, did_you_mean
from deep_patch_learning.model.backbones.registry import check_name
from deep_patch_learning.model.network import ALL_HEADS, HEADS
from deep_patch_learning.recipe.presets import (
    BEST_FEWEST_SAMPLES,
    BEST_SAMPLES_PER_ROOT,
    RECIPES,
)
from deep_patch_learning.recipe.recipe import Recipe, typed

SAMPLES_PER_ROOT = 160  # 2,501 images, VOC 2007's train, are well served by 8,000 samples
FEWEST_SAMPLES = 2_400  # new heads learn little in less, however few the images are
MOST_SAMPLES = 160_000
LONGEST_SEED = 18  # digits, which 63 bits always hold


class DefaultRecipe(NamedTuple):
    """The name of the recipe that is taken where the user names none, and one line that says why."""

    name: str
    why: str


def default_recipe(device: str = "auto", begun: Recipe | None = None) -> DefaultRecipe:
    """Return `refined` (ResNet-50) where a GPU is usable, else `fast`, whose weights are in the package.

    A run that was `begun` keeps its recipe, so that its command resumes it on any machine.
    """
    if begun is not None and begun.name in RECIPES:
        return DefaultRecipe(begun.name, f"recipe {begun.name}: the run was begun with it")
    found = usable_device(device)
    if found == "cpu":
        asked = "--device cpu" if device == "cpu" else "no GPU"
        return DefaultRecipe(
            "fast",
            f"recipe fast: {asked}; a small network, its weights are in the package (--recipe refined: ResNet-50)",
        )
    return DefaultRecipe(
        "refined", f"recipe refined: trains ResNet-50 on the GPU ({found}); --recipe fast is the small network"
    )


@dataclass(frozen=True)
class AskedRecipe:
    """What a user asked for, read once and checked: the name of a recipe and settings by their flat names."""

    name: str
    settings: Mapping[str, Any]

    def recipe(self, steps: int | None = None) -> Recipe:
        """Return the recipe; `steps` stand in where the user named none."""
        values = dict(self.settings)
        if steps is not None:
            values.setdefault("steps", steps)
        # the preset fits its other settings to the backbone and the number of steps
        shape = {key: values.pop(key) for key in ("backbone", "steps") if key in values}
        recipe = RECIPES[self.name](**shape).replace(**values)
        if recipe.optimiser.freeze_backbone and not recipe.model.weights:
            raise SettingError(
                f"recipe {self.name}: leaves the convolutions of {recipe.model.backbone} as they are, and without weights they "
                "are random. Name some with --weights, or let them learn with --set freeze_backbone=false."
            )
        if self.name == "paper" and not recipe.model.weights and "weights" not in values:
            raise SettingError(_no_weights(recipe.model.backbone))
        return recipe

    def sized(self, images: int, begun: Recipe | None = None) -> tuple[Recipe, str]:
        """Return the recipe with steps that fit the number of images where the user named none, and a line that says so.

        A run that was `begun` keeps its steps. The line is empty where nothing was fitted.
        """
        if "steps" in self.settings or self.name not in SIZED:
            return self.recipe(), ""
        if begun is not None:
            return self.recipe(begun.optimiser.steps), ""
        recipe = self.recipe(steps_for(images, self.recipe().optimiser.batch_images, SIZED[self.name]))
        return recipe, in_words(images, recipe)


def _no_weights(backbone: str) -> str:
    """Return one line on a `paper` training that would start at random: where weights come from."""
    caffe = {"caffenet": "bvlc_reference_caffenet.caffemodel", "vgg16-caffe": "VGG_ILSVRC_16_layers.caffemodel"}
    file = caffe.get(backbone, "FILE")
    return (
        f"recipe paper: starts from ImageNet weights, and none come with {backbone}. Give them with --weights {file}; or use "
        "--backbone vgg16 or alexnet, whose weights torchvision fetches; or, with convolutions alone, fill fc6 and fc7 with "
        "--patch-layers distil. --weights none starts at random."
    )


def key_and_value(change: str) -> tuple[str, str]:
    """Return key and value of a text of `--set`."""
    key, equals, text = change.partition("=")
    if not equals:
        raise SettingError(f"--set {change}: wanted KEY=VALUE, such as --set learning_rate=1e-4.")
    return key.strip(), text.strip()


def ask(
    name: str, heads: str = "", seed: int = 0, changes: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> AskedRecipe:
    """Return what the command line asks for; `changes` are KEY=VALUE texts, which come after `options`.

    Without `heads`, an empty text, the recipe's own stay. A name of an earlier version gets a line on standard error.
    """
    if name not in RECIPES:
        raise SettingError(f"there is no recipe '{name}'.{did_you_mean(name, RECIPES)}")
    values: dict[str, Any] = {"seed": seed, **(options or {})}
    if heads:
        values["heads"] = heads_of(heads)
    values |= dict(map(key_and_value, changes))
    settings = dict(typed(key, value) for key, value in values.items())
    if "scales" in settings:
        settings.setdefault("test_scales", ())  # scales of training are those of prediction too
    if "backbone" in settings:
        check_name(settings["backbone"])  # presets fit other settings to it
    asked = AskedRecipe(name, settings)
    asked.recipe()  # what cannot be used is said at once
    return asked


def choose(name: str, heads: str, seed: int, changes: Sequence[str], options: Mapping[str, Any]) -> Recipe:
    """Return the recipe that `ask` reads, with the preset's own steps where the user names none."""
    return ask(name, heads, seed, changes, options).recipe()


def heads_of(text: str) -> tuple[str, ...]:
    """Return the heads that a text names: both (the paper's), all, or names of heads with commas."""
    named = {"both": HEADS, "all": ALL_HEADS}
    heads = named.get(text) or tuple(head for head in ALL_HEADS if head in text.split(","))
    for word in () if text in named else text.split(","):
        if word not in ALL_HEADS:
            raise SettingError(f"--heads {text}: not known.{did_you_mean(word, (*named, *ALL_HEADS))}")
    return heads


def seed_numbers(text: str) -> tuple[int, ...]:
    """Return seeds written with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= LONGEST_SEED for part in parts):
        raise SettingError(f"--seeds {text}: wanted whole numbers with commas, such as 0,1,2.")
    return tuple(dict.fromkeys(int(part) for part in parts))


def samples_for(images: int) -> int:
    """Return how many samples a training on this many images takes.

    They grow with the root of the number of images: few images are sampled often, many seldom. From 25,600 images on each
    is sampled once, and from `MOST_SAMPLES` on not all of them are.
    """
    return _grown(images, SAMPLES_PER_ROOT, FEWEST_SAMPLES)


def samples_for_best(images: int) -> int:
    """Return how many samples each training of the recipe `best` takes: more than others, and growing alike."""
    return _grown(images, BEST_SAMPLES_PER_ROOT, BEST_FEWEST_SAMPLES)


def _grown(images: int, per_root: int, fewest: int) -> int:
    return round(min(max(per_root * math.sqrt(images), images, fewest), MOST_SAMPLES))


# the paper's steps are the paper's, and those of the synthetic data set are made for its images
SIZED: dict[str, Callable[[int], int]] = {
    "modern": samples_for,
    "refined": samples_for,
    "fast": samples_for,
    "best": samples_for_best,
}


def steps_for(images: int, batch_images: int, samples: Callable[[int], int] = samples_for) -> int:
    """Return how many steps of `batch_images` images the samples for this many images are, in two digits and zeros."""
    steps = samples(images) / batch_images
    step = 10 ** max(math.floor(math.log10(steps)) - 1, 0)
    return max(round(steps / step) * step, 1)


def in_words(images: int, recipe: Recipe) -> str:
    """Return the size of a training in one line."""
    samples = recipe.total_steps * recipe.optimiser.batch_images / images
    rounds = recipe.rounds
    trainings = ""
    if rounds.rounds:
        many = rounds.first_networks + rounds.rounds
        trainings = f"{rounds.first_networks} first networks of " if rounds.round_steps else f"{many} trainings of "
    return (
        f"{images:,} images: {trainings}{recipe.total_steps:,} steps of {recipe.optimiser.batch_images} images, "
        f"{samples:.1f} samples of each; --steps changes it"
    )
