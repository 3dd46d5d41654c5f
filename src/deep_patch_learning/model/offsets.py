"""Box regression: a patch's box and another as four offsets, and back."""

import torch
from torch import Tensor

# What Fast R-CNN divides offsets by, so that the four are about as large as each other: two of the centre, two of the sides.
CENTRE_SPREAD, SIDE_SPREAD = 0.1, 0.2
LARGEST = 4.135  # of the logarithm of a side's growth: a box becomes at most 62.5 times as wide


def encoded(patches: Tensor, boxes: Tensor) -> Tensor:
    """Return the offsets (..., 4) from patches (..., 4) to boxes: shift of the centre in sides, logarithm of the growth."""
    centre, side = _centre_and_side(patches)
    target, target_side = _centre_and_side(boxes)
    return torch.cat(((target - centre) / side / CENTRE_SPREAD, (target_side / side).log() / SIDE_SPREAD), dim=-1)


def decoded(patches: Tensor, offsets: Tensor) -> Tensor:
    """Return the boxes (P, C, 4) that offsets (P, C, 4) lead to from patches (P, 4)."""
    centre, side = _centre_and_side(patches)
    moved = centre[:, None] + offsets[..., :2] * CENTRE_SPREAD * side[:, None]
    half = side[:, None] * (offsets[..., 2:] * SIDE_SPREAD).clamp(max=LARGEST).exp() / 2
    return torch.cat((moved - half, moved + half), dim=2)


def inside(boxes: Tensor, height: int, width: int) -> Tensor:
    """Return boxes (..., 4) cut at the picture's edges, each at least a pixel wide and high."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    x1, y1 = x1.clamp(0, width - 1), y1.clamp(0, height - 1)
    return torch.stack((x1, y1, x2.clamp(max=width).maximum(x1 + 1), y2.clamp(max=height).maximum(y1 + 1)), dim=-1)


def _centre_and_side(boxes: Tensor) -> tuple[Tensor, Tensor]:
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, (high - low).clamp(min=1e-3)
