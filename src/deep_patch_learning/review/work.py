"""What to look at next, and for whom: screens of boxes, single images, and the leases that keep two people off one image."""

import json
import sqlite3
import time
from typing import Any

from deep_patch_learning.data.reviewed import OPEN
from deep_patch_learning.review.changes import MissingError
from deep_patch_learning.review.requests import Next, Pulse, Screen
from deep_patch_learning.review.store import ReviewStore

LEASE_SECONDS = 300.0  # an image stays with who has it open, and for so long after the last sign of life
GRACE_SECONDS = (
    20.0  # for which a lease stands although the page does not name it: the answer that lends it may be under way
)
_ORDER = {"sample": "i.place, b.id", "useful": "i.usefulness DESC, i.place, b.usefulness DESC, b.id"}
# the outer table first, read by its index in the order that is wanted: a few rows are then looked at, not all
_TABLES = "images i CROSS JOIN boxes b"
_IMAGE_ORDER = {"sample": "i.place", "useful": "i.usefulness DESC, i.place"}
_FREE = "NOT EXISTS (SELECT 1 FROM leases l WHERE l.image = i.id AND l.until > :now AND l.reviewer != :holder)"
_BOX = """
    b.id, b.image, b.class, b.x1, b.y1, b.x2, b.y2, b.status, b.found_class, b.found_x1, b.found_y1, b.found_x2, b.found_y2,
    b.score, b.precision, b.why
"""


def holder(reviewer: str, tab: str) -> str:
    """Return who holds a lease: two tabs of one person do not get the same image either."""
    return f"{reviewer}/{tab}"


def screen(store: ReviewStore, asked: Screen, reviewer: str) -> dict[str, Any]:
    """Return boxes that nobody judged yet, of images that nobody else has, which this tab now holds; best first."""
    who, now = holder(reviewer, asked.tab), time.time()
    wanted = {"now": now, "holder": who, "index": asked.index, "open": OPEN, "size": asked.size}
    of_class = "" if asked.index is None else "AND b.class = :index"
    without = f"AND b.id NOT IN ({', '.join(map(str, asked.without))})" if asked.without else ""  # checked numbers
    query = f"""
        SELECT {_BOX}, i.version, i.name, i.width, i.height FROM {_TABLES}
        WHERE b.image = i.id AND b.status = :open {of_class} {without} AND {_FREE} ORDER BY {_ORDER[asked.mode]} LIMIT :size
    """
    with store.writing(durable=False) as file:
        rows = file.execute(query, wanted).fetchall()
        _lease(file, {row["image"] for row in rows}, who, now)
    found = [box_json(row) | {name: row[name] for name in ("version", "name", "width", "height")} for row in rows]
    return {"boxes": found}


def next_image(store: ReviewStore, asked: Next, reviewer: str) -> dict[str, Any]:
    """Return the next image that is not done and that nobody else has, which this tab now holds; None at the end."""
    who, now = holder(reviewer, asked.tab), time.time()
    tagged = "AND EXISTS (SELECT 1 FROM tags t WHERE t.image = i.id AND t.class = :index AND t.state = 1)"
    of_class = "" if asked.index is None else tagged
    without = f"AND i.id NOT IN ({', '.join(map(str, asked.without))})" if asked.without else ""
    order = _IMAGE_ORDER[asked.mode]
    query = f"SELECT i.id FROM images i WHERE i.done = 0 {of_class} {without} AND {_FREE} ORDER BY {order} LIMIT 1"
    with store.writing(durable=False) as file:
        row = file.execute(query, {"now": now, "holder": who, "index": asked.index}).fetchone()
        if row is not None:
            _lease(file, {row["id"]}, who, now)
    return {"image": None if row is None else image(store, row["id"], reviewer, asked.tab)}


def image(store: ReviewStore, number: int, reviewer: str, tab: str) -> dict[str, Any]:
    """Return an image with its tags and boxes, and who else has it open."""
    with store.reading() as file:
        row = file.execute("SELECT * FROM images WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise MissingError(f"there is no image {number}")
        tags = file.execute("SELECT class, state, original FROM tags WHERE image = ?", (number,)).fetchall()
        boxes = file.execute(f"SELECT {_BOX} FROM boxes b WHERE b.image = ? ORDER BY b.id", (number,)).fetchall()
        lease = file.execute("SELECT * FROM leases WHERE image = ? AND until > ?", (number, time.time())).fetchone()
        other = lease["reviewer"] if lease is not None and lease["reviewer"] != holder(reviewer, tab) else None
        names = _names(file)
    shown = {name: row[name] for name in ("id", "name", "width", "height", "version", "why")}
    return {
        **shown,
        "done": bool(row["done"]),
        "tags": [list(one) for one in tags if one["state"] != 0 or one["original"] != 0],
        "boxes": [box_json(one) for one in boxes],
        "held_by": None if other is None else called(names, other.partition("/")[0]),
    }


def pulse(store: ReviewStore, asked: Pulse, reviewer: str) -> None:
    """Keep the images that a tab holds for a while longer, and give back what it no longer shows.

    What was lent a moment ago is kept: when the page sent its list, it may not have had the answer that lends it.
    """
    who, now = holder(reviewer, asked.tab), time.time()
    with store.writing(durable=False) as file:
        kept = ", ".join(map(str, asked.holds))
        left = f"reviewer = ? AND until <= ? AND image NOT IN ({kept})"
        file.execute(
            f"DELETE FROM leases WHERE until <= ? OR ({left})", (now, who, now + LEASE_SECONDS - GRACE_SECONDS)
        )
        taken = {row["image"] for row in file.execute("SELECT image FROM leases WHERE reviewer != ?", (who,))}
        known = {row["id"] for row in file.execute(f"SELECT id FROM images WHERE id IN ({kept})")}
        _lease(file, known - taken, who, now)


def _lease(file: sqlite3.Connection, images: set[int], who: str, now: float) -> None:
    rows = [(number, who, now + LEASE_SECONDS) for number in sorted(images)]
    file.executemany("INSERT OR REPLACE INTO leases (image, reviewer, until) VALUES (?, ?, ?)", rows)


def box_json(row: sqlite3.Row) -> dict[str, Any]:
    """Return a box as the page reads it."""
    found = None if row["found_class"] is None else [row[f"found_{name}"] for name in ("x1", "y1", "x2", "y2")]
    return {
        "id": row["id"],
        "image": row["image"],
        "index": row["class"],
        "corners": [row[name] for name in ("x1", "y1", "x2", "y2")],
        "status": row["status"],
        "found": found,
        "found_index": row["found_class"],
        "score": row["score"],
        "precision": row["precision"],
        "why": row["why"],
    }


# Who is who


def _names(file: sqlite3.Connection) -> dict[str, str]:
    rows = file.execute("SELECT key, value FROM meta WHERE key LIKE 'reviewer:%'").fetchall()
    return {row["key"].partition(":")[2]: json.loads(row["value"]) for row in rows}


def called(names: dict[str, str], reviewer: str) -> str:
    """Return what a reviewer is called; without a name of their own, a short form of the id."""
    return names.get(reviewer) or f"reviewer {reviewer[:4]}"


def name_of(store: ReviewStore, reviewer: str) -> str:
    """Return what a reviewer is called."""
    with store.reading() as file:
        return called(_names(file), reviewer)


def rename(store: ReviewStore, reviewer: str, name: str) -> None:
    """Set what a reviewer is called."""
    with store.writing() as file:
        file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"reviewer:{reviewer}", json.dumps(name)))


def changed_by(store: ReviewStore, images: dict[int, int]) -> dict[int, str]:
    """Return by image who changed it last."""
    found: dict[int, str] = {}
    with store.reading() as file:
        names = _names(file)
        for number in images:
            query = """
                SELECT reviewer FROM actions, json_each(actions.changes) AS one
                WHERE json_extract(one.value, '$.image') = ? ORDER BY number DESC LIMIT 1
            """
            row = file.execute(query, (number,)).fetchone()
            if row is not None:
                found[number] = called(names, row["reviewer"])
    return found
