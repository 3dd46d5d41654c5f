"""Which patch becomes the box of a class: the one with the best score, or the one that a vote elects."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import box_area, box_iou

SMALLEST = 1e-7  # probabilities are kept this far from 0 and 1, so that their logits are finite


@dataclass(frozen=True)
class Picking:
    """How the box of each class is picked: by the best score, or by a vote of overlapping patches (see `voted`)."""

    vote: bool = False
    sharpness: float = 1.0
    area_power: float = 0.0

    def of_scores(self, boxes: Tensor, totals: Tensor, scales: int) -> Tensor:
        """Return the scores (P, C) that rank boxes (P, 4) of each class, from raw ones summed over `scales` (P, C)."""
        if self.vote:
            totals = voted(boxes, totals, scales, self.sharpness, self.area_power)
        # the sum over scales becomes the mean, which reads as a score of one pass; the order stays
        return totals / scales

    def of_probabilities(self, boxes: Tensor, totals: Tensor, scales: int) -> Tensor:
        """Return the scores (P, C) that rank boxes (P, 4) of each class, from probabilities summed over `scales` (P, C).

        They are the logits of the mean probabilities, so that all scores of boxes read alike. In a vote a patch is heard with its
        mean probability (to the `sharpness`), which is the exponential of a logarithm as it is of a raw score elsewhere.
        """
        mean = (totals / scales).clamp(SMALLEST, 1 - SMALLEST)
        if not self.vote:
            return mean.logit()
        return voted(boxes, mean.logit(), 1, self.sharpness, self.area_power, heard=mean.log())


def voted(
    boxes: Tensor,
    scores: Tensor,
    scales: int = 1,
    sharpness: float = 1.0,
    area_power: float = 0.0,
    heard: Tensor | None = None,
) -> Tensor:
    """Return patch scores (P, C) in which the patch that a vote elects has the highest score of each class.

    Every patch votes with the exponential of its mean score over `scales`, or of `heard` (P, C), for those it overlaps, in
    proportion to IoU. So a part that scores high alone loses to a whole that many good patches agree on. `sharpness` multiplies
    the scores; votes for a patch are multiplied by its area to the `area_power`. All other scores stay.
    """
    raw = scores / scales if heard is None else heard
    votes = box_iou(boxes, boxes) @ (sharpness * (raw - raw.amax(dim=0))).exp()  # (P, C)
    if area_power:
        votes = votes * box_area(boxes)[:, None] ** area_power
    elected = votes.argmax(dim=0, keepdim=True)  # (1, C)
    above = torch.nextafter(scores.amax(dim=0, keepdim=True), scores.new_tensor(torch.inf))
    return scores.scatter(0, elected, above)
