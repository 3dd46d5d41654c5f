"""What the part filters have learned: the patches each responds to most, and what each adds to the score of a class."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from deep_patch_learning.inference.model import ImageInput, Model

CROP_SIDE = 96


class StrongPatch(NamedTuple):
    """A patch that a filter responds to: the name of its image, its box, the response summed over scales, and its pixels.

    `crop` has its longest side at CROP_SIDE pixels.
    """

    image: str
    box: tuple[int, int, int, int]
    response: float
    crop: Image.Image


@dataclass(frozen=True)
class FilterPatches:
    """A part filter, the class it supports most, how strongly, and its strongest patches, best first.

    `strength` is the classifier's weight of the filter for that class times the standard deviation of the filter's response: how
    far the filter typically moves the score of the class.
    """

    filter: int
    class_name: str
    strength: float
    patches: tuple[StrongPatch, ...]


def strongest_patches(
    model: Model, images: Iterable[ImageInput], filters: int = 12, per_filter: int = 8
) -> list[FilterPatches]:
    """Return the patches that the strongest part filters respond to most, at most one patch of an image per filter.

    A filter supports the class whose score it moves most through the pyramid's whole-image cell: the classifier's
    weight there, times the standard deviation over the images of the filter's maximum. The strongest filter of each
    class comes first, then the others by strength. Of equal responses the earlier image and patch win. A network
    without classification head has no part filters and gives an empty list.
    """
    head = model.network.classification
    if head is None:
        return []
    strongest = _Strongest(head.part_filters.out_features, per_filter)
    greatest = []  # of each image: (N,)
    for image in images:
        responses = model.scores([image])[0].parts  # (P, N)
        if responses is not None and len(responses):
            greatest.append(strongest.offer(image, responses))
    if not greatest:
        return []
    count = head.part_filters.out_features
    weights = (
        head.classifier.weight[:, :count].detach().float().cpu().numpy()
    )  # (C, N): the first cell is the whole image
    moves = weights * np.std(greatest, axis=0)  # (C, N)
    return [
        FilterPatches(
            index, model.classes[int(moves[:, index].argmax())], float(moves[:, index].max()), strongest.best(index)
        )
        for index in choose_filters(moves, filters)
    ]


def choose_filters(moves: np.ndarray, count: int) -> list[int]:
    """Return `count` filters of `moves` (C, N): the strongest of each class first, then the rest by strength."""
    strength, classes = moves.max(axis=0), moves.argmax(axis=0)
    ranked = np.argsort(-strength, kind="stable")
    _, firsts = np.unique(classes[ranked], return_index=True)  # the best filter of each class that has one
    leaders = ranked[np.sort(firsts)]
    others = ranked[~np.isin(ranked, leaders)]
    return np.concatenate([leaders, others])[:count].tolist()


class _Strongest:
    """The best patches of every filter so far: images are read once, one after the other, and not kept."""

    def __init__(self, filters: int, places: int) -> None:
        self.places = places
        self.best_so_far: list[list[StrongPatch]] = [[] for _ in range(filters)]
        self.bar = np.full(filters, -np.inf)  # the response to exceed

    def offer(self, image: ImageInput, responses: np.ndarray) -> np.ndarray:
        """Return the greatest response of each filter (N,), after adding the image where it is among the best."""
        winner = responses.argmax(axis=0)  # (N,) the first of equals
        greatest = responses[winner, np.arange(responses.shape[1])]
        for index in np.flatnonzero(greatest > self.bar).tolist():
            box = tuple(int(value) for value in image.patches[winner[index]])
            row = self.best_so_far[index]
            row.append(StrongPatch(image.name, box, float(greatest[index]), crop(image.image, box)))  # type: ignore[arg-type]
            row.sort(key=lambda patch: -patch.response)  # stable: the earlier image stays ahead of its equal
            del row[self.places :]
            if len(row) == self.places:
                self.bar[index] = row[-1].response
        return greatest

    def best(self, index: int) -> tuple[StrongPatch, ...]:
        """Return the patches of one filter, best first."""
        return tuple(self.best_so_far[index])


def crop(image: np.ndarray, box: tuple[int, int, int, int]) -> Image.Image:
    """Return the pixels of a box, scaled so that its longest side is CROP_SIDE."""
    x1, y1, x2, y2 = box
    cut = Image.fromarray(np.ascontiguousarray(image[y1:y2, x1:x2]))
    factor = CROP_SIDE / max(cut.size)
    size = max(1, round(cut.width * factor)), max(1, round(cut.height * factor))
    return cut.resize(size, Image.Resampling.BICUBIC)


class FilterShare(NamedTuple):
    """What one part filter adds to the score of a class, and the patch (an index) through which it adds most of it."""

    filter: int
    added: float
    patch: int


@dataclass(frozen=True)
class Explanation:
    """The score of one class in one image, as a sum over part filters.

    `score` is the classification head's and `filters` what its part filters add to it, largest first; None and empty
    without that head. `patch` is the patch (an index) with the highest score of the discovery head for the class, `patch_score`
    its mean score over scales; None without that head.
    """

    score: float | None
    filters: tuple[FilterShare, ...]
    patch: int | None
    patch_score: float | None

    @property
    def raising(self) -> tuple[FilterShare, ...]:
        """Return the filters that raise the score, the strongest first."""
        return tuple(one for one in self.filters if one.added > 0)

    @property
    def raised(self) -> float:
        """Return by how much these filters raise the score."""
        return sum(one.added for one in self.raising)

    @property
    def lowered(self) -> float:
        """Return by how much the other filters lower it; the rest of the score is the classifier's bias."""
        return -sum(one.added for one in self.filters if one.added < 0)


def explain(model: Model, image: ImageInput, class_index: int) -> Explanation:
    """Return what the score of a class in an image consists of.

    The classification score is a sum over part filters and cells of the pyramid: weight times greatest response. The terms
    are exact at each scale, and averaged over scales as the score is.
    """
    head = model.network.classification
    scales: list[tuple[Tensor, Tensor]] = []  # of each: the patches' centres (P, 2) and responses (P, N)

    def note(module: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        scales.append((inputs[1].cpu(), output[1].float().cpu()))

    hook = None if head is None else head.register_forward_hook(note)
    try:
        scores = model.scores([image])[0]
    finally:
        if hook is not None:
            hook.remove()
    filters: tuple[FilterShare, ...] = ()
    if head is not None:
        added = np.mean([_added(head, class_index, *one) for one in scales], axis=0)  # (P, N)
        totals = added.sum(axis=0)
        order = np.argsort(-totals, kind="stable").tolist()
        filters = tuple(FilterShare(n, float(totals[n]), int(added[:, n].argmax())) for n in order)
    patch = None if scores.patches is None else int(scores.patches[:, class_index].argmax())
    return Explanation(
        None if scores.classification is None else float(scores.classification[class_index]),
        filters,
        patch,
        None if scores.patches is None else float(scores.patches[patch, class_index]) / len(model.settings.views),
    )


def _added(head: Any, class_index: int, centres: Tensor, responses: Tensor) -> np.ndarray:
    """Return what each patch adds to the score of a class through each part filter, (P, N), at one scale."""
    weights = head.classifier.weight[class_index].detach().float().cpu().view(head.pyramid.cells, -1)  # (8, N)
    held = head.pyramid.cells_of(centres)  # (P, 3)
    added = torch.zeros_like(responses)
    for cell, weight in enumerate(weights):
        inside = (held == cell).any(dim=1)  # (P,)
        if inside.any():
            greatest, winner = responses.masked_fill(~inside[:, None], -torch.inf).max(dim=0)  # (N,) each
            added.scatter_add_(0, winner[None], (weight * greatest)[None])
    return added.numpy()
