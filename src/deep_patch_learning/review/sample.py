"""The random sample as it grows: how far people judged in the random order, and which boxes they left open there."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from deep_patch_learning.review.requests import Act, Finish, Judge

# keys in the table `meta`
REACH, LEFT_OPEN = "sample", "left_open"


def grow(file: sqlite3.Connection, classes: Sequence[str], action: Act) -> None:
    """Note how far an action in mode `sample` judged in the random order; those in the other mode choose their boxes."""
    if not isinstance(action, Judge | Finish) or action.mode != "sample":
        return
    if isinstance(action, Finish):
        if action.done:
            _reach(file, classes, action.index, "SELECT place FROM images WHERE id = ?", [action.image])
        return
    boxes = [*action.boxes, *action.left_open]
    furthest = f"SELECT max(place) FROM images WHERE id IN (SELECT image FROM boxes WHERE id IN ({_marks(boxes)}))"
    _reach(file, classes, action.index, furthest, boxes)
    _leave_open(file, action.left_open)


def _reach(
    file: sqlite3.Connection, classes: Sequence[str], index: int | None, query: str, values: Sequence[int]
) -> None:
    """Note that a class, or all, were judged in the random order up to the place that a query returns."""
    place = file.execute(query, values).fetchone()[0]
    if place is None:  # a box that a person drew, and took away
        return
    reach = _get(file, REACH, {})
    names = classes if index is None else classes[index : index + 1]
    _set(file, REACH, reach | {name: place + 1 for name in names if reach.get(name, 0) <= place})


def _leave_open(file: sqlite3.Connection, boxes: Sequence[int]) -> None:
    """Note boxes that a person saw and left open. Nothing is undone here: one that is judged later counts as judged."""
    if boxes:
        known = file.execute(f"SELECT id FROM boxes WHERE id IN ({_marks(boxes)})", boxes)
        _set(file, LEFT_OPEN, sorted({*_get(file, LEFT_OPEN, []), *(row[0] for row in known)}))


def _marks(values: Iterable[int]) -> str:
    return ", ".join("?" for _ in values)


def _get(file: sqlite3.Connection, key: str, default: Any) -> Any:
    row = file.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return default if row is None else json.loads(row[0])


def _set(file: sqlite3.Connection, key: str, value: Any) -> None:
    file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))
