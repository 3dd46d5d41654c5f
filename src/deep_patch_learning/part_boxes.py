"""Boxes that found a part and not the object: the face, not the person. Told without true boxes, from what else was found."""

import numpy as np

from deep_patch_learning.boxes import area, pairwise_iou

INSIDE = 0.9  # the share of a box that lies in a whole which holds it
MUCH_LARGER = 0.5  # below this IoU a box that holds another is much larger than it
LIMIT = 0.2  # of all voices, the share of wholes from which a box looks like a part


def share_of_wholes(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return for each box (B, 4) how much of what is said for its class is said for larger boxes that hold it: (B,), 0 to 1.

    `others` (P, 4) are boxes or patches of the class with raw `scores` (P,). Each speaks with the exponential of its score, as in
    a vote.
    """
    boxes, others = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(others, np.float64).reshape(-1, 4)
    if not len(others):
        return np.zeros(len(boxes))
    iou = pairwise_iou(boxes, others)  # (B, P)
    shared = iou / (1 + iou) * (area(boxes)[:, None] + area(others))  # the intersection, in pixels
    wholes = (shared >= INSIDE * area(boxes)[:, None]) & (iou < MUCH_LARGER)
    voices = np.exp(np.asarray(scores, np.float64) - np.max(scores))  # (P,)
    return (wholes @ voices) / voices.sum()


def looks_like_a_part(boxes: np.ndarray, others: np.ndarray, scores: np.ndarray, limit: float = LIMIT) -> np.ndarray:
    """Return which boxes (B, 4) look like parts of an object, (B,) bool: much is said for larger boxes that hold them.

    `others` (P, 4) are boxes or patches of the same class, with raw `scores` (P,); see `share_of_wholes`.
    """
    return share_of_wholes(boxes, others, scores) > limit
