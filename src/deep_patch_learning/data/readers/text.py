"""Reading text and JSON as people save them: UTF-8, with or without a byte-order mark, or a clear error."""

import gc
import json
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError


def read_text(path: Path, wanted: str) -> str:
    """Return the text of a UTF-8 file; an empty one raises `DataError` saying what was `wanted` in it."""
    try:
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
