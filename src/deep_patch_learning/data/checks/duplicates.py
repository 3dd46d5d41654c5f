"""Images that are the same or nearly so: two perceptual hashes find the candidates, a small grey copy confirms them.

The hashes are 128 bits an image: dHash (is the next pixel brighter?) and pHash (the signs of low frequencies). Brightness,
contrast, size and compression hardly move them. Bits are kept as -1 and 1, so that all distances of a block of images to
a part of the others are one matrix product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BITS = 64  # of each of the two hashes
# Set on the 12.5 million pairs of VOC 2007's trainval: all eight that these let through are true ones (one scene taken
# twice), the first false ones are two airliners before an empty sky (0.84). A copy that is compressed, resized,
# brightened or made grey stays below 15 bits and above 0.97.
NEAR_BITS = 28  # of the 128 may differ in a candidate
NEAR_CORRELATION = 0.86  # of the small grey copies of two images that count as nearly the same
FLAT = 4.0  # a standard deviation of grey values below which an image shows too little to be compared
SIDE = 16  # of the small grey copy
_DCT_SIDE = 32
_BLOCK, _PART = 128, 1024  # images that are compared at once with so many others
_MATCHES = 64  # kept for each image: a thousand frames of one video need not give a million pairs
_CORNER = 8  # pHash: the lowest 8 x 8 frequencies


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is kept of an image to find it again: `bits` (128,) int8 of -1 and 1, and `small` (16, 16) uint8 grey."""

    bits: np.ndarray
    small: np.ndarray

    @property
    def flat(self) -> bool:
        """Whether the image is of nearly one colour, so that its bits say nothing."""
        return bool(self.small.std() < FLAT)


def fingerprint(image: np.ndarray) -> Fingerprint:
    """Return the fingerprint of an image (H, W, 3) uint8 RGB."""
    import cv2

    rows = cv2.resize(image, (9, 8), interpolation=cv2.INTER_AREA)
    ninths = cv2.cvtColor(rows, cv2.COLOR_RGB2GRAY).astype(np.int16)  # (8, 9)
    squeezed = cv2.resize(image, (_DCT_SIDE, _DCT_SIDE), interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(squeezed, cv2.COLOR_RGB2GRAY)
    low = cv2.dct(grey.astype(np.float32))[:_CORNER, :_CORNER].ravel()  # (64,)
    low[0] = 0  # the mean brightness
    bits = np.concatenate([(ninths[:, 1:] > ninths[:, :-1]).ravel(), low > np.median(low)])
    small = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return Fingerprint(np.where(bits, 1, -1).astype(np.int8), small)


def distance(one: Fingerprint, other: Fingerprint) -> tuple[int, int]:
    """Return how many of the 64 bits of dHash and of the 64 of pHash differ."""
    differ = one.bits != other.bits
    return int(differ[:BITS].sum()), int(differ[BITS:].sum())


def near_pairs(prints: Sequence[Fingerprint | None]) -> np.ndarray:
    """Return (M, 2) indices i < j of images that are nearly the same; None and flat images are near to none.

    Of an image's very many near ones only some are named.
    """
    usable = np.array([i for i, one in enumerate(prints) if one is not None and not one.flat], np.int64)
    chosen = [one for i in usable if (one := prints[i]) is not None]
    if len(chosen) < 2:
        return np.empty((0, 2), np.int64)
    bits = np.stack([one.bits for one in chosen])  # (n, 128)
    small = np.stack([one.small.ravel() for one in chosen])  # (n, 256)
    found = [_near_of_block(bits[start:], small[start:]) + start for start in range(0, len(bits), _BLOCK)]
    return usable[np.concatenate(found)]


def groups(count: int, pairs: np.ndarray) -> list[list[int]]:
    """Return the sets of at least two of `count` things that `pairs` (M, 2) join, each set in order."""
    root = list(range(count))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for i, j in pairs.tolist():
        low, high = sorted((find(i), find(j)))
        root[high] = low
    sets: dict[int, list[int]] = {}
    for i in range(count):
        sets.setdefault(find(i), []).append(i)
    return [members for members in sets.values() if len(members) > 1]


def _near_of_block(bits: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return (m, 2) of one of the first `_BLOCK` images and a later one that is nearly the same."""
    parts = [slice(start, start + _PART) for start in range(0, len(bits), _PART)]
    near = np.concatenate([_near(bits[:_BLOCK], small[:_BLOCK], bits[part], small[part]) for part in parts], axis=1)
    near &= np.arange(near.shape[1]) > np.arange(near.shape[0])[:, None]
    drawing = np.random.default_rng(0)
    for row in np.flatnonzero(near.sum(1) > _MATCHES):
        # the next keeps a video together; the drawn ones reach all of it, whichever split its parts are in
        matches = np.flatnonzero(near[row])
        near[row, np.delete(matches, [0, *drawing.choice(len(matches), _MATCHES - 1, replace=False)])] = False
    return np.argwhere(near)


def _near(bits: np.ndarray, small: np.ndarray, other_bits: np.ndarray, other_small: np.ndarray) -> np.ndarray:
    """Return (n, m) bool: whether the bits of two images are near and their small grey copies agree."""
    # of 128 products of -1 and 1, those that agree less those that differ
    near = bits.astype(np.float32) @ other_bits.T.astype(np.float32) >= 2 * BITS - 2 * NEAR_BITS
    rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
    agree = _standard(small[rows]) @ _standard(other_small[columns]).T >= NEAR_CORRELATION
    near[np.ix_(rows, columns)] &= agree
    return near


def _standard(small: np.ndarray) -> np.ndarray:
    """Return grey values (n, 256) with a mean of 0 and a length of 1, so that a product is a correlation."""
    values = small.astype(np.float32)
    values -= values.mean(axis=1, keepdims=True)
    return values / np.linalg.norm(values, axis=1, keepdims=True)
