"""Trunk: what a backbone brings to the network."""

from dataclasses import dataclass, field

from torch import nn

from deep_patch_learning.model.backbone import Backbone


@dataclass(frozen=True)
class Trunk:
    """What a backbone brings to the network: maps, the SPP layer's output size, and the patch layers.

    `layer_names` maps the beginning of a pretrained layer's name to its name here; `torchvision_weights` names the
    weights that `weights="imagenet"` stands for, and `shipped_weights` the files of this package by the names they go by.
    With `folded`, the frozen norms become part of the convolutions once the weights are filled in.
    """

    backbone: Backbone
    pooled_size: int
    patch_features: nn.Module
    layer_names: dict[str, str]
    torchvision_weights: str | None = None
    shipped_weights: dict[str, str] = field(default_factory=dict)
    folded: bool = False
