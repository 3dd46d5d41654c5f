"""EfficientNet-Lite0: a small network for machines without a GPU. Its last stages run on each patch, as ResNet's do."""

from collections import OrderedDict
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.model.backbone import Backbone, Normalisation, Trunk
from deep_patch_learning.model.patch_features import ConvolutionalStage

# (kernel, stride, growth inside, channels) of each block; those from PATCH_BLOCKS on run on patches
BLOCKS = (
    (3, 1, 1, 16),
    *((3, 2, 6, 24), (3, 1, 6, 24)),
    *((5, 2, 6, 40), (5, 1, 6, 40)),
    *((3, 2, 6, 80), (3, 1, 6, 80), (3, 1, 6, 80)),
    *((5, 1, 6, 112), (5, 1, 6, 112), (5, 1, 6, 112)),
    *((5, 2, 6, 192), (5, 1, 6, 192), (5, 1, 6, 192), (5, 1, 6, 192)),
    (3, 1, 6, 320),
)
PATCH_BLOCKS = 11
STEM, HEAD = 32, 1280
EPSILON = 1e-3  # of its batch norms


class SameConv(nn.Conv2d):
    """A convolution that pads as TensorFlow does: the map is divided by the stride and rounded up, the odd row goes last.

    Kernels are at least as large as strides.
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Return the convolved maps."""
        padding = []
        sides = zip(maps.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], self.dilation[::-1], strict=True)
        for size, kernel, stride, dilation in sides:
            # what the last window, which begins (size - 1) % stride pixels before the last one, wants beyond it
            missing = (kernel - 1) * dilation - ((size - 1) % stride if stride > 1 else 0)
            padding += [missing // 2, missing - missing // 2]
        if predicts_on_cpu(maps):
            return self._by_onednn(maps, padding)
        maps, weight = F.pad(maps, padding), self.weight
        if maps.is_cuda and self.groups > 1:
            maps, weight = channels_first(maps), channels_first(weight)
        return F.conv2d(maps, weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _by_onednn(self, maps: Tensor, padding: list[int]) -> Tensor:
        """Return the convolved maps with channels last in memory, by oneDNN.

        With one thread torch takes a slower way for kernels of one pixel, which most kernels are; so it is asked directly.
        """
        maps = maps.contiguous(memory_format=torch.channels_last)
        left, right, top, bottom = padding
        around = (top, left)  # equal padding is oneDNN's own work, without a copy of the maps
        if (left, top) != (right, bottom):
            maps, around = F.pad(maps, padding), (0, 0)
        return torch.mkldnn_convolution(  # type: ignore[attr-defined]
            maps, self.weight, self.bias, around, self.stride, self.dilation, self.groups
        )


def predicts_on_cpu(maps: Tensor) -> bool:
    """Return whether no gradient is wanted and oneDNN can convolve these maps."""
    wanted = maps.device.type == "cpu" and maps.dtype == torch.float32 and not torch.is_grad_enabled()
    return wanted and torch.backends.mkldnn.is_available()


def channels_first(tensor: Tensor) -> Tensor:
    """Return maps or kernels (A, B, h, w) that lie in memory channel by channel.

    In the other layout cuDNN takes a convolution with one group per channel and a dilation, for which it has no fused kernel:
    it runs hundreds of groups in turn. Torch has a kernel for this layout. `contiguous` alone would leave kernels of one channel
    as they are, since their layout is ambiguous.
    """
    return tensor.contiguous().flatten(1).unflatten(1, tensor.shape[1:])


def _normed(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
) -> nn.Module:
    convolution = SameConv(inputs, outputs, kernel, stride, groups=groups, bias=False)
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(outputs, eps=EPSILON)]
    return nn.Sequential(*layers, *([nn.ReLU6(inplace=True)] if relu else []))


class Block(nn.Module):
    """Channels are widened, each is convolved on its own, and they are narrowed again; added to the input where it fits."""

    def __init__(self, inputs: int, kernel: int, stride: int, growth: int, outputs: int) -> None:
        super().__init__()
        wide = inputs * growth
        self.expand = _normed(inputs, wide) if growth > 1 else nn.Identity()
        self.depthwise = _normed(wide, wide, kernel, stride, groups=wide)
        self.project = _normed(wide, outputs, relu=False)
        self.added = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """Return the maps after this block."""
        found = self.project(self.depthwise(self.expand(maps)))
        return found + maps if self.added else found


def lite0(on_map: bool = False) -> Trunk:
    """Return EfficientNet-Lite0, 4.7 million parameters: stride 16, the last five blocks on each patch.

    With `on_map` those run on the whole map, and a patch is three by three cells of it: much faster where patches are many.
    Its layers pad unevenly, so that images of one micro-batch are of one size or come one by one.
    """
    body, stage, names = lite0_parts(on_map)
    pixels = Normalisation(mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0), divisor=1.0)
    backbone = Backbone(body, 1280 if on_map else 112, 16, pixels, frozen_norm=True, guarded=False)
    layers = ConvolutionalStage(stage, 1280, 3 if on_map else 4)
    shipped = (
        {"shipped": "lite0.safetensors", "shipped-model": "../../inference/shipped/weights.safetensors"}
        if on_map
        else {}
    )
    return Trunk(backbone, 3 if on_map else 7, layers, names, shipped_weights=shipped, folded=True)


def lite0_parts(on_map: bool = False) -> tuple[nn.Sequential, nn.Sequential, dict[str, str]]:
    """Return the convolutions up to stride 16 (112 channels), the stages for patches (1280), and whose weights go where.

    With `on_map` all convolutions run on the whole map (1280 channels), its stride kept at 16 by spreading the last kernels, and
    nothing runs on patches: they are many, and a map is one. The names are those of the package efficientnet-lite-pytorch.
    """
    first = len(BLOCKS) if on_map else PATCH_BLOCKS
    inputs = (STEM, *(block[3] for block in BLOCKS))
    blocks = [(f"block{n}", Block(inputs[n], *block)) for n, block in enumerate(BLOCKS)]
    head = ("head", _normed(BLOCKS[-1][3], HEAD))
    stem = ("stem", _normed(3, STEM, 3, 2))
    if on_map:
        for _, block in blocks[PATCH_BLOCKS:]:
            spread(block)
    body = nn.Sequential(OrderedDict([stem, *blocks[:first], *([head] if on_map else [])]))
    stage = nn.Sequential(OrderedDict([] if on_map else [*blocks[first:], head]))
    names = {"_conv_stem.": "backbone.body.stem.0.", "_bn0.": "backbone.body.stem.1."}
    for n in range(len(BLOCKS)):
        place = f"{'backbone.body' if n < first else 'patch_features.stage'}.block{n}."
        for number, part in enumerate(("expand", "depthwise", "project")):
            names[f"_blocks.{n}._{part}_conv."] = f"{place}{part}.0."
            names[f"_blocks.{n}._bn{number}."] = f"{place}{part}.1."
    place = f"{'backbone.body' if on_map else 'patch_features.stage'}.head."
    return body, stage, names | {"_conv_head.": f"{place}0.", "_bn1.": f"{place}1."}


def spread(block: Block) -> None:
    """Let a block after a stride that was taken out see as far as before: no stride of its own, kernels twice as far apart."""
    convolution = cast(SameConv, cast(nn.Sequential, block.depthwise)[0])
    if convolution.stride == (2, 2):
        convolution.stride = (1, 1)  # itself it saw the finer map before too
    else:
        convolution.dilation = (2, 2)
