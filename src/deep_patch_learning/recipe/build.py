"""Recipe -> network, losses, patch generator, box selection and optimiser: the only place where settings become parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbones.registry import Trunk
from deep_patch_learning.model.backbones.registry import trunk as build_trunk
from deep_patch_learning.model.classification import PAPER_BANDS, PROGRAM_BANDS, ClassificationHead, SpatialPyramid
from deep_patch_learning.model.discovery import DiscoveryHead
from deep_patch_learning.model.kernels.fused import fold_norms
from deep_patch_learning.model.network import ALL_HEADS, DeepPatchNet
from deep_patch_learning.model.pooling import SpatialPyramidPooling
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.generator import PatchGenerator, ProposalFile, is_file
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.heads import Refinement
from deep_patch_learning.refinement.selection import ELECTIONS, BoxSelection

if TYPE_CHECKING:  # not needed to load a trained network
    from deep_patch_learning.model.backbones.weights import FilledLayers
    from deep_patch_learning.refinement.losses import RefinedLosses

BANDS = {"program": PROGRAM_BANDS, "paper": PAPER_BANDS}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw the random numbers inside, on the CPU, from this seed; those outside go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def build_network(recipe: Recipe, classes: int, pretrained: bool = True) -> "tuple[DeepPatchNet, FilledLayers | None]":
    """Return the network of a recipe and, where it names weights, which layers they filled.

    Only [model] and [refinement] are read. Without `pretrained` the weights are not read: those of a run take their place.
    """
    trunk = build_trunk(recipe.model.backbone)
    network = _assemble(trunk, recipe, classes)
    if hasattr(trunk.patch_features, "fc6") and recipe.model.backbone != "tiny":
        for layer in (trunk.patch_features.fc6, trunk.patch_features.fc7):
            nn.init.normal_(layer.weight, std=0.01)  # type: ignore[union-attr,arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[union-attr,arg-type]
    start_biases(network, recipe.model.head_bias)
    if pretrained and recipe.model.weights:
        return network, _fill(network, trunk, recipe.model.weights)
    if trunk.folded:
        fold_norms(network)
    return network, None


def _fill(network: DeepPatchNet, trunk: Trunk, weights: str) -> "FilledLayers":
    """Fill pretrained weights into a network and return which layers they filled."""
    from deep_patch_learning.model.backbones.weights import fill, read_weights

    tensors = read_weights(weights, trunk)
    # weights that a training of ours wrote have their norms folded already
    folded_before = any(name.startswith("backbone.") for name in tensors)
    if trunk.folded and folded_before:
        fold_norms(network)
    filled = fill(network, trunk, tensors, weights)
    if trunk.folded and not folded_before:
        fold_norms(network)
    return filled


def _assemble(trunk: Trunk, recipe: Recipe, classes: int) -> DeepPatchNet:
    """Return the network with new heads on a trunk."""
    heads, beyond = recipe.model.heads, recipe.refinement
    for head in heads:
        if head not in ALL_HEADS:
            raise ModelError(f"there is no head '{head}'.{did_you_mean(head, ALL_HEADS)}")
    if not heads:
        raise ModelError(f"no head was asked for. Choose among {', '.join(ALL_HEADS)}.")
    width: int = trunk.patch_features.width  # type: ignore[assignment]
    cells: int = getattr(trunk.patch_features, "places", 1)  # 1 for fc6, which has read all cells at once
    if not 1 <= beyond.refinement_cells <= cells:
        raise ModelError(
            f"refinement_cells = {beyond.refinement_cells}, but the patch layers of {recipe.model.backbone} keep {cells} cells "
            f"along a side apart. Use --set refinement_cells={cells} at most."
        )
    # a head that is not asked for is not built: its random numbers would change the others
    classification = discovery = refinement = None
    if "classification" in heads:
        pyramid = SpatialPyramid(BANDS[recipe.model.bands])
        classification = ClassificationHead(width, classes, recipe.model.filters, pyramid)
    if "discovery" in heads:
        discovery = DiscoveryHead(width, classes)
    if "refinement" in heads:
        placed = width * beyond.refinement_cells**2
        refinement = Refinement(
            placed,
            classes,
            beyond.refinements,
            beyond.refinement_width,
            beyond.regression,
            beyond.refinement_cells,
        )
    return DeepPatchNet(
        trunk.backbone,
        SpatialPyramidPooling(trunk.pooled_size, trunk.backbone.stride, recipe.model.corners == "inclusive"),
        trunk.patch_features,
        classification,
        discovery,
        refinement,
    )


def start_biases(network: nn.Module, bias: float) -> None:
    """Let the layers that give class scores, in the heads of `network`, start with this bias."""
    for head in (getattr(network, "classification", None), getattr(network, "discovery", None)):
        layer = getattr(head, "classifier", None) or getattr(head, "patch_classifier", None) or head
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, bias)


def recipe_losses(recipe: Recipe) -> "RefinedLosses":
    """Return the losses of all heads, with a recipe's seeds for the refinement."""
    from deep_patch_learning.model.losses import HeadLosses
    from deep_patch_learning.refinement.losses import RefinedLosses, RefinementLosses
    from deep_patch_learning.refinement.seeds import seed_rule

    chosen = recipe.refinement
    seeds = seed_rule(
        chosen.seeds,
        chosen.seeds_per_class,
        chosen.seed_share,
        chosen.seed_floor,
        chosen.seed_sharpness,
        chosen.seed_area_power,
    )
    refinement = RefinementLosses(seeds, chosen.foreground, chosen.background, chosen.by_cluster)
    return RefinedLosses(HeadLosses(recipe.optimiser.reduction, recipe.optimiser.unknown), refinement)


def recipe_patches(recipe: Recipe) -> PatchGenerator:
    """Return the patch generator or proposal file that a recipe names."""
    data = recipe.data
    if is_file(data.patches):
        return ProposalFile(data.patches)
    if data.patches != "selective-search":
        return generator(data.patches)
    return selective_search(data.search_mode, data.min_patch_side, data.patches_per_image)


def selective_search(mode: str, min_side: int, kept: int = 0) -> PatchGenerator:
    """Return Selective Search in a mode; the original one searches images of up to 500 pixels."""
    options = {"max_side": 500} if mode == "original" else {}
    return generator("selective-search", mode=mode, min_side=min_side, max_boxes=kept or None, **options)


def recipe_box_selection(recipe: Recipe) -> BoxSelection:
    """Return how the boxes of a class are selected with a recipe; without a vote none is elected."""
    test = recipe.test
    vote = test.box_selection == "vote"
    elections = ELECTIONS if vote and test.boxes == "elected" else 0
    return BoxSelection(vote, test.vote_sharpness, test.area_power, elections, test.part_weight)


def recipe_optimiser(network: nn.Module, recipe: Recipe, fused: bool = False) -> torch.optim.Optimizer:
    """Return the optimiser; each group carries `factor`, what its learning rate is multiplied by; `fused` is for a GPU.

    Biases (and norms) have no weight decay. Biases learn `bias_learning_rate` times as fast, heads `head_learning_rate`.
    """
    settings = recipe.optimiser
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        factor = settings.head_learning_rate if name.startswith(tuple(f"{head}." for head in ALL_HEADS)) else 1.0
        plain = parameter.ndim == 1
        if name.endswith(".bias"):
            factor *= settings.bias_learning_rate
        groups.setdefault((factor, 0.0 if plain else settings.weight_decay), []).append(parameter)
    parameters: list[dict[str, Any]] = [
        {"params": members, "factor": factor, "weight_decay": decay} for (factor, decay), members in groups.items()
    ]
    if settings.optimiser == "sgd" and settings.momentum_convention == "caffe":
        from deep_patch_learning.model.optimiser import CaffeSGD

        return CaffeSGD(parameters, settings.learning_rate, settings.momentum)
    if settings.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=settings.momentum, fused=fused)
    return torch.optim.AdamW(parameters, lr=settings.learning_rate, fused=fused)
