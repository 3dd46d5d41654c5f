"""A table of images and tags as a reader found it, and the one way from there to `TaggedImages`.

Readers get text and JSON here as people save them: UTF-8, with or without a byte-order mark, or a clear error. Every reader
ends here, so splits, duplicates, missing images and unknown classes are handled alike in all formats.
"""

import gc
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.atomic_files import must_be_regular
from deep_patch_learning.common.errors import DataError, did_you_mean, short
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages


def read_text(path: Path, wanted: str) -> str:
    """Return the text of a UTF-8 file; an empty one raises `DataError` saying what was `wanted` in it."""
    try:
        must_be_regular(path)
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Wanted {wanted}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = "UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else f"byte 0x{raw[error.start]:02x}"
        raise DataError(f"{path}, line {line}: found {found}, wanted UTF-8 text. Save the file as UTF-8.") from None
    if not text or text.isspace():
        raise DataError(f"{path}: the file is empty. Wanted {wanted}.")
    return text


def read_lines(path: Path, wanted: str) -> list[tuple[int, str]]:
    """Return (line number, trimmed line) for each line that is not blank, counted from 1."""
    # Not str.splitlines: that also splits at characters such as U+2028, which names and JSON strings may hold.
    lines = enumerate(read_text(path, wanted).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Return what the JSON says; broken JSON raises `DataError` with its line and column (`line` for one of many)."""
    # Every dict and list that is made may set off the garbage collector, which finds nothing: a third of the time.
    collecting = gc.isenabled()
    if line is None:
        gc.disable()
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}, line {line or error.lineno}, column {error.colno}"
        fix = "Fix the JSON there."
        if line is None and error.msg == "Extra data":
            fix = "If each line is an image of its own, name the file .jsonl."
        raise DataError(f"{place}: not JSON ({error.msg}). {fix}") from None
    except RecursionError:
        raise DataError(f"{path}: the JSON is nested too deep. Fix the file.") from None
    except ValueError:  # what Python refuses to convert, since it would take long
        place = f"{path}" if line is None else f"{path}, line {line}"
        raise DataError(f"{place}: holds a number of thousands of digits. Fix the file.") from None
    finally:
        if collecting:
            gc.enable()


def misspelt(found: Iterable[str], known: Iterable[str]) -> tuple[str, str] | None:
    """Return (found, meant) for a name that is nearly, but not quite, a known one that is not there; else None."""
    found, known = list(found), list(known)
    missing = [name for name in known if name not in found]
    for name in found:
        meant = get_close_matches(name.lower(), missing, n=1, cutoff=0.75) if name not in known else []
        if meant:
            return name, meant[0]
    return None


def is_file(path: Path) -> bool:
    """Return whether a file is there; a name that no file can have, or a closed folder above it, count as no."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # pathlib lets through a name that is too long and a folder that may not be entered
        return False


def near(wrong: str, choices: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the nearest of many choices, or nothing when none is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(wrong.lower(), by_lower, n=1, cutoff=0.75)
    return f" Did you mean '{by_lower[found[0]]}'?" if found else ""


def near_file(path: Path) -> str:
    """Return ` Did you mean 'x'?` for the file beside `path` with the nearest name, or nothing when none is near."""
    try:
        return near(path.name, [file.name for file in path.parent.iterdir()])
    except OSError:
        return ""


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
    """All images of a data set, and its classes in their order; names in split files are relative to `root`.

    Images `in_shards` were seen there, and need not be looked for.
    """

    source: Path
    root: Path
    rows: Sequence[TagRow]
    classes: tuple[str, ...]
    in_shards: bool = False

    def moved(self, base: str) -> "TagTable":
        """Return the table of a file that was fetched from the URI `base`: its images lie there too."""
        rows = [row if is_uri(row.name) else replace(row, name=f"{base}/{row.name}") for row in self.rows]
        return replace(self, rows=rows)


def sorted_classes(rows: Iterable[TagRow]) -> tuple[str, ...]:
    """Return every tag that some row names, in alphabetical order."""
    return tuple(sorted({tag for row in rows for tag in (*row.present, *row.unknown)}))


def locate(image: str, root: Path) -> tuple[str, Path]:
    """Return the unique name and the path of an image written in a tag file that lies in `root`.

    The name is the path below `root`, with `/`. Backslashes are read as `/` where no file has them in its name.
    """
    if is_uri(image):
        return image, Path(image)
    base = root.absolute()
    if "\\" in image and not is_file(base / image):
        image = image.replace("\\", "/")
    path = base / image  # an absolute image stays as it is
    full, top = os.path.normpath(path), os.path.normpath(base)
    inside = full.startswith(top.rstrip(os.sep) + os.sep)
    name = os.path.relpath(full, top) if inside or not Path(image).is_absolute() else full
    return Path(name).as_posix(), path


def is_uri(text: str) -> bool:
    """Return whether a text is a URI such as `s3://bucket/a.jpg`, and not a path."""
    scheme, colon, _ = text.partition("://")
    return bool(colon) and scheme.replace("+", "").isalnum() and len(scheme) > 1


def refuse_both(present: Iterable[str], unknown: Iterable[str], place: str) -> None:
    """Raise `DataError` when a tag is given both as present and as of unknown state."""
    both = set(present).intersection(unknown)
    if both:
        raise DataError(f"{place}: '{min(both)}' is both in tags and in unknown. Keep it in one of them.")


def to_images(table: TagTable, split: str | None, classes: Sequence[str] | None, remote: bool = False) -> TaggedImages:
    """Return the images of one split (None: all), their labels in the order of `classes` (None: the table's).

    With `remote` the images may be URIs, which are not looked for; their names are the URIs.
    """
    if not table.rows:
        raise DataError(f"{table.source}: holds no image. Add at least one.")
    _refuse_no_text(table)
    _refuse_duplicates(table)
    rows = _in_split(table, split)
    far = [row for row in rows if is_uri(row.name)]
    if far and not remote:
        raise DataError(
            f"{table.source}, {far[0].place}: '{far[0].name}' is a URI. Only --engine ray of `dpl label` and `dpl patches` reads "
            "those. Use it, or give paths."
        )
    if not table.in_shards:
        _refuse_missing(table, [row for row in rows if not is_uri(row.name)] if far else rows)
    known = tuple(table.classes if classes is None else classes)
    if len(set(known)) != len(known):
        twice = next(name for name, count in Counter(known).items() if count > 1)
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


def _refuse_no_text(table: TagTable) -> None:
    """Raise `DataError` for a name or tag that no file can hold: a NUL, or half of a character."""
    known: set[str] = set()  # tags are few and come often
    for row in table.rows:
        for kind, text in (("name", row.name), *(("tag", tag) for tag in (*row.present, *row.unknown))):
            if text in known or (text.isascii() and "\0" not in text):
                continue
            try:
                wrong = "a NUL character" if "\0" in text else ""
                text.encode()
            except UnicodeEncodeError:
                wrong = "half of a character (a lone surrogate), or bytes that are not UTF-8"
            if wrong:
                raise DataError(f"{table.source}, {row.place}: the {kind} {short(text)} holds {wrong}. Rename it.")
            if kind == "tag":
                known.add(text)


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
