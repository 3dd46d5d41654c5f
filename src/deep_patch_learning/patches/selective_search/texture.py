"""The textures of the original Selective Search: the gradient's part along each of eight directions in each channel.

A pixel has 24 bins, one for each direction and channel, so that regions that differ in one direction still share the others.
Of two opposite directions one has no part of the gradient. So a pixel is counted once for both (`all_directions`), and the
24 histograms follow from these counts (`both_ways`). The quick modes have one bin for each pixel: `grouping.strongest_direction`.
"""

import numpy as np
from numba import njit

from deep_patch_learning.patches.selective_search.grouping import GREY_BINS, STRENGTHS

AXES = 12  # four in each channel: across, down and the diagonals
LEVELS = 2 * STRENGTHS - 1  # of an axis: the middle one is no gradient, those below point the opposite way
AXIS_BINS = AXES * LEVELS
DIRECTIONS = 2 * AXES
CHANNEL_BINS = 3 * GREY_BINS


def all_directions(image: np.ndarray) -> np.ndarray:
    """Return the bin on each axis, out of AXIS_BINS, of every pixel of an image (H, W, 3) uint8: (AXES, H, W) uint8."""
    import cv2

    bins = np.empty((AXES, *image.shape[:2]), np.uint8)
    for channel in range(3):
        plane = np.ascontiguousarray(image[..., channel])
        dx, dy = cv2.Scharr(plane, cv2.CV_16S, 1, 0), cv2.Scharr(plane, cv2.CV_16S, 0, 1)
        for axis, along in enumerate((dx, dy, dx + dy, dx - dy), start=4 * channel):
            least, most = cv2.minMaxLoc(along)[:2]
            _levels(along, STRENGTHS / max(most, 1.0), STRENGTHS / max(-least, 1.0), axis, bins[axis])
    return bins


@njit(cache=True, nogil=True)
def _levels(along: np.ndarray, ahead: float, behind: float, axis: int, bins: np.ndarray) -> None:
    """Fill in the bins (H, W) of an axis: tenths of the largest gradient along it `ahead`, and `behind` for the opposite way."""
    step, step_back, middle = np.float32(ahead), np.float32(behind), axis * LEVELS + STRENGTHS - 1
    for y in range(along.shape[0]):
        for x in range(along.shape[1]):
            gradient = np.float32(along[y, x])
            level = int(gradient * (step if gradient > 0 else step_back))
            bins[y, x] = middle + min(max(level, 1 - STRENGTHS), STRENGTHS - 1)


@njit(cache=True, nogil=True)
def both_ways(on_axes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return how many pixels of each region are in each bin of each direction (n, CHANNEL_BINS), from those on the axes."""
    counts = np.zeros((len(size), CHANNEL_BINS), np.int32)
    for r in range(len(size)):
        for direction in range(DIRECTIONS):
            middle = direction // 2 * LEVELS + STRENGTHS - 1
            sign = 1 - 2 * (direction % 2)
            first, rest = direction * STRENGTHS, size[r]
            for strength in range(1, STRENGTHS):
                pixels = on_axes[r, middle + sign * strength]
                counts[r, first + strength] = pixels
                rest -= pixels
            counts[r, first] = rest  # no gradient this way
    return counts
