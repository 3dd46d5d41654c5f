"""A store of `dpl review` as a test wants it."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from deep_patch_learning.data.reviewed import DRAWN, SCHEMA, VERSION

Corners = Sequence[float]


def write_store(
    path: Path,
    classes: Sequence[str],
    boxes: Mapping[str, Sequence[tuple[str, str, Corners, Corners | None]]],
    tags: Mapping[str, Mapping[str, tuple[int, int]]] | None = None,
    done: Sequence[str] = (),
    sample: int = 0,
) -> Path:
    """Return a store with (status, class, corners, corners as found or None for the same) of each image's boxes.

    `tags` are (original, now) by image and class. The first `sample` images are the random sample.
    """
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(f"PRAGMA user_version = {VERSION}; {SCHEMA}")
        file.executemany("INSERT INTO classes (name) VALUES (?)", [(name,) for name in classes])
        number = {name: key for key, name in file.execute("SELECT id, name FROM classes")}
        file.execute("INSERT INTO meta VALUES ('sample', ?)", (json.dumps(dict.fromkeys(classes, sample)),))
        for place, (name, own) in enumerate(boxes.items()):
            values = (name, f"/images/{name}", 100, 80, place, int(name in done))
            image = file.execute(
                "INSERT INTO images (name, path, width, height, place, done) VALUES (?, ?, ?, ?, ?, ?)", values
            ).lastrowid
            for tag, (before, now) in (tags or {}).get(name, {}).items():
                file.execute("INSERT INTO tags VALUES (?, ?, ?, ?)", (image, number[tag], now, before))
            for status, tag, corners, found in own:
                before_it: list[Any] = [None] * 5
                if status != DRAWN:
                    before_it = [number[tag], *(found or corners)]
                row = [image, number[tag], *corners, status, *before_it]
                columns = "image, class, x1, y1, x2, y2, status, found_class, found_x1, found_y1, found_x2, found_y2"
                file.execute(f"INSERT INTO boxes ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    return path
