"""Findings of the tags alone: classes too rare, too common, or never apart, and images without tags."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deep_patch_learning.data.checks.findings import ClassCount, Finding, Item, Severity, are, has, number_of
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages

TOO_FEW = 5  # images of a class, below which it cannot be learned
FEW = 20
NEARLY_ALL = 0.9  # share of images that show a class
IMBALANCE = 50  # times as many images of the most common class as of the rarest
MANY_UNTAGGED = 0.5
TOGETHER = 0.9  # share of the images of each of two classes that show the other too
NEVER_WITHOUT = 0.95  # share of the images of one class that show another
LIFT = 1.5  # times as often as in all images: a class that is everywhere goes with every other
ENOUGH_TO_SAY = 10  # images of a class, below which chance may put another beside each


def tag_findings(images: TaggedImages, counts: Sequence[ClassCount]) -> Iterator[Finding]:
    """Yield the findings of the tags of `images`, counted in `counts`."""
    yield from rare_classes(counts)
    yield from common_classes(counts)
    yield from imbalance(counts)
    yield from classes_together(images)
    yield from untagged(images)
    yield from one_tag_each(images)


def rare_classes(counts: Sequence[ClassCount]) -> Iterator[Finding]:
    """Yield findings for classes of unknown labels only, of fewer than 5 images, and of fewer than 20."""
    unknown = [one for one in counts if not one.present and one.unknown]
    none = [one for one in counts if one.present < TOO_FEW and one not in unknown]
    few = [one for one in counts if TOO_FEW <= one.present < FEW]
    if unknown:
        yield Finding(
            "unknown_only",
            Severity.STOPS,
            f"{number_of(len(unknown), 'class')} {has(len(unknown))} unknown labels only",
            "Tag images that surely show them, or leave these classes out.",
            tuple(Item((one.name,), f"unknown in {one.unknown}") for one in unknown),
        )
    for rare, severity, kind, limit in (
        (none, Severity.STOPS, "too_rare", TOO_FEW),
        (few, Severity.HURTS, "rare", FEW),
    ):
        if rare:
            yield Finding(
                kind,
                severity,
                f"{number_of(len(rare), 'class')} {has(len(rare))} fewer than {limit} images",
                f"Add images until each has {FEW} or more, or leave these classes out.",
                tuple(Item((one.name,), str(one.present)) for one in sorted(rare, key=lambda one: one.present)),
            )


def common_classes(counts: Sequence[ClassCount]) -> Iterator[Finding]:
    """Yield findings for classes that are never absent, and for those in nearly every image."""
    shown = [one for one in counts if one.present >= TOO_FEW]
    never = [one for one in shown if not one.absent]
    nearly = [one for one in shown if one.absent and one.present / (one.present + one.absent) >= NEARLY_ALL]
    fix = "Add images that do not show it: only these teach what the class does not look like."
    if never:
        yield Finding(
            "never_absent",
            Severity.STOPS,
            f"{number_of(len(never), 'class')} {are(len(never))} absent from no image",
            fix,
            tuple(Item((one.name,), f"in {one.present}, absent from none") for one in never),
        )
    if nearly:
        yield Finding(
            "nearly_everywhere",
            Severity.HURTS,
            f"{number_of(len(nearly), 'class')} {are(len(nearly))} in nearly every image",
            fix,
            tuple(Item((one.name,), f"in {one.present}, absent from {one.absent}") for one in nearly),
        )


def imbalance(counts: Sequence[ClassCount]) -> Iterator[Finding]:
    """Yield a finding when some class has very many times the images of another that can be learned."""
    learnable = [one for one in counts if one.present >= TOO_FEW]
    if not learnable:
        return
    most = max(learnable, key=lambda one: one.present)
    behind = sorted((one for one in learnable if one.present * IMBALANCE <= most.present), key=lambda one: one.present)
    if behind:
        yield Finding(
            "imbalance",
            Severity.HURTS,
            f"'{most.name}' has {IMBALANCE} times the images of {number_of(len(behind), 'class')} or more",
            f"Add images of the rare classes, or take fewer of '{most.name}' ({most.present:,}).",
            tuple(Item((one.name,), str(one.present)) for one in behind),
        )


def classes_together(images: TaggedImages) -> Iterator[Finding]:
    """Yield findings for pairs of classes that nearly always occur together, and for classes nearly never without another."""
    never_apart, one_way = [], []
    # of rarer classes nothing is said below: without them (C, C) stays small where there are thousands
    kept = np.flatnonzero((images.labels == PRESENT).sum(0) >= TOO_FEW)
    classes, labels = [images.classes[index] for index in kept], images.labels[:, kept]
    shown = (labels == PRESENT).astype(np.float32)  # (I, C)
    hidden = (labels == ABSENT).astype(np.float32)
    both = shown.T @ shown  # (C, C): images that show a and b
    apart = shown.T @ hidden  # images that show a and not b
    given = both / np.maximum(both + apart, 1)  # given[a, b] = P(b | a)
    usual = shown.sum(0) / np.maximum(shown.sum(0) + hidden.sum(0), 1)  # P(b)
    special = (usual < NEARLY_ALL) & (given >= LIFT * usual)  # [a, b]
    enough = both + apart >= ENOUGH_TO_SAY
    mutual = (given >= TOGETHER) & (given.T >= TOGETHER) & (both >= TOO_FEW) & special & special.T
    for a, b in np.argwhere(np.triu(mutual, 1)):
        never_apart.append(_pair(classes, a, b, both, apart))
    for a, b in np.argwhere((given >= NEVER_WITHOUT) & enough & special & ~mutual & ~np.eye(len(given), dtype=bool)):
        one_way.append(_pair(classes, a, b, both, apart))
    if never_apart:
        yield Finding(
            "always_together",
            Severity.HURTS,
            f"{number_of(len(never_apart), 'pair')} of classes nearly always occur{'s' * (len(never_apart) == 1)} together",
            "Add images that show one without the other: from tags alone nothing tells their boxes apart.",
            tuple(never_apart),
        )
    if one_way:
        yield Finding(
            "never_without",
            Severity.WORTH_KNOWING,
            f"{number_of(len(one_way), 'class')} {are(len(one_way))} (nearly) never without another",
            "Add images of the first without the second, or the first one's boxes may take in the second.",
            tuple(one_way),
        )


def untagged(images: TaggedImages) -> Iterator[Finding]:
    """Yield a finding for images in which no class is present."""
    empty = np.flatnonzero(~(images.labels == PRESENT).any(1))
    if len(empty):
        share = len(empty) / len(images)
        unsure = int((images.labels[empty] == UNKNOWN).any(1).sum())
        tail = f", {unsure:,} of them with unknown ones" if unsure else ""
        yield Finding(
            "untagged",
            Severity.HURTS if share > MANY_UNTAGGED else Severity.WORTH_KNOWING,
            f"{number_of(len(empty), 'image')} ({share:.0%}) {has(len(empty))} no tag that is present{tail}",
            "Tag them, or keep them if they really show none of the classes: then they teach what is absent.",
            tuple(Item((images.names[i],)) for i in empty),
        )


def one_tag_each(images: TaggedImages) -> Iterator[Finding]:
    """Yield a finding when no image of several classes has more than one tag."""
    tags = (images.labels == PRESENT).sum(1)
    if len(images.classes) > 1 and len(images) >= FEW and tags.max() == 1 and not (images.labels == UNKNOWN).any():
        yield Finding(
            "one_tag_each",
            Severity.WORTH_KNOWING,
            "no image has more than one tag",
            "If some show several classes, add those tags (or mark them unknown): a class that is not tagged counts as absent.",
        )


def _pair(classes: Sequence[str], a: int, b: int, both: np.ndarray, apart: np.ndarray) -> Item:
    one, other = classes[a], classes[b]
    counts = f"together in {both[a, b]:.0f}, {one} without {other} in {apart[a, b]:.0f}"
    return Item((one, other), f"{counts}, {other} without {one} in {apart[b, a]:.0f}")


SMALL = 50  # images held out, below which a measure is mostly chance


def training_split(splits: Mapping[str, TaggedImages]) -> str | None:
    """Return the split that is most likely trained on: one named like train, else the largest; None when there is none."""
    named = [name for name in splits if name.lower().startswith("train")]
    return max(named or splits, key=lambda name: len(splits[name]), default=None)


def split_findings(splits: Mapping[str, TaggedImages], split: str | None) -> Iterator[Finding]:
    """Yield the findings of the splits; `split` is the one checked for training, None when all were checked together."""
    trained = split if split is not None else training_split(splits)
    held_out = {name: part for name, part in splits.items() if name != trained}
    if trained is None or not held_out:
        yield Finding(
            "nothing_held_out",
            Severity.WORTH_KNOWING,
            "no held-out images are named",
            "Keep some images in a split of their own to measure with, and name it with --against.",
        )
        return
    if split is None:
        yield from _together(splits, trained)
    for name, part in held_out.items():
        yield from _small(name, part)
        yield from _lacking(name, part, splits[trained])


def _together(splits: Mapping[str, TaggedImages], trained: str) -> Iterator[Finding]:
    part = splits[trained]
    in_part = (part.labels == PRESENT).sum(0)
    in_all = sum(((other.labels == PRESENT).sum(0) for other in splits.values()), np.zeros_like(in_part))
    few = np.flatnonzero((in_part < TOO_FEW) & (in_all >= TOO_FEW))
    if len(few):
        yield Finding(
            "rare_in_split",
            Severity.HURTS,
            f"{number_of(len(few), 'class')} {has(len(few))} fewer than {TOO_FEW} images in '{trained}'",
            f"Move images of them from the other splits to '{trained}'.",
            tuple(Item((part.classes[c],), f"{in_part[c]} of {in_all[c]}") for c in few),
        )


def _small(name: str, part: TaggedImages) -> Iterator[Finding]:
    if len(part) < SMALL:
        yield Finding(
            "small_split",
            Severity.HURTS,
            f"'{name}' holds out {number_of(len(part), 'image')} only",
            f"Hold out at least {SMALL}, better some hundreds: a measure on so few is mostly chance.",
        )


def _lacking(name: str, part: TaggedImages, trained: TaggedImages) -> Iterator[Finding]:
    """Yield findings for classes that are trained on and that the held-out part lacks, or has hardly any of."""
    count = (part.labels == PRESENT).sum(0)
    learned = (trained.labels == PRESENT).any(0)
    missing, few = np.flatnonzero(learned & (count == 0)), np.flatnonzero(learned & (count > 0) & (count < TOO_FEW))
    if len(missing):
        yield Finding(
            "missing_in_split",
            Severity.HURTS,
            f"{number_of(len(missing), 'class')} {are(len(missing))} in no image of '{name}'",
            "Move some images of them there: a class that is nowhere cannot be measured.",
            tuple(Item((part.classes[c],)) for c in missing),
        )
    if len(few):
        yield Finding(
            "few_in_split",
            Severity.WORTH_KNOWING,
            f"{number_of(len(few), 'class')} {has(len(few))} fewer than {TOO_FEW} images in '{name}'",
            "Move more of them there: their figures will jump from run to run.",
            tuple(Item((part.classes[c],), str(count[c])) for c in few),
        )
