"""Copies: the same image twice in a data set, with equal or different tags, and the same image in two splits."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.data.checks.duplicates import groups, near_pairs
from deep_patch_learning.data.checks.findings import Finding, Item, Severity, are, has, number_of
from deep_patch_learning.data.checks.images import Facts
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN, TaggedImages

MANY_COPIES = 0.05  # of the images, from which copies hurt
MANY_NEAR = 0.2
MANY_LEAKED = 0.01  # of the held-out images, from which a measure is too high


@dataclass(frozen=True)
class Copies:
    """Which images are alike: `first` gives the first image with the same pixels, `near` the ones nearly like that."""

    facts: dict[Path, Facts]
    first: dict[Path, Path]
    near: dict[Path, list[Path]]

    def how_alike(self, one: Path, other: Path) -> str:
        """Return in what way two similar images are alike."""
        if one == other:
            return "the same file"
        if self.facts[one].content == self.facts[other].content:
            return "the same bytes"
        return "the same pixels" if self.first[one] == self.first[other] else "nearly the same"


def find_copies(facts: dict[Path, Facts]) -> Copies:
    """Return which of the images are copies of each other; those that cannot be read are left out."""
    by_pixels: dict[bytes, Path] = {}
    readable = {path: one for path, one in facts.items() if one.problem is None}
    first = {path: by_pixels.setdefault(one.pixels, path) for path, one in readable.items()}
    different = list(by_pixels.values())
    near: dict[Path, list[Path]] = defaultdict(list)
    for i, j in near_pairs([facts[path].prints for path in different]).tolist():
        near[different[i]].append(different[j])
        near[different[j]].append(different[i])
    return Copies(facts, first, dict(near))


def copies_within(images: TaggedImages, copies: Copies) -> Iterator[Finding]:
    """Yield findings for images that are there twice, exactly or nearly, and for those whose tags then disagree."""
    members: dict[Path, list[int]] = defaultdict(list)
    for index, path in enumerate(images.paths):
        if path in copies.first:
            members[copies.first[path]].append(index)
    exact = [indices for indices in members.values() if len(indices) > 1]
    alike = _near_groups(members, copies)
    total = len(images)
    if exact:
        spare = sum(len(indices) - 1 for indices in exact)
        yield Finding(
            "copies",
            Severity.HURTS if spare >= MANY_COPIES * total else Severity.WORTH_KNOWING,
            f"{number_of(spare, 'image')} {'is a copy' if spare == 1 else 'are copies'} of another",
            "Keep one of each: a copy weighs double and adds nothing.",
            tuple(_exact(images, indices, copies) for indices in exact),
        )
    if alike:
        spare = sum(len(indices) - 1 for indices in alike)
        yield Finding(
            "near_copies",
            Severity.HURTS if spare >= MANY_NEAR * total else Severity.WORTH_KNOWING,
            f"{number_of(spare, 'image')} {are(spare)} nearly the same as another",
            "Keep one of each where they are frames of one scene, and never put them in different splits.",
            tuple(Item(tuple(images.names[i] for i in indices)) for indices in alike),
        )
    yield from _conflicts(images, exact, "copies_disagree", Severity.HURTS, "copies")
    yield from _conflicts(images, alike, "near_copies_disagree", Severity.WORTH_KNOWING, "near-duplicates")


def leaks(names: tuple[str, str], parts: tuple[TaggedImages, TaggedImages], copies: Copies) -> Iterator[Finding]:
    """Yield a finding when images of the second part are, exactly or nearly, in the first too."""
    trained, held = parts
    by_first: dict[Path, int] = {}
    for index, path in enumerate(trained.paths):
        if path in copies.first:
            by_first.setdefault(copies.first[path], index)
    items = []
    for name, path in zip(held.names, held.paths, strict=True):
        same = copies.first.get(path)
        if same is None:
            continue
        twin = next((by_first[one] for one in (same, *copies.near.get(same, ())) if one in by_first), None)
        if twin is not None:
            note = copies.how_alike(trained.paths[twin], path)
            items.append(Item((trained.names[twin], name), note))
    if items:
        opened = sum(path in copies.facts for path in held.paths)
        first, second = names
        yield Finding(
            "leak",
            Severity.HURTS if len(items) >= MANY_LEAKED * opened else Severity.WORTH_KNOWING,
            f"{len(items):,} of {opened:,} images of '{second}' {are(len(items))} in '{first}' too, or nearly",
            f"Take them out of '{first}' or '{second}': what was trained on measures too well.",
            tuple(items),
        )


def _near_groups(members: dict[Path, list[int]], copies: Copies) -> list[list[int]]:
    """Return the sets of images that are nearly the same, one image for each set of exact copies."""
    order = {path: number for number, path in enumerate(members)}
    pairs = [(order[one], order[other]) for one in members for other in copies.near.get(one, ()) if other in order]
    representatives = [indices[0] for indices in members.values()]
    joined = groups(len(order), np.array(pairs, np.int64).reshape(-1, 2))
    return [sorted(representatives[number] for number in group) for group in joined]


def _exact(images: TaggedImages, indices: Sequence[int], copies: Copies) -> Item:
    note = copies.how_alike(images.paths[indices[0]], images.paths[indices[1]])
    return Item(tuple(images.names[i] for i in indices), note)


def _conflicts(
    images: TaggedImages, alike: Sequence[Sequence[int]], kind: str, severity: Severity, word: str
) -> Iterator[Finding]:
    items = []
    for indices in alike:
        labels = images.labels[list(indices)]
        sure = (labels != UNKNOWN).all(0)
        differ = np.flatnonzero(sure & (labels.min(0) != labels.max(0)))
        if len(differ):
            tags = [", ".join(images.classes[c] for c in differ if row[c] == PRESENT) or "none" for row in labels]
            note = "tagged " + " against ".join(dict.fromkeys(tags))
            items.append(Item(tuple(images.names[i] for i in indices), note))
    if items:
        yield Finding(
            kind,
            severity,
            f"{number_of(len(items), 'set')} of {word} {has(len(items))} tags that disagree",
            "Look at them and correct the tags.",
            tuple(items),
        )
