"""The store of a review as it is written: one SQLite file in WAL mode, one transaction per action.

`data/reviewed.py` holds its tables and what they mean. Readers never wait for the writer, and the writer never for them.
"""

import json
import os
import queue
import random
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import folder_alone, published_once
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.reviewed import SCHEMA, VERSION, opened

BUSY_SECONDS = 20  # to wait for another process that writes to the same store


@dataclass(frozen=True)
class FoundBox:
    """A box to review: its class's index, its corners, what the model said of it, and how much its review helps, and why."""

    index: int
    corners: tuple[float, float, float, float]
    score: float | None = None
    precision: float | None = None
    usefulness: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class FoundImage:
    """An image to review: its file, its upright size, its tags' states by class index, and its boxes."""

    name: str
    path: Path
    width: int
    height: int
    states: Sequence[int]
    boxes: Sequence[FoundBox] = field(default_factory=tuple)
    why: str = ""
    usefulness: float = 0.0


def create_store(
    path: str | Path, classes: Sequence[str], images: Iterable[FoundImage], about: Mapping[str, Any], seed: int = 0
) -> int:
    """Return the number of boxes, after writing a new store whole or not at all. `about` says what is reviewed.

    The order of the random sample is drawn here, with `seed`. A store that is there by then stays: it is a `FileExistsError`,
    since people may already work in it.
    """
    path = Path(path)
    images = list(images)
    if not images:
        raise DataError("there are no images to review. Choose another --split.")
    places = list(range(len(images)))
    random.Random(seed).shuffle(places)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with folder_alone(path.parent), published_once(path) as part:
            if path.exists():
                raise FileExistsError(path)
            with closing(sqlite3.connect(part)) as file, file:
                file.executescript(SCHEMA)
                file.execute(f"PRAGMA user_version = {VERSION:d}")
                file.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(classes))
                known = {**about, "id": uuid.uuid4().hex}  # a page never sends its actions to another review
                file.executemany("INSERT INTO meta VALUES (?, ?)", [(k, json.dumps(v)) for k, v in known.items()])
                count = sum(
                    _insert(file, number, place, image)
                    for number, (place, image) in enumerate(zip(places, images, strict=True), start=1)
                )
            # of a store that was deleted: SQLite would replay them into this one
            for end in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + end).unlink(missing_ok=True)
        return count
    except (OSError, sqlite3.OperationalError) as error:
        if isinstance(error, FileExistsError) and path.is_file():
            raise
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be written ({why}). Give another file with --store.") from None


def _insert(file: sqlite3.Connection, number: int, place: int, image: FoundImage) -> int:
    row = (number, image.name, str(image.path), image.width, image.height, place, image.usefulness, image.why)
    columns = "id, name, path, width, height, place, usefulness, why"
    file.execute(f"INSERT INTO images ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    states = [(number, index, int(state), int(state)) for index, state in enumerate(image.states)]
    file.executemany("INSERT INTO tags VALUES (?, ?, ?, ?)", states)
    columns = "image, class, x1, y1, x2, y2, found_class, found_x1, found_y1, found_x2, found_y2"
    boxes = [
        (
            number,
            box.index,
            *map(float, box.corners),
            box.index,
            *map(float, box.corners),
            box.score,
            box.precision,
            box.usefulness,
            box.why,
        )
        for box in image.boxes
    ]
    marks = ", ".join("?" * 15)
    file.executemany(f"INSERT INTO boxes ({columns}, score, precision, usefulness, why) VALUES ({marks})", boxes)
    return len(boxes)


class ReviewStore:
    """An open store. Any thread may read and write; writes come one after the other."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        with opened(self.path) as file:
            rows = file.execute("SELECT key, value FROM meta").fetchall()
            self.classes: tuple[str, ...] = tuple(
                name for (name,) in file.execute("SELECT name FROM classes ORDER BY id")
            )
        self.about: dict[str, Any] = {key: json.loads(value) for key, value in rows}
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise DataError(f"{self.path}: cannot be written (permission denied). Give another file with --store.")
        self._lock = threading.Lock()
        self._writer = self._connect()
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()

    def _connect(self) -> sqlite3.Connection:
        file = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        file.row_factory = sqlite3.Row
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA foreign_keys = ON")
        return file

    @contextmanager
    def writing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, which is committed at the end, and on any error undone in full.

        One that is not `durable`, such as a lease, survives the end of the process but maybe not a power cut: it does not wait
        for the disk.
        """
        with self._lock:
            # FULL: what was acknowledged survives a power cut too
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.OperationalError):  # a full disk has ended the transaction already
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the store, whatever is written meanwhile."""
        try:
            file = self._readers.get_nowait()
        except queue.Empty:
            file = self._connect()
        try:
            file.execute("BEGIN")
            yield file
        finally:
            file.execute("ROLLBACK")
            self._readers.put(file)

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it."""
        with suppress(queue.Empty):
            while True:
                self._readers.get_nowait().close()
        with self._lock:
            self._writer.close()
