"""Tags from JSON lines: `{"image": "a.jpg", "tags": ["dog"]}`, with the keys `unknown` and `split` if wanted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.readers.table import (
    TagRow,
    TagTable,
    locate,
    misspelt,
    parse_json,
    read_lines,
    refuse_both,
    sorted_classes,
)

_KEYS = ("image", "tags", "unknown", "split", "boxes")
_WANTED = 'a line such as {"image": "a.jpg", "tags": ["dog"]} per image'


def read_json_lines(path: Path) -> TagTable:
    """Return the images and tags of a JSON-lines file; image paths are relative to its folder."""
    rows = [_row(found, path, line) for line, found in objects(path)]
    return TagTable(path, path.parent, rows, sorted_classes(rows))


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line that is not blank."""
    for line, text in read_lines(path, _WANTED):
        found = parse_json(text, path, line)
        if not isinstance(found, dict):
            raise DataError(f"{path}, line {line}: found {short(text)}, wanted {_WANTED}.")
        yield line, found


def image_of(found: dict[str, Any], path: Path, line: int) -> tuple[str, Path]:
    """Return the unique name and the path of the image that one object names."""
    image = found.get("image")
    if not isinstance(image, str) or not image.strip():
        raise DataError(
            f"{path}, line {line}: 'image' is {short(image)}, wanted the path of an image. Correct the line."
        )
    return locate(image.strip(), path.parent)


def _row(found: dict[str, Any], path: Path, line: int) -> TagRow:
    place = f"{path}, line {line}"
    wrong = misspelt(found, _KEYS)
    if wrong is not None:
        raise DataError(f"{place}: found a key '{wrong[0]}'. Did you mean '{wrong[1]}'? Rename it.")
    absent = [key for key in ("image", "tags") if key not in found]
    if absent:
        raise DataError(f"{place}: there is no '{absent[0]}', wanted {_WANTED}.")
    name, file = image_of(found, path, line)
    present, unknown = (_tags(found.get(key, []), key, place) for key in ("tags", "unknown"))
    refuse_both(present, unknown, place)
    split = found.get("split")
    if split is not None and not isinstance(split, str):
        raise DataError(f"{place}: 'split' is {short(split)}, wanted a string such as \"train\". Correct the line.")
    return TagRow(f"line {line}", name, file, present, unknown, (split or "").strip() or None)


def _tags(found: Any, key: str, place: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        raise DataError(f'{place}: \'{key}\' is {short(found)}, wanted a list of strings such as ["dog", "sofa"].')
    return tuple(dict.fromkeys(tag.strip() for tag in found if tag.strip()))
