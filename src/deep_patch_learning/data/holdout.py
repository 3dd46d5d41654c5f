"""Splitting the images into those that are trained on and those that are held out to measure: two disjoint sets."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.data.alike import alike_groups
from deep_patch_learning.data.checks.findings import number_of
from deep_patch_learning.data.dataset import PRESENT, TaggedImages, limited
from deep_patch_learning.data.readers.read import read_tags

LARGEST_SHARE = 0.5  # of a class's images: a larger set of images that belong together is trained on

# images, share and seed -> the sorted indices that are held out
Draw = Callable[[TaggedImages, float, int], np.ndarray]


def drawn_share(labels: np.ndarray, share: float, seed: int, together: Sequence[Sequence[int]] = ()) -> np.ndarray:
    """Return the sorted indices of about `share` of the images, drawn so that each class has about that share in them.

    `labels` (I, C). The rarest class comes first: images of it are drawn until it has its share, then of the next, and at the
    end any. A class whose share is less than half an image is skipped.

    Images that are in one set of `together` are all drawn or none. A set that exceeds what is still missing is passed over for
    smaller ones, and drawn only where that comes nearer to the share. A set is never drawn that holds more images than the
    share, or more than half of those of a class.
    """
    unit = _units(np.random.default_rng((seed, 3)).permutation(len(labels)), together)  # (I,)
    sizes = np.bincount(unit)  # (U,)
    counts = np.zeros((len(sizes), labels.shape[1]), np.int64)  # (U, C): images of a unit that show a class
    np.add.at(counts, unit, labels == PRESENT)
    most = np.maximum(max(share, LARGEST_SHARE) * counts.sum(0), 1)  # (C,)
    may = (sizes == 1) | ((sizes <= share * len(labels)) & (counts <= most).all(1))
    drawn = np.zeros(len(sizes), bool)
    for index in np.argsort(counts.sum(0), kind="stable"):
        _draw(drawn, counts[:, index], may, round(share * counts[:, index].sum()))
    _draw(drawn, sizes, may, round(share * len(labels)))
    return np.flatnonzero(drawn[unit])


def _units(order: np.ndarray, together: Sequence[Sequence[int]]) -> np.ndarray:
    """Return for each image (I,) the number of its unit, a set of `together` or the image alone, in the `order` of drawing."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    for members in together:
        place[list(members)] = place[list(members)].min()
    return np.unique(place, return_inverse=True)[1]


def _draw(drawn: np.ndarray, counts: np.ndarray, may: np.ndarray, wanted: int) -> None:
    """Mark the first units that `may` be drawn and are not yet, of `counts` (U,) images each, until `wanted` images are."""
    missing = wanted - int(counts[drawn].sum())
    for unit in np.flatnonzero(may & ~drawn & (counts > 0)):
        if missing <= 0:
            return
        if counts[unit] <= missing:
            drawn[unit] = True
            missing -= int(counts[unit])
    left = np.flatnonzero(may & ~drawn & (counts > 0) & (counts < 2 * missing))
    if len(left):
        drawn[left[counts[left].argmin()]] = True


def drawn_together(images: TaggedImages, share: float, seed: int) -> np.ndarray:
    """Return the sorted indices of about `share` of the images; near-duplicates and frames of one video stay on one side.

    One line says how many were kept together, and which classes have no image to spare.
    """
    with bar("near-duplicates") as show:
        together = alike_groups(images.paths, progress=show)
    held = drawn_share(images.labels, share, seed, together)
    if together:
        console.print(_said_of(images, share, held, together), markup=False, soft_wrap=True)
    return held


def _said_of(images: TaggedImages, share: float, held: np.ndarray, together: Sequence[Sequence[int]]) -> str:
    inside = set(held.tolist())
    groups_held = sum(members[0] in inside for members in together)
    said = (
        f"held out {len(held):,} of {len(images):,} images; near-duplicates and frames of one video are kept on one side: "
        f"{number_of(len(together), 'group')} of {sum(map(len, together)):,} images, {groups_held:,} held out"
    )
    present = images.labels == PRESENT
    wanted = np.array([round(share * count) for count in present.sum(0)])
    none = [images.classes[index] for index in np.flatnonzero((wanted > 0) & ~present[held].any(0))]
    return f"{said}. Their groups are too large to hold one out: {', '.join(none)}" if none else said


def drawn_before(names: Collection[str]) -> Draw:
    """Return a drawing that holds out the images of these names: those that a run held out when it was begun."""
    known = frozenset(names)

    def draw(images: TaggedImages, share: float, seed: int) -> np.ndarray:
        return np.array([index for index, name in enumerate(images.names) if name in known], np.int64)

    return draw


def drawn_singly(images: TaggedImages, share: float, seed: int) -> np.ndarray:
    """Return the sorted indices of about `share` of the images, each drawn for itself, as runs of earlier versions did."""
    return drawn_share(images.labels, share, seed)


def read_apart(
    data: Path,
    split: str | None,
    val_split: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    draw: Draw = drawn_together,
) -> tuple[TaggedImages, TaggedImages | None]:
    """Return the images to train on and the held-out ones, None where neither `val_split` nor `val_share` is given.

    Without `split`, all images outside `val_split` are trained on. `limit` takes the first images of each. `draw`
    chooses the images of a share.
    """
    if val_split is not None and val_share is not None:
        raise DataError("--val-split and --val-share both say what is held out. Give one of them.")
    images, held_out = read_tags(data, split), None
    if val_split is not None:
        images, held_out = _without_split(images, data, split, val_split)
    images = limited(images, limit)
    if val_share is not None:
        held = draw(images, val_share, seed)
        held_out = images.subset(held)
        images = images.subset(np.setdiff1d(np.arange(len(images)), held))
    if held_out is not None:
        held_out = limited(held_out, limit)
        _must_be_some(images, held_out, f"--val-share {val_share:g}" if val_share else f"--val-split {val_split}")
    return images, held_out


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
    if not len(held_out):
        raise DataError(
            f"{option}: holds out no image. The share is less than an image, or all images are near-duplicates of each other. "
            "Give a larger share, or images of other scenes with --val-split."
        )
    if not (held_out.labels == PRESENT).any():
        raise DataError(
            f"{option}: none of the {len(held_out)} images held out shows a class, so that nothing can be measured on them. "
            "Hold out more."
        )
