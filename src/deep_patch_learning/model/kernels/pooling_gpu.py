"""RoI max-pooling on a GPU: maps with channels last, in any precision, one program per patch.

`torchvision.ops.roi_pool` wants single precision and channels first, which costs two copies of the maps and writes of four
bytes. Here neighbouring threads read neighbouring channels, and the patches come out with channels last too.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _pool(  # type: ignore[no-untyped-def]
    maps,
    image,
    tops,
    bottoms,
    lefts,
    rights,
    pooled,
    places,
    channels,
    height,
    width,
    size: tl.constexpr,
    block: tl.constexpr,
):
    patch = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * block + tl.arange(0, block)
    real = channel < channels
    first = tl.load(image + patch) * height * width  # the image's first cell
    for row in range(size):
        top, bottom = tl.load(tops + patch * size + row), tl.load(bottoms + patch * size + row)
        for column in range(size):
            left, right = tl.load(lefts + patch * size + column), tl.load(rights + patch * size + column)
            best = tl.full((block,), float("-inf"), tl.float32)
            place = tl.full((block,), -1, tl.int32)
            for y in range(top, bottom):
                for x in range(left, right):
                    value = tl.load(maps + (first + y * width + x) * channels + channel, mask=real, other=0.0).to(
                        tl.float32
                    )
                    greater = value > best  # strictly: the first of equal cells wins
                    best = tl.where(greater, value, best)
                    place = tl.where(greater, y * width + x, place)
            best = tl.where(place < 0, 0.0, best)  # a bin that holds nothing
            out = (patch * size * size + row * size + column) * channels + channel
            tl.store(pooled + out, best, mask=real)
            tl.store(places + out, place, mask=real)


@triton.jit
def _spread(  # type: ignore[no-untyped-def]
    gradient, places, image, spread, channels, cells, bins: tl.constexpr, block: tl.constexpr
):
    patch = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * block + tl.arange(0, block)
    real = channel < channels
    first = tl.load(image + patch) * cells
    for number in range(bins):
        at = (patch * bins + number) * channels + channel
        place = tl.load(places + at, mask=real, other=-1).to(tl.int64)
        value = tl.load(gradient + at, mask=real, other=0.0).to(tl.float32)
        tl.atomic_add(spread + (first + place) * channels + channel, value, mask=real & (place >= 0), sem="relaxed")


def rounded(values: Tensor) -> Tensor:
    """Return the nearest whole numbers, halves away from zero; adding a half and taking the floor is wrong just below it."""
    whole = values.trunc()
    rest = values - whole  # without error
    return whole + (rest >= 0.5).to(values.dtype) - (rest <= -0.5).to(values.dtype)


def bin_edges(low: Tensor, high: Tensor, size: int, cells: int) -> tuple[Tensor, Tensor]:
    """Return where each bin starts and ends along one axis, (P, size) each, from the corners of patches in cells (P,).

    The rule of `torchvision.ops.roi_pool`: corners are rounded, both ends count, bins take floor and ceil.
    """
    start, end = rounded(low), rounded(high)
    cells_of_patch = (end - start + 1).clamp(min=1)
    # a GPU divides by a plain number through its inverse, which is not exact: divide by a tensor
    step = (cells_of_patch / torch.full_like(cells_of_patch, size))[:, None]  # (P, 1)
    number = torch.arange(size, device=low.device, dtype=low.dtype)
    begin = torch.floor(number * step) + start[:, None]
    finish = torch.ceil((number + 1) * step) + start[:, None]
    return begin.clamp(0, cells).int(), finish.clamp(0, cells).int()


class _RoiMaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, maps: Tensor, image: Tensor, edges: tuple[Tensor, ...], size: int) -> Tensor:  # type: ignore[no-untyped-def, override]
        maps = maps.contiguous(memory_format=torch.channels_last)
        _, channels, height, width = maps.shape
        shape = (len(image), size, size, channels)
        pooled = maps.new_empty(shape)
        places = torch.empty(shape, dtype=torch.int16 if height * width < 2**15 else torch.int32, device=maps.device)
        block = min(triton.next_power_of_2(channels), 512)
        grid = (len(image), triton.cdiv(channels, block))
        if len(image):
            _pool[grid](maps, image, *edges, pooled, places, channels, height, width, size=size, block=block)
        ctx.save_for_backward(image, places)
        ctx.shape, ctx.dtype = maps.shape, maps.dtype
        return pooled.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[no-untyped-def, override]
        image, places = ctx.saved_tensors
        images, channels, height, width = ctx.shape
        gradient = gradient.permute(0, 2, 3, 1).contiguous()
        spread = torch.zeros((images, height, width, channels), dtype=torch.float32, device=gradient.device)
        block = min(triton.next_power_of_2(channels), 512)
        if len(image):
            bins = places.shape[1] * places.shape[2]
            _spread[(len(image), triton.cdiv(channels, block))](
                gradient, places, image, spread, channels, height * width, bins=bins, block=block
            )
        return spread.permute(0, 3, 1, 2).to(ctx.dtype), None, None, None


def roi_max_pool(maps: Tensor, patches: Tensor, patch_image: Tensor, size: int, scale: float) -> Tensor:
    """Return (P, D, size, size), channels last in memory, from maps (I, D, h, w) and patches (P, 4) in pixels."""
    x1, y1, x2, y2 = (patches.float() * scale).unbind(1)
    edges = (*bin_edges(y1, y2, size, maps.shape[2]), *bin_edges(x1, x2, size, maps.shape[3]))
    return _RoiMaxPool.apply(maps, patch_image, tuple(edge.contiguous() for edge in edges), size)
