"""The share of right boxes from a random sample, with a 95 % interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SURE = 0.9  # share of the sample's beginning that must be judged


@dataclass(frozen=True)
class Sample:
    """The judged boxes at the beginning of a random order: `boxes` in all, `judged` in the sample, `right` of these."""

    boxes: int
    judged: int
    right: int

    def as_dict(self) -> dict[str, Any]:
        """Return the sample ready for JSON, with (share, low, high)."""
        return {"sampled": self.judged, "right": overall([self])}


def sample_of(judged: np.ndarray, right: np.ndarray) -> Sample:
    """Return the sample in boxes (B,) in random order, of which some are `judged` (B,) and `right` (B,).

    The sample is the longest beginning of the order of which nine tenths are judged: boxes that were judged because they looked
    wrong lie anywhere in the order and do not count until the sample reaches them.
    """
    shares = np.cumsum(judged) / np.arange(1, len(judged) + 1)
    enough = np.flatnonzero(shares >= SURE)
    end = int(enough[-1]) + 1 if len(enough) else 0
    return Sample(len(judged), int(judged[:end].sum()), int((judged & right)[:end].sum()))


def overall(samples: Sequence[Sample]) -> tuple[float, float, float] | None:
    """Return (share, low, high) over classes, each weighted by its number of boxes; None without a judged box.

    Wilson's interval of the weighted share, with the number of judgements that would have given its variance.
    """
    used = [sample for sample in samples if sample.judged]
    if not used:
        return None
    sizes = np.array([sample.boxes for sample in used], np.float64)
    judged = np.array([sample.judged for sample in used], np.float64)
    right = np.array([sample.right for sample in used], np.float64)
    weights = sizes / sizes.sum()
    share = float(weights @ (right / judged))
    smooth = (right + 1) / (judged + 2)  # no class is sure after a few
    variance = float(weights**2 @ (smooth * (1 - smooth) / judged * (1 - judged / np.maximum(sizes, judged + 1e-9))))
    spread = float(weights @ smooth) * (1 - float(weights @ smooth))
    if variance <= 0:
        return share, share, share
    count, z = spread / variance, 1.959964
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return share, max(0.0, middle - half), min(1.0, middle + half)
