"""How much of a picture the objects of a class fill, where people drew boxes. Only measured; no training comes here."""

from collections.abc import Iterator, Sequence

import numpy as np

from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.findings import Finding, Item, Severity, are, number_of
from deep_patch_learning.data.truth import TrueBoxes

FILLS = 0.8  # of the picture, in the median


def filled_shares(
    pictures: TaggedPictures, truth: Sequence[TrueBoxes], sizes: Sequence[tuple[int, int] | None]
) -> list[float | None]:
    """Return for each class the median share of the picture that its largest box covers; None where it has no box.

    `sizes` are (height, width), None for a picture that was not opened. Difficult objects do not count.
    """
    shares: list[list[float]] = [[] for _ in pictures.classes]
    for boxes, size in zip(truth, sizes, strict=True):
        if size is None:
            continue
        corners = boxes.boxes.astype(np.float64)
        area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]) / (size[0] * size[1])
        for index in np.unique(boxes.classes[~boxes.difficult]):
            shares[index].append(float(area[(boxes.classes == index) & ~boxes.difficult].max()))
    return [float(np.median(found)) if found else None for found in shares]


def box_findings(classes: Sequence[str], fills: Sequence[float | None]) -> Iterator[Finding]:
    """Yield a finding for classes whose objects fill most of most pictures."""
    full = [(name, share) for name, share in zip(classes, fills, strict=True) if share is not None and share >= FILLS]
    if full:
        yield Finding(
            "fills_the_picture",
            Severity.HURTS,
            f"{number_of(len(full), 'class')} {are(len(full))} as large as the picture in most pictures",
            "Add pictures that show it smaller: where it is always everywhere, no patch differs from the whole.",
            tuple(Item((name,), f"{share:.0%} in the median") for name, share in full),
        )
