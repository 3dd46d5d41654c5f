"""The convolutional layers: images -> feature maps, with stride and input normalisation."""

from dataclasses import dataclass, field
from threading import get_ident

import torch
from torch import Tensor, nn

from deep_patch_learning.model.kernels.fused import run

# Images of different sizes in one batch, each computed as if it were alone. They are padded with zeros at the right and bottom.
# Without care the first convolution's bias would fill that padding and later layers would mix it into the image's edge.
# `PaddingGuard` zeroes everything beyond each image's own edge in front of every layer that reads neighbouring cells, which is
# what zero padding does for a single image.

Windowed = nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def output_sizes(layer: nn.Module, sizes: Tensor) -> Tensor:
    """Return the (height, width) of each image after `layer`: (I, 2) -> (I, 2)."""
    kernel, stride, padding = (_pair(getattr(layer, name)) for name in ("kernel_size", "stride", "padding"))
    dilation = _pair(getattr(layer, "dilation", 1))
    columns = []
    for axis in range(2):
        free = sizes[:, axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        if getattr(layer, "ceil_mode", False):
            steps = -(-free // stride[axis])
            # a window may not start beyond the image and its left padding
            steps = steps - ((steps * stride[axis]) >= sizes[:, axis] + padding[axis]).long()
        else:
            steps = free // stride[axis]
        columns.append(steps + 1)
    return torch.stack(columns, dim=1).clamp(min=0)


def zero_beyond(maps: Tensor, sizes: Tensor) -> Tensor:
    """Return `maps` (I, D, h, w) with zeros outside each image's own (height, width) in `sizes` (I, 2)."""
    rows = torch.arange(maps.shape[2], device=maps.device) < sizes[:, :1]  # (I, h)
    columns = torch.arange(maps.shape[3], device=maps.device) < sizes[:, 1:]  # (I, w)
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return maps.masked_fill(~inside, 0)


class PaddingGuard:
    """Runs a convolutional body on a padded batch so that no image sees the padding of another.

    Exact for bodies of convolutions, pooling after ReLU and per-pixel layers (in evaluation mode for batch norm). Layers that
    average over the whole map, such as squeeze-and-excitation, do see the padding: feed such bodies equal sizes.
    """

    def __init__(self, body: nn.Module) -> None:
        # The sizes of the images at each resolution that the body has reached, by the padded height and width. Of each thread
        # its own: several may predict with one network.
        self._reached: dict[int, dict[tuple[int, int], Tensor]] = {}
        for layer in body.modules():
            if isinstance(layer, Windowed):
                layer.register_forward_pre_hook(self._before)
                layer.register_forward_hook(self._after)

    def __call__(self, body: nn.Module, images: Tensor, sizes: Tensor) -> Tensor:
        """Return the body's maps (I, D, h, w), zero beyond each image's edge."""
        reached = self._reached[get_ident()] = {(images.shape[2], images.shape[3]): sizes}
        try:
            maps = body(images)
            return zero_beyond(maps, reached[maps.shape[2], maps.shape[3]])
        finally:
            del self._reached[get_ident()]

    def _before(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        reached = self._reached.get(get_ident())
        if reached is None or _pair(layer.kernel_size) == (1, 1):  # type: ignore[arg-type]
            return None
        maps = inputs[0]
        return (zero_beyond(maps, reached[maps.shape[2], maps.shape[3]]),)

    def _after(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        reached = self._reached.get(get_ident())
        if reached is not None:
            before = reached[inputs[0].shape[2], inputs[0].shape[3]]
            reached[output.shape[2], output.shape[3]] = output_sizes(layer, before)


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
    A body that is not `guarded` against padding (see `PaddingGuard`) gets images of one size at a time.
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
