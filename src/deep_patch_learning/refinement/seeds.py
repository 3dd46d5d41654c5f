"""Scores of patches -> seeds: the patches of each present class that a classifier is to learn the class from.

Four ways of choosing them, each for all images and classes at once and in a fixed number of steps, so that a device is never
asked what it found: `Best`, `Vote`, `Several` and `Clusters`. None lets a gradient through.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from deep_patch_learning.common.boxes import area, overlaps
from deep_patch_learning.common.errors import ModelError, did_you_mean

SeedsName = Literal["best", "vote", "several", "clusters", "given"]


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


# boxes (I, M, 4), scores (I, M, C) from 0 to 1, which patches are there (I, M) -> picks
Choice = Callable[[Tensor, Tensor, Tensor], Picks]


@torch.no_grad()
def find_seeds(choice: Choice, boxes: Tensor, scores: Tensor, there: Tensor, present: Tensor) -> Seeds:
    """Return the seeds among patches (I, M, 4) with scores (I, M, C), `there` (I, M); only `present` (I, C) classes have any."""
    scores = scores.detach() * present[:, None]
    picks = choice(boxes, scores, there)
    classes, most = picks.places.shape[1:]
    chosen = boxes.gather(1, picks.places.flatten(1)[..., None].expand(-1, -1, 4))  # (I, C * n, 4)
    column = torch.arange(classes, device=boxes.device)[:, None].expand(classes, most).flatten()
    real = (picks.real & present[..., None]).flatten(1)
    return Seeds(chosen, picks.scores.flatten(1), real, column)


@dataclass(frozen=True)
class Best:
    """One seed a class: the patch with the highest score, as in OICR."""

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the best patch of each class."""
        best = _hidden(scores, there).max(dim=1)
        return Picks(best.indices[..., None], best.values[..., None], (best.values >= 0)[..., None])


@dataclass(frozen=True)
class Vote:
    """One seed a class: the patch that overlapping patches elect, so that a whole wins over a part of it that scores high.

    A patch votes with its score (a probability) to the `sharpness`, in proportion to IoU; votes for a patch are multiplied by its
    area to the `area_power`. The `voters` are the patches of an image with the highest scores, each class's best counting as
    1; all patches can be elected. The seed's score is the best of its class.
    """

    sharpness: float = 1.0
    area_power: float = 0.0
    voters: int = 128

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the elected patch of each class."""
        hidden = _hidden(scores, there)
        best = hidden.amax(dim=1)  # (I, C)
        loud = (hidden / best.clamp(min=torch.finfo(scores.dtype).tiny)[:, None]).clamp(min=0)  # (I, M, C) from 0 to 1
        heard = loud.amax(dim=2).topk(min(self.voters, loud.shape[1]), dim=1).indices  # (I, V)
        weight = loud.gather(1, heard[..., None].expand(-1, -1, loud.shape[2])) ** self.sharpness  # (I, V, C)
        votes = overlaps(boxes, boxes.gather(1, heard[..., None].expand(-1, -1, 4))) @ weight  # (I, M, C)
        if self.area_power:
            votes = votes * area(boxes)[..., None] ** self.area_power
        elected = _hidden(votes, there).argmax(dim=1)
        return Picks(elected[..., None], best[..., None], (best >= 0)[..., None])


@dataclass(frozen=True)
class Several:
    """Up to `most` seeds a class: the best `share` of an image's patches, less those that overlap a better one, as in MIST.

    With a `floor`, a seed also needs that share of the best score of its class: an image that shows one object should not be
    searched for five.
    """

    most: int = 5
    share: float = 0.15
    floor: float = 0.0
    overlap: float = 0.2

    def __call__(self, boxes: Tensor, scores: Tensor, there: Tensor) -> Picks:
        """Return the best patches of each class that lie apart."""
        count = min(max(math.ceil(self.share * scores.shape[1] - 1e-6), 1), scores.shape[1])
        top = _hidden(scores, there).transpose(1, 2).topk(count, dim=2)  # (I, C, T), best first
        allowed = (there.sum(dim=1) * self.share - 1e-6).ceil().clamp(min=1)  # (I,)
        free = (torch.arange(count, device=boxes.device) < allowed[:, None, None]) & (top.values >= 0)  # (I, C, T)
        free &= top.values >= self.floor * top.values[..., :1]
        places, real = apart(_boxes_at(boxes, top.indices), free, self.overlap, self.most)
        return Picks(top.indices.gather(2, places), top.values.gather(2, places), real)


@dataclass(frozen=True)
class Clusters:
    """Up to `most` seeds a class: the centres of clusters of good patches, as in PCL (Tang et al., 2018).

    Of each class's scores, split in three groups, the top group is kept (at most `candidates`). Patches with an IoU above
    `overlap` are neighbours. The one with most neighbours is a centre and leaves with them; and so on. A centre's score is
    the best of its cluster.
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
        near = (overlaps(own, own) > self.overlap) | torch.eye(count, dtype=torch.bool, device=boxes.device)
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


def apart(boxes: Tensor, free: Tensor, overlap: float, most: int) -> tuple[Tensor, Tensor]:
    """Return the places (..., most) that non-maximum suppression keeps among boxes (..., T, 4), best first, and which are real.

    Only boxes that are `free` (..., T) take part. In each of `most` rounds the first free box is kept, and those whose IoU with
    it exceeds `overlap` are free no more.
    """
    places, real = [], []
    for _ in range(most):
        place = free.to(torch.uint8).argmax(dim=-1, keepdim=True)  # (..., 1), the first of equal ones
        places.append(place)
        real.append(free.any(dim=-1, keepdim=True))
        kept = boxes.gather(-2, place[..., None].expand(*place.shape, 4))  # (..., 1, 4)
        free = (free & (overlaps(boxes, kept).squeeze(-1) <= overlap)).scatter(-1, place, False)
    return torch.cat(places, dim=-1), torch.cat(real, dim=-1)


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


def _boxes_at(boxes: Tensor, places: Tensor) -> Tensor:
    """Return the boxes (I, C, T, 4) at places (I, C, T) of boxes (I, M, 4)."""
    found = boxes.gather(1, places.flatten(1)[..., None].expand(-1, -1, 4))
    return found.view(*places.shape, 4)


def choice_of_seeds(
    name: str,
    most: int = 5,
    share: float = 0.15,
    floor: float = 0.0,
    sharpness: float = 1.0,
    area_power: float = 0.0,
) -> Choice:
    """Return the way of choosing seeds that a name stands for; `most` seeds a class where it gives several."""
    if name not in get_args(SeedsName):
        raise ModelError(f"there are no seeds '{name}'.{did_you_mean(name, get_args(SeedsName))}")
    ways: dict[str, Choice] = {
        "best": Best(),
        "vote": Vote(sharpness, area_power),
        "several": Several(most, share, floor),
        "clusters": Clusters(most),
        "given": Best(),  # not asked: the boxes of another run take its place
    }
    return ways[name]
