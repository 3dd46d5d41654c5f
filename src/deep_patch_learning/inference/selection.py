"""Which patch becomes the box of a class: the one with the best score, or the one that a vote elects; and which come next."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import box_area, box_iou

SMALLEST = 1e-7  # probabilities are kept this far from 0 and 1, so that their logits are finite
ELECTIONS = 10  # boxes of a class, where all of them are elected
INSIDE = 0.9  # a patch of which this share lies in an elected box is taken for a part of its object


class Ranked(NamedTuple):
    """The boxes of each class, best first: their rows (C, M) and their scores (C, M), -inf where there is no box any more."""

    rows: Tensor
    scores: Tensor


@dataclass(frozen=True)
class BoxSelection:
    """How the boxes of each class are picked.

    The first is that of the best score, or with `vote` that which overlapping patches elect (see `voted`). The others follow by
    score, or, where `elections` is above 0, are elected too, so many boxes in all (see `elect`); that needs `vote`.
    """

    vote: bool = False
    sharpness: float = 1.0
    area_power: float = 0.0
    elections: int = 0
    part_weight: float = 0.2
    overlap: float = 0.35

    def __post_init__(self) -> None:
        if self.elections and not self.vote:
            raise ValueError(f"{self.elections} elections without a vote. Give vote=True, or elections=0.")

    def rank_scores(self, boxes: Tensor, totals: Tensor, scales: int) -> Ranked:
        """Return the boxes (P, 4) of each class in their order, from raw scores summed over `scales` (P, C)."""
        if not self.elections:
            return _sorted(self.of_scores(boxes, totals, scales))
        return self._elect(boxes, totals / scales, totals / scales)

    def rank_probabilities(self, boxes: Tensor, totals: Tensor, scales: int) -> Ranked:
        """Return the boxes (P, 4) of each class in their order, from probabilities summed over `scales` (P, C)."""
        if not self.elections:
            return _sorted(self.of_probabilities(boxes, totals, scales))
        mean = (totals / scales).clamp(SMALLEST, 1 - SMALLEST)
        return self._elect(boxes, mean.logit(), mean.log())

    def _elect(self, boxes: Tensor, scores: Tensor, heard: Tensor) -> Ranked:
        loudness = self.sharpness, self.area_power
        return elect(boxes, scores, heard, self.elections, *loudness, self.part_weight, self.overlap)

    def of_scores(self, boxes: Tensor, totals: Tensor, scales: int) -> Tensor:
        """Return the scores (P, C) that rank boxes (P, 4) of each class, from raw ones summed over `scales` (P, C)."""
        # the sum over scales becomes the mean, which reads as a score of one pass; before the vote, since a division after it
        # may round the elected patch's score down to that of the one below it
        mean = totals / scales
        return voted(boxes, mean, self.sharpness, self.area_power) if self.vote else mean

    def of_probabilities(self, boxes: Tensor, totals: Tensor, scales: int) -> Tensor:
        """Return the scores (P, C) that rank boxes (P, 4) of each class, from probabilities summed over `scales` (P, C).

        They are the logits of the mean probabilities, so that all scores of boxes read alike. In a vote a patch is heard with its
        mean probability (to the `sharpness`), which is the exponential of a logarithm as it is of a raw score elsewhere.
        """
        mean = (totals / scales).clamp(SMALLEST, 1 - SMALLEST)
        if not self.vote:
            return mean.logit()
        return voted(boxes, mean.logit(), self.sharpness, self.area_power, heard=mean.log())


def voted(
    boxes: Tensor,
    scores: Tensor,
    sharpness: float = 1.0,
    area_power: float = 0.0,
    heard: Tensor | None = None,
) -> Tensor:
    """Return patch scores (P, C) in which the patch that a vote elects has the highest score of each class.

    Every patch votes with the exponential of its score (P, C), or of `heard` (P, C), for those it overlaps, in proportion
    to IoU. So a part that scores high alone loses to a whole that many good patches agree on. `sharpness` multiplies the scores;
    votes for a patch are multiplied by its area to the `area_power`. All other scores stay.
    """
    voices = _voices(scores if heard is None else heard, sharpness)
    votes = box_iou(boxes, boxes) @ voices * _weights(boxes, area_power)  # (P, C)
    elected = votes.argmax(dim=0, keepdim=True)  # (1, C)
    return scores.scatter(0, elected, _above(scores))


def elect(
    boxes: Tensor,
    scores: Tensor,
    heard: Tensor,
    most: int,
    sharpness: float = 1.0,
    area_power: float = 0.0,
    part_weight: float = 0.2,
    overlap: float = 0.35,
) -> Ranked:
    """Return up to `most` boxes of each class, every one elected from the votes that those before it leave.

    The first vote is that of `voted`. Patches whose IoU with an elected box exceeds `overlap` are explained by it: they neither
    vote nor stand any more. Those that lie inside it (see `INSIDE`) are likely parts of its object: from then on their voice
    is multiplied by `part_weight`, and so are the odds that their score (P, C) means. An elected box takes the best score of the
    patches that it explains; the first one stands above all. The boxes of a class come in the order of these scores, of equal
    ones the earlier elected first. Of equal votes the first patch wins.
    """
    iou, voices, weights = box_iou(boxes, boxes), _voices(heard, sharpness), _weights(boxes, area_power)
    explained = iou > overlap  # (P, P)
    explained.fill_diagonal_(True)
    inside = _inside(boxes) >= INSIDE  # (P, P)
    lowered = max(part_weight, SMALLEST)
    free = torch.ones_like(scores, dtype=torch.bool)  # (P, C)
    part = torch.zeros_like(free)
    rows, found = [], []
    for _ in range(min(most, len(boxes))):
        votes = iou @ (voices * free * torch.where(part, lowered, 1.0)) * weights  # (P, C)
        row = votes.masked_fill(~free, -1).argmax(dim=0)  # (C,)
        taken = explained[row].T & free  # (P, C)
        own = scores + torch.where(part, math.log(lowered), 0.0)
        found.append(own.masked_fill(~taken, -torch.inf).amax(dim=0))  # -inf where no patch was free
        rows.append(row)
        free = free & ~taken
        part = part | inside[row].T
    found[0] = _above(scores)[0]
    ranked = torch.sort(torch.stack(found, dim=1), descending=True, stable=True)  # (C, M)
    return Ranked(torch.stack(rows, dim=1).gather(1, ranked.indices), ranked.values)


def _sorted(scores: Tensor) -> Ranked:
    ranked = torch.sort(scores.T, descending=True, stable=True)
    return Ranked(ranked.indices, ranked.values)


def _voices(heard: Tensor, sharpness: float) -> Tensor:
    """Return with what weight (P, C) each patch votes: 1 for the one that is heard best."""
    return (sharpness * (heard - heard.amax(dim=0))).exp()


def _weights(boxes: Tensor, area_power: float) -> Tensor:
    """Return the factor (P, 1) of the votes for each patch."""
    return box_area(boxes)[:, None] ** area_power


def _above(scores: Tensor) -> Tensor:
    """Return the next number above the best score of each class, (1, C)."""
    return torch.nextafter(scores.amax(dim=0, keepdim=True), scores.new_tensor(torch.inf))


def _inside(boxes: Tensor) -> Tensor:
    """Return which share of each patch (column) lies in each patch (row): (P, P)."""
    corners = (
        torch.maximum(boxes[:, None, :2], boxes[None, :, :2]),
        torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:]),
    )
    shared = (corners[1] - corners[0]).clamp(min=0).prod(dim=2)
    return shared / box_area(boxes)


AGREEMENT_SHARPNESS = (
    0.5  # softer than a vote: whether the many middling patches lie there tells more than the few best
)


def agreement(boxes: Tensor, heard: Tensor, rows: Tensor, sharpness: float = AGREEMENT_SHARPNESS) -> Tensor:
    """Return the mean IoU of all patches with each chosen one, (C, M), from 0 to 1.

    `boxes` (P, 4) are the patches, `heard` (P, C) their scores, the mean over scales, and `rows` (C, M) the chosen patches of
    each class. A patch counts with the exponential of `sharpness` times its score. High: the good patches all lie on this box.
    Low: they lie elsewhere too, or are much smaller or larger.
    """
    voices = (sharpness * heard).softmax(dim=0)  # (P, C)
    classes, most = rows.shape
    iou = box_iou(boxes[rows.flatten()], boxes).view(classes, most, -1)  # (C, M, P)
    return (iou @ voices.T[:, :, None])[:, :, 0]
