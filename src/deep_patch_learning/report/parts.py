"""The part filters' strongest patches: what each filter of the classification head has learned to look for."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image

from deep_patch_learning.inference.model import ImageInput, Model

CROP_SIDE = 96


class StrongPatch(NamedTuple):
    """A patch that a filter responds to: its image, its box there, the response summed over scales, and its pixels.

    `crop` has its longest side at CROP_SIDE pixels.
    """

    image: str
    box: tuple[int, int, int, int]
    response: float
    crop: Image.Image


@dataclass(frozen=True)
class FilterPatches:
    """A part filter, the class it speaks for most, how strongly, and its strongest patches, best first.

    `strength` is the classifier's weight of the filter for that class times the spread of the filter's response: how
    far the filter typically moves the score of the class.
    """

    filter: int
    speaks_for: str
    strength: float
    patches: tuple[StrongPatch, ...]


def strongest_patches(
    model: Model, images: Iterable[ImageInput], filters: int = 12, per_filter: int = 8
) -> list[FilterPatches]:
    """Return the patches that the most telling part filters respond to most, at most one patch of an image per filter.

    A filter speaks for the class whose score it moves most through the pyramid's whole-image cell: the classifier's
    weight there, times the standard deviation over the images of the filter's maximum. The strongest filter of each
    class comes first, then the others by strength. Of equal responses the earlier image and patch win. A network
    without classification head has no part filters, and gives an empty list.
    """
    head = model.network.classification
    if head is None:
        return []
    podium = _Podium(head.part_filters.out_features, per_filter)
    greatest = []  # of each image: (N,)
    for image in images:
        responses = model.scores([image])[0].parts  # (P, N)
        if responses is not None and len(responses):
            greatest.append(podium.offer(image, responses))
    if not greatest:
        return []
    count = head.part_filters.out_features
    weights = (
        head.classifier.weight[:, :count].detach().float().cpu().numpy()
    )  # (C, N): the first cell is the whole image
    moves = weights * np.std(greatest, axis=0)  # (C, N)
    return [
        FilterPatches(
            index, model.classes[int(moves[:, index].argmax())], float(moves[:, index].max()), podium.best(index)
        )
        for index in choose_filters(moves, filters)
    ]


def choose_filters(moves: np.ndarray, count: int) -> list[int]:
    """Return the filters to show of `moves` (C, N): the strongest of each class first, then the rest by strength."""
    strength, speaks_for = moves.max(axis=0), moves.argmax(axis=0)
    ranked = np.argsort(-strength, kind="stable")
    _, firsts = np.unique(speaks_for[ranked], return_index=True)  # the best filter of each class that has one
    leaders = ranked[np.sort(firsts)]
    others = ranked[~np.isin(ranked, leaders)]
    return np.concatenate([leaders, others])[:count].tolist()


class _Podium:
    """The best patches of every filter so far: images are seen once, one after the other, and not kept."""

    def __init__(self, filters: int, places: int) -> None:
        self.places = places
        self.standing: list[list[StrongPatch]] = [[] for _ in range(filters)]
        self.bar = np.full(filters, -np.inf)  # what a response must exceed to stand here

    def offer(self, image: ImageInput, responses: np.ndarray) -> np.ndarray:
        """Return the greatest response of each filter (N,), after giving the image its places."""
        winner = responses.argmax(axis=0)  # (N,) the first of equals
        greatest = responses[winner, np.arange(responses.shape[1])]
        for index in np.flatnonzero(greatest > self.bar).tolist():
            box = tuple(int(value) for value in image.patches[winner[index]])
            row = self.standing[index]
            row.append(StrongPatch(image.name, box, float(greatest[index]), crop(image.image, box)))  # type: ignore[arg-type]
            row.sort(key=lambda patch: -patch.response)  # stable: the earlier image stays ahead of its equal
            del row[self.places :]
            if len(row) == self.places:
                self.bar[index] = row[-1].response
        return greatest

    def best(self, index: int) -> tuple[StrongPatch, ...]:
        """Return the patches of one filter, best first."""
        return tuple(self.standing[index])


def crop(image: np.ndarray, box: tuple[int, int, int, int]) -> Image.Image:
    """Return the pixels of a box, its longest side made CROP_SIDE."""
    x1, y1, x2, y2 = box
    cut = Image.fromarray(np.ascontiguousarray(image[y1:y2, x1:x2]))
    factor = CROP_SIDE / max(cut.size)
    size = max(1, round(cut.width * factor)), max(1, round(cut.height * factor))
    return cut.resize(size, Image.Resampling.BICUBIC)
