"""Texture bins of every pixel, two ways.

`strongest_direction` is quick: the pixel's own direction and strength, one bin, of the grey image. `all_directions` is the
original's: the gradient's part along each of eight directions in each channel, so that a pixel has 24 bins, and regions that
differ in one direction still share the others.
"""

import numpy as np
from numba import njit

STRENGTHS = 10
GREY_BINS = 8 * STRENGTHS
CHANNEL_BINS = 3 * GREY_BINS


@njit(cache=True, nogil=True)
def strongest_direction(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the texture bin, out of GREY_BINS, of every pixel of a gradient (H, W): (H, W, 1) uint8."""
    height, width = dx.shape
    bins = np.empty((height, width, 1), np.uint8)
    for y in range(height):
        for x in range(width):
            gx, gy = np.int32(dx[y, x]), np.int32(dy[y, x])
            ax, ay = abs(gx), abs(gy)
            direction = (4 if gx < 0 else 0) + (2 if gy < 0 else 0) + (1 if ax < ay else 0)
            strength = ax + ay
            level = 0
            while strength > 0 and level < 9:  # one level per doubling
                strength >>= 1
                level += 1
            bins[y, x, 0] = direction * STRENGTHS + level
    return bins


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
