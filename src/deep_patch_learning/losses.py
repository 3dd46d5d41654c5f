"""Scores + tags -> named loss terms: the multi-label sigmoid cross entropy of each head."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import Scores
from deep_patch_learning.model.seeds import Seeds
from deep_patch_learning.refinement_losses import RefinementLosses, two_stream_loss

Reduction = Literal["mean", "sum"]
Unknown = Literal["absent", "ignore"]


def tag_loss(scores: Tensor, labels: Tensor, reduction: Reduction = "mean", unknown: Unknown = "absent") -> Tensor:
    """Return G(s, Y), averaged over the images of the batch.

    `scores` (I, C) are raw, `labels` (I, C) hold 1 present, 0 absent, -1 unknown. Over classes the authors' program takes the
    mean and the paper's text the sum. `unknown` labels count as absent, as in the paper, or add nothing.
    """
    if scores.dtype in (torch.bfloat16, torch.float16):
        scores = scores.float()
    target = (labels == 1).to(scores.dtype)
    loss = F.binary_cross_entropy_with_logits(scores, target, reduction="none")  # (I, C)
    if unknown == "ignore":
        loss = loss * (labels != -1)
    per_image = loss.mean(dim=1) if reduction == "mean" else loss.sum(dim=1)
    return per_image.mean()


class HeadLosses:
    """The paper's L = L_cls + L_dis, and what a refinement adds, kept as named terms so that each can be logged."""

    def __init__(
        self,
        reduction: Reduction = "mean",
        unknown: Unknown = "absent",
        refinement: RefinementLosses | None = None,
    ) -> None:
        self.reduction: Reduction = reduction
        self.unknown: Unknown = unknown
        self.refinement = refinement or RefinementLosses()

    def __call__(
        self, scores: Scores, labels: Tensor, batch: Batch | None = None, given: Seeds | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of each head that is there; their sum is what training minimises.

        The refinement learns from where patches lie, so it needs the `batch` that was scored. With `given` seeds it learns from
        them alone, and the two-stream head, whose place they take, does not learn.
        """
        heads = {"classification": scores.classification, "discovery": scores.discovery}
        terms = {
            name: tag_loss(image_scores, labels, self.reduction, self.unknown)
            for name, image_scores in heads.items()
            if image_scores is not None
        }
        if scores.refinement is None:
            return terms
        if batch is None:
            raise ValueError("the loss of a refinement needs the batch whose patches were scored")
        refinement = self.refinement(scores.refinement, labels, batch, given)
        if given is not None:
            return terms | refinement
        there = None  # every image has patches, as far as is known without asking the device
        if not batch.counts or 0 in batch.counts:
            there = torch.zeros(len(labels), device=labels.device).index_fill(0, batch.patch_image, 1)  # (I,)
        image = two_stream_loss(scores.refinement.image, labels, self.reduction, self.unknown, there)
        return terms | {"two_stream": image} | refinement
