"""Convolution, frozen norm, residual sum and ReLU as one kernel, forward and in training.

A residual network whose batch norms are frozen is a chain of convolutions with biases: `fold_norms` makes it one. On a GPU in
half precision `run` then passes such chains through cuDNN's fused convolutions. Left to separate kernels, the norms, sums and
ReLUs take more time than the convolutions.
"""

import itertools
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary


def fold_norms(module: nn.Module) -> None:
    """Fold each batch norm into the convolution in front of it, in place; the function computed stays the same."""
    from torchvision.models.resnet import Bottleneck

    for block in module.modules():
        if isinstance(block, Bottleneck):
            for number in (1, 2, 3):
                _fold(block, f"conv{number}", f"bn{number}")
        elif isinstance(block, nn.Sequential):
            names = list(block._modules)
            for first, second in itertools.pairwise(names):
                if isinstance(block._modules[first], nn.Conv2d) and isinstance(block._modules[second], nn.BatchNorm2d):
                    _fold(block, first, second)


def _fold(block: nn.Module, conv: str, norm: str) -> None:
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    convolution, batch_norm = getattr(block, conv), getattr(block, norm)
    if isinstance(batch_norm, nn.BatchNorm2d):
        # copied into the same module, which may carry hooks
        fused = fuse_conv_bn_eval(convolution.eval(), batch_norm.eval())
        convolution.weight, convolution.bias = nn.Parameter(fused.weight.detach()), nn.Parameter(fused.bias.detach())
        setattr(block, norm, nn.Identity())


def run(module: nn.Module, maps: Tensor) -> Tensor:
    """Return `module(maps)`; on a GPU under autocast, chains of convolution, sum and ReLU are one kernel each."""
    if not (maps.is_cuda and torch.is_autocast_enabled("cuda")):
        return module(maps)
    dtype = torch.get_autocast_dtype("cuda")
    return _run(module, maps.to(dtype).contiguous(memory_format=torch.channels_last))


def _run(module: nn.Module, maps: Tensor) -> Tensor:
    from torchvision.models.resnet import Bottleneck

    if isinstance(module, Bottleneck) and isinstance(module.bn1, nn.Identity):
        beside = maps if module.downsample is None else _run(module.downsample, maps)
        maps = _convolve(module.conv1, maps)
        maps = _convolve(module.conv2, maps)
        return _convolve(module.conv3, maps, beside)
    if not isinstance(module, nn.Sequential):
        return module(maps)
    layers = [layer for layer in module if not isinstance(layer, nn.Identity)]
    at = 0
    while at < len(layers):
        followed = at + 1 < len(layers) and isinstance(layers[at + 1], nn.ReLU)
        if followed and _fusible(layers[at]):
            maps = _convolve(cast(nn.Conv2d, layers[at]), maps)
            at += 1
        else:
            maps = _run(layers[at], maps)
        at += 1
    return maps


def _fusible(layer: nn.Module) -> bool:
    # cuDNN's fused kernels want channels in eights, which the colours are not
    return isinstance(layer, nn.Conv2d) and layer.bias is not None and layer.in_channels % 8 == 0


class _HalfCopies:
    """Weights in half precision. Those that learn are copied at each pass; the others only once.

    That a weight was changed cannot be seen from outside: fused optimisers write without raising its version. So a weight that
    takes part in learning is never remembered.
    """

    def __init__(self) -> None:
        self._held = WeakTensorKeyDictionary()

    def __call__(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        if weight.requires_grad and torch.is_grad_enabled():
            self._held.pop(weight, None)
            return _halved(weight, dtype)
        state = (weight._version, weight.data_ptr(), dtype)
        held = self._held.get(weight)
        if held is None or held[0] != state:
            held = self._held[weight] = (state, _halved(weight, dtype))
        return held[1]


def _halved(weight: Tensor, dtype: torch.dtype) -> Tensor:
    copy = weight.detach().to(dtype)
    return copy.contiguous(memory_format=torch.channels_last) if copy.ndim == 4 else copy


half_copy = _HalfCopies()


def _convolve(layer: nn.Conv2d, maps: Tensor, beside: Tensor | None = None) -> Tensor:
    """Return relu(layer(maps) + beside)."""
    # here and not in `forward` below, within which no weight seems to learn
    halves = half_copy(layer.weight, maps.dtype), half_copy(cast(Tensor, layer.bias), maps.dtype)
    way = (layer.stride, layer.padding, layer.dilation, layer.groups)
    if not torch.is_grad_enabled():
        return _kernel(maps, halves, beside, way)
    return _ConvolveRelu.apply(maps, layer.weight, layer.bias, beside, halves, way)


def _kernel(maps: Tensor, halves: tuple[Tensor, Tensor], beside: Tensor | None, way: tuple[Any, ...]) -> Tensor:
    if beside is None:
        return torch.cudnn_convolution_relu(maps, *halves, *way)
    return torch.cudnn_convolution_add_relu(maps, halves[0], beside, 1.0, halves[1], *way)


class _ConvolveRelu(torch.autograd.Function):
    """relu(convolution + beside) of `halves`, the copies of weight and bias in half precision; `way` is how it slides."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor,
        beside: Tensor | None,
        halves: tuple[Tensor, Tensor],
        way: tuple[Any, ...],
    ) -> Tensor:
        out = _kernel(maps, halves, beside, way)
        ctx.save_for_backward(maps, halves[0], out)
        ctx.way = way
        ctx.beside = beside is not None
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        maps, halved, out = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.way
        gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
        wanted = list(ctx.needs_input_grad[:3])
        to_maps, to_weight, to_bias = torch.ops.aten.convolution_backward(
            gradient, maps, halved, [len(halved)], stride, padding, dilation, False, [0, 0], groups, wanted
        )
        return to_maps, to_weight, to_bias, gradient if ctx.beside else None, None, None
