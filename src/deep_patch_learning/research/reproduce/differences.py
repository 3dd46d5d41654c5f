"""In which points a row is not the paper's experiment, in plain words."""

import json
from pathlib import Path

from deep_patch_learning.recipe.recipe import PAPER_SCALES, Recipe
from deep_patch_learning.research.reproduce import paper
from deep_patch_learning.research.reproduce.plan import Protocol, Splits, missing_images

_BACKBONES = {
    "alexnet": "torchvision's AlexNet is not the paper's CaffeNet",
    "caffenet": "",
    "vgg16": "",
    "vgg16-caffe": "",
}


def differences(
    recipe: Recipe, protocol: Protocol, splits: Splits, images: int, limit: int | None = None, ablation: bool = False
) -> str:
    """Return what differs from the paper's experiment, one clause after the other; empty when nothing does.

    `images` is how many were measured; `ablation` says that the paper's row beside it is of AlexNet.
    """
    clauses = [
        _split_clause(protocol, splits),
        f"the first {limit:,} images of each list" if limit else missing_images(protocol, splits.measured_on, images),
        _BACKBONES.get(recipe.backbone, f"{recipe.backbone} in place of the paper's AlexNet and VGG16"),
        _weights_clause(recipe),
        *_recipe_clauses(recipe),
    ]
    if ablation and paper.counterpart(recipe.backbone) == paper.VGG16:
        clauses.append("the paper compares with AlexNet here")
    if ablation and protocol.year != 2007:
        clauses.append("the paper compares on VOC 2007 here")
    return "; ".join(clause for clause in clauses if clause)


def _split_clause(protocol: Protocol, splits: Splits) -> str:
    if splits.measured_on == "val":
        return "trained on train and measured on val: not the paper's split"
    return ""


def _weights_clause(recipe: Recipe) -> str:
    if not recipe.weights:
        return "all layers start at random"
    if recipe.weights.lower() == "imagenet" and recipe.backbone == "vgg16":
        return "torchvision's VGG16 weights, not Caffe's"
    path = Path(recipe.weights)
    if path.suffix == ".safetensors" and path.is_file() and paper.counterpart(recipe.backbone):
        return _file_clause(path)
    return ""


def _file_clause(path: Path) -> str:
    """Return what a weight file of AlexNet or VGG16 says of its patch layers, fc6 and fc7."""
    from safetensors import safe_open

    about = path.with_name("data.json")  # beside the weights of a run
    if about.is_file() and "distilling" in json.loads(about.read_text(encoding="utf-8")):
        return "fc6 and fc7 distilled"
    with safe_open(path, "pt") as file:
        names = list(file.keys())
    if not any(part in name for name in names for part in ("fc6", "classifier.")):
        return "fc6 and fc7 start at random"
    return ""


def _recipe_clauses(recipe: Recipe) -> list[str]:
    samples = recipe.total_steps * recipe.batch_images
    usual = paper.SAMPLES + (10_000 if paper.counterpart(recipe.backbone) == paper.VGG16 else 0)
    clauses = []
    if samples != usual:
        clauses.append(f"{samples:,} samples in training, the paper's are {usual:,}")
    if recipe.name != "paper":
        clauses.append(f"the {recipe.name} recipe ({recipe.optimiser}, {recipe.batch_images} images a step)")
    if recipe.patches == "selective-search" and recipe.search_mode != "original":
        clauses.append("this package's faster Selective Search")
    if recipe.patches_per_sample:
        clauses.append(f"{recipe.patches_per_sample} patches drawn at each sample, the paper takes all")
    if recipe.scales not in (PAPER_SCALES, (paper.SINGLE_SCALE,)):
        clauses.append(f"scales {', '.join(map(str, recipe.scales))}")
    if recipe.test_scales:
        clauses.append(f"tested at {', '.join(map(str, recipe.test_scales))}")
    if recipe.box_selection != "best" and "discovery" in recipe.heads:
        clauses.append("boxes elected by vote, the paper takes the best patch")
    return clauses
