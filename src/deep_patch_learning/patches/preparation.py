"""What every patch generator does first with the image it is given: check it, and scale it down."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from deep_patch_learning.common.errors import DataError

LONGEST_SIDE = 65535  # boxes are uint16


def checked(image: np.ndarray) -> np.ndarray:
    """Return the image, contiguous in memory, or raise `DataError` when it is not (H, W, 3) uint8 with a pixel."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise DataError(
            f"An image for patches must be (H, W, 3) uint8 RGB; this one is {image.shape} {image.dtype}. "
            "`deep_patch_learning.data.images.read_image` makes such an image from any file."
        )
    if min(image.shape) < 1 or max(image.shape) > LONGEST_SIDE:
        raise DataError(
            f"An image for patches must have sides of 1 to {LONGEST_SIDE} pixels; this one is {image.shape[1]} x "
            f"{image.shape[0]}. Scale it down first."
        )
    return np.ascontiguousarray(image)


def scaled(image: np.ndarray, max_side: int) -> np.ndarray:
    """Return the image with its longer side at most `max_side`."""
    import cv2

    height, width = image.shape[:2]
    ratio = max_side / max(height, width)
    if ratio >= 1:
        return image
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def unscaled(boxes: np.ndarray, small: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return boxes (P, 4) of the scaled image `small`, rounded to whole pixels of `image`: (P, 4) int64."""
    sides = np.array([small.shape[1], small.shape[0]] * 2)
    wanted = np.array([image.shape[1], image.shape[0]] * 2)
    return (2 * boxes.astype(np.int64) * wanted + sides) // (2 * sides)


@contextmanager
def single_threaded_opencv() -> Iterator[None]:
    """Return a context in which OpenCV adds no threads; the setting before it comes back afterwards."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
