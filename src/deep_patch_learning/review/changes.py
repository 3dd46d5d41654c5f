"""Changes of rows within one transaction, remembered as they were before and after, so that they can be undone and redone."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_COLUMNS = {
    "boxes": (
        *("id", "image", "class", "x1", "y1", "x2", "y2", "status", "found_class", "found_x1", "found_y1", "found_x2"),
        *("found_y2", "score", "precision", "usefulness", "why"),
    ),
    "tags": ("state",),
    "images": ("done",),
}


class MissingError(Exception):
    """What an action is about is not there."""


class ConflictError(Exception):
    """Somebody else changed these images (by id: their version now) since they were shown."""

    def __init__(self, versions: Mapping[int, int], reason: str) -> None:
        super().__init__(reason)
        self.versions = dict(versions)


@dataclass
class Changes:
    """The changes of one action. `seen` are the versions of the images as the person saw them; None when undoing."""

    file: sqlite3.Connection
    seen: Mapping[int, int] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)  # of the images that are touched, before
    conflicts: dict[int, int] = field(default_factory=dict)

    def image(self, number: int) -> sqlite3.Row:
        """Return an image that is about to change, and note whether it is still as the person saw it."""
        row = self.file.execute("SELECT * FROM images WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise MissingError(f"there is no image {number}")
        if number not in self.versions:
            self.versions[number] = row["version"]
            if self.seen is not None and self.seen.get(number) != row["version"]:
                self.conflicts[number] = row["version"]
        return row

    def box(self, number: int) -> sqlite3.Row:
        """Return a box that is about to change."""
        row = self.file.execute("SELECT * FROM boxes WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise MissingError(f"there is no box {number}")
        self.image(row["image"])
        return row

    def update(self, table: str, key: Mapping[str, int], **columns: Any) -> None:
        """Set columns of a row; those that hold the value already are left out."""
        before = self._row(table, key)
        changed = {name: value for name, value in columns.items() if before[name] != value}
        if changed:
            self._set(table, key, changed)
            self._note(table, key, {name: before[name] for name in changed}, changed)

    def insert(self, table: str, **columns: Any) -> int:
        """Return the id of a new row."""
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        cursor = self.file.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))
        number = int(cursor.lastrowid or 0)
        row = self._row(table, {"id": number})
        self._note(table, {"id": number}, None, {name: row[name] for name in _COLUMNS[table]})
        return number

    def delete(self, table: str, key: Mapping[str, int]) -> None:
        """Remove a row."""
        before = self._row(table, key)
        self._remove(table, key)
        self._note(table, key, {name: before[name] for name in _COLUMNS[table]}, None)

    def turn(self, rows: list[dict[str, Any]], back: bool) -> None:
        """Undo earlier changes (`back`) or apply them again; a row that was changed since is a conflict."""
        for one in reversed(rows) if back else rows:
            table, key = one["table"], one["key"]
            now, then = (one["after"], one["before"]) if back else (one["before"], one["after"])
            self.image(one["image"])
            row = self._row(table, key, missing=True)
            same = row is None if now is None else row is not None and all(row[name] == now[name] for name in now)
            if not same:
                self.conflicts[one["image"]] = self.versions[one["image"]]
            elif then is None:
                self._remove(table, key)
            elif now is None:
                names = ", ".join(f'"{name}"' for name in then)
                marks = ", ".join("?" * len(then))
                self.file.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(then.values()))
            else:
                self._set(table, key, then)

    def finish(self, reason: str) -> dict[int, int]:
        """Return the new versions of the images that were touched, or raise `ConflictError`, for which nothing may be kept."""
        if self.conflicts:
            raise ConflictError(self.conflicts, reason)
        numbers = [(number,) for number in self.versions]
        self.file.executemany("UPDATE images SET version = version + 1 WHERE id = ?", numbers)
        return {number: version + 1 for number, version in self.versions.items()}

    def as_json(self) -> str:
        """Return the changes as they are stored with the action."""
        return json.dumps(self.rows, separators=(",", ":"))

    def _note(self, table: str, key: Mapping[str, int], before: Any, after: Any) -> None:
        if table == "boxes":
            row = before if after is None else after
            image = row.get("image") or self._row(table, key)["image"]
        else:
            image = key["image" if table == "tags" else "id"]
        self.rows.append({"table": table, "key": dict(key), "image": image, "before": before, "after": after})

    def _row(self, table: str, key: Mapping[str, int], missing: bool = False) -> Any:
        row = self.file.execute(f"SELECT * FROM {table} WHERE {_where(key)}", tuple(key.values())).fetchone()
        if row is None and not missing:
            raise MissingError(f"there is no such row of {table}: {dict(key)}")
        return row

    def _set(self, table: str, key: Mapping[str, int], columns: Mapping[str, Any]) -> None:
        names = ", ".join(f'"{name}" = ?' for name in columns)
        self.file.execute(f"UPDATE {table} SET {names} WHERE {_where(key)}", (*columns.values(), *key.values()))

    def _remove(self, table: str, key: Mapping[str, int]) -> None:
        self.file.execute(f"DELETE FROM {table} WHERE {_where(key)}", tuple(key.values()))


def _where(key: Mapping[str, int]) -> str:
    return " AND ".join(f'"{name}" = ?' for name in key)
