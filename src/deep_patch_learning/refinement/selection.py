"""Box selection: the box of a class is the patch with the best score, or the one that a vote elects; and which come next."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from deep_patch_learning.common.boxes import box_iou, share_inside, votes

SMALLEST = 1e-7  # probabilities are kept this far from 0 and 1, so that their logits are finite
ELECTIONS = 10  # boxes of a class, where all of them are elected
INSIDE = 0.9  # a patch of which this share lies in an elected box is taken for a part of its object


class Ranked(NamedTuple):
    """The boxes of each class, best first: their rows (C, M) and their scores (C, M), -inf where there is no box any more."""

    rows: Tensor
    scores: Tensor


@dataclass(frozen=True)
class BoxSelection:
    """How the boxes of each class are selected.

    The first is that of the best score, or with `vote` the one that overlapping patches elect (see `voted`). The others follow by
    score or, where `elections` is above 0, are elected too, so many boxes in all (see `elect`); that needs `vote`. `sharpness`
    multiplies the scores of the voters; votes for a patch are multiplied by its area to the `area_power`.
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
        # the sum over scales becomes the mean, which is on the range of one scale; before the vote, since a division after it
        # may round the elected patch's score down to that of the next one
        mean = totals / scales
        return self._rank(boxes, mean, mean)

    def rank_probabilities(self, boxes: Tensor, totals: Tensor, scales: int) -> Ranked:
        """Return the boxes (P, 4) of each class in their order, from probabilities summed over `scales` (P, C).

        Their scores are the logits of the mean probabilities, so that all box scores are logits. In a vote the weight of a patch
        is its mean probability to the `sharpness`.
        """
        mean = (totals / scales).clamp(SMALLEST, 1 - SMALLEST)
        return self._rank(boxes, mean.logit(), mean.log())

    def _rank(self, boxes: Tensor, scores: Tensor, log_weights: Tensor) -> Ranked:
        if self.elections:
            return elect(boxes, scores, log_weights, self)
        return _sorted(voted(boxes, scores, log_weights, self) if self.vote else scores)


HEADS_VOTE = BoxSelection(vote=True, sharpness=0.5, area_power=0.25)  # by which the paper's heads are voted on here


def other_way(boxes: Tensor, totals: Tensor, scales: int, selection: BoxSelection) -> Tensor:
    """Return the row (C,) of each class's box selected the other way, by arg-max where `selection` votes and by vote where not.

    `totals` are raw scores summed over `scales` (P, C), as in `BoxSelection.rank_scores`.
    """
    if selection.vote:
        return totals.argmax(dim=0)
    return elected_first(boxes, totals / scales, HEADS_VOTE)


def voted(boxes: Tensor, scores: Tensor, log_weights: Tensor, selection: BoxSelection) -> Tensor:
    """Return patch scores (P, C) in which the patch that a vote elects has the highest score of each class.

    Every patch votes for those it overlaps, in proportion to IoU and to the exponential of its `log_weights` (P, C) times the
    `sharpness`. So a part with a high score loses to a whole that many good patches cover. All other scores stay.
    """
    elected = elected_first(boxes, log_weights, selection)[None]  # (1, C)
    return scores.scatter(0, elected, _above(scores))


def elected_first(boxes: Tensor, log_weights: Tensor, selection: BoxSelection) -> Tensor:
    """Return the row (C,) of the patch that the vote of `voted` elects for each class."""
    found = votes(box_iou(boxes, boxes), _weights(log_weights, selection.sharpness), boxes, selection.area_power)
    return found.argmax(dim=0)


def elect(boxes: Tensor, scores: Tensor, log_weights: Tensor, selection: BoxSelection) -> Ranked:
    """Return up to `elections` boxes of each class, every one elected from the votes that those before it leave.

    The first vote is that of `voted`. Patches whose IoU with an elected box exceeds `overlap` are explained by it: they neither
    vote nor can be elected any more. Those that lie inside it (see `INSIDE`) are likely parts of its object: from then on their
    weight is multiplied by `part_weight`, and so are the odds that their score (P, C) means. An elected box takes the best score
    of the patches that it explains; the first one has the highest of all. The boxes of a class come in the order of these scores,
    of equal ones the earlier elected first. Of equal votes the first patch wins.
    """
    overlap, weights = box_iou(boxes, boxes), _weights(log_weights, selection.sharpness)
    explained = overlap > selection.overlap  # (P, P)
    explained.fill_diagonal_(True)
    inside = share_inside(boxes, boxes) >= INSIDE  # (P, P)
    lowered = max(selection.part_weight, SMALLEST)
    free = torch.ones_like(scores, dtype=torch.bool)  # (P, C)
    part = torch.zeros_like(free)
    rows, found = [], []
    for _ in range(min(selection.elections, len(boxes))):
        left = weights * free * torch.where(part, lowered, 1.0)  # (P, C)
        won = votes(overlap, left, boxes, selection.area_power)
        row = won.masked_fill(~free, -1).argmax(dim=0)  # (C,)
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


def _weights(log_weights: Tensor, sharpness: float) -> Tensor:
    """Return the weight (P, C) of each patch in a vote: 1 for the highest of each class."""
    return (sharpness * (log_weights - log_weights.amax(dim=0))).exp()


def _above(scores: Tensor) -> Tensor:
    """Return the next number above the best score of each class, (1, C)."""
    return torch.nextafter(scores.amax(dim=0, keepdim=True), scores.new_tensor(torch.inf))


AGREEMENT_SHARPNESS = 0.5  # lower than in a vote: the many middling patches say more here than the few best


def agreement(boxes: Tensor, scores: Tensor, rows: Tensor, sharpness: float = AGREEMENT_SHARPNESS) -> Tensor:
    """Return the weighted mean IoU of all patches with each chosen one, (C, M), from 0 to 1.

    `boxes` (P, 4) are the patches, `scores` (P, C) their mean over scales, and `rows` (C, M) the chosen patches of each class.
    The weight of a patch is the exponential of `sharpness` times its score. High: the good patches all lie on this box. Low:
    they lie elsewhere too, or are much smaller or larger.
    """
    weights = (sharpness * scores).softmax(dim=0)  # (P, C)
    classes, most = rows.shape
    overlap = box_iou(boxes[rows.flatten()], boxes).view(classes, most, -1)  # (C, M, P)
    return (overlap @ weights.T[:, :, None])[:, :, 0]
