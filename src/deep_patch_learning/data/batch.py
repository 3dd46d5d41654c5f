"""Image + patches -> what the network sees: scaled, perhaps mirrored, several of them in one batch.

`lay_out` computes where everything will lie; it is cheap, so threads can run it ahead. `render` then scales the pixels, on the
device that holds them. `make_view` and `collate` do the same for decoded images, one by one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST = 64  # pixels: the least that the deepest backbone needs for a map of one cell


class Batch(NamedTuple):
    """Several images and all their patches.

    `images` (I, 3, H, W) RGB from 0 to 255, padded at the right and bottom; `sizes` (I, 2) real heights and widths;
    `patches` (P, 4) in pixels of those images; `patch_image` (P,) the index of each patch's image; `padded` says whether any
    image is smaller than the tensor. `counts`, where given, is the number of patches of each image, which then lie image by
    image: known on the host, so that the device need not be waited for. `erased` (I, R, 4), where given, are the regions of each
    image whose features are erased. `pixels` (I, 2), where given, is how high and wide a pixel of the original image is in each.
    `maps` (I, D, h, w), where given, are those of the backbone, known from before; then `images` has no pixels.
    """

    images: Tensor
    sizes: Tensor
    patches: Tensor
    patch_image: Tensor
    padded: bool = True
    counts: tuple[int, ...] | None = None
    erased: Tensor | None = None
    pixels: Tensor | None = None
    maps: Tensor | None = None


class View(NamedTuple):
    """One image at one scale: pixels (3, h, w) float RGB 0 to 255, and its patches (P, 4) in those pixels.

    `pixel` is how high and wide a pixel of the original image is in it.
    """

    pixels: Tensor
    patches: Tensor
    pixel: tuple[float, float] = (1.0, 1.0)


class Layout(NamedTuple):
    """A micro-batch before any pixel is scaled: the size of each view, which are mirrored, and all their patches.

    `sizes` are (height, width); `frame` is what they are padded to; `patches` (P, 4) in pixels of the views, `patch_image` (P,);
    `pixels` the height and width of a pixel of the original image in each view. `erased` (I, R, 4), where given, are regions in
    pixels of the views.
    """

    sizes: tuple[tuple[int, int], ...]
    flips: tuple[bool, ...]
    frame: tuple[int, int]
    patches: Tensor
    patch_image: Tensor
    counts: tuple[int, ...]
    pixels: tuple[tuple[float, float], ...]
    erased: Tensor | None = None


def scaled_size(height: int, width: int, long_side: int, shapes: int = 0) -> tuple[int, int]:
    """Return the (height, width) of an image whose longest side becomes `long_side`; neither is below 1.

    With `shapes`, the ratio of the sides is rounded to a multiple of 1 / shapes, so that images of nearly one shape become
    images of exactly one size: with 48 the sides of 4:3, 3:2, 16:9 and square images stay as they are.
    """
    factor = long_side / max(height, width)
    if not shapes:
        return max(round(height * factor), 1), max(round(width * factor), 1)
    short = max(round(long_side * shape_of(height, width, shapes)[1] / shapes), 1)
    return (short, long_side) if height < width else (long_side, short)


def shape_of(height: int, width: int, shapes: int) -> tuple[bool, int]:
    """Return the shape of an image: whether it is in portrait format, and the ratio of its sides in steps of 1 / shapes."""
    steps = max(round(min(height, width) / max(height, width) * shapes), 1)
    return height > width and steps < shapes, steps


def lay_out(
    originals: Sequence[tuple[int, int]],
    patches: Sequence[np.ndarray],
    long_side: int,
    flips: Sequence[bool] | None = None,
    shapes: int = 0,
) -> Layout:
    """Return where images of the sizes `originals` (height, width) and their patches will lie in one batch."""
    flips = tuple(flips) if flips is not None else (False,) * len(originals)
    sizes = tuple(scaled_size(height, width, long_side, shapes) for height, width in originals)
    frame = (max(SMALLEST, *(size[0] for size in sizes)), max(SMALLEST, *(size[1] for size in sizes)))
    moved = [_moved(p, o, s, f) for p, o, s, f in zip(patches, originals, sizes, flips, strict=True)]
    counts = tuple(len(boxes) for boxes in moved)
    image = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    pixels = tuple(_pixel(size, new) for size, new in zip(originals, sizes, strict=True))
    return Layout(sizes, flips, frame, torch.from_numpy(np.concatenate(moved)), image, counts, pixels)


def _pixel(size: tuple[int, int], new: tuple[int, int]) -> tuple[float, float]:
    """Return how high and wide a pixel becomes where an image of (height, width) `size` is scaled to `new`."""
    return new[0] / size[0], new[1] / size[1]


def _moved(patches: np.ndarray, size: tuple[int, int], new: tuple[int, int], flip: bool) -> np.ndarray:
    scale = np.array([*reversed(_pixel(size, new))] * 2, np.float32)
    moved = patches.astype(np.float32) * scale
    return np.stack((new[1] - moved[:, 2], moved[:, 1], new[1] - moved[:, 0], moved[:, 3]), axis=1) if flip else moved


def render(layout: Layout, images: Sequence[Tensor | np.ndarray], device: torch.device | str = "cpu") -> Batch:
    """Return the batch that `layout` describes, of images (H, W, 3) uint8 wherever they are held."""
    device = torch.device(device)
    last = torch.channels_last if device.type == "cuda" else torch.contiguous_format
    padded = any(size != layout.frame for size in layout.sizes)
    make = torch.zeros if padded else torch.empty
    frames = make((len(images), 3, *layout.frame), device=device).contiguous(memory_format=last)
    for frame, image, (height, width), flip in zip(frames, images, layout.sizes, layout.flips, strict=True):
        pixels = _scaled(image, height, width, device)
        frame[:, :height, :width] = pixels.flip(2) if flip else pixels
    parts = (torch.tensor(layout.sizes), layout.patches, layout.patch_image, torch.tensor(layout.pixels))
    sizes, patches, patch_image, original = (part.to(device, non_blocking=True) for part in parts)
    erased = None if layout.erased is None else layout.erased.to(device, non_blocking=True)
    return Batch(frames, sizes, patches, patch_image, padded, layout.counts, erased, original)


def _scaled(image: Tensor | np.ndarray, height: int, width: int, device: torch.device | str) -> Tensor:
    """Return pixels (3, height, width), float, of an image (H, W, 3) uint8 scaled bilinearly."""
    held = torch.from_numpy(np.ascontiguousarray(image)) if isinstance(image, np.ndarray) else image
    pixels = held.to(device, non_blocking=True).permute(2, 0, 1).float()
    if pixels.shape[1:] == (height, width):
        return pixels
    return F.interpolate(pixels[None], (height, width), mode="bilinear", align_corners=False)[0]


def make_view(
    image: np.ndarray, patches: np.ndarray, long_side: int, flip: bool = False, device: torch.device | str = "cpu"
) -> View:
    """Return the image (H, W, 3) uint8 with its longest side scaled bilinearly, and its patches moved along."""
    size = (image.shape[0], image.shape[1])
    new = scaled_size(*size, long_side)
    pixels = _scaled(image, *new, device)
    moved = torch.from_numpy(_moved(patches, size, new, flip)).to(device)
    return View(pixels.flip(2) if flip else pixels, moved, _pixel(size, new))


def collate(views: Sequence[View]) -> Batch:
    """Return several views as one batch, padded with zeros at the right and bottom to the largest, and to 64 pixels."""
    device = views[0].pixels.device
    sizes = [tuple(view.pixels.shape[1:]) for view in views]
    height, width = (max(side) for side in zip(*sizes, strict=True))
    height, width = max(height, SMALLEST), max(width, SMALLEST)
    padded = any(size != (height, width) for size in sizes)
    images = torch.stack(
        [F.pad(view.pixels, (0, width - view.pixels.shape[2], 0, height - view.pixels.shape[1])) for view in views]
    )
    counts = tuple(len(view.patches) for view in views)
    patch_image = torch.repeat_interleave(torch.arange(len(views)), torch.tensor(counts)).to(device)
    patches = torch.cat([view.patches for view in views])
    original = torch.tensor([view.pixel for view in views], device=device)
    return Batch(images, torch.tensor(sizes, device=device), patches, patch_image, padded, counts, pixels=original)
