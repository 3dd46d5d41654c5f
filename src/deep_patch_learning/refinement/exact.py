"""Exact seeds: what a person said about the boxes of an image takes the place of the seeds that the network would choose."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.data.reviewed import ReviewedImage
from deep_patch_learning.refinement.seeds import Seeds
from deep_patch_learning.refinement.targets import FOREGROUND, PatchTargets


class Exact(NamedTuple):
    """What is known of the images of a micro-batch.

    `seeds` are their exact seeds, and the seeds of the classes that are `known` (I, C) are these alone. `rejected` (I, R, 4) of
    `rejected_classes` (I, R) are no objects of their class, where `rejects` (I, R). Of `whole` (I,) images every object is known.
    """

    seeds: Seeds
    known: Tensor
    rejected: Tensor
    rejected_classes: Tensor
    rejects: Tensor
    whole: Tensor

    def repeated(self, times: int) -> "Exact":
        """Return the same for the images so many times over."""
        boxes, scores, real, classes = self.seeds
        seeds = Seeds(_repeated(boxes, times), _repeated(scores, times), _repeated(real, times), classes)
        known, rejected, kinds, rejects, whole = (_repeated(each, times) for each in self[1:])
        return Exact(seeds, known, rejected, kinds, rejects, whole)

    def without_rejected(self, boxes: Tensor, scores: Tensor) -> Tensor:
        """Return the scores (I, M, C) of patches (I, M, 4), -1 for a class of which the patch was rejected: it is no seed."""
        return scores.masked_fill(self._near_rejected(boxes, scores.shape[2]), -1)

    def with_found(self, found: Seeds) -> Seeds:
        """Return found seeds and exact ones together."""
        boxes, scores, real = (torch.cat(each, dim=1) for each in zip(found[:3], self.seeds[:3], strict=True))
        return Seeds(boxes, scores, real, torch.cat((found.classes, self.seeds.classes)))

    def corrected(self, boxes: Tensor, there: Tensor, targets: PatchTargets) -> PatchTargets:
        """Return the targets of patches (I, M, 4), `there` (I, M), with what is known to be background counted as such."""
        classes = self.known.shape[1]
        rejected = self._near_rejected(boxes, classes)  # (I, M, C)
        own = rejected.gather(2, targets.classes.clamp(max=classes - 1)[..., None])[..., 0] & targets.foreground
        background = there & (own | (~targets.foreground & (rejected.any(dim=2) | self.whole[:, None])))
        weights = targets.weights.masked_fill(background, 1)
        return targets._replace(
            classes=targets.classes.masked_fill(background, classes),
            weights=weights,
            foreground=targets.foreground & ~background,
            counted=(weights > 0).sum(dim=1).clamp(min=1),
        )

    def _near_rejected(self, boxes: Tensor, classes: int) -> Tensor:
        """Return of which classes (I, M, C) patches (I, M, 4) lie on a rejected box, and on no exact one of the class."""
        on = (box_iou(boxes, self.rejected) >= FOREGROUND) & self.rejects[:, None]  # (I, M, R)
        near = torch.zeros(*boxes.shape[:2], classes, device=boxes.device)
        near = near.scatter_add(2, self.rejected_classes[:, None].expand_as(on), on.to(near.dtype)) > 0
        right = (box_iou(boxes, self.seeds.boxes) >= FOREGROUND) & self.seeds.real[:, None]  # (I, M, S)
        column = self.seeds.classes.expand_as(right)
        owned = torch.zeros_like(near, dtype=boxes.dtype).scatter_add(2, column, right.to(boxes.dtype)) > 0
        return near & ~owned


def _repeated(each: Tensor, times: int) -> Tensor:
    return each.repeat(times, *[1] * (each.ndim - 1))


def added_patches(known: ReviewedImage) -> np.ndarray:
    """Return the boxes (R + B, 4) that are added to the patches of an image: `exact_among` finds them there again."""
    return np.concatenate((known.rejected, known.boxes)).astype(np.float32)


def exact_among(patches: Tensor, counts: Sequence[int], known: Sequence[ReviewedImage], seeds: Seeds) -> Exact:
    """Return what is known of images whose `added_patches` end their patches (P, 4), of which they have `counts`.

    `seeds` are those of `refinement.pseudo_boxes.seeds_among`, which reads the exact boxes there. All are read there, not from
    `known`, since there they are scaled and mirrored with the image.
    """
    classes = int(seeds.classes.max()) + 1
    most = max(max(len(one.rejected) for one in known), 1)
    rows, kinds = np.zeros((2, len(known), most), np.int64)
    rejects = np.zeros((len(known), most), bool)
    has_box = np.zeros((len(known), classes), bool)
    for image, (one, end) in enumerate(zip(known, np.cumsum(counts).tolist(), strict=True)):
        number, first = len(one.rejected), end - len(one.boxes) - len(one.rejected)
        rows[image, :number] = np.arange(first, first + number)
        kinds[image, :number], rejects[image, :number] = one.rejected_classes, True
        has_box[image, one.classes] = True
        has_box[image] |= one.done
    device = patches.device
    places = torch.from_numpy(rows).to(device)
    rejected = patches.index_select(0, places.flatten()).view(*places.shape, 4)
    whole = torch.tensor([one.done for one in known], device=device)
    known_classes, rejected_classes, are_rejected = (torch.from_numpy(a).to(device) for a in (has_box, kinds, rejects))
    return Exact(seeds, known_classes, rejected, rejected_classes, are_rejected, whole)
