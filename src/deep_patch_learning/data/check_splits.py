"""What is held out to measure with: whether there is enough of it, of every class."""

from collections.abc import Iterator, Mapping

import numpy as np

from deep_patch_learning.data.check_tags import TOO_FEW
from deep_patch_learning.data.dataset import PRESENT, TaggedPictures
from deep_patch_learning.data.findings import Finding, Item, Severity, are, has, number_of

SMALL = 50  # pictures held out, below which a measure is mostly chance


def training_split(splits: Mapping[str, TaggedPictures]) -> str | None:
    """Return the split that is most likely trained on: one named like train, else the largest; None when there is none."""
    named = [name for name in splits if name.lower().startswith("train")]
    return max(named or splits, key=lambda name: len(splits[name]), default=None)


def split_findings(splits: Mapping[str, TaggedPictures], split: str | None) -> Iterator[Finding]:
    """Yield what the splits tell; `split` is the one checked for training, None when all were checked together."""
    trained = split if split is not None else training_split(splits)
    held_out = {name: part for name, part in splits.items() if name != trained}
    if trained is None or not held_out:
        yield Finding(
            "nothing_held_out",
            Severity.WORTH_KNOWING,
            "no held-out pictures are named",
            "Keep some pictures in a split of their own to measure with, and name it with --against.",
        )
        return
    if split is None:
        yield from _together(splits, trained)
    for name, part in held_out.items():
        yield from _small(name, part)
        yield from _lacking(name, part, splits[trained])


def _together(splits: Mapping[str, TaggedPictures], trained: str) -> Iterator[Finding]:
    part = splits[trained]
    in_part = (part.labels == PRESENT).sum(0)
    in_all = sum(((other.labels == PRESENT).sum(0) for other in splits.values()), np.zeros_like(in_part))
    few = np.flatnonzero((in_part < TOO_FEW) & (in_all >= TOO_FEW))
    if len(few):
        yield Finding(
            "rare_in_split",
            Severity.HURTS,
            f"{number_of(len(few), 'class')} {has(len(few))} fewer than {TOO_FEW} pictures in '{trained}'",
            f"Move pictures of them from the other splits to '{trained}'.",
            tuple(Item((part.classes[c],), f"{in_part[c]} of {in_all[c]}") for c in few),
        )


def _small(name: str, part: TaggedPictures) -> Iterator[Finding]:
    if len(part) < SMALL:
        yield Finding(
            "small_split",
            Severity.HURTS,
            f"'{name}' holds out {number_of(len(part), 'picture')} only",
            f"Hold out at least {SMALL}, better some hundreds: a measure on so few is mostly chance.",
        )


def _lacking(name: str, part: TaggedPictures, trained: TaggedPictures) -> Iterator[Finding]:
    """Yield findings for classes that are trained on and that the held-out part lacks, or has hardly any of."""
    count = (part.labels == PRESENT).sum(0)
    learned = (trained.labels == PRESENT).any(0)
    missing, few = np.flatnonzero(learned & (count == 0)), np.flatnonzero(learned & (count > 0) & (count < TOO_FEW))
    if len(missing):
        yield Finding(
            "missing_in_split",
            Severity.HURTS,
            f"{number_of(len(missing), 'class')} {are(len(missing))} in no picture of '{name}'",
            "Move some pictures of them there: a class that is nowhere cannot be measured.",
            tuple(Item((part.classes[c],)) for c in missing),
        )
    if len(few):
        yield Finding(
            "few_in_split",
            Severity.WORTH_KNOWING,
            f"{number_of(len(few), 'class')} {has(len(few))} fewer than {TOO_FEW} pictures in '{name}'",
            "Move more of them there: their figures will jump from run to run.",
            tuple(Item((part.classes[c],), str(count[c])) for c in few),
        )
