"""A table of images and tags as a reader found it, and the one way from there to `TaggedImages`.

Every reader ends here, so splits, duplicates, missing images and unknown classes are treated alike in all formats.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.data.readers.text import is_file, near, near_file, read_lines

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TagRow:
    """One image; `place` says where in the source it stands, such as `line 3`. Tags not named are absent."""

    place: str
    name: str
    path: Path
    present: Sequence[str]
    unknown: Sequence[str] = ()
    split: str | None = None


@dataclass(frozen=True)
class TagTable:
    """All images of a data set, and its classes in their order; names in split files are relative to `root`."""

    source: Path
    root: Path
    rows: Sequence[TagRow]
    classes: tuple[str, ...]


def sorted_classes(rows: Iterable[TagRow]) -> tuple[str, ...]:
    """Return every tag that some row names, in alphabetical order."""
    return tuple(sorted({tag for row in rows for tag in (*row.present, *row.unknown)}))


def locate(image: str, root: Path) -> tuple[str, Path]:
    """Return the unique name and the path of an image written in a tag file that lies in `root`.

    The name is the path below `root`, with `/`. Backslashes are read as `/` where no file has them in its name.
    """
    base = root.absolute()
    if "\\" in image and not is_file(base / image):
        image = image.replace("\\", "/")
    path = base / image  # an absolute image stays as it is
    full, top = os.path.normpath(path), os.path.normpath(base)
    inside = full.startswith(top.rstrip(os.sep) + os.sep)
    name = os.path.relpath(full, top) if inside or not Path(image).is_absolute() else full
    return Path(name).as_posix(), path


def refuse_both(present: Iterable[str], unknown: Iterable[str], place: str) -> None:
    """Raise `DataError` when a tag is given both as present and as of unknown state."""
    both = set(present).intersection(unknown)
    if both:
        raise DataError(f"{place}: '{min(both)}' is both in tags and in unknown. Keep it in one of them.")


def to_images(table: TagTable, split: str | None, classes: Sequence[str] | None) -> TaggedImages:
    """Return the images of one split (None: all), their labels in the order of `classes` (None: the table's)."""
    if not table.rows:
        raise DataError(f"{table.source}: holds no image. Add at least one.")
    _refuse_duplicates(table)
    rows = _in_split(table, split)
    _refuse_missing(table, rows)
    known = tuple(table.classes if classes is None else classes)
    if len(set(known)) != len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise DataError(f"classes: '{twice}' is given twice. Name each class once.")
    if not known:
        raise DataError(f"{table.source}: no image has a tag. Give at least one image a tag.")
    labels = _labels(table, rows, known)
    return TaggedImages(known, tuple(row.name for row in rows), tuple(row.path for row in rows), labels)


def read_list(split: str, root: Path, available: Iterable[str], source: Path) -> tuple[Path, list[tuple[int, str]]]:
    """Return the file that `split` is, and its lines as (line number, image name); no such file raises `DataError`.

    A relative path is tried from the working folder, then from `root`. `available` are the splits the data itself has.
    """
    file = next((place for place in (Path(split), root / split) if is_file(place)), None)
    if file is not None:
        return file, read_lines(file, "one image name per line")
    available = sorted(available)
    hint = did_you_mean(split, available) if available else " This data has no splits of its own."
    raise DataError(f"{source}: there is no split '{split}'.{hint} Or give a text file with one image name per line.")


def _in_split(table: TagTable, split: str | None) -> Sequence[TagRow]:
    if split is None:
        return table.rows
    available = {row.split for row in table.rows if row.split is not None}
    if split in available:
        return [row for row in table.rows if row.split == split]
    file, lines = read_list(split, table.root, available, table.source)
    rows = {row.name: row for row in table.rows}
    seen: dict[str, int] = {}
    for number, written in lines:
        name, _ = locate(written, table.root)
        if name not in rows:
            found = f"{table.source} has no image '{written}'.{near(name, rows)}"
            raise DataError(f"{file}, line {number}: {found} Correct the line.")
        if name in seen:
            raise DataError(f"{file}, line {number}: '{written}' is already on line {seen[name]}. Remove one of them.")
        seen[name] = number
    return [rows[name] for name in seen]


def _refuse_duplicates(table: TagTable) -> None:
    seen: dict[str, TagRow] = {}
    for row in table.rows:
        first = seen.setdefault(os.path.normpath(row.path), row)
        if first is not row:
            raise DataError(
                f"{table.source}, {row.place}: the image '{row.name}' is already at {first.place}. "
                "Keep one row per image, with all its tags."
            )


def _refuse_missing(table: TagTable, rows: Sequence[TagRow]) -> None:
    missing = [row for row in rows if not is_file(row.path)]
    if not missing:
        return
    folders = [row for row in missing if os.path.isdir(row.path)]  # noqa: PTH112 - never raises, unlike Path.is_dir
    if folders:
        raise DataError(f"{table.source}, {folders[0].place}: '{folders[0].name}' is a folder, wanted an image.")
    shown = ", ".join(f"'{row.name}' ({row.place})" for row in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    raise DataError(
        f"{table.source}: {len(missing)} of {len(rows)} images are not there: {shown}{more}."
        f"{near_file(missing[0].path)} Looked for {missing[0].path}. Correct the names, or remove these rows."
    )


def _labels(table: TagTable, rows: Sequence[TagRow], classes: Sequence[str]) -> np.ndarray:
    labels = np.full((len(rows), len(classes)), ABSENT, np.int8)  # (I, C)
    column = {name: index for index, name in enumerate(classes)}
    for index, row in enumerate(rows):
        for tags, state in ((row.present, PRESENT), (row.unknown, UNKNOWN)):
            for tag in tags:
                if tag not in column:
                    hint = did_you_mean(tag, classes)
                    raise DataError(f"{table.source}, {row.place}: unknown class '{tag}'.{hint} Correct the tag.")
                labels[index, column[tag]] = state
    return labels
