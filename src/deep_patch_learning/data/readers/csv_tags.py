"""Tags from a CSV: `image,tags`, tags separated by `;`, with the columns `split` and `unknown` if wanted."""

import csv
import io
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.table import (
    TagRow,
    TagTable,
    locate,
    misspelt,
    read_text,
    refuse_both,
    sorted_classes,
)

_COLUMNS = ("image", "tags", "split", "unknown")
_WANTED = "the header 'image,tags' and one row per image"


def read_csv(path: Path) -> TagTable:
    """Return the images and tags of a CSV; image paths are relative to its folder."""
    text = read_text(path, _WANTED)
    reader = csv.reader(io.StringIO(text, newline=""))
    rows: list[TagRow] = []
    columns: dict[str, int] = {}
    width = 0
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if not columns:
                columns, width = _header(cells, path, reader.line_num), len(cells)
            else:
                rows.append(_row(cells, columns, width, path, reader.line_num))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error}). Fix the line.") from None
    return TagTable(path, path.parent, rows, sorted_classes(rows))


def split_tags(cell: str) -> tuple[str, ...]:
    """Return the tags of a cell such as `dog; sofa`, trimmed, each once."""
    return tuple(dict.fromkeys(tag for piece in cell.split(";") if (tag := piece.strip())))


def _header(cells: list[str], path: Path, line: int) -> dict[str, int]:
    found = [cell.lower() for cell in cells]
    shown = ",".join(cells)[:80]
    wrong = misspelt(found, _COLUMNS)
    if wrong is not None:
        raise DataError(f"{path}, line {line}: found a column '{wrong[0]}'. Did you mean '{wrong[1]}'? Rename it.")
    if "image" not in found or "tags" not in found:
        raise DataError(f"{path}, line {line}: found '{shown}', wanted a header such as 'image,tags'. Add that line.")
    twice = [name for name in _COLUMNS if found.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line {line}: the column '{twice[0]}' is there twice. Keep one of them.")
    return {name: found.index(name) for name in _COLUMNS if name in found}


def _row(cells: list[str], columns: dict[str, int], width: int, path: Path, line: int) -> TagRow:
    place = f"{path}, line {line}"
    if len(cells) != width:
        raise DataError(
            f"{place}: found {len(cells)} cell(s), wanted {width} as in the header. "
            "Separate tags by ';' ('a.jpg,dog;sofa'), and write 'a.jpg,' for an image without tags."
        )
    image = cells[columns["image"]]
    if not image:
        raise DataError(f"{place}: the image cell is empty. Write the image's path, or remove the row.")
    present = split_tags(cells[columns["tags"]])
    unknown = split_tags(cells[columns["unknown"]]) if "unknown" in columns else ()
    split = cells[columns["split"]] if "split" in columns else ""
    refuse_both(present, unknown, place)
    name, file = locate(image, path.parent)
    return TagRow(f"line {line}", name, file, present, unknown, split or None)
