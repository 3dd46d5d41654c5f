"""Recipes by name, and how those of the command line are read."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from deep_patch_learning.common.errors import RunError, did_you_mean
from deep_patch_learning.model.network import ALL_HEADS, HEADS
from deep_patch_learning.recipe.recipe import Recipe, toml


def paper(backbone: str = "caffenet", steps: int = 40_000) -> Recipe:
    """Return the paper's recipe: two images a step, one at a time; 30K steps at 1e-3 and 10K at 1e-4.

    VGG16 gets 5K steps before them in which the heads alone are trained. Fewer steps keep these shares.
    """
    return Recipe(
        name="paper",
        backbone=backbone,
        weights=usual_weights(backbone),
        search_mode="original",
        steps=steps,
        head_first_steps=steps // 8 if backbone.startswith("vgg16") else 0,
        drops=(steps * 3 // 4,),
    )


def modern(backbone: str = "resnet50", steps: int = 2_500) -> Recipe:
    """Return a recipe for today's machines: 8 images a step, AdamW with warm-up and cosine, bf16 on a GPU."""
    return Recipe(
        name="modern",
        backbone=backbone,
        weights=usual_weights(backbone),
        steps=steps,
        batch_images=8,
        images_per_micro_batch=8,
        shapes=48,
        head_bias=-3.0,
        min_patch_side=16,
        patches_per_image=1000,
        patches_per_sample=64,
        box_selection="vote",
        vote_sharpness=0.5,
        area_power=0.25,
        unknown="ignore",
        frozen_stages=2 if backbone.startswith(("vgg16", "resnet50")) else 0,
        optimiser="adamw",
        learning_rate=3e-5,
        head_learning_rate=10.0,
        bias_learning_rate=1.0,
        weight_decay=0.01,
        clip_norm=5.0,
        schedule="cosine",
        drops=(),
        warmup_steps=max(1, min(200, steps // 10)),
        precision="auto",
    )


def refined(backbone: str = "resnet50", steps: int = 2_500) -> Recipe:
    """Return `modern` with a refinement beside the paper's heads: boxes are its, and are moved onto whole objects.

    More patches are drawn, since each has a class to learn. Where the patch layers keep places apart, the refinement reads
    four of each patch: what lies at its borders tells a whole object from one in a wide frame. Patches are heard in the vote
    with a high power of its probabilities, which are sharper than the heads' scores.
    """
    return modern(backbone, steps).replace(
        name="refined",
        heads=ALL_HEADS,
        patches_per_sample=256,
        seeds="vote",
        regression=True,
        refinement_cells=2 if backbone.startswith(("resnet50", "lite0")) else 1,
        vote_sharpness=8.0,
        area_power=0.0,
    )


def fast(backbone: str = "lite0-map", steps: int = 2_500) -> Recipe:
    """Return `refined` for a laptop: a small network, few patches, one look at an image, and heads that learn alone.

    Where all layers are to learn, for which a GPU is good, set `freeze_backbone` to false. It finds most where the boxes of a
    larger network teach it (`--boxes-from`).
    """
    places = {"refinement_cells": 3} if backbone.startswith("lite0") else {}
    return refined(backbone, steps).replace(
        name="fast",
        boxes="elected",
        scales=(384, 448, 512),
        test_scales=(448,),
        patches_per_image=300,
        patches_per_sample=128,
        refinement_width=192,
        learning_rate=1e-4,
        freeze_backbone=True,
        frozen_stages=0,
        **places,
    )


def world(backbone: str = "tiny", steps: int = 700) -> Recipe:
    """Return the recipe of the embedded world: the tiny network on its pretrained convolutions, half a minute on two cores.

    Few patches are drawn at each sample: the many that frame a whole object alike are then met more often than any single
    patch on a part of it.
    """
    return Recipe(
        name="world",
        backbone=backbone,
        weights="shipped",
        filters=64,
        scales=(160,),
        min_patch_side=20,
        patches_per_sample=32,
        box_selection="vote",
        boxes="elected",
        unknown="ignore",
        steps=steps,
        freeze_backbone=True,
        batch_images=16,
        images_per_micro_batch=16,
        optimiser="adamw",
        learning_rate=1e-3,
        head_learning_rate=3.0,
        bias_learning_rate=1.0,
        weight_decay=0.1,
        clip_norm=5.0,
        schedule="cosine",
        drops=(),
        warmup_steps=max(1, steps // 15),
    )


def refined_world(backbone: str = "tiny", steps: int = 700) -> Recipe:
    """Return `world` with a refinement beside the paper's heads, as `refined` is `modern` with one."""
    return world(backbone, steps).replace(
        name="refined-world",
        heads=ALL_HEADS,
        refinement_width=128,
        seeds="vote",
        regression=True,
        vote_sharpness=8.0,
    )


# what a self-training round changes: one box of each tag is given, and one classifier is enough to learn from it
SELF_TRAINING_ROUND = {"seeds": "given", "seeds_per_class": 1, "refinements": 1}


def self_training_round(recipe: Recipe) -> Recipe:
    """Return the recipe of a refinement that learns from the boxes of another run."""
    return recipe.replace(**SELF_TRAINING_ROUND)


def usual_weights(backbone: str) -> str:
    """Return the pretrained weights a backbone starts from unless the user says otherwise; empty where there are none."""
    return {
        "alexnet": "imagenet",
        "vgg16": "imagenet",
        "resnet50": "imagenet",
        "resnet50-near": "imagenet",
        "lite0-map": "shipped",
        "tiny": "shipped",
    }.get(backbone, "")


RECIPES: dict[str, Callable[..., Recipe]] = {
    "paper": paper,
    "modern": modern,
    "refined": refined,
    "fast": fast,
    "world": world,
    "refined-world": refined_world,
}


def choose(name: str, heads: str, seed: int, changes: Sequence[str], options: dict[str, Any]) -> Recipe:
    """Return a recipe by name with the settings of the command line; `changes` are KEY=VALUE texts.

    Without `heads`, an empty text, the recipe's own stay.
    """
    if name not in RECIPES:
        raise RunError(f"there is no recipe '{name}'.{did_you_mean(name, RECIPES)}")
    values: dict[str, Any] = {"seed": seed, **options}
    if heads:
        values["heads"] = heads_of(heads)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise RunError(f"--set {change}: wanted KEY=VALUE, such as --set learning_rate=1e-4.")
        values[key.strip()] = text.strip()
    values = {key: _from_text(key, value) for key, value in values.items()}
    if "scales" in values:
        values.setdefault("test_scales", ())  # who says what to train at means testing too
    # the recipe fits its other settings to the backbone and the number of steps
    shape = {key: values.pop(key) for key in ("backbone", "steps") if key in values}
    recipe = RECIPES[name](**shape).replace(**values)
    if recipe.freeze_backbone and not recipe.weights:
        raise RunError(
            f"recipe {name}: leaves the convolutions of {recipe.backbone} as they are, and without weights they are random. Name "
            "some with --weights, or let them learn with --set freeze_backbone=false."
        )
    return recipe


def heads_of(text: str) -> tuple[str, ...]:
    """Return the heads that a text names: both (the paper's), all, or names of heads with commas."""
    named = {"both": HEADS, "all": ALL_HEADS}
    heads = named.get(text) or tuple(head for head in ALL_HEADS if head in text.split(","))
    for word in () if text in named else text.split(","):
        if word not in ALL_HEADS:
            raise RunError(f"--heads {text}: not known.{did_you_mean(word, (*named, *ALL_HEADS))}")
    return heads


def seed_numbers(text: str) -> tuple[int, ...]:
    """Return seeds written with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise RunError(f"--seeds {text}: wanted whole numbers with commas, such as 0,1,2.")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _from_text(key: str, value: Any) -> Any:
    """Return the value of a setting that was typed as text: numbers, true and false, lists with commas."""
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Recipe)}
    default = defaults.get(key)
    if not isinstance(value, str) or isinstance(default, str) or default is None:
        return "" if key == "weights" and value == "none" else value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, tuple):
            numbers = not default or isinstance(default[0], int)
            return tuple(int(part) if numbers else part for part in value.split(",") if part)
        return type(default)(value)
    except (ValueError, KeyError):
        raise RunError(f"{key} = {value}: should be like {toml(default)}.") from None
