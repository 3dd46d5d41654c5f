"""Sliding windows as in the paper: squares of 64 to 256 pixels, every 32 pixels."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deep_patch_learning.data.images import checked

STEP = 32
SIDES = tuple(STEP * times for times in range(2, 9))


@dataclass(frozen=True)
class SlidingWindow:
    """Square windows of 32 x {2, ..., 8} pixels at steps of 32, largest first.

    Windows start at the left and top edge and end inside the image. A window larger than the image is cut to it;
    an image smaller than every window gives the image itself.
    """

    name: ClassVar[str] = "sliding-window"

    def key(self) -> str:
        """Return a text that identifies the method, its version and all its settings."""
        return f"{self.name}-1"

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Return the windows (P, 4) uint16 of an image (H, W, 3) uint8."""
        height, width = checked(image).shape[:2]
        found = []
        for side in reversed(SIDES):
            if side > max(height, width) and side != SIDES[0]:
                continue  # a smaller window already covers as much of this image
            x, y = np.meshgrid(_places(side, width), _places(side, height))
            x1, y1 = x.ravel(), y.ravel()
            found.append(np.stack([x1, y1, np.minimum(x1 + side, width), np.minimum(y1 + side, height)], axis=1))
        boxes = np.concatenate(found).astype(np.uint16)
        _, firsts = np.unique(boxes, axis=0, return_index=True)
        return boxes[np.sort(firsts)]


def _places(side: int, length: int) -> np.ndarray:
    """Return where windows of `side` start along an edge of `length` pixels."""
    room = max(0, length - side)
    return np.arange(0, room + 1, STEP)
