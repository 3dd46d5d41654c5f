"""Tags from shards: WebDataset's tars and Parquet tables with images. The images stay in them; only names and tags are read."""

from collections.abc import Iterator
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import console, plain
from deep_patch_learning.data.readers.table import TagRow, TagTable, sorted_classes
from deep_patch_learning.data.shard_members import TAR
from deep_patch_learning.data.shards import shard_files, tags_in_table, tags_in_tar

SHOWN = 10  # of the image files that are left out


def read_shards(place: Path) -> TagTable:
    """Return the images and tags of a shard or of a folder of them; an image's name begins with that of its shard."""
    files = shard_files(place) if place.is_dir() else [place]
    left_out: list[str] = []
    rows = [row for file in files for row in _rows(file, left_out)]
    _tell(left_out)
    if not rows:
        raise DataError(f"{place}: holds no image. Add at least one.")
    return TagTable(place, place if place.is_dir() else place.parent, rows, sorted_classes(rows), in_shards=True)


def _tell(left_out: list[str]) -> None:
    """Name the image files that are no image of their own."""
    if not left_out:
        return
    count = "1 image file is" if len(left_out) == 1 else f"{len(left_out)} image files are"
    console.print(f"{count} no image of the data set:", style="yellow", markup=False)
    for one in left_out[:SHOWN]:
        console.print(f"  {plain(one)}", markup=False, soft_wrap=True)
    if len(left_out) > SHOWN:
        console.print(f"  and {len(left_out) - SHOWN} more", markup=False)


def _rows(file: Path, left_out: list[str]) -> Iterator[TagRow]:
    found = tags_in_tar(file, left_out) if file.suffix.lower() == TAR else tags_in_table(file)
    for name, present, unknown in found:
        row = f"{file.name}/{name}"
        yield TagRow(row, row, file.absolute() / name, present, unknown)
