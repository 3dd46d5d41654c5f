"""The one box convention of this package, and every IoU, NMS, vote and offset of boxes.

A box is (x1, y1, x2, y2) in pixels of the original image, 0-based and half-open: it covers the pixels
x1 <= x < x2 and y1 <= y < y2, so its width is x2 - x1 and a one-pixel box is (x, y, x + 1, y + 1).
Arrays of boxes are (P, 4). The functions work on numpy arrays and on torch tensors alike.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def area(boxes: Any) -> Any:
    """Return the area (...) in pixels of boxes (..., 4)."""
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)


def flip(boxes: Any, width: float) -> Any:
    """Return the boxes in the horizontally mirrored image: x1' = W - x2, x2' = W - x1."""
    mirrored = boxes.clone() if hasattr(boxes, "clone") else boxes.copy()
    mirrored[:, 0] = width - boxes[:, 2]
    mirrored[:, 2] = width - boxes[:, 0]
    return mirrored


def box_iou(first: Any, second: Any) -> Any:
    """Return the intersection over union of every pair: (..., P, 4) x (..., Q, 4) -> (..., P, Q); 0 where both are empty.

    Tensors are computed in their own precision, where they are; everything else becomes an array of float64.
    The VOC devkit adds 1 to each side of boxes with inclusive corners; half-open boxes have those sides already.
    """
    if not isinstance(first, Tensor):
        return box_iou(_as_float64(first), _as_float64(second)).numpy()
    mine, theirs = first[..., :, None, :], second[..., None, :, :]
    low, high = torch.maximum(mine[..., :2], theirs[..., :2]), torch.minimum(mine[..., 2:], theirs[..., 2:])
    wide, tall = (high - low).clamp(min=0).unbind(-1)  # (..., P, Q)
    shared = wide * tall
    union = area(mine) + area(theirs) - shared
    return shared / union.clamp(min=torch.finfo(union.dtype).tiny)


def _as_float64(boxes: Any) -> Tensor:
    array = np.array(boxes, np.float64)  # a copy: torch wants to be able to write
    return torch.from_numpy(array.reshape(-1, 4) if array.ndim < 2 else array)


def share_inside(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the share of each of others (..., Q, 4) that lies in each of boxes (..., P, 4): (..., P, Q); 0 for empty ones."""
    mine, theirs = boxes[..., :, None, :], others[..., None, :, :]
    low, high = torch.maximum(mine[..., :2], theirs[..., :2]), torch.minimum(mine[..., 2:], theirs[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)  # (..., P, Q)
    return shared / area(theirs).clamp(min=torch.finfo(shared.dtype).tiny)


def votes(overlap: Tensor, weights: Tensor, boxes: Tensor, area_power: float = 0.0) -> Tensor:
    """Return the votes (..., P, C) for boxes (..., P, 4), so that a whole that many good boxes cover wins over a part of it.

    Each of V boxes votes with its weight (..., V, C) times its IoU with the box voted for: `overlap` (..., P, V). The sum is
    multiplied by the area of the box voted for, to the `area_power`.
    """
    found = overlap @ weights
    return found * area(boxes)[..., None] ** area_power if area_power else found


def nms(boxes: Tensor, candidates: Tensor, threshold: float, most: int) -> tuple[Tensor, Tensor]:
    """Return the places (..., most) that non-maximum suppression keeps among boxes (..., T, 4), best first, and which are real.

    Only boxes that are `candidates` (..., T) take part. In each of `most` rounds the first candidate is kept, and those whose
    IoU with it exceeds the threshold are candidates no more: in float64, as in torchvision's, which tells 0.3 from the float32
    beside it. The number of rounds is fixed, so that a device is never asked
    what it found.
    """
    places, real = [], []
    for _ in range(most):
        place = candidates.to(torch.uint8).argmax(dim=-1, keepdim=True)  # (..., 1), the first of equal ones
        places.append(place)
        real.append(candidates.any(dim=-1, keepdim=True))
        kept = boxes.gather(-2, place[..., None].expand(*place.shape, 4))  # (..., 1, 4)
        candidates = (candidates & (box_iou(boxes, kept).squeeze(-1).double() <= threshold)).scatter(-1, place, False)
    return torch.cat(places, dim=-1), torch.cat(real, dim=-1)


def outside(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a mask (P,) of the boxes that are empty or reach beyond an image of this size."""
    x1, y1, x2, y2 = np.asarray(boxes).reshape(-1, 4).T.astype(np.float64)
    return (x1 < 0) | (y1 < 0) | (x2 > width) | (y2 > height) | (x2 <= x1) | (y2 <= y1)


# What Fast R-CNN divides offsets by, to give all four a similar scale: two of the centre, two of the sides.
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
    """Return boxes (..., 4) cut at the image's edges, each at least a pixel wide and high."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    x1, y1 = x1.clamp(0, width - 1), y1.clamp(0, height - 1)
    return torch.stack((x1, y1, x2.clamp(max=width).maximum(x1 + 1), y2.clamp(max=height).maximum(y1 + 1)), dim=-1)


def _centre_and_side(boxes: Tensor) -> tuple[Tensor, Tensor]:
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, (high - low).clamp(min=1e-3)
