"""Tables of figures: the classes of one run, and several runs side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.evaluation.right_boxes import RightBoxes, Share
from deep_patch_learning.report.charts import NO_MARKUP, bar, stacked_bar
from deep_patch_learning.report.opinions import Counts, Opinions

NOTHING = "–"
WHAT, WHERE = "what", "where"  # classification and discovery

# the figures a report knows by name: key, title, kind
TITLES: dict[str, tuple[str, str]] = {
    "mAP": ("mAP", WHAT),
    "mAP_11pt": ("mAP, 11-point", WHAT),
    "CorLoc": ("CorLoc", WHERE),
    "detection_mAP": ("Detection mAP", WHERE),
    "recall_at_80": ("Recall at 80 %", WHERE),
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
    """A value as it is shown, with an optional bar under it; `kind` is "best" (of its column), "counts" or nothing."""

    text: str
    bar: Markup = NO_MARKUP
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """Columns, rows (each begins with its name) and perhaps a last row of means.

    `by_class`: the rows are the classes in their order.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    mean: tuple[Cell, ...] = ()
    by_class: bool = False


def percent(value: Any) -> str:
    """Return a percentage with one decimal, or a dash."""
    return f"{value:.1f}" if _known(value) else NOTHING


def class_table(classes: Sequence[str], figures: Mapping[str, Any]) -> Table:
    """Return the figures of each class and their mean, as measured; a figure that is missing has no column."""
    shown = [column for column in _PER_CLASS if column[0] in figures]
    positives = figures.get("positives", {})
    rows = []
    for name in classes:
        values = [(figures[key].get(name), kind) for key, _, kind, _ in shown]
        cells = [Cell(percent(value), bar(value, kind) if kind else NO_MARKUP) for value, kind in values]
        rows.append((Cell(name), *cells, Cell(str(positives.get(name, NOTHING)))))
    means = [(figures.get(mean), kind) for *_, kind, mean in shown]
    mean = (Cell("all"), *(Cell(percent(value), bar(value, kind) if kind else NO_MARKUP) for value, kind in means))
    columns = ("class", *(title for _, title, _, _ in shown), "images")
    return Table(columns, tuple(rows), (*mean, Cell(str(figures.get("images", NOTHING)))), by_class=True)


def trust_table(classes: Sequence[str], figures: Mapping[str, Any], opinions: Opinions) -> Table:
    """Return for each class its AP, its CorLoc where boxes are known, and how certain the network is of its tags.

    Images with the tag and without it have their own columns; a cell counts sure, unsure and sure of the opposite.
    """
    shown = [column for column in _PER_CLASS if column[2] and column[0] in figures]
    counts = {label: [opinions.counts(c, label) for c in range(len(classes))] for label in (PRESENT, ABSENT)}
    rows = []
    for index, name in enumerate(classes):
        values = [(figures[key].get(name), kind) for key, _, kind, _ in shown]
        cells = [Cell(percent(value), bar(value, kind)) for value, kind in values]
        rows.append((Cell(name), *cells, *(_counted(counts[label][index]) for label in counts)))
    means = [Cell(percent(figures.get(mean)), bar(figures.get(mean), kind)) for *_, kind, mean in shown]
    sums = [_counted(Counts(*(sum(column) for column in zip(*counts[label], strict=True)))) for label in counts]
    columns = ("class", *(title for _, title, _, _ in shown), "with the tag", "without it")
    return Table(columns, tuple(rows), (Cell("all"), *means, *sums), by_class=True)


def _counted(counts: Counts) -> Cell:
    text = " · ".join(f"{count:,}" for count in counts) if counts.total else NOTHING
    return Cell(text, stacked_bar(counts, ("agrees", "unsure", "against")), "counts")


def right_table(classes: Sequence[str], right: RightBoxes) -> Table:
    """Return the share of right boxes of each class, with its interval and how many boxes it is estimated from."""
    rows = [(Cell(name), *_right_cells(share)) for name, share in zip(classes, right.per_class, strict=True)]
    columns = ("class", "right", "95 % interval", "judged at random", "boxes")
    return Table(columns, tuple(rows), (Cell("all"), *_right_cells(right.overall)), by_class=True)


def _right_cells(share: Share | None) -> tuple[Cell, ...]:
    if share is None:
        return tuple(Cell(NOTHING) for _ in range(4))
    low, middle, high = (100 * value for value in (share.low, share.share, share.high))
    counts = (Cell(f"{share.judged:,}"), Cell(f"{share.boxes:,}"))
    return (Cell(percent(middle), bar(middle, WHERE)), Cell(f"{percent(low)} to {percent(high)}"), *counts)


def comparison_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows as a table; the first key is the name of a row, and the highest value of each known figure is marked.

    Floats have one decimal, whole numbers and texts stay as they are, a missing value is a dash.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    best = {key: max((row[key] for row in rows if _known(row.get(key))), default=None) for key in keys if key in TITLES}
    made = []
    for row in rows:
        cells = []
        for key in keys:
            value = row.get(key)
            top = len(rows) > 1 and value is not None and value == best.get(key)
            cells.append(
                Cell(_shown(value), bar(value, TITLES[key][1]) if key in TITLES else NO_MARKUP, "best" if top else "")
            )
        made.append(tuple(cells))
    return Table(tuple(_title(key) for key in keys), tuple(made))


def _title(key: str) -> str:
    if key == "name":
        return ""  # the names need no heading
    return TITLES[key][0] if key in TITLES else key.replace("_", " ")


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _known(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
