"""Checking a tagged data set before hours are spent: what will stop a training, what will hurt it, what is worth knowing.

Nothing is written anywhere. Each kind of finding has its own module beside this one; here they are put together.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from deep_patch_learning.data.checks.copies import copies_within, find_copies, leaks
from deep_patch_learning.data.checks.findings import (
    Finding,
    Item,
    Report,
    Severity,
    are,
    class_counts,
    number_of,
    worst_first,
)
from deep_patch_learning.data.checks.images import Facts, image_findings, look_at_all
from deep_patch_learning.data.checks.names import names_written_twice
from deep_patch_learning.data.checks.tags import split_findings, tag_findings, training_split
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes

__all__ = ["Report", "check"]


def check(
    images: TaggedImages,
    splits: Mapping[str, TaggedImages] | None = None,
    split: str | None = None,
    truth: Sequence[TrueBoxes] | None = None,
    limit: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Return what was found in `images`, those that a training would see.

    `splits` are the parts to compare, by name. With `split`, the name of the one that `images` is, the others are held
    out and looked for in it; without, every two of them are compared. `truth` are the true boxes of `images`, where there
    are any. `limit` opens the first images of each part only; tags are counted in all. `workers` threads decode at once,
    and `progress(done, total)` is told of each image.
    """
    parts = {**({} if split is None else {split: images}), **(splits or {})}
    wanted = {path: None for part in (images, *parts.values()) for path in part.paths[:limit]}
    facts = look_at_all(list(wanted), workers, progress)
    seen = [facts.get(path) for path in images.paths]
    counts = class_counts(images.classes, images.labels)
    findings = [*tag_findings(images, counts), *names_written_twice(images.classes, images.labels)]
    findings += _from_files(images, parts, split, facts)
    findings += split_findings(parts, split)
    notes = []
    if split is None and len(parts) > 1:
        notes.append("Without --split the tags of all splits are counted together, as dpl train would train on all.")
    if truth is None:
        notes.append("How much of an image each class fills is not known: the data has no boxes.")
    else:
        sizes = [None if one is None or one.problem else one.size for one in seen]
        fills = filled_shares(images, truth, sizes)
        counts = tuple(dataclasses.replace(one, fills=share) for one, share in zip(counts, fills, strict=True))
        findings += box_findings(images.classes, fills)
    opened = sum(one is not None for one in seen)
    if opened < len(images):
        notes.append(f"Only {opened:,} of {len(images):,} images were opened: copies among the rest are not known.")
    sizes_of_splits = {name: len(part) for name, part in parts.items()}
    return Report(len(images), opened, counts, worst_first(findings), sizes_of_splits, tuple(notes))


def _from_files(
    images: TaggedImages, parts: Mapping[str, TaggedImages], split: str | None, facts: dict[Path, Facts]
) -> Iterator[Finding]:
    """Yield what the files tell: of every image that was opened, of copies in `images`, of copies between two parts."""
    names = {
        path: name for part in (images, *parts.values()) for path, name in zip(part.paths, part.names, strict=True)
    }
    yield from image_findings([names[path] for path in facts], list(facts.values()))
    opened = images.subset([i for i, path in enumerate(images.paths) if path in facts])
    copies = find_copies(facts)
    yield from copies_within(opened, copies)
    first = split if split is not None else training_split(parts)
    order = sorted(parts, key=lambda name: name != first)  # what is trained on comes first in each pair
    for one, other in combinations(order, 2):
        if split is None or split in (one, other):
            yield from leaks((one, other), (parts[one], parts[other]), copies)


FILLS = 0.8  # of the image, in the median


def filled_shares(
    images: TaggedImages, truth: Sequence[TrueBoxes], sizes: Sequence[tuple[int, int] | None]
) -> list[float | None]:
    """Return for each class the median share of the image that its largest box covers; None where it has no box.

    `sizes` are (height, width), None for an image that was not opened. Difficult objects do not count.
    """
    shares: list[list[float]] = [[] for _ in images.classes]
    for boxes, size in zip(truth, sizes, strict=True):
        if size is None:
            continue
        corners = boxes.boxes.astype(np.float64)
        area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]) / (size[0] * size[1])
        for index in np.unique(boxes.classes[~boxes.difficult]):
            shares[index].append(float(area[(boxes.classes == index) & ~boxes.difficult].max()))
    return [float(np.median(found)) if found else None for found in shares]


def box_findings(classes: Sequence[str], fills: Sequence[float | None]) -> Iterator[Finding]:
    """Yield a finding for classes whose objects fill most of most images."""
    full = [(name, share) for name, share in zip(classes, fills, strict=True) if share is not None and share >= FILLS]
    if full:
        yield Finding(
            "fills_the_image",
            Severity.HURTS,
            f"{number_of(len(full), 'class')} {are(len(full))} as large as the image in most images",
            "Add images that show it smaller: where it is always everywhere, no patch differs from the whole.",
            tuple(Item((name,), f"{share:.0%} in the median") for name, share in full),
        )
