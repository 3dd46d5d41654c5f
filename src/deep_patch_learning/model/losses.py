"""Scores + tags -> named loss terms: the multi-label sigmoid cross entropy of each head."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_patch_learning.model.network import Scores

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
    """The paper's L = L_cls + L_dis, kept as named terms so that each can be logged."""

    def __init__(self, reduction: Reduction = "mean", unknown: Unknown = "absent") -> None:
        self.reduction: Reduction = reduction
        self.unknown: Unknown = unknown

    def __call__(self, scores: Scores, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss of each of the paper's heads that is there; their sum is what training minimises."""
        heads = {"classification": scores.classification, "discovery": scores.discovery}
        return {
            name: tag_loss(image_scores, labels, self.reduction, self.unknown)
            for name, image_scores in heads.items()
            if image_scores is not None
        }
