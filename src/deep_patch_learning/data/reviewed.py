"""What people said about boxes and tags: the store of `dpl review`, as training, labels and the report read it.

The store is one SQLite file. `review/store.py` writes it; here are its tables and what they mean. No true box of a data set is
in it: its boxes were found by a model, or drawn by a person.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from deep_patch_learning.common.atomic_files import fitting, parsed
from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.dataset import PRESENT, TaggedImages

VERSION = 1  # of the tables, SQLite's `user_version`

# A box is `open` until somebody judged it. `right` and `wrong` are judgements of the box as it was found; `corrected` is one
# that a person moved or gave another class, `drawn` one that a person made. `found_*` is the box as it was found, NULL where
# it was drawn. Corners are (x1, y1, x2, y2) in pixels of the upright image, half-open.
OPEN, RIGHT, WRONG, CORRECTED, DRAWN = "open", "right", "wrong", "corrected", "drawn"

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;  -- values are JSON
-- `sample`: {class name: n}, boxes of the class were judged in the random order, in images at places below n
-- `left_open`: [box], seen in the random order by a person who was not sure
CREATE TABLE classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE images (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, path TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
    place INTEGER NOT NULL,            -- in the random order of the sample, from 0
    usefulness REAL NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 0,  -- grows with each change of the image, its tags or its boxes
    done INTEGER NOT NULL DEFAULT 0      -- 1: a person saw the whole image, and every object of its tags has a box
);
CREATE TABLE tags (
    image INTEGER NOT NULL REFERENCES images, class INTEGER NOT NULL REFERENCES classes,
    state INTEGER NOT NULL, original INTEGER NOT NULL,  -- 1 present, 0 absent, -1 unknown
    PRIMARY KEY (image, class)
) WITHOUT ROWID;
CREATE TABLE boxes (
    -- an id is never given twice: an action that is undone may bring its box back
    id INTEGER PRIMARY KEY AUTOINCREMENT, image INTEGER NOT NULL REFERENCES images, class INTEGER NOT NULL REFERENCES classes,
    x1 REAL NOT NULL, y1 REAL NOT NULL, x2 REAL NOT NULL, y2 REAL NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',
    found_class INTEGER REFERENCES classes, found_x1 REAL, found_y1 REAL, found_x2 REAL, found_y2 REAL,
    score REAL, precision REAL, usefulness REAL NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT ''
);
CREATE INDEX images_of_place ON images (place);
CREATE INDEX boxes_of_image ON boxes (image);
CREATE INDEX boxes_of_class ON boxes (class, status);
CREATE INDEX images_of_usefulness ON images (usefulness DESC, place);
CREATE TABLE actions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,  -- made by the client: the same one is applied once
    reviewer TEXT NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL,
    changes TEXT NOT NULL,             -- JSON: the rows before and after, so that it can be undone and redone
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX actions_of_reviewer ON actions (reviewer);  -- with the number: what a reviewer can undo is found at once
CREATE TABLE leases (image INTEGER PRIMARY KEY REFERENCES images, reviewer TEXT NOT NULL, until REAL NOT NULL);
"""


@dataclass(frozen=True)
class ReviewedImage:
    """What people said about one image.

    `boxes` (B, 4) of `classes` (B,) are right: accepted, corrected or drawn. `rejected` (R, 4) of `rejected_classes` (R,) are
    not objects of their class. `tags` are the states that a person changed, by class index. `done` means that every object of
    the image's tags has its box, and each tag at least one.
    """

    boxes: np.ndarray
    classes: np.ndarray
    rejected: np.ndarray
    rejected_classes: np.ndarray
    tags: dict[int, int] = field(default_factory=dict)
    done: bool = False


def reviewed_of(store: str | Path, images: TaggedImages) -> dict[str, ReviewedImage]:
    """Return by name what a store says about these images; that it says nothing about any is a `DataError`."""
    reviewed = read_reviewed(store, images.classes)
    own = {name: reviewed[name] for name in images.names if name in reviewed}
    if not own:
        why = "nobody has said anything in it yet" if not reviewed else "none of its reviewed images is among these"
        raise DataError(f"{store}: {why}. Review some with dpl review, or leave --reviewed out.")
    labels = with_reviewed_tags(images, own).labels
    rows = {name: row for row, name in enumerate(images.names) if name in own}
    return {name: _done_where_boxed(own[name], labels[row]) for name, row in rows.items()}


def _done_where_boxed(said: ReviewedImage, labels: np.ndarray) -> ReviewedImage:
    """Return what was said; an image with a tag (C,) that has no box is not done, lest all of it be background for its class."""
    missing = set(np.flatnonzero(labels == PRESENT).tolist()) - set(said.classes.tolist())
    return replace(said, done=said.done and not missing)


def nothing_said() -> ReviewedImage:
    """Return what is known of an image about which nobody said anything."""
    none, numbers = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    return ReviewedImage(none, numbers, none, numbers)


def with_reviewed_tags(images: TaggedImages, reviewed: Mapping[str, ReviewedImage]) -> TaggedImages:
    """Return the images with the tags that people corrected; a class of which they accepted a box is present."""
    labels = images.labels.copy()
    for row, name in enumerate(images.names):
        said = reviewed.get(name)
        if said is not None:
            for index, state in said.tags.items():
                labels[row, index] = state
            labels[row, said.classes] = PRESENT
    return replace(images, labels=labels)


def as_lines(reviewed: Mapping[str, ReviewedImage], classes: Sequence[str]) -> str:
    """Return what people said about images as JSON lines, in the order of the images' names."""
    lines = []
    for name, said in sorted(reviewed.items()):
        boxes, rejected = (
            [[classes[index], *map(float, box)] for box, index in zip(*own, strict=True)]
            for own in ((said.boxes, said.classes), (said.rejected, said.rejected_classes))
        )
        tags = {classes[index]: state for index, state in sorted(said.tags.items())}
        line = {"image": name, "boxes": boxes, "rejected": rejected, "tags": tags, "done": said.done}
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


class _Line(TypedDict):
    """The schema of a line of `as_lines`: boxes are [class, x1, y1, x2, y2]."""

    image: str
    boxes: list[list[str | float]]
    rejected: list[list[str | float]]
    tags: dict[str, int]
    done: bool


def from_lines(path: Path, classes: Sequence[str]) -> dict[str, ReviewedImage]:
    """Return what `as_lines` wrote to a file, by the images' names."""
    numbers = {name: number for number, name in enumerate(classes)}
    found = {}
    try:
        for line in (fitting(parsed(text), _Line) for text in path.read_bytes().splitlines()):
            arrays: list[np.ndarray] = []
            for rows in (line["boxes"], line["rejected"]):
                arrays.append(np.array([box[1:] for box in rows], np.float32).reshape(len(rows), 4))
                arrays.append(np.array([numbers[str(box[0])] for box in rows], np.int64))
            tags = {numbers[name]: state for name, state in line["tags"].items()}
            found[line["image"]] = ReviewedImage(arrays[0], arrays[1], arrays[2], arrays[3], tags, line["done"])
    except (OSError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: is damaged or of other classes ({short(error)}). Train again in a new folder."
        ) from None
    return found


UNJUDGED = -1
LEFT_OPEN = -2  # not judged, but a person saw it in the random order
RIGHT_IOU = 0.5  # of a found box with the one it was corrected to, from which it was right


class Judged(NamedTuple):
    """All boxes (B,) that a model found and what is known of them.

    `images` and `classes` (of the found box) are indices, `places` the place of a box's image in the random order, `right` 1 or
    0 for a box that was judged, else `LEFT_OPEN` or `UNJUDGED`. `sample` (C,) is for each class how many places of that order
    are the random sample: none of its boxes there is `UNJUDGED`. Boxes beyond it are known, but they were not drawn at random.
    """

    images: np.ndarray
    classes: np.ndarray
    places: np.ndarray
    right: np.ndarray
    sample: np.ndarray


def judged_boxes(file: sqlite3.Connection, classes: Sequence[str]) -> Judged:
    """Return what a store knows of the boxes that were found, with classes as numbered in `classes`.

    A found box is right where a person said so, or corrected it to a box of its class with an IoU of at least `RIGHT_IOU`. The
    sample ends at the first box that nobody has seen: those behind it may have been judged because they looked wrong.
    """
    own = _numbers(file, classes)
    columns = (
        "boxes.id, image, place, status, found_class, class, x1, y1, x2, y2, found_x1, found_y1, found_x2, found_y2"
    )
    found = "FROM boxes JOIN images ON images.id = boxes.image WHERE found_class IS NOT NULL ORDER BY boxes.id"
    rows = file.execute(f"SELECT {columns} {found}").fetchall()
    right = np.full(len(rows), UNJUDGED)
    left_open = set(_of_meta(file, "left_open", []))
    for row, (box, _, _, status, before, now, *corners) in enumerate(rows):
        if status == CORRECTED:
            right[row] = _held((status, now, *corners[:4], before, *corners[4:]))
        elif status != OPEN:
            right[row] = status == RIGHT
        elif box in left_open:
            right[row] = LEFT_OPEN
    images, kinds, places = (np.array([row[column] for row in rows], np.int64) for column in (1, 4, 2))
    kinds = np.array([own[kind] for kind in kinds.tolist()], np.int64)
    reach = _of_meta(file, "sample", {})
    sample = np.array([reach.get(name, 0) for name in classes], np.int64)
    unseen = right == UNJUDGED
    np.minimum.at(sample, kinds[unseen], places[unseen])
    return Judged(images, kinds, places, right, sample)


def _of_meta(file: sqlite3.Connection, key: str, default: Any) -> Any:
    row = file.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return default if row is None else json.loads(row[0])


def read_reviewed(store: str | Path, classes: Sequence[str]) -> dict[str, ReviewedImage]:
    """Return by name the images of a store about which anybody said anything, with classes as numbered in `classes`.

    The file is only read. One that is missing, damaged or of other classes is a `DataError`.
    """
    with opened(Path(store)) as file:
        own = _numbers(file, classes)
        found: dict[int, list[list[Any]]] = {}
        boxes = "SELECT image, status, class, x1, y1, x2, y2, found_class, found_x1, found_y1, found_x2, found_y2 FROM boxes"
        for image, *row in file.execute(f"{boxes} WHERE status != ? ORDER BY id", (OPEN,)):
            found.setdefault(image, []).append(row)
        tags: dict[int, dict[int, int]] = {}
        for image, number, state in file.execute("SELECT image, class, state FROM tags WHERE state != original"):
            tags.setdefault(image, {})[own[number]] = state
        said = file.execute("SELECT id, name, done FROM images ORDER BY id").fetchall()
        return {
            name: _reviewed(found.get(key, []), own, tags.get(key, {}), bool(done))
            for key, name, done in said
            if done or key in found or key in tags
        }


def _numbers(file: sqlite3.Connection, classes: Sequence[str]) -> dict[int, int]:
    """Return for each class of a store its number in `classes`."""
    numbers = {name: number for number, name in enumerate(classes)}
    names = dict(file.execute("SELECT id, name FROM classes"))
    strangers = sorted(set(names.values()) - numbers.keys())
    if strangers:
        place = file.execute("PRAGMA database_list").fetchone()[2]
        raise DataError(
            f"{place}: was reviewed with the class '{strangers[0]}', which the images are not tagged with. "
            "Give the data set that was reviewed."
        )
    return {key: numbers[name] for key, name in names.items()}


def _reviewed(rows: list[list[Any]], own: dict[int, int], tags: dict[int, int], done: bool) -> ReviewedImage:
    right = [row for row in rows if row[0] in (RIGHT, CORRECTED, DRAWN)]
    wrong = [row for row in rows if row[0] == WRONG or (row[0] == CORRECTED and row[6] is not None and not _held(row))]
    return ReviewedImage(
        boxes=np.array([row[2:6] for row in right], np.float32).reshape(-1, 4),
        classes=np.array([own[row[1]] for row in right], np.int64),
        rejected=np.array([row[7:11] if row[6] is not None else row[2:6] for row in wrong], np.float32).reshape(-1, 4),
        rejected_classes=np.array([own[row[6] if row[6] is not None else row[1]] for row in wrong], np.int64),
        tags=tags,
        done=done,
    )


def _held(row: Sequence[Any]) -> bool:
    """Return whether the box as it was found would count as right beside the one that it was corrected to."""
    moved, first = (np.array([corners], np.float64) for corners in (row[2:6], row[7:11]))
    return bool(row[1] == row[6] and box_iou(moved, first)[0, 0] >= RIGHT_IOU)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a store that is open for reading alone; a file that is not one is a `DataError`."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such store. `dpl review` makes one.")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            version = file.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                raise DataError(
                    f"{path}: is a store of version {version}; wanted {VERSION}. Use the dpl that wrote it."
                )
            yield file
    except (
        sqlite3.Error,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        RecursionError,
    ) as error:  # values of any type
        raise DataError(f"{path}: is not a store of `dpl review` ({error}). Give the file it wrote.") from None
