"""Which images belong together: near-duplicates, and the frames of one video. A split must keep them on one side."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.checks.duplicates import Fingerprint, fingerprint, groups, near_pairs
from deep_patch_learning.data.images import of_each_file, read_image

SIDE = 128  # pixels: a fingerprint is made of fewer, so that a JPEG need not be decoded in full
# Two neighbours of a sequence show one scene from this correlation of their small grey copies on, the best over shifts. Of random
# pairs of VOC 2007, 0.4 % reach it; of photos panned by an eighth of their width, zoomed and brightened, 98 % do.
FRAME_CORRELATION = 0.8
REACH = 3  # of the 16 rows and columns of the small copy, by which a frame may be shifted
_COUNTER = re.compile(r"\d+(?=\D*$)")  # the last number of a name


def alike_groups(
    paths: Sequence[Path], workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[list[int]]:
    """Return the sets of at least two images that belong together, each in order; an image is in one set at most.

    Pairs are near-duplicates as `dpl check` finds them, and neighbours of a sequence (see `neighbours`) that show one scene.
    What such pairs join, also over others, is one set. An image that cannot be read belongs to none.
    """
    prints = fingerprints(paths, workers, progress)
    return groups(len(paths), np.concatenate([near_pairs(prints), _frames(prints, neighbours(paths))]))


def fingerprints(
    paths: Sequence[Path], workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Fingerprint | None]:
    """Return the fingerprint of each image, None where it cannot be read; `workers` threads decode at once."""
    return of_each_file(_fingerprint, paths, workers, progress)


def _fingerprint(path: Path) -> Fingerprint | None:
    try:
        return fingerprint(read_image(path, SIDE))
    except DataError:  # whoever opens the image next names it as broken
        return None


def neighbours(paths: Sequence[Path]) -> np.ndarray:
    """Return (M, 2) indices of images next to each other in a sequence.

    A sequence are the images of one folder whose names differ in the last number only, in the order of that number.
    """
    sequences: dict[tuple[Path, str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, path in enumerate(paths):
        counter = _COUNTER.search(path.name)
        if counter is not None:
            around = path.name[: counter.start()], path.name[counter.end() :]
            sequences[path.parent, *around].append((int(counter[0]), index))
    found = []
    for sequence in sequences.values():
        order = [index for _, index in sorted(sequence)]
        found += list(pairwise(order))
    return np.array(found, np.int64).reshape(-1, 2)


def _frames(prints: Sequence[Fingerprint | None], pairs: np.ndarray) -> np.ndarray:
    """Return those of the pairs (M, 2) that show one scene; images of nearly one colour show none."""
    shows = np.array([one is not None and not one.flat for one in prints], bool)
    pairs = pairs[shows[pairs].all(1)] if len(pairs) else pairs
    if not len(pairs):
        return pairs
    small = np.stack([one.small if one is not None else np.zeros((16, 16), np.uint8) for one in prints])
    parts = np.array_split(pairs, len(pairs) // 4096 + 1)
    alike = [shifted_correlation(small[part[:, 0]], small[part[:, 1]]) >= FRAME_CORRELATION for part in parts]
    return pairs[np.concatenate(alike)]


def shifted_correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the correlation (M,) of grey images (M, S, S), the best over shifts by up to `REACH` pixels."""
    first, second = first.astype(np.float32), second.astype(np.float32)
    best = np.full(len(first), -1.0, np.float32)
    for down in range(-REACH, REACH + 1):
        for across in range(-REACH, REACH + 1):
            one = _standard(first[:, _cut(down), _cut(across)])
            other = _standard(second[:, _cut(-down), _cut(-across)])
            best = np.maximum(best, (one * other).sum(1))
    return best


def _cut(shift: int) -> slice:
    return slice(max(shift, 0), min(shift, 0) or None)


def _standard(small: np.ndarray) -> np.ndarray:
    """Return grey values (M, ...) as rows with a mean of 0 and a length of 1, so that a product is a correlation."""
    rows = small.reshape(len(small), -1)
    rows = rows - rows.mean(1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
