"""Seeds -> the targets of each patch: its class, its weight, and the offsets to the box of its object."""

from typing import NamedTuple

import torch
from torch import Tensor

from deep_patch_learning.common.boxes import box_iou, encoded
from deep_patch_learning.refinement.seeds import Seeds

FOREGROUND, BACKGROUND = 0.5, 0.1  # IoU with a seed from which a patch is of its class, and from which it counts at all


class PatchTargets(NamedTuple):
    """The targets of each patch, (I, M): its class, C meaning background; its weight, 0 where it does not count; its seed; and
    whether it is foreground, that is on its seed. `counted` (I,) is how many patches of the image count, at least 1."""

    classes: Tensor
    weights: Tensor
    seeds: Tensor
    foreground: Tensor
    counted: Tensor

    def of(self, images: slice) -> "PatchTargets":
        """Return the targets of some of the images."""
        return PatchTargets(*(each[images] for each in self))


@torch.no_grad()
def patch_targets(
    boxes: Tensor,
    there: Tensor,
    seeds: Seeds,
    classes: int,
    foreground: float = FOREGROUND,
    background: float = BACKGROUND,
) -> PatchTargets:
    """Return the targets of patches (I, M, 4), `there` (I, M).

    A patch belongs to the seed of the highest IoU; of equal ones to that with the higher score. From an IoU of `foreground` on it
    takes the seed's class, from `background` on it is background, below that it does not count. Its weight is the seed's score.
    """
    overlap = box_iou(boxes, seeds.boxes).masked_fill(~seeds.real[:, None], -1)  # (I, M, S)
    best = overlap.amax(dim=2)  # (I, M)
    tied = seeds.scores[:, None].masked_fill(overlap < best[..., None], -1)  # (I, M, S)
    mine = tied.argmax(dim=2)  # (I, M)
    on = there & (best >= foreground)
    wanted = torch.where(on, seeds.classes[mine], classes)
    weights = seeds.scores.gather(1, mine) * (there & (best >= background))
    return PatchTargets(wanted, weights, mine, on, (weights > 0).sum(dim=1).clamp(min=1))


@torch.no_grad()
def box_targets(boxes: Tensor, seeds: Seeds, targets: PatchTargets) -> Tensor:
    """Return the offsets (I, M, 4) from patches (I, M, 4) to the seed of each; of use for foreground patches only."""
    return encoded(boxes, seeds.boxes.gather(1, targets.seeds[..., None].expand(-1, -1, 4)))
