"""The convolutional layers: images -> feature maps, with stride and input normalisation."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from deep_patch_learning.model.kernels.fused import run
from deep_patch_learning.model.padding import PaddingGuard


@dataclass(frozen=True)
class Normalisation:
    """The input of a backbone: (RGB / divisor - mean) / std, channels reversed for `bgr` weights."""

    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    divisor: float = 255.0
    bgr: bool = False


# Caffe's weights were trained on BGR pixels from 0 to 255 with this mean (given here in RGB order).
CAFFE = Normalisation(mean=(123.68, 116.779, 103.939), std=(1.0, 1.0, 1.0), divisor=1.0, bgr=True)


class Backbone(nn.Module):
    """A convolutional body with its stride and input normalisation.

    `stride` is how many pixels of the image one cell of the maps stands for; `channels` is the depth of the maps. With
    `frozen_norm`, batch norm keeps the statistics it was pretrained with, since a micro-batch is too small to estimate new ones.
    A body that is not `guarded` against padding (see `model/padding.py`) gets images of one size at a time.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        body: nn.Module,
        channels: int,
        stride: int,
        normalisation: Normalisation | None = None,
        frozen_norm: bool = False,
        guarded: bool = True,
    ) -> None:
        super().__init__()
        normalisation = normalisation or Normalisation()
        self.body = body
        self.channels = channels
        self.stride = stride
        self.bgr = normalisation.bgr
        self.frozen_norm = frozen_norm
        scaled_mean = torch.tensor(normalisation.mean) * normalisation.divisor
        scaled_std = torch.tensor(normalisation.std) * normalisation.divisor
        self.register_buffer("mean", scaled_mean.view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", scaled_std.view(1, 3, 1, 1), persistent=False)
        self._guard = PaddingGuard(body) if guarded else None
        self._frozen: list[nn.Module] = []

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> Tensor:
        """Return feature maps (I, D, h, w) of images (I, 3, H, W), RGB from 0 to 255.

        `sizes` (I, 2) gives the real height and width of images that were padded; None means that none was.
        """
        pixels = (images - self.mean) / self.std
        if self.bgr:
            pixels = pixels.flip(1)
        if sizes is None:
            return run(self.body, pixels)
        if self._guard is not None:
            return self._guard(self.body, pixels, sizes)
        return self._one_size_at_a_time(pixels, sizes)

    def _one_size_at_a_time(self, pixels: Tensor, sizes: Tensor) -> Tensor:
        maps: Tensor | None = None
        for height, width in torch.unique(sizes, dim=0).tolist():
            same = (sizes == sizes.new_tensor([height, width])).all(dim=1).nonzero().flatten()
            found = self.body(pixels[same, :, : max(height, 64), : max(width, 64)])
            if maps is None:
                rows, columns = -(-pixels.shape[2] // self.stride) + 1, -(-pixels.shape[3] // self.stride) + 1
                maps = found.new_zeros(len(pixels), found.shape[1], rows, columns)
            padding = (0, maps.shape[3] - found.shape[3], 0, maps.shape[2] - found.shape[2])
            maps = maps.index_copy(0, same, torch.nn.functional.pad(found, padding))
        assert maps is not None  # a batch holds at least one image
        return maps

    def stages(self) -> list[list[nn.Module]]:
        """Return the layers in groups, each working at one size of maps: up to a max-pooling, or a residual network's stage."""
        groups: list[list[nn.Module]] = [[]]
        for layer in self.body.children():
            if isinstance(layer, nn.Sequential) and groups[-1]:
                groups.append([])
            groups[-1].append(layer)
            if isinstance(layer, nn.MaxPool2d):
                groups.append([])
        return [group for group in groups if group]

    def freeze(self, stages: int) -> None:
        """Freeze the first stages: from now on their weights do not change."""
        self._frozen = [layer for stage in self.stages()[:stages] for layer in stage]

    def let_learn(self, learning: bool = True) -> None:
        """Make the weights trainable, or not; those of frozen stages never are."""
        self.requires_grad_(learning)
        for layer in self._frozen:
            layer.requires_grad_(False)

    def train(self, mode: bool = True) -> "Backbone":
        """Return itself in training mode, with pretrained batch norm, and that of frozen stages, in evaluation mode."""
        super().train(mode)
        for layers in [self.body] if self.frozen_norm else self._frozen:
            freeze_norms(layers)
        return self


def freeze_norms(module: nn.Module) -> None:
    """Put every batch norm under `module` into evaluation mode."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()


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
