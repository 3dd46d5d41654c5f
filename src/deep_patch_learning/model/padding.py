"""Images of different sizes in one batch, each computed as if it were alone.

Images are padded with zeros at the right and bottom. Without care the first convolution's bias would fill that padding
and later layers would mix it into the image's edge. `PaddingGuard` zeroes everything beyond each image's own edge in
front of every layer that reads neighbouring cells, which is what zero padding does for a single image.
"""

from threading import get_ident

import torch
from torch import Tensor, nn

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
