"""The page: everything a report shows, and the one HTML file it becomes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from deep_patch_learning.drawing import class_colour
from deep_patch_learning.report.figures import NO_MARKUP
from deep_patch_learning.report.pictures import Card
from deep_patch_learning.report.tables import Table


@dataclass(frozen=True)
class Figure:
    """A headline number; `kind` is "what" (classification) or "where" (discovery)."""

    name: str
    value: str
    note: str
    kind: str


@dataclass(frozen=True)
class CardGroup:
    """Pictures that belong together; `kind` is "right", "wrong" or nothing."""

    title: str
    note: str
    cards: tuple[Card, ...]
    kind: str = ""


@dataclass(frozen=True)
class Crop:
    """A patch as a data URI, and where it comes from."""

    uri: str
    name: str


@dataclass(frozen=True)
class FilterRow:
    """A part filter with its strongest patches."""

    number: int
    speaks_for: str
    note: str
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class Report:
    """All that the page shows. Texts are plain: the page escapes them."""

    title: str
    measured_on: str
    figures: tuple[Figure, ...]
    facts: tuple[str, ...] = ()
    has_boxes: bool = False  # known true boxes, so that finds are right or wrong
    comparison: Table | None = None
    per_class: Table | None = None
    curve: Markup = NO_MARKUP
    narrow_curve: Markup = NO_MARKUP  # the same for a phone
    found: tuple[CardGroup, ...] = ()
    found_note: str = ""
    filters: tuple[FilterRow, ...] = ()
    filters_note: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    footer: str = ""

    @property
    def tags(self) -> list[str]:
        """Return the tags of the pictures shown, each once, in the order of the classes."""
        finds = {find.tag: find.class_index for group in self.found for card in group.cards for find in card.finds}
        return sorted(finds, key=lambda tag: finds[tag])


def render(report: Report) -> str:
    """Return the page as HTML that needs nothing beside itself: no network, no fonts, no other files."""
    return _environment().get_template("page.html.j2").render(report=report)


def write_report(path: str | Path, report: Report) -> Path:
    """Return the path of the page written; a file of that name is replaced in one step, never half."""
    path = Path(path)
    content = render(report).encode("utf-8", "replace")  # file names may hold bytes that are no text
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("deep_patch_learning.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["colour"] = class_colour
    return made
