"""Names and numbers -> a network: the one place where a recipe becomes parts."""

from collections.abc import Sequence

from torch import nn

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbones.catalogue import trunk as build_trunk
from deep_patch_learning.model.backbones.weights import FilledLayers, fill, read_weights
from deep_patch_learning.model.classification import PAPER_BANDS, PROGRAM_BANDS, ClassificationHead, SpatialPyramid
from deep_patch_learning.model.discovery import DiscoveryHead
from deep_patch_learning.model.kernels.fused import fold_norms
from deep_patch_learning.model.losses import HeadLosses
from deep_patch_learning.model.network import ALL_HEADS, HEADS, DeepPatchNet
from deep_patch_learning.model.pooling import SpatialPyramidPooling
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.heads import Refinement
from deep_patch_learning.refinement.losses import RefinedLosses, RefinementLosses
from deep_patch_learning.refinement.seeds import choice_of_seeds

BANDS = {"program": PROGRAM_BANDS, "paper": PAPER_BANDS}


def build_network(
    backbone: str,
    classes: int,
    heads: Sequence[str] = HEADS,
    filters: int = 256,
    bands: str = "program",
    weights: str | None = None,
    head_bias: float = 0.0,
    refinements: int = 3,
    refinement_width: int = 2048,
    regression: bool = False,
    refinement_cells: int = 1,
) -> tuple[DeepPatchNet, FilledLayers | None]:
    """Return the network and, where `weights` were given, which layers they filled.

    The last four settings are those of the head `refinement`: how many classifiers, the width of their hidden layer, whether
    boxes are moved, and how many places along a patch's side are told apart.
    """
    for head in heads:
        if head not in ALL_HEADS:
            raise ModelError(f"there is no head '{head}'.{did_you_mean(head, ALL_HEADS)}")
    if not heads:
        raise ModelError(f"no head was asked for. Choose among {', '.join(ALL_HEADS)}.")
    trunk = build_trunk(backbone)
    width: int = trunk.patch_features.width  # type: ignore[assignment]
    places: int = getattr(trunk.patch_features, "places", 1)  # fc6 has read what lies where
    if not 1 <= refinement_cells <= places:
        raise ModelError(
            f"refinement_cells = {refinement_cells}, but the patch layers of {backbone} tell {places} places along a side "
            f"apart. Use --set refinement_cells={places} at most."
        )
    placed = width * refinement_cells**2
    network = DeepPatchNet(
        trunk.backbone,
        SpatialPyramidPooling(trunk.pooled_size, trunk.backbone.stride),
        trunk.patch_features,
        ClassificationHead(width, classes, filters, SpatialPyramid(BANDS[bands]))
        if "classification" in heads
        else None,
        DiscoveryHead(width, classes) if "discovery" in heads else None,
        Refinement(placed, classes, refinements, refinement_width, regression) if "refinement" in heads else None,
        refinement_cells,
    )
    if isinstance(trunk.patch_features, nn.Module) and hasattr(trunk.patch_features, "fc6") and backbone != "tiny":
        for layer in (trunk.patch_features.fc6, trunk.patch_features.fc7):
            nn.init.normal_(layer.weight, std=0.01)  # type: ignore[union-attr,arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[union-attr,arg-type]
    start_biases(network, head_bias)
    tensors = read_weights(weights, trunk) if weights else {}
    # weights that a training of ours wrote have their norms folded already
    folded_before = any(name.startswith("backbone.") for name in tensors)
    if trunk.folded and folded_before:
        fold_norms(network)
    report = fill(network, trunk, tensors, weights) if weights else None
    if trunk.folded and not folded_before:
        fold_norms(network)
    return network, report


def start_biases(network: nn.Module, bias: float) -> None:
    """Let the layers that give class scores, in the heads of `network`, start with this bias."""
    for head in (getattr(network, "classification", None), getattr(network, "discovery", None)):
        layer = getattr(head, "classifier", None) or getattr(head, "patch_classifier", None) or head
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, bias)


def recipe_losses(recipe: Recipe) -> RefinedLosses:
    """Return the losses of all heads, with a recipe's seeds for the refinement."""
    seeds = choice_of_seeds(
        recipe.seeds,
        recipe.seeds_per_class,
        recipe.seed_share,
        recipe.seed_floor,
        recipe.seed_sharpness,
        recipe.seed_area_power,
    )
    refinement = RefinementLosses(seeds, recipe.foreground, recipe.background, recipe.by_cluster)
    return RefinedLosses(HeadLosses(recipe.reduction, recipe.unknown), refinement)


def recipe_patches(recipe: Recipe) -> PatchGenerator:
    """Return the patch generator that a recipe names."""
    if recipe.patches != "selective-search":
        return generator(recipe.patches)
    return selective_search(recipe.search_mode, recipe.min_patch_side, recipe.patches_per_image)


def selective_search(mode: str, min_side: int, kept: int = 0) -> PatchGenerator:
    """Return Selective Search in a mode; the original one searches images of up to 500 pixels."""
    options = {"max_side": 500} if mode == "original" else {}
    return generator("selective-search", mode=mode, min_side=min_side, max_boxes=kept or None, **options)
