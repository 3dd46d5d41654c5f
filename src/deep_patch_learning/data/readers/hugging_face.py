"""Tags from Hugging Face: a data set that `save_to_disk` wrote. Its images stay in it; rows are read where they lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.arrow import ARROW, open_arrow, tag_columns, tagged_rows
from deep_patch_learning.data.readers.table import TagRow, TagTable, parse_json, read_text, sorted_classes

DICT, INFO, STATE = "dataset_dict.json", "dataset_info.json", "state.json"  # what `save_to_disk` writes beside the rows
_WANTED = "a data set that datasets.save_to_disk wrote"


def read_hugging_face(folder: Path) -> TagTable:
    """Return the images and tags of a saved data set; the data sets of a dictionary are its splits.

    Tags are in `tags`, `labels` or `label`: texts, or numbers of a `ClassLabel`, one or a list; or the categories of `objects`.
    """
    splits: list[tuple[str | None, Path]] = [(None, folder)]
    if (folder / DICT).is_file():
        names = _entry(folder / DICT, "splits", list)
        wrong = next((name for name in names if not isinstance(name, str) or not name or Path(name).name != name), None)
        if wrong is not None or any("\0" in name for name in names):
            raise DataError(f"{folder / DICT}: 'splits' names {short(wrong)}, wanted folders. Save the data set again.")
        splits = [(name, folder / name) for name in names]
    rows = [row for split, place in splits for row in _rows(place, folder, split)]
    return TagTable(folder, folder, rows, sorted_classes(rows), in_shards=True)


def _rows(place: Path, root: Path, split: str | None) -> Iterator[TagRow]:
    for one in _entry(place / STATE, "_data_files", list):
        name = one.get("filename") if isinstance(one, dict) else None
        if not isinstance(name, str) or Path(name).name != name or Path(name).suffix != ARROW:
            raise DataError(
                f"{place / STATE}: '_data_files' names {str(one)[:60]}, wanted {ARROW} files. Save the data set again."
            )
        file = place / name
        if not file.is_file():
            raise DataError(f"{file}: there is no such file, but {place / STATE} names it. Copy the whole data set.")
        before = file.relative_to(root).as_posix()
        table = open_arrow(file)
        batches = table.select(tag_columns(table.schema, str(file))).to_batches()
        for number, (present, unknown) in enumerate(tagged_rows(table.schema, batches, str(file))):
            row = f"{before}/{number}"
            yield TagRow(row, row, file.absolute() / str(number), present, unknown, split)


def _entry(file: Path, key: str, kind: type) -> Any:
    found = parse_json(read_text(file, _WANTED), file)
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, kind):
        raise DataError(f"{file}: has no '{key}', wanted {_WANTED}. Save the data set again.")
    return value
