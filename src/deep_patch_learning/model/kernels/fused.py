"""Layers by the kernels of cuDNN and oneDNN: convolution, frozen norm, residual sum and ReLU as one; large products on the CPU.

A residual network whose batch norms are frozen is a chain of convolutions with biases: `fold_norms` makes it one. On a GPU in
half precision `run` then computes such chains by cuDNN's fused convolutions. With a kernel each, the norms, sums and ReLUs
take more time than the convolutions.

On the CPU `linear` gives large products to oneDNN; torch leaves them to MKL. On one core of an AMD EPYC the hidden layer of the
shipped model's refinement takes 11.6 ms there for 300 patches, and 5.3 ms here. Other processors were not measured.
"""

import itertools
import sys
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# multiplications of a product: below it both take little time, and results stay those of torch to the last digit
LARGE = 2**26


def _bottleneck() -> Any:
    """Return the block of torchvision's residual networks, or no class where torchvision, a second to import, is not loaded."""
    resnet = sys.modules.get("torchvision.models.resnet")
    return () if resnet is None else resnet.Bottleneck


def fold_norms(module: nn.Module) -> None:
    """Fold each batch norm into the convolution in front of it, in place; the function computed stays the same."""
    bottleneck = _bottleneck()
    for block in module.modules():
        if isinstance(block, bottleneck):
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
    return run_fused(module, maps.to(dtype).contiguous(memory_format=torch.channels_last))


def run_fused(module: nn.Module, maps: Tensor) -> Tensor:
    """Return `module(maps)` through fused kernels, with copies of its weights in the precision of `maps`."""
    return _run(module, maps, _copies_of(module, maps.dtype))


def _run(module: nn.Module, maps: Tensor, copies: "Copies") -> Tensor:
    if isinstance(module, _bottleneck()) and isinstance(module.bn1, nn.Identity):
        beside = maps if module.downsample is None else _run(module.downsample, maps, copies)
        maps = _convolve(module.conv1, maps, copies)
        maps = _convolve(module.conv2, maps, copies)
        return _convolve(module.conv3, maps, copies, beside)
    if not isinstance(module, nn.Sequential):
        return module(maps)
    layers = [layer for layer in module if not isinstance(layer, nn.Identity)]
    at = 0
    while at < len(layers):
        followed = at + 1 < len(layers) and isinstance(layers[at + 1], nn.ReLU)
        if followed and _fusible(layers[at]):
            maps = _convolve(cast(nn.Conv2d, layers[at]), maps, copies)
            at += 1
        else:
            maps = _run(layers[at], maps, copies)
        at += 1
    return maps


def _fusible(layer: nn.Module) -> bool:
    # cuDNN's fused kernels want channels in eights, which the colours are not
    return isinstance(layer, nn.Conv2d) and layer.bias is not None and layer.in_channels % 8 == 0


class Copies:
    """The weights and biases of a module's convolutions in half precision, all rewritten by one kernel at every forward pass.

    Whether a weight has changed cannot be known: fused optimisers write without raising its version. So no copy is reused by
    the next forward pass. A backward pass uses the copies of the latest forward pass, so the weights must not change between a
    forward pass and its backward pass.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        layers = [cast(nn.Conv2d, layer) for layer in module.modules() if _fusible(layer)]
        self._sources = [tensor.detach() for layer in layers for tensor in (layer.weight, cast(Tensor, layer.bias))]
        # not in inference mode: tensors made there could not be written in training
        with torch.inference_mode(False):
            self._targets = [torch.empty_like(tensor, dtype=dtype) for tensor in self._sources]
        self._of = {layer: (self._targets[2 * n], self._targets[2 * n + 1]) for n, layer in enumerate(layers)}
        self._dtype, self._places = dtype, self._lie_at()

    def __getitem__(self, layer: nn.Conv2d) -> tuple[Tensor, Tensor]:
        return self._of[layer]

    def fit(self, dtype: torch.dtype) -> bool:
        """Return whether these are copies of that precision, of weights that still lie where they did."""
        return dtype == self._dtype and self._lie_at() == self._places

    def refresh(self) -> "Copies":
        """Return itself, after writing all copies again."""
        if self._targets:
            torch._foreach_copy_(self._targets, self._sources)
        return self

    def _lie_at(self) -> list[int]:
        return [place for layer in self._of for place in (layer.weight.data_ptr(), cast(Tensor, layer.bias).data_ptr())]


_kept: WeakKeyDictionary[nn.Module, Copies] = WeakKeyDictionary()


def _copies_of(module: nn.Module, dtype: torch.dtype) -> Copies:
    copies = _kept.get(module)
    if copies is None or not copies.fit(dtype):
        copies = _kept[module] = Copies(module, dtype)
    return copies.refresh()


def _convolve(layer: nn.Conv2d, maps: Tensor, copies: Copies, beside: Tensor | None = None) -> Tensor:
    """Return relu(layer(maps) + beside)."""
    convolution = _Convolution(*copies[layer], (layer.stride, layer.padding, layer.dilation, layer.groups))
    if not torch.is_grad_enabled():
        return _kernel(maps, convolution, beside)
    return _ConvolveRelu.apply(maps, layer.weight, layer.bias, beside, convolution)


class _Convolution(NamedTuple):
    """A convolution in half precision: copies of weight and bias; `window` is stride, padding, dilation and groups."""

    weight: Tensor
    bias: Tensor
    window: tuple[Any, ...]


def _kernel(maps: Tensor, convolution: _Convolution, beside: Tensor | None) -> Tensor:
    weight, bias, window = convolution
    if beside is None:
        return torch.cudnn_convolution_relu(maps, weight, bias, *window)
    return torch.cudnn_convolution_add_relu(maps, weight, beside, 1.0, bias, *window)


class _ConvolveRelu(torch.autograd.Function):
    """relu(convolution + beside), with the gradients of the full-precision weight and bias."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor,
        beside: Tensor | None,
        convolution: _Convolution,
    ) -> Tensor:
        out = _kernel(maps, convolution, beside)
        ctx.save_for_backward(maps, out)
        ctx.halved = convolution.weight  # not saved as above, where rewriting it, even with equal values, is an error
        ctx.window = convolution.window
        ctx.beside = beside is not None
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        maps, out = ctx.saved_tensors
        halved = ctx.halved
        stride, padding, dilation, groups = ctx.window
        gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
        wanted = list(ctx.needs_input_grad[:3])
        to_maps, to_weight, to_bias = torch.ops.aten.convolution_backward(
            gradient, maps, halved, [len(halved)], stride, padding, dilation, False, [0, 0], groups, wanted
        )
        return to_maps, to_weight, to_bias, gradient if ctx.beside else None, None


def linear(layer: nn.Linear, features: Tensor) -> Tensor:
    """Return `layer(features)` of features (P, K), by oneDNN where the product is large and no gradient is wanted."""
    if not _by_onednn(layer, features):
        return F.linear(features, layer.weight, layer.bias)
    return torch.ops.mkldnn._linear_pointwise(features, layer.weight, layer.bias, "none", [], "")


def _by_onednn(layer: nn.Linear, features: Tensor) -> bool:
    if features.device.type != "cpu" or torch.is_grad_enabled() or torch.jit.is_tracing():
        return False
    single = features.dtype == torch.float32 == layer.weight.dtype and features.ndim == 2
    large = features.shape[0] * layer.in_features * layer.out_features >= LARGE
    return single and large and torch.backends.mkldnn.is_available()
