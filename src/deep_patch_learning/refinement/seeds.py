"""Scores of patches -> seeds: the patches of each present class that a classifier is trained on.

A seed rule chooses them: `Best`, `Vote`, `Votes`, `Several` or `Clusters`. Each works on all images and classes at once and in
a fixed number of steps, so that the device never has to be waited for. No gradient passes through. To add a rule, write a class
like `Best` here, and give it a name in `seed_rule` and in `SeedsName` of `recipe/settings.py` (a test compares the two).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from deep_patch_learning.common.boxes import box_iou, nms, share_inside, votes
from deep_patch_learning.common.errors import ModelError, did_you_mean


class Picks(NamedTuple):
    """The patches chosen for each class, (I, C, n) each: their places among the image's patches, scores, and which are real."""

    places: Tensor
    scores: Tensor
    real: Tensor


class Seeds(NamedTuple):
    """The seeds of each image: boxes (I, S, 4), scores (I, S), which are real (I, S), and the class of each column (S,)."""

    boxes: Tensor
    scores: Tensor
    real: Tensor
    classes: Tensor

    def of(self, images: slice) -> "Seeds":
        """Return the seeds of some of the images."""
        return Seeds(self.boxes[images], self.scores[images], self.real[images], self.classes)


# boxes (I, M, 4), scores (I, M, C) from 0 to 1 and below 0 for what may be no seed, which patches are there (I, M) -> picks
SeedRule = Callable[[Tensor, Tensor, Tensor], Picks]


@torch.no_grad()
def find_seeds(rule: SeedRule, boxes: Tensor, scores: Tensor, there: Tensor, present: Tensor) -> Seeds:
    """Return the seeds among patches (I, M, 4) with scores (I, M, C), `there` (I, M); only `present` (I, C) classes have any."""
    scores = scores.detach() * present[:, None]
    picks = rule(boxes, scores, there)
    classes, most = picks.places.shape[1:]
    chosen = boxes.gather(1, picks.places.flatten(1)[..., None].expand(-1, -1, 4))  # (I, C * n, 4)
    column = torch.arange(classes, device=boxes.device)[:, None].expand(classes, most).flatten()
    real = (picks.real & present[..., None]).flatten(1)
    return Seeds(chosen, picks.scores.flatten(1), real, column)


@dataclass(frozen=True)
class Best:
    """One seed per class: the patch with the highest score, as in OICR."""

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the best patch of each class."""
        best = _hidden(scores, there).max(dim=1)
        return Picks(best.indices[..., None], best.values[..., None], (best.values >= 0)[..., None])


@dataclass(frozen=True)
class Vote:
    """One seed per class: the patch with the most votes, so that a whole object wins over a part of it that scores high.

    A patch votes for those it overlaps with the weight IoU * score ** `sharpness`; the votes for a patch are multiplied by its
    area ** `area_power`. Scores are relative to the best of their class. The `voters` patches of an image with the highest
    scores vote; any patch can be elected. The seed's score is the best of its class.
    """

    sharpness: float = 1.0
    area_power: float = 0.0
    voters: int = 128

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the elected patch of each class."""
        hidden = _hidden(scores, there)
        best = hidden.amax(dim=1)  # (I, C)
        voters, weights = _voters(hidden, best, self.voters, self.sharpness)
        overlap = box_iou(boxes, _rows(boxes, voters))  # (I, M, V)
        found = votes(overlap, weights, boxes, self.area_power)  # (I, M, C)
        elected = found.masked_fill(hidden < 0, -1).argmax(dim=1)
        return Picks(elected[..., None], best[..., None], (best >= 0)[..., None])


@dataclass(frozen=True)
class Votes:
    """Up to `most` seeds per class: the first is that of `Vote`, each further one is elected by the voters that are left.

    Patches with an IoU above `overlap` with a seed neither vote nor can be elected any more; those with a share above `inside`
    of their area in it do not vote. A further seed's score is that of the best voter left, and it needs the share `floor` of the
    best of the class.
    """

    most: int = 5
    floor: float = 0.5
    sharpness: float = 1.0
    area_power: float = 0.0
    voters: int = 128
    overlap: float = 0.2
    inside: float = 0.6

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the elected patches of each class, in the order of their election."""
        hidden = _hidden(scores, there)
        best = hidden.amax(dim=1)  # (I, C)
        voters, weights = _voters(hidden, best, self.voters, self.sharpness)
        voting, voter_scores = _rows(boxes, voters), _rows(hidden, voters)  # (I, V, 4), (I, V, C)
        overlap = box_iou(boxes, voting)  # (I, M, V)
        near = (overlap > self.overlap) | (share_inside(boxes, voting) > self.inside)  # (I, M, V)
        score, real, free = best, best >= 0, hidden >= 0
        picked: list[tuple[Tensor, Tensor, Tensor]] = []
        for _ in range(self.most):
            found = votes(overlap, weights, boxes, self.area_power)  # (I, M, C)
            elected = found.masked_fill(~free, -1).argmax(dim=1)  # (I, C)
            picked.append((elected, score, real))
            free = free & (box_iou(boxes, _rows(boxes, elected)) <= self.overlap)
            weights = weights.masked_fill(_rows(near, elected).transpose(1, 2), 0)
            score = voter_scores.masked_fill(weights <= 0, 0).amax(dim=1)
            real = (score > 0) & (score >= self.floor * best)
        return Picks(*(torch.stack(parts, dim=2) for parts in zip(*picked, strict=True)))


@dataclass(frozen=True)
class Several:
    """Up to `most` seeds per class: the best `share` of an image's patches after NMS, as in MIST.

    With a `floor`, a seed also needs that share of the best score of its class: an image of one object should not give five
    seeds.
    """

    most: int = 5
    share: float = 0.15
    floor: float = 0.0
    overlap: float = 0.2

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the best patches of each class that NMS keeps."""
        count = min(max(math.ceil(self.share * scores.shape[1] - 1e-6), 1), scores.shape[1])
        top = _hidden(scores, there).transpose(1, 2).topk(count, dim=2)  # (I, C, T), best first
        allowed = (there.sum(dim=1) * self.share - 1e-6).ceil().clamp(min=1)  # (I,)
        free = (torch.arange(count, device=boxes.device) < allowed[:, None, None]) & (top.values >= 0)  # (I, C, T)
        free &= top.values >= self.floor * top.values[..., :1]
        places, real = nms(_boxes_at(boxes, top.indices), free, self.overlap, self.most)
        return Picks(top.indices.gather(2, places), top.values.gather(2, places), real)


@dataclass(frozen=True)
class Clusters:
    """Up to `most` seeds per class: the centres of clusters of good patches, as in PCL (Tang et al., 2018).

    Of each class's scores, split in three groups, the top group is kept (at most `candidates`). Patches with an IoU above
    `overlap` are neighbours. The patch with the most neighbours becomes a centre and is removed with them, and so on. A
    centre's score is the best of its cluster.
    """

    most: int = 5
    overlap: float = 0.4
    candidates: int = 64

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the centres of each class's clusters."""
        group = top_group(scores, there)  # (I, M, C)
        count = min(self.candidates, scores.shape[1])
        top = scores.masked_fill(~group, -1).transpose(1, 2).topk(count, dim=2)  # (I, C, T), best first
        own = _boxes_at(boxes, top.indices)  # (I, C, T, 4)
        near = (box_iou(own, own) > self.overlap) | torch.eye(count, dtype=torch.bool, device=boxes.device)
        free = top.values >= 0  # (I, C, T)
        picked: list[tuple[Tensor, Tensor, Tensor]] = []
        for _ in range(self.most):
            cluster = near & free[..., None, :]  # (I, C, T, T)
            degree = cluster.sum(dim=3).masked_fill(~free, -1)  # (I, C, T)
            place = degree.argmax(dim=2, keepdim=True)  # (I, C, 1)
            members = cluster.gather(2, place[..., None].expand(-1, -1, -1, count)).squeeze(2)  # (I, C, T)
            best = top.values.masked_fill(~members, -1).amax(dim=2, keepdim=True)
            picked.append((place, best, free.any(dim=2, keepdim=True)))
            free = free & ~members
        places, best, real = (torch.cat(parts, dim=2) for parts in zip(*picked, strict=True))
        return Picks(top.indices.gather(2, places), best, real)


def top_group(scores: Tensor, there: Tensor, rounds: int = 10) -> Tensor:
    """Return which patches (I, M, C) are in the highest of three groups that k-means splits each class's scores (I, M, C) into.

    The groups start at the lowest, the middle and the highest score; the number of `rounds` is fixed.
    """
    member = there[..., None].expand_as(scores)
    low = scores.masked_fill(~member, torch.inf).amin(dim=1, keepdim=True)
    high = scores.masked_fill(~member, -torch.inf).amax(dim=1, keepdim=True)
    low, high = (edge.nan_to_num(posinf=0, neginf=0) for edge in (low, high))
    middle = (low + high) / 2  # (I, 1, C)
    for _ in range(rounds):
        upper, lower = scores >= (middle + high) / 2, scores < (low + middle) / 2
        low = _mean(scores, member & lower, low)
        high, middle = _mean(scores, member & upper, high), _mean(scores, member & ~upper & ~lower, middle)
    return member & (scores >= (middle + high) / 2)


def _mean(values: Tensor, chosen: Tensor, otherwise: Tensor) -> Tensor:
    count = chosen.sum(dim=1, keepdim=True)
    return torch.where(count > 0, (values * chosen).sum(dim=1, keepdim=True) / count.clamp(min=1), otherwise)


def _hidden(scores: Tensor, there: Tensor) -> Tensor:
    """Return scores with -1, below any, where there is no patch."""
    return scores.masked_fill(~there[..., None], -1)


def _voters(hidden: Tensor, best: Tensor, most: int, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return the patches (I, V) that vote and their weights (I, V, C), from scores (I, M, C) and their best (I, C) by class."""
    tiny = torch.finfo(hidden.dtype).tiny
    relative = (hidden / best.clamp(min=tiny)[:, None]).clamp(min=0)  # (I, M, C), the best patch of each class is 1
    voters = relative.amax(dim=2).topk(min(most, relative.shape[1]), dim=1).indices
    return voters, _rows(relative, voters) ** sharpness


def _rows(values: Tensor, places: Tensor) -> Tensor:
    """Return the rows (I, n, D) at places (I, n) of values (I, M, D)."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[2]))


def _boxes_at(boxes: Tensor, places: Tensor) -> Tensor:
    """Return the boxes (I, C, T, 4) at places (I, C, T) of boxes (I, M, 4)."""
    found = boxes.gather(1, places.flatten(1)[..., None].expand(-1, -1, 4))
    return found.view(*places.shape, 4)


def seed_rule(
    name: str,
    most: int = 5,
    share: float = 0.15,
    floor: float = 0.0,
    sharpness: float = 1.0,
    area_power: float = 0.0,
) -> SeedRule:
    """Return the seed rule of this name; `most` is the number of seeds per class for rules that give several."""
    rules: dict[str, SeedRule] = {
        "best": Best(),
        "vote": Vote(sharpness, area_power),
        "votes": Votes(most, floor, sharpness, area_power),
        "several": Several(most, share, floor),
        "clusters": Clusters(most),
        "pseudo-boxes": Best(),  # never called: pseudo boxes take its place
    }
    if name not in rules:
        raise ModelError(f"there are no seeds '{name}'.{did_you_mean(name, rules)}")
    return rules[name]
