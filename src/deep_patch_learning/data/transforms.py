"""Picture + patches -> what the network sees: scaled, perhaps mirrored, several of them in one batch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from deep_patch_learning.boxes import flip as flip_boxes
from deep_patch_learning.data.batch import Batch

SMALLEST = 64  # pixels: what the deepest of the backbones needs to have a map at all


class View(NamedTuple):
    """One picture at one scale: pixels (3, h, w) float RGB 0 to 255, and its patches (P, 4) in those pixels."""

    pixels: Tensor
    patches: Tensor


def scaled_size(height: int, width: int, long_side: int) -> tuple[int, int]:
    """Return the (height, width) of a picture whose longest side becomes `long_side`; neither is below 1."""
    factor = long_side / max(height, width)
    return max(round(height * factor), 1), max(round(width * factor), 1)


def make_view(
    image: np.ndarray, patches: np.ndarray, long_side: int, flip: bool = False, device: torch.device | str = "cpu"
) -> View:
    """Return the picture (H, W, 3) uint8 with its longest side scaled bilinearly, and its patches moved along."""
    height, width = image.shape[:2]
    new_height, new_width = scaled_size(height, width, long_side)
    pixels = torch.from_numpy(np.ascontiguousarray(image)).to(device).permute(2, 0, 1)[None].float()
    if (new_height, new_width) != (height, width):
        pixels = F.interpolate(pixels, (new_height, new_width), mode="bilinear", align_corners=False)
    moved = torch.from_numpy(patches.astype(np.float32)).to(device)
    moved = moved * moved.new_tensor([new_width / width, new_height / height] * 2)
    if flip:
        pixels, moved = pixels.flip(3), flip_boxes(moved, new_width)
    return View(pixels[0], moved)


def original_boxes(patches: Tensor, view_size: tuple[int, int], size: tuple[int, int], flip: bool = False) -> Tensor:
    """Return patches of a view as boxes of the original picture: the way back of `make_view`. Sizes are (height, width)."""
    boxes = flip_boxes(patches, view_size[1]) if flip else patches
    return boxes * boxes.new_tensor([size[1] / view_size[1], size[0] / view_size[0]] * 2)


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
    counts = torch.tensor([len(view.patches) for view in views], device=device)
    patch_image = torch.repeat_interleave(torch.arange(len(views), device=device), counts)
    patches = torch.cat([view.patches for view in views])
    return Batch(images, torch.tensor(sizes, device=device), patches, patch_image, padded)
