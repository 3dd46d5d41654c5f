"""The page: everything a report shows, and the one HTML file it becomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.report.figures import NO_MARKUP
from deep_patch_learning.report.images import Card
from deep_patch_learning.report.tables import Table


@dataclass(frozen=True)
class Figure:
    """A headline number; `kind` is "what" (classification), "where" (discovery) or nothing."""

    name: str
    value: str
    note: str
    kind: str = ""


@dataclass(frozen=True)
class Notice:
    """A sentence about how far the figures can be trusted; `kind` is "good" or "careful"."""

    text: str
    kind: str


@dataclass(frozen=True)
class CardGroup:
    """Images that belong together, shown of a `total`; `empty` is said where there are none."""

    title: str
    note: str
    cards: tuple[Card, ...]
    total: int
    empty: str = "None."


@dataclass(frozen=True)
class ClassImages:
    """The best and the worst images of one class, and in a few words how good it is."""

    name: str
    class_index: int
    facts: str
    best: CardGroup
    worst: CardGroup


@dataclass(frozen=True)
class Crop:
    """A patch as a data URI, where it comes from, and what is written under it: words and a figure."""

    uri: str
    name: str
    note: str = ""
    share: str = ""


@dataclass(frozen=True)
class Reason:
    """An image with a tag that was given, and the patches of the part filters that gave it, strongest first."""

    card: Card
    summary: str
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class FilterRow:
    """A part filter with its strongest patches."""

    number: int
    speaks_for: str
    class_index: int
    note: str
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class Report:
    """All that the page shows. Texts are plain: the page escapes them."""

    title: str
    classes: tuple[str, ...]
    measured_on: str
    figures: tuple[Figure, ...]
    facts: tuple[str, ...] = ()
    notice: Notice | None = None
    has_boxes: bool = False  # known true boxes, so that finds are right or wrong
    comparison: Table | None = None
    trust: Table | None = None
    per_class: Table | None = None
    doubts: tuple[CardGroup, ...] = ()
    doubts_note: str = ""
    by_class: tuple[ClassImages, ...] = ()
    by_class_note: str = ""
    sample: CardGroup | None = None
    reasons: tuple[Reason, ...] = ()
    reasons_note: str = ""
    filters: tuple[FilterRow, ...] = ()
    filters_note: str = ""
    curve: Markup = NO_MARKUP
    narrow_curve: Markup = NO_MARKUP  # the same for a phone
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    footer: str = ""
    frame: float = 4 / 3  # width by height of the space for an image


def render(report: Report) -> str:
    """Return the page as HTML that needs nothing beside itself: no network, no fonts, no other files."""
    return _environment().get_template("page.html.j2").render(report=report)


def write_report(path: str | Path, report: Report) -> Path:
    """Return the path of the page written; a file of that name is replaced in one step, never half."""
    path = Path(path)
    content = render(report).encode("utf-8", "replace")  # file names may hold bytes that are no text
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return path


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("deep_patch_learning.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
