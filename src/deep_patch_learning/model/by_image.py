"""All patches in one row <-> the patches of each image side by side, so that images are compared with themselves alone."""

import torch
from torch import Tensor


def by_image(values: Tensor, rows: Tensor) -> Tensor:
    """Return (I, M, ...): what belongs to each image's patches, of values (P, ...); 0 where an image has no further patch.

    `rows` (I, M) comes from `patch_rows`.
    """
    if not rows.numel():
        return values.new_zeros(*rows.shape, *values.shape[1:])
    chosen = values.index_select(0, rows.clamp(min=0).flatten()).view(*rows.shape, *values.shape[1:])
    there = (rows >= 0).view(*rows.shape, *(1,) * (values.ndim - 1))
    return chosen.masked_fill(~there, 0)


def by_patch(values: Tensor, rows: Tensor, patches: int) -> Tensor:
    """Return (P, ...), the way back from `by_image`: values (I, M, ...) of each patch in the order of all patches."""
    # one row more takes what stands where no patch is
    flat = rows.where(rows >= 0, patches).flatten()
    found = values.new_zeros(patches + 1, *values.shape[2:]).index_copy(0, flat, values.flatten(0, 1))
    return found[:patches]


def overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the IoU (..., M, S) of boxes (..., M, 4) and others (..., S, 4); 0 where both are empty."""
    x1, y1, x2, y2 = (side.unsqueeze(-1) for side in boxes.unbind(-1))  # (..., M, 1)
    u1, v1, u2, v2 = (side.unsqueeze(-2) for side in others.unbind(-1))  # (..., 1, S)
    wide = (torch.minimum(x2, u2) - torch.maximum(x1, u1)).clamp(min=0)
    high = (torch.minimum(y2, v2) - torch.maximum(y1, v1)).clamp(min=0)
    shared = wide * high
    joined = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - shared
    return shared / joined.clamp(min=torch.finfo(joined.dtype).tiny)
