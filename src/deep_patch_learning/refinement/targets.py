"""Seeds -> what each patch should say: its class, how much it counts, and the box of the object on it."""

from typing import NamedTuple

import torch
from torch import Tensor

from deep_patch_learning.common.boxes import overlaps
from deep_patch_learning.refinement.seeds import Seeds

FOREGROUND, BACKGROUND = 0.5, 0.1  # IoU with a seed from which a patch is of its class, and from which it counts at all


class Targets(NamedTuple):
    """What is asked of each patch, (I, M): its class, C meaning background; its weight, 0 where it does not count; which seed
    it belongs to; whether it lies on that seed; and (I,) how many patches of the image count, at least 1."""

    classes: Tensor
    weights: Tensor
    seeds: Tensor
    foreground: Tensor
    counted: Tensor

    def of(self, images: slice) -> "Targets":
        """Return the targets of some of the images."""
        return Targets(*(each[images] for each in self))


@torch.no_grad()
def patch_targets(
    boxes: Tensor,
    there: Tensor,
    seeds: Seeds,
    classes: int,
    foreground: float = FOREGROUND,
    background: float = BACKGROUND,
) -> Targets:
    """Return the targets of patches (I, M, 4), `there` (I, M).

    A patch belongs to the seed it overlaps most; of seeds it overlaps alike, to the one with the higher score. From an IoU of
    `foreground` on it takes the seed's class, from `background` on it is background, below it does not count. Its weight is the
    seed's score.
    """
    overlap = overlaps(boxes, seeds.boxes).masked_fill(~seeds.real[:, None], -1)  # (I, M, S)
    best = overlap.amax(dim=2)  # (I, M)
    tied = seeds.scores[:, None].masked_fill(overlap < best[..., None], -1)  # (I, M, S)
    mine = tied.argmax(dim=2)  # (I, M)
    on = there & (best >= foreground)
    wanted = torch.where(on, seeds.classes[mine], classes)
    weights = seeds.scores.gather(1, mine) * (there & (best >= background))
    return Targets(wanted, weights, mine, on, (weights > 0).sum(dim=1).clamp(min=1))


@torch.no_grad()
def box_targets(boxes: Tensor, seeds: Seeds, targets: Targets) -> Tensor:
    """Return the offsets (I, M, 4) from patches (I, M, 4) to the seed that each belongs to; they mean nothing off a seed."""
    return encoded(boxes, seeds.boxes.gather(1, targets.seeds[..., None].expand(-1, -1, 4)))


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
    """Return boxes (..., 4) cut at the image's edges, each at least a pixel wide and high."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    x1, y1 = x1.clamp(0, width - 1), y1.clamp(0, height - 1)
    return torch.stack((x1, y1, x2.clamp(max=width).maximum(x1 + 1), y2.clamp(max=height).maximum(y1 + 1)), dim=-1)


def _centre_and_side(boxes: Tensor) -> tuple[Tensor, Tensor]:
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, (high - low).clamp(min=1e-3)
