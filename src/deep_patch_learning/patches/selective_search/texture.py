"""The textures of the original Selective Search: the gradient's part along each of eight directions in each channel.

A pixel has 24 bins, one for each direction and channel, so that regions that differ in one direction still share the others.
The quick modes have one bin for each pixel: `grouping.strongest_direction`.
"""

import numpy as np
from numba import njit

from deep_patch_learning.patches.selective_search.grouping import GREY_BINS, STRENGTHS

CHANNEL_BINS = 3 * GREY_BINS


def all_directions(image: np.ndarray) -> np.ndarray:
    """Return the 24 texture bins, out of CHANNEL_BINS, of every pixel of an image (H, W, 3) uint8: (H, W, 24) uint8."""
    import cv2

    bins = np.empty((*image.shape[:2], 24), np.uint8)
    for channel in range(3):
        plane = np.ascontiguousarray(image[..., channel])
        dx, dy = cv2.Scharr(plane, cv2.CV_16S, 1, 0), cv2.Scharr(plane, cv2.CV_16S, 0, 1)
        ranges = [cv2.minMaxLoc(along)[:2] for along in (dx, dy, dx + dy, dx - dy)]
        largest = [max(side, 1.0) for least, most in ranges for side in (most, -least)]
        _directions(dx, dy, STRENGTHS / np.array(largest, np.float32), channel, bins)
    return bins


@njit(cache=True, nogil=True)
def _directions(dx: np.ndarray, dy: np.ndarray, steps: np.ndarray, channel: int, bins: np.ndarray) -> None:
    """Fill in the eight bins of a channel: the gradient along right, left, down, up and the diagonals, 0 where it points away.

    `steps` (8,) float32 turn a gradient into a strength: tenths of the direction's largest in the image.
    """
    height, width = dx.shape
    first = 8 * channel
    for y in range(height):
        for x in range(width):
            gx, gy = np.int32(dx[y, x]), np.int32(dy[y, x])
            pixel = bins[y, x]
            _opposite(gx, first, 0, steps, pixel)
            _opposite(gy, first, 2, steps, pixel)
            _opposite(gx + gy, first, 4, steps, pixel)
            _opposite(gx - gy, first, 6, steps, pixel)


@njit(cache=True, nogil=True, inline="always")
def _opposite(along: int, first: int, direction: int, steps: np.ndarray, pixel: np.ndarray) -> None:
    """Fill in the bins of a direction and its opposite."""
    here = int(np.float32(along) * steps[direction if along > 0 else direction + 1])
    strength = STRENGTHS - 1 if abs(here) >= STRENGTHS else abs(here)
    pixel[first + direction] = (first + direction) * STRENGTHS + (strength if along > 0 else 0)
    pixel[first + direction + 1] = (first + direction + 1) * STRENGTHS + (0 if along > 0 else strength)
