"""The recipes by name. `recipe/choose.py` reads the one that a command line asks for."""

from collections.abc import Callable
from typing import Any

from deep_patch_learning.model.backbones.registry import usual_weights
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.recipe.recipe import Recipe


def paper(backbone: str = "caffenet", steps: int = 40_000) -> Recipe:
    """Return the paper's recipe: two images a step, one at a time; 30K steps at 1e-3 and 10K at 1e-4.

    VGG16 gets 5K steps before them in which the heads alone are trained. Fewer steps keep these shares.
    """
    return Recipe.of(
        name="paper",
        backbone=backbone,
        weights=usual_weights(backbone),
        corners="inclusive",
        search_mode="original",
        steps=steps,
        head_first_steps=steps // 8 if backbone.startswith("vgg16") else 0,
        drops=(steps * 3 // 4,),
        momentum_convention="caffe",
    )


def modern(backbone: str = "resnet50", steps: int = 2_500) -> Recipe:
    """Return a recipe for today's machines: 8 images a step, AdamW with warm-up and cosine, bf16 on a GPU."""
    return Recipe.of(
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
    """Return `modern` with a refinement beside the paper's heads, which gives the boxes and moves them onto whole objects.

    More patches are drawn, since each has a class to learn. Where the patch layers keep cells apart, the refinement reads
    four of each patch: the features at its borders tell a whole object from a part or a wide frame. In the vote a patch is
    weighted by a high power of its probability, since probabilities are sharper than the heads' scores.
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
    """Return `refined` for a laptop: a small network, few patches, one scale in prediction, a frozen backbone.

    Its maps are computed once for each image, scale and flip: most of a training's time where images are few.

    Regions of each sample are erased and many patches have a say in the vote: with some hundred images the refinement would
    otherwise learn the part by which a class is recognised best, such as the head of an animal, and frame that.
    With a GPU, set `freeze_backbone` to false to train all layers. Pseudo boxes of a larger network (`--pseudo-boxes-from`) give
    the best boxes.
    """
    places = {"refinement_cells": 3} if backbone.startswith("lite0") else {}
    return refined(backbone, steps).replace(
        name="fast",
        boxes="elected",
        vote_sharpness=0.5,
        scales=(384, 448, 512),
        test_scales=(448,),
        patches_per_image=300,
        patches_per_sample=128,
        erased_regions=2,
        refinement_width=192,
        learning_rate=1e-4,
        freeze_backbone=True,
        keep_maps=True,
        frozen_stages=0,
        **places,
    )


# Everything that `best` changes in `refined`, and the samples of each of its trainings.
BEST: dict[str, Any] = {
    "seeds": "votes",
    "seeds_per_class": 3,
    "scales": (600, 800, 1000),
    "test_scales": (800,),
    "test_flips": True,
    "patches_per_sample": 768,
    "first_networks": 3,
    "rounds": 1,
}
BEST_SAMPLES_PER_ROOT = 400  # of the number of images
BEST_FEWEST_SAMPLES = 8_000


def best(backbone: str = "resnet50", steps: int = 4_000) -> Recipe:
    """Return `refined` for the best boxes: large images, several first networks, and self-training rounds on their boxes."""
    return refined(backbone, steps).replace(name="best", **BEST)


def world(backbone: str = "tiny", steps: int = 700) -> Recipe:
    """Return the recipe of the synthetic data set: the tiny network on its pretrained convolutions, half a minute on two cores.

    Few patches are drawn for each sample: the many that frame a whole object alike are then drawn more often than any
    single patch on a part of it.
    """
    return Recipe.of(
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


# what a self-training round changes: each tag has one pseudo box, and one classifier is enough to learn from it
SELF_TRAINING_ROUND = {"seeds": "pseudo-boxes", "seeds_per_class": 1, "refinements": 1}


def self_training_round(recipe: Recipe) -> Recipe:
    """Return the recipe of a refinement that learns from the boxes of another run."""
    return recipe.replace(**SELF_TRAINING_ROUND)


RECIPES: dict[str, Callable[..., Recipe]] = {
    "paper": paper,
    "modern": modern,
    "refined": refined,
    "fast": fast,
    "best": best,
    "world": world,
    "refined-world": refined_world,
}
