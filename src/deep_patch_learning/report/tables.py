"""Figures by row and column: the classes of one run, and several runs side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from deep_patch_learning.report.figures import NO_MARKUP, bar

NOTHING = "–"
WHAT, WHERE = "what", "where"  # classification says what is in a picture, discovery where

# the figures a report knows by name: key, title, kind
TITLES: dict[str, tuple[str, str]] = {
    "mAP": ("mAP", WHAT),
    "mAP_11pt": ("mAP, 11-point", WHAT),
    "CorLoc": ("CorLoc", WHERE),
    "detection_mAP": ("Detection mAP", WHERE),
    "instance_recall": ("Instance recall", WHERE),
}
# the same per class: key of the dict in the figures, title, kind, the mean's key
_PER_CLASS = (
    ("AP", "AP", WHAT, "mAP"),
    ("CorLoc_per_class", "CorLoc", WHERE, "CorLoc"),
    ("AP_11pt", "AP, 11-point", "", "mAP_11pt"),
    ("detection_AP", "Detection AP", "", "detection_mAP"),
    ("instance_recall_per_class", "Instance recall", "", "instance_recall"),
)


@dataclass(frozen=True)
class Cell:
    """A value as it is shown, with an optional bar under it; `best` is highest of its column."""

    text: str
    bar: Markup = NO_MARKUP
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Columns, rows (each begins with its name) and perhaps a last row of means."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    mean: tuple[Cell, ...] = ()


def percent(value: Any) -> str:
    """Return a percentage with one digit after the point, or a dash where there is none."""
    return f"{value:.1f}" if _known(value) else NOTHING


def class_table(classes: Sequence[str], figures: Mapping[str, Any]) -> Table:
    """Return the figures of each class and their mean, from what `verbs.measure` gives; one not given has no column."""
    shown = [column for column in _PER_CLASS if column[0] in figures]
    positives = figures.get("positives", {})
    rows = []
    for name in classes:
        values = [(figures[key].get(name), kind) for key, _, kind, _ in shown]
        cells = [Cell(percent(value), bar(value, kind) if kind else NO_MARKUP) for value, kind in values]
        rows.append((Cell(name), *cells, Cell(str(positives.get(name, NOTHING)))))
    means = [(figures.get(mean), kind) for *_, kind, mean in shown]
    mean = (Cell("all"), *(Cell(percent(value), bar(value, kind) if kind else NO_MARKUP) for value, kind in means))
    columns = ("class", *(title for _, title, _, _ in shown), "pictures")
    return Table(columns, tuple(rows), (*mean, Cell(str(figures.get("pictures", NOTHING)))))


def comparison_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows side by side; the first key is the name of a row, and the highest of each known figure is marked.

    Numbers are shown with one digit after the point, whole numbers and texts as they are, what is missing as a dash.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    best = {key: max((row[key] for row in rows if _known(row.get(key))), default=None) for key in keys if key in TITLES}
    made = []
    for row in rows:
        cells = []
        for key in keys:
            value = row.get(key)
            top = len(rows) > 1 and value is not None and value == best.get(key)
            cells.append(Cell(_shown(value), bar(value, TITLES[key][1]) if key in TITLES else NO_MARKUP, top))
        made.append(tuple(cells))
    return Table(tuple(_title(key) for key in keys), tuple(made))


def _title(key: str) -> str:
    if key == "name":
        return ""  # rows speak for themselves
    return TITLES[key][0] if key in TITLES else key.replace("_", " ")


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _known(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
