"""What a check says: findings with a severity, and the verdict that follows from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN

SHOWN = 5  # examples named in a finding
_NAMED = 4  # images named in an example that is a set of them


class Severity(IntEnum):
    """How bad a finding is; the worst is the largest."""

    WORTH_KNOWING = 1
    HURTS = 2
    STOPS = 3

    @property
    def words(self) -> str:
        """Return the severity as people read it."""
        return {1: "worth knowing", 2: "hurts", 3: "stops training"}[self]


@dataclass(frozen=True)
class Item:
    """One thing that was found: the images or classes it is about, and a note where there is more to say."""

    names: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        named = " + ".join(self.names[:_NAMED]) + (f" + {len(self.names) - _NAMED} more" * (len(self.names) > _NAMED))
        return f"{named} ({self.note})" if self.note else named


@dataclass(frozen=True)
class Finding:
    """One kind of trouble: `title` is a clause for the verdict, `fix` one sentence; `items` is everything it is about."""

    kind: str
    severity: Severity
    title: str
    fix: str
    items: tuple[Item, ...] = ()

    def examples(self) -> str:
        """Return up to five of the items as text, and how many more there are."""
        more = len(self.items) - SHOWN
        return ", ".join(map(str, self.items[:SHOWN])) + (f", ... and {more} more" if more > 0 else "")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, with every item."""
        items = [{"names": list(item.names), "note": item.note} for item in self.items]
        severity = self.severity.words
        return {
            "kind": self.kind, "severity": severity, "found": self.title, "fix": self.fix,
            "count": len(items), "items": items,
        }  # fmt: skip


@dataclass(frozen=True)
class ClassCount:
    """In how many images a class is present, absent and unknown, and in how many it is the only tag.

    `fills` is the median share of the image that its largest box covers, None where no boxes are known.
    """

    name: str
    present: int
    absent: int
    unknown: int
    alone: int
    fills: float | None = None


@dataclass(frozen=True)
class Report:
    """All that a check found: `findings` worst first, the counts per class, and what could not be known.

    `opened` of the `images` were decoded; the tags of all were read. `splits` gives the images of each split compared.
    """

    images: int
    opened: int
    classes: tuple[ClassCount, ...]
    findings: tuple[Finding, ...]
    splits: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether nothing was found that stops training."""
        return not any(finding.severity is Severity.STOPS for finding in self.findings)

    @property
    def verdict(self) -> str:
        """Return `ready`, `ready, but ...` or `not ready: ...`."""
        worst = max((finding.severity for finding in self.findings), default=Severity.WORTH_KNOWING)
        if worst is Severity.WORTH_KNOWING:
            return "ready"
        reasons = "; ".join(finding.title for finding in self.findings if finding.severity is worst)
        return f"not ready: {reasons}" if worst is Severity.STOPS else f"ready, but {reasons}"

    def kinds(self) -> tuple[str, ...]:
        """Return the kind of each finding, worst first."""
        return tuple(finding.kind for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "ready": self.ready,
            "verdict": self.verdict,
            "images": self.images,
            "opened": self.opened,
            "splits": self.splits,
            "classes": {one.name: _without_name(one) for one in self.classes},
            "findings": [finding.as_dict() for finding in self.findings],
            "notes": list(self.notes),
        }


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by severity; those of one severity stay in their order."""
    return tuple(sorted(findings, key=lambda finding: -finding.severity))


def class_counts(classes: Sequence[str], labels: np.ndarray) -> tuple[ClassCount, ...]:
    """Return the counts of each class over labels (I, C)."""
    present, absent, unknown = ((labels == state).sum(0) for state in (PRESENT, ABSENT, UNKNOWN))  # (C,)
    alone = (labels[(labels == PRESENT).sum(1) == 1] == PRESENT).sum(0)
    columns = zip(present, absent, unknown, alone, strict=True)
    return tuple(ClassCount(name, *map(int, counts)) for name, counts in zip(classes, columns, strict=True))


def number_of(count: int, thing: str) -> str:
    """Return `1 image`, `3 images`, `1 class`, `3 classes`."""
    if count == 1:
        return f"1 {thing}"
    return f"{count:,} {thing}{'es' if thing.endswith('s') else 's'}"


def are(count: int) -> str:
    """Return `is` or `are`."""
    return "is" if count == 1 else "are"


def has(count: int) -> str:
    """Return `has` or `have`."""
    return "has" if count == 1 else "have"


def _without_name(count: ClassCount) -> dict[str, Any]:
    return {key: getattr(count, key) for key in ("present", "absent", "unknown", "alone", "fills")}
