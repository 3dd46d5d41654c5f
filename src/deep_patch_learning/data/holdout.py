"""Which images are trained on and which are held out to measure with: two sets that share none."""

from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import PRESENT, TaggedImages
from deep_patch_learning.data.readers.read import read_tags


def drawn_share(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the sorted indices of about `share` of the images, drawn so that each class has about that share in them.

    `labels` (I, C). The rarest class comes first: images of it are drawn until it has its share, then of the next, and in the
    end any. A class with too few images for one whole image of its share is not looked at.
    """
    order = np.random.default_rng((seed, 3)).permutation(len(labels))
    present = labels[order] == PRESENT  # (I, C), in the order in which images are drawn
    drawn = np.zeros(len(labels), bool)
    for index in np.argsort(present.sum(0), kind="stable"):
        _draw(drawn, present[:, index], round(share * present[:, index].sum()))
    _draw(drawn, np.ones(len(labels), bool), round(share * len(labels)))
    return np.sort(order[drawn])


def _draw(drawn: np.ndarray, among: np.ndarray, wanted: int) -> None:
    """Mark the first of those `among` which are not yet drawn, until `wanted` of them are."""
    missing = max(wanted - int((drawn & among).sum()), 0)
    drawn[np.flatnonzero(among & ~drawn)[:missing]] = True


def read_apart(
    data: Path,
    split: str | None,
    val_split: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> tuple[TaggedImages, TaggedImages | None]:
    """Return the images to train on and those held out, None where neither `val_split` nor `val_share` is given.

    Without `split`, all images outside `val_split` are trained on. `limit`: only the first of each.
    """
    if val_split is not None and val_share is not None:
        raise DataError("--val-split and --val-share both say what is held out. Give one of them.")
    images, held_out = read_tags(data, split), None
    if val_split is not None:
        images, held_out = _without_split(images, data, split, val_split)
    images = _first(images, limit)
    if val_share is not None:
        held = drawn_share(images.labels, val_share, seed)
        held_out = images.subset(held)
        images = images.subset(np.setdiff1d(np.arange(len(images)), held))
    if held_out is not None:
        held_out = _first(held_out, limit)
        _must_be_some(images, held_out, f"--val-share {val_share:g}" if val_share else f"--val-split {val_split}")
    return images, held_out


def _first(images: TaggedImages, limit: int | None) -> TaggedImages:
    return images if limit is None else images.subset(range(min(limit, len(images))))


def _without_split(
    images: TaggedImages, data: Path, split: str | None, val_split: str
) -> tuple[TaggedImages, TaggedImages]:
    """Return the images that are not in `val_split`, and those that are; with a `split` the two must not share any."""
    held_out = read_tags(data, val_split, images.classes)
    shared = set(held_out.paths).intersection(images.paths)
    if shared and split is not None:
        raise DataError(
            f"--val-split {val_split}: {len(shared)} of its {len(held_out)} images are in --split {split} too, such as "
            f"{min(shared)}. Give splits that share no image."
        )
    return images.subset(i for i, path in enumerate(images.paths) if path not in shared), held_out


def _must_be_some(images: TaggedImages, held_out: TaggedImages, option: str) -> None:
    if not len(images):
        raise DataError(f"{option}: holds out every image, and none is left to train on. Hold out fewer.")
    if not (held_out.labels == PRESENT).any():
        raise DataError(
            f"{option}: none of the {len(held_out)} images held out shows a class, so that nothing can be measured on them. "
            "Hold out more."
        )
