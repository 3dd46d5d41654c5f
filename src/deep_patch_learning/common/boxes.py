"""The one box convention of this package, and the few things done to boxes.

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


def pairwise_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the intersection over union of every pair: (P, 4) x (Q, 4) -> (P, Q), float64.

    The VOC devkit adds 1 to each side of boxes with inclusive corners; half-open boxes have those sides already.
    """
    first, second = np.asarray(first, np.float64).reshape(-1, 4), np.asarray(second, np.float64).reshape(-1, 4)
    top_left = np.maximum(first[:, None, :2], second[None, :, :2])
    bottom_right = np.minimum(first[:, None, 2:], second[None, :, 2:])
    sides = np.clip(bottom_right - top_left, 0, None)  # (P, Q, 2)
    shared = sides[..., 0] * sides[..., 1]
    first_area = np.prod(first[:, 2:] - first[:, :2], axis=1)
    second_area = np.prod(second[:, 2:] - second[:, :2], axis=1)
    union = first_area[:, None] + second_area[None, :] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def outside(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a mask (P,) of the boxes that are empty or reach beyond an image of this size."""
    x1, y1, x2, y2 = np.asarray(boxes).reshape(-1, 4).T.astype(np.float64)
    return (x1 < 0) | (y1 < 0) | (x2 > width) | (y2 > height) | (x2 <= x1) | (y2 <= y1)


def overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the IoU (..., M, S) of boxes (..., M, 4) and others (..., S, 4); 0 where both are empty."""
    mine, theirs = boxes[..., :, None, :], others[..., None, :, :]
    low, high = torch.maximum(mine[..., :2], theirs[..., :2]), torch.minimum(mine[..., 2:], theirs[..., 2:])
    wide, tall = (high - low).clamp(min=0).unbind(-1)  # (..., M, S)
    shared = wide * tall
    joined = area(mine) + area(theirs) - shared
    return shared / joined.clamp(min=torch.finfo(joined.dtype).tiny)
