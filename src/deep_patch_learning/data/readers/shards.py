"""Tags from shards: WebDataset's tars and Parquet tables with images. The images stay in them; only names and tags are read."""

from collections.abc import Iterator
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.table import TagRow, TagTable, sorted_classes
from deep_patch_learning.data.shard_members import TAR
from deep_patch_learning.data.shards import shard_files, tags_in_table, tags_in_tar


def read_shards(place: Path) -> TagTable:
    """Return the images and tags of a shard or of a folder of them; an image's name begins with that of its shard."""
    files = shard_files(place) if place.is_dir() else [place]
    rows = [row for file in files for row in _rows(file)]
    if not rows:
        raise DataError(f"{place}: holds no image. Add at least one.")
    return TagTable(place, place if place.is_dir() else place.parent, rows, sorted_classes(rows), in_shards=True)


def _rows(file: Path) -> Iterator[TagRow]:
    found = tags_in_tar(file) if file.suffix.lower() == TAR else tags_in_table(file)
    for name, present, unknown in found:
        row = f"{file.name}/{name}"
        yield TagRow(row, row, file.absolute() / name, present, unknown)
