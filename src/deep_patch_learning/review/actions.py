"""Actions of people on a store: each is one transaction, applied once whatever its number of deliveries, and can be undone."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.data.reviewed import CORRECTED, DRAWN, OPEN, RIGHT, WRONG
from deep_patch_learning.review import sample
from deep_patch_learning.review.changes import Changes, ConflictError, MissingError
from deep_patch_learning.review.requests import Act, Change, Draw, Finish, Judge, SetTag
from deep_patch_learning.review.store import ReviewStore

SMALLEST = 1.0  # pixels of a side
DISCARDED = (
    2  # in the column `undone`: the reviewer has acted since, so that the undone action cannot be redone any more
)
_FOUND = ("found_class", "found_x1", "found_y1", "found_x2", "found_y2")
_NOW = ("class", "x1", "y1", "x2", "y2")


class RefusedError(Exception):
    """An action that cannot be done, and why."""


def apply(store: ReviewStore, action: Act, reviewer: str) -> dict[str, Any]:
    """Return what an action changed, after doing it; one that was done before is not done again."""
    with store.writing() as file:
        done = _known(file, action.id)
        if done is not None:
            return done
        changes = Changes(file, action.seen)
        kind = _do(changes, action)
        sample.grow(file, store.classes, action)
        first = _last(file, reviewer, back=False)
        found = _record(changes, action.id, reviewer, kind, "somebody else changed it since you saw it")
        if first is not None and found["number"] is not None:
            discarded = "UPDATE actions SET undone = ? WHERE reviewer = ? AND undone = 1 AND number >= ?"
            file.execute(discarded, (DISCARDED, reviewer, first["number"]))
        return found


def turn(store: ReviewStore, name: str, reviewer: str, back: bool) -> dict[str, Any]:
    """Return what changed, after undoing the reviewer's last action (`back`), or redoing the one undone last."""
    with store.writing() as file:
        done = _known(file, name)
        if done is not None:
            return done
        row = _last(file, reviewer, back)
        if row is None:
            raise RefusedError("there is nothing to undo" if back else "there is nothing to redo")
        changes = Changes(file)
        changes.turn(json.loads(row["changes"]), back)
        file.execute("UPDATE actions SET undone = ? WHERE number = ?", (int(back), row["number"]))
        changes.rows = [{"action": row["number"], "image": number} for number in sorted(changes.versions)]
        kind, could = ("undo", "undone") if back else ("redo", "redone")
        found = _record(changes, name, reviewer, kind, f"it was changed since, so that it cannot be {could}")
        return {**found, "of": row["kind"]}


def _last(file: sqlite3.Connection, reviewer: str, back: bool) -> Any:
    """Return the reviewer's last action that stands, or the first of those undone after it."""
    own = "reviewer = ? AND kind NOT IN ('undo', 'redo')"
    last = file.execute(
        f"SELECT * FROM actions WHERE {own} AND undone = 0 ORDER BY number DESC LIMIT 1", (reviewer,)
    ).fetchone()
    if back:
        return last
    after = last["number"] if last is not None else 0
    undone = f"SELECT * FROM actions WHERE {own} AND undone = 1 AND number > ? ORDER BY number LIMIT 1"
    return file.execute(undone, (reviewer, after)).fetchone()


def can_turn(file: sqlite3.Connection, reviewer: str) -> dict[str, bool]:
    """Return whether the reviewer has something to undo, and to redo."""
    return {"undo": _last(file, reviewer, True) is not None, "redo": _last(file, reviewer, False) is not None}


def _known(file: sqlite3.Connection, name: str) -> dict[str, Any] | None:
    row = file.execute("SELECT number, changes FROM actions WHERE id = ?", (name,)).fetchone()
    if row is None:
        return None
    numbers = {one["image"] for one in json.loads(row["changes"])}
    # whoever sent it has not seen what was changed since, and may not act as if
    query = """
        SELECT DISTINCT json_extract(one.value, '$.image') FROM actions, json_each(actions.changes) AS one
        WHERE number > ?
    """
    since = {image for (image,) in file.execute(query, (row["number"],))}
    return {"number": row["number"], "repeated": True, "versions": _versions(file, numbers - since), "drawn": None}


def _versions(file: sqlite3.Connection, numbers: set[int]) -> dict[int, int]:
    marks = ", ".join("?" * len(numbers))
    return dict(file.execute(f"SELECT id, version FROM images WHERE id IN ({marks})", sorted(numbers)).fetchall())


def _record(changes: Changes, name: str, reviewer: str, kind: str, reason: str) -> dict[str, Any]:
    """Return the versions of the images touched, after writing the action down; one that changes nothing leaves no trace."""
    if not changes.rows:
        if changes.conflicts:
            raise ConflictError(changes.conflicts, reason)
        return {"number": None, "repeated": False, "versions": changes.versions, "drawn": None}
    versions = changes.finish(reason)
    row = (name, reviewer, datetime.now(UTC).isoformat(timespec="milliseconds"), kind, changes.as_json())
    cursor = changes.file.execute("INSERT INTO actions (id, reviewer, time, kind, changes) VALUES (?, ?, ?, ?, ?)", row)
    drawn = [one["key"]["id"] for one in changes.rows if one.get("table") == "boxes" and one["before"] is None]
    return {
        "number": cursor.lastrowid,
        "repeated": False,
        "versions": versions,
        "drawn": drawn[0] if drawn and kind == "draw" else None,
    }


def _do(changes: Changes, action: Act) -> str:
    """Return the kind of an action, after doing it."""
    if isinstance(action, Judge):
        for number, judgement in action.boxes.items():
            _judge(changes, changes.box(number), judgement)
        return action.kind
    if isinstance(action, Change):
        _change(changes, action)
        return action.kind
    if isinstance(action, Draw):
        _draw(changes, action)
        return action.kind
    if isinstance(action, SetTag):
        _tag(changes, action)
        return action.kind
    if isinstance(action, Finish):
        _finish(changes, action)
        return action.kind
    raise TypeError(f"there is no such action: {type(action).__name__}")


def _judge(changes: Changes, box: sqlite3.Row, judgement: str) -> None:
    key = {"id": box["id"]}
    if box["found_class"] is None:  # a person drew it: it stays, or goes
        if judgement == WRONG:
            changes.delete("boxes", key)
    elif judgement == OPEN:
        found = {now: box[then] for now, then in zip(_NOW, _FOUND, strict=True)}
        changes.update("boxes", key, status=OPEN, **found)
    elif judgement == RIGHT:
        changes.update("boxes", key, status=RIGHT if _as_found(box) else CORRECTED)
        _present(changes, box["image"], box["class"])
    else:
        changes.update("boxes", key, status=WRONG)


def _as_found(box: Any) -> bool:
    return all(box[now] == box[then] for now, then in zip(_NOW, _FOUND, strict=True))


def _change(changes: Changes, action: Change) -> None:
    box = changes.box(action.box)
    image = changes.image(box["image"])
    new: dict[str, Any] = {name: box[name] for name in _NOW}
    if action.corners is not None:
        new.update(zip(_NOW[1:], _inside(action.corners, image), strict=True))
    if action.index is not None:
        new["class"] = _class(changes, action.index)
    judged = RIGHT if _as_found({**dict(box), **new}) else CORRECTED
    status = DRAWN if box["found_class"] is None else judged
    changes.update("boxes", {"id": action.box}, status=status, **new)
    _present(changes, box["image"], new["class"])


def _draw(changes: Changes, action: Draw) -> None:
    image = changes.image(action.image)
    index = _class(changes, action.index)
    corners = dict(zip(_NOW[1:], _inside(action.corners, image), strict=True))
    changes.insert("boxes", **{"image": action.image, "class": index, "status": DRAWN, **corners})
    _present(changes, action.image, index)


def _tag(changes: Changes, action: SetTag) -> None:
    changes.image(action.image)
    index = _class(changes, action.index)
    key = {"image": action.image, "class": index}
    changes.update("tags", key, state=PRESENT if action.present else ABSENT)
    if action.present:
        return
    boxes = changes.file.execute("SELECT * FROM boxes WHERE image = ? AND class = ?", (action.image, index)).fetchall()
    for box in boxes:  # what is not in the image has no box there
        _judge(changes, box, WRONG)


def _finish(changes: Changes, action: Finish) -> None:
    changes.image(action.image)
    changes.update("images", {"id": action.image}, done=int(action.done))
    if not action.done:
        return
    for box in changes.file.execute(
        "SELECT * FROM boxes WHERE image = ? AND status = 'open'", (action.image,)
    ).fetchall():
        _judge(changes, box, RIGHT)
    _must_have_boxes(changes.file, action.image)


def _must_have_boxes(file: sqlite3.Connection, image: int) -> None:
    """Raise `RefusedError` where a tag of an image has no right box: a training would take all of it for background."""
    query = """
        SELECT name FROM tags JOIN classes ON classes.id = tags.class WHERE tags.image = :image AND state = :present
        AND NOT EXISTS (SELECT 1 FROM boxes b WHERE b.image = :image AND b.class = tags.class AND b.status != :wrong)
        ORDER BY classes.id
    """
    names = [row[0] for row in file.execute(query, {"image": image, "present": PRESENT, "wrong": WRONG})]
    if names:
        classes = ", ".join(f"'{name}'" for name in names)
        tag = "the tag" if len(names) == 1 else "the tags"
        raise RefusedError(f"draw a box for {classes}, or take {tag} away with W: then the image is done")


def _present(changes: Changes, image: int, index: int) -> None:
    """A right box says that its class is in the image."""
    changes.update("tags", {"image": image, "class": index}, state=PRESENT)


def _class(changes: Changes, index: int) -> int:
    if changes.file.execute("SELECT 1 FROM classes WHERE id = ?", (index,)).fetchone() is None:
        raise MissingError(f"there is no class {index}")
    return index


def _inside(corners: tuple[float, float, float, float], image: sqlite3.Row) -> tuple[float, float, float, float]:
    """Return corners cut to the image; a box that is then smaller than a pixel is refused."""
    x1, x2 = (min(max(value, 0.0), float(image["width"])) for value in (corners[0], corners[2]))
    y1, y2 = (min(max(value, 0.0), float(image["height"])) for value in (corners[1], corners[3]))
    if x2 - x1 < SMALLEST or y2 - y1 < SMALLEST:
        raise RefusedError("a box must be at least 1 pixel wide and high, inside the image")
    return x1, y1, x2, y2
