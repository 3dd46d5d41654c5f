"""The page: everything that a report shows, and the one HTML file it is written to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from deep_patch_learning.common.atomic_files import written_afresh
from deep_patch_learning.report.charts import NO_MARKUP
from deep_patch_learning.report.images import Card
from deep_patch_learning.report.tables import Table


@dataclass(frozen=True)
class Headline:
    """A headline number; `kind` is "what" (classification), "where" (discovery) or nothing."""

    name: str
    value: str
    note: str
    kind: str = ""


@dataclass(frozen=True)
class Notice:
    """A sentence on how far the figures can be trusted; `kind` is "good" or "careful"."""

    text: str
    kind: str


@dataclass(frozen=True)
class CardGroup:
    """A group of images out of a `total`; `empty` is the text where there are none."""

    title: str
    note: str
    cards: tuple[Card, ...]
    total: int
    empty: str = "None."


@dataclass(frozen=True)
class ClassImages:
    """The best and the worst images of one class, and its figures in a few words."""

    name: str
    class_index: int
    facts: str
    best: CardGroup
    worst: CardGroup


@dataclass(frozen=True)
class Crop:
    """A patch as a data URI, its origin, and the text under it: a note and a share."""

    uri: str
    name: str
    note: str = ""
    share: str = ""


@dataclass(frozen=True)
class ExplainedTag:
    """An image with a tag that the network gave, and the patches of the part filters that raise its score, strongest first."""

    card: Card
    summary: str
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class FilterRow:
    """A part filter, the class it supports, and its strongest patches."""

    number: int
    class_name: str
    class_index: int
    note: str
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class ReportPage:
    """All contents of the page. Texts are plain: the template escapes them."""

    title: str
    classes: tuple[str, ...]
    measured_on: str
    headlines: tuple[Headline, ...]
    facts: tuple[str, ...] = ()
    notice: Notice | None = None
    has_boxes: bool = False  # true boxes are known, so boxes are right or wrong
    comparison: Table | None = None
    trust: Table | None = None
    per_class: Table | None = None
    taught: str = "tags alone, without boxes"  # what the network was trained on
    right: Table | None = None  # the share of right boxes of each class, where people judged some
    right_note: str = ""
    doubts: tuple[CardGroup, ...] = ()
    doubts_note: str = ""
    by_class: tuple[ClassImages, ...] = ()
    by_class_note: str = ""
    sample: CardGroup | None = None
    explained: tuple[ExplainedTag, ...] = ()
    explained_note: str = ""
    filters: tuple[FilterRow, ...] = ()
    filters_note: str = ""
    curve: Markup = NO_MARKUP
    narrow_curve: Markup = NO_MARKUP  # for a phone
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    footer: str = ""
    frame: float = 4 / 3  # aspect ratio of the space for an image


def render(report: ReportPage) -> str:
    """Return the page as self-contained HTML: no network, no fonts, no other files."""
    return _environment().get_template("page.html.j2").render(report=report)


MARK = b'<meta name="generator" content="Deep Patch Learning">'


def write_report(path: str | Path, report: ReportPage) -> Path:
    """Return the path of the page written; an existing file is replaced in one step."""
    path = Path(path)
    content = render(report).encode("utf-8", "replace")  # file names may have bytes that are no text
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_afresh(path) as part:
        part.write_bytes(content)
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
