"""Selective Search (Uijlings et al., 2013): image -> a few thousand boxes that cover nearly every object.

`original` is the authors' "fast" mode, the textures of all directions and channels and exact segmentations, at three scales.
The default differs (docs/patches.md says how it was measured): segmentations are expensive and groupings are cheap, so
each segmentation is grouped under more similarity mixes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.images import checked, scaled, unscaled

BLUR = 0.8
LARGEST_MIN_SIZE = 100

TWO = ("CTSF", "TSF")
THREE = ("CTSF", "F", "S")
FIVE = ("CTSF", "TSF", "SF", "F", "CS")


class Mode(NamedTuple):
    """The colour spaces of a search, and for each k of the segmentation the similarity mixes (Colour, Texture, Size, Fill).

    `as_published`: textures of all directions and channels, and exact segmentations. `version` is part of the key: raise it
    whenever the mode's boxes change.
    """

    spaces: tuple[str, ...]
    scales: tuple[tuple[int, tuple[str, ...]], ...]
    as_published: bool = False
    version: int = 5


MODES = {
    "fast": Mode(("hsv", "lab"), ((30, THREE), (100, FIVE), (200, FIVE))),
    "quality": Mode(("hsv", "lab", "rgb"), ((25, FIVE), (50, FIVE), (100, FIVE), (200, FIVE))),
    "original": Mode(("hsv180", "lab"), ((100, TWO), (200, TWO), (400, TWO)), as_published=True, version=6),
}


@dataclass(frozen=True)
class SelectiveSearch:
    """Selective Search over several colour spaces, segmentation scales and similarity mixes.

    `mode` is `fast`, `quality` (more colour spaces and scales) or `original` (the authors' fast mode). An
    image whose longer side is above `max_side` is scaled down to it for the search. Boxes with a side under `min_side` pixels
    are left out, and no more than `max_boxes` come back, best first.
    """

    mode: str = "fast"
    max_side: int = 320
    max_boxes: int | None = None
    min_side: int = 8
    name: ClassVar[str] = "selective-search"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise DataError(f"Selective Search has no mode '{self.mode}'.{did_you_mean(self.mode, MODES)}")
        if not 16 <= self.max_side <= 4096:
            raise DataError(f"Selective Search needs a max_side of 16 to 4096 pixels, not {self.max_side}.")
        if self.max_boxes is not None and self.max_boxes < 1:
            raise DataError(f"Selective Search needs max_boxes of at least 1, or none, not {self.max_boxes}.")

    def key(self) -> str:
        """Return a text that identifies the method, its version and all its settings."""
        settings = f"mode={self.mode} max_side={self.max_side} max_boxes={self.max_boxes} min_side={self.min_side}"
        return f"{self.name}-{MODES[self.mode].version} {settings}"

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Return the boxes (P, 4) uint16 of an image (H, W, 3) uint8 RGB, best first."""
        from deep_patch_learning.patches.selective_search.grouping import best_first

        image = checked(image)
        small = scaled(image, self.max_side)
        hierarchies = list(_hierarchies(small, MODES[self.mode]))
        ranks = [np.arange(len(boxes) - 1, -1, -1, dtype=np.int32) for boxes in hierarchies]
        found = unscaled(best_first(np.concatenate(hierarchies), np.concatenate(ranks)), small, image)
        sides = np.minimum(found[:, 2] - found[:, 0], found[:, 3] - found[:, 1])
        return found[sides >= min(self.min_side, *image.shape[:2])][: self.max_boxes].astype(np.uint16)


def _hierarchies(image: np.ndarray, mode: Mode) -> Iterator[np.ndarray]:
    """Yield the boxes (2n - 1, 4) int32 of one hierarchy after the other, the whole image last in each."""
    import cv2

    from deep_patch_learning.patches.selective_search import grouping, segmentation

    height, width = image.shape[:2]
    terms = {"C": grouping.COLOUR, "T": grouping.TEXTURE, "S": grouping.SIZE, "F": grouping.FILL}
    exact = mode.as_published
    if exact:
        from deep_patch_learning.patches.selective_search import texture
    else:
        textures = grouping.strongest_direction(*cv2.spatialGradient(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)))
    for space in mode.spaces:
        converted = in_space(image, space)
        if exact:
            textures = texture.all_directions(converted)
            edges = segmentation.exact_edges(cv2.GaussianBlur(converted.astype(np.float32), (0, 0), BLUR))
        else:
            blurred = cv2.GaussianBlur(converted.astype(np.uint16) * segmentation.WEIGHT_STEPS, (0, 0), BLUR)
            edges = segmentation.sorted_edges(segmentation.edge_weights(blurred))
        colours = grouping.colour_bins(converted)
        for k, mixes in mode.scales:
            labels, count, left = segmentation.segment(edges, height, width, float(k), min(k, LARGEST_MIN_SIZE), exact)
            edges = edges if exact else left
            if exact:
                *known, on_axes = grouping.counted(labels, count, colours, textures, texture.AXIS_BINS)
                regions = grouping.described(*known, texture.both_ways(on_axes, known[0]), texture.DIRECTIONS)
            else:
                regions = grouping.described(*grouping.counted(labels, count, colours, textures, grouping.GREY_BINS), 1)
            near, starts = grouping.neighbours(labels, count)
            for mix in mixes:
                yield grouping.group(near, starts, regions, height * width, sum(terms[letter] for letter in mix))


def in_space(image: np.ndarray, space: str) -> np.ndarray:
    """Return an image (H, W, 3) uint8 RGB in a colour space; hsv180 has hues of 0 to 179, as in OpenCV, hsv of 0 to 255."""
    import cv2

    if space == "rgb":
        return image
    codes = {"hsv": cv2.COLOR_RGB2HSV_FULL, "hsv180": cv2.COLOR_RGB2HSV, "lab": cv2.COLOR_RGB2Lab}
    return cv2.cvtColor(image, codes[space])
