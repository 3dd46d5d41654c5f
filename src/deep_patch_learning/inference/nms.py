"""Ranked patches -> boxes per class: greedy NMS, exact and compiled; or the boxes as they were elected."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _kept(boxes: np.ndarray, order: np.ndarray, overlap: float, most: int) -> np.ndarray:
    """Return the places in `order` (P,) of the boxes that overlap none of the better ones kept, at most `most` of them."""
    kept = np.empty(min(most, len(order)), np.int64)
    count = 0
    for place in range(len(order)):
        if count == len(kept):
            break
        x1, y1, x2, y2 = boxes[order[place]]
        area = (x2 - x1) * (y2 - y1)
        free = True
        for other in range(count):
            box = boxes[order[kept[other]]]
            wide = max(np.float32(0), min(x2, box[2]) - max(x1, box[0]))
            high = max(np.float32(0), min(y2, box[3]) - max(y1, box[1]))
            shared = wide * high
            if shared / (area + (box[2] - box[0]) * (box[3] - box[1]) - shared) > overlap:
                free = False
                break
        if free:
            kept[count] = place
            count += 1
    return kept[:count]


def nms(
    boxes: np.ndarray, orders: np.ndarray, scores: np.ndarray, overlap: float, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes (B, 4), their classes and scores after suppression within each class, best score first.

    `orders` (C, P) ranks the boxes (P, 4) of each class, `scores` (C, P) are theirs in that order. A box is dropped when its IoU
    with a better one that was kept exceeds `overlap`; at most `most` boxes of a class are kept.
    """
    kept = [_kept(boxes, order, overlap, most) for order in orders]
    classes = np.repeat(np.arange(len(orders)), [len(places) for places in kept])
    rows = np.concatenate([order[places] for order, places in zip(orders, kept, strict=True)])
    found = np.concatenate([own[places] for own, places in zip(scores, kept, strict=True)])
    return _best_first(boxes[rows], classes, found)


def gather(boxes: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the boxes (B, 4) that `rows` (C, M) name, their classes and scores, best score first.

    `scores` (C, M) are those of the boxes; where one is -inf there is no box.
    """
    classes, places = np.nonzero(scores > -np.inf)
    return _best_first(boxes[rows[classes, places]], classes, scores[classes, places])


def _best_first(
    boxes: np.ndarray, classes: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(-scores, kind="stable")
    return boxes[order], classes[order], scores[order]
