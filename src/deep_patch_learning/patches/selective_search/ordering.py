"""The order of Selective Search's boxes: the first n should be the n that hold the most objects.

Two things decide. A box that stands high in many hierarchies comes early: its score is the sum of 1 / (1 + joins undone
before it appears). And a box next to which there is a better one can wait: boxes fall into cells of like place and size,
and a score is divided by a power of 1 + the number of better boxes in the cell. Two cell grids, half a cell apart,
are counted together, since a single one puts some like boxes on two sides of a border.
"""

import numpy as np
from numba import njit

OCTAVE = 0.3  # a cell is so many doublings of the width, and of the height, ...
SHIFT = 0.225  # ... and so many widths and heights wide and high
PATIENCE = 2.5  # the power; larger ones spread the first boxes more and cluster the later ones


@njit(cache=True, nogil=True)
def _slot(table: np.ndarray, key: np.int64) -> np.int64:
    """Return where `key` is, or may be put, in an open hash table with 2^n slots."""
    mask = table.size - 1
    slot = ((key ^ (key >> 29)) * 0x9E3779B97F4A7C1 >> 20) & mask
    while table[slot] != -1 and table[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def unique_scores(boxes: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different ones of boxes (Q, 4) int32 and their scores: (P, 4), (P,) int64, in order of appearance."""
    capacity = 64
    while capacity < 2 * len(boxes):
        capacity *= 2
    table, place = np.full(capacity, -1, np.int64), np.empty(capacity, np.int32)
    found, scores = np.empty_like(boxes), np.zeros(len(boxes), np.int64)
    count = 0
    for i in range(len(boxes)):
        corner = np.int64(boxes[i, 0]) << 48 | np.int64(boxes[i, 1]) << 32
        key = (corner | np.int64(boxes[i, 2]) << 16 | np.int64(boxes[i, 3])) & 0x7FFFFFFFFFFFFFFF
        slot = _slot(table, key)
        if table[slot] == -1:
            table[slot], place[slot] = key, count
            found[count] = boxes[i]
            count += 1
        scores[place[slot]] += (1 << 20) // (1 + ranks[i])
    return found[:count], scores[:count]


@njit(cache=True, nogil=True)
def _count_better(boxes: np.ndarray, offset: float, better: np.ndarray) -> None:
    """Add to `better` how many earlier boxes share each box's cell."""
    capacity = 64
    while capacity < 2 * len(boxes):
        capacity *= 2
    table, held = np.full(capacity, -1, np.int64), np.zeros(capacity, np.int32)
    for i in range(len(boxes)):
        w, h = boxes[i, 2] - boxes[i, 0], boxes[i, 3] - boxes[i, 1]
        wide, high = np.floor(np.log2(w) / OCTAVE + offset), np.floor(np.log2(h) / OCTAVE + offset)
        across, down = SHIFT * 2.0 ** (OCTAVE * wide), SHIFT * 2.0 ** (OCTAVE * high)
        column = np.int64((boxes[i, 0] + 0.5 * w) / across + offset)
        row = np.int64((boxes[i, 1] + 0.5 * h) / down + offset)
        key = ((column << 20 | row) << 8 | np.int64(wide)) << 8 | np.int64(high)
        slot = _slot(table, key)
        table[slot] = key
        better[i] += held[slot]
        held[slot] += 1


def best_first(boxes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the different ones of boxes (Q, 4) int32, best first: (P, 4).

    `ranks` (Q,) int32 counts, from the top of its own hierarchy, the joins that are undone before the box appears.
    """
    found, scores = unique_scores(boxes, ranks)
    by_score = found[np.argsort(-scores, kind="stable")]
    better = np.zeros(len(found), np.int64)
    for offset in (0.0, 0.5):
        _count_better(by_score, offset, better)
    left = np.sort(scores)[::-1] / (1.0 + better) ** PATIENCE
    return by_score[np.argsort(-left, kind="stable")]
