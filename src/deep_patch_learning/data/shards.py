"""Shards: many images in one file, a tar in WebDataset's layout or a Parquet table with the images' bytes.

A path may lead into a local shard: `shards/0001.tar/beach.jpg` is the member `beach.jpg`, `shards/0001.parquet/17` row 17 of the
table. `samples_of` reads a shard from its start to its end, from wherever it is stored.

In a tar, files that share a name up to the first dot of its last part are one sample: one of them is the image, and `.json` with
the keys `tags` and `unknown`, or `.txt` or `.cls` with `dog;sofa`, holds its tags. A table has the columns `image` (bytes, or a
struct with `bytes`), and if wanted `name`, `tags` and `unknown` (lists of strings). One of Hugging Face has its tags as
`data/arrow.py` reads them.
"""

import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.arrow import features_of, tag_columns, tagged_rows
from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.data.shard_members import (
    SUFFIXES,
    TAG_SUFFIXES,
    TAR,
    first_line,
    members,
    open_table,
    split_name,
)

ROWS_AT_ONCE = 32  # of a table that is read from start to end


@dataclass(frozen=True)
class ShardSample:
    """One image of a shard: its unique name, where it is, the content of its file, and its tags."""

    name: str
    place: str
    content: bytes
    present: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def is_shard(place: str | Path) -> bool:
    """Return whether a path or URI ends as a shard does."""
    return str(place).lower().endswith(SUFFIXES)


def shard_files(folder: Path) -> list[Path]:
    """Return the shards in a folder, in order; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if is_shard(path) and not path.name.startswith("."))


def samples_of(file: BinaryIO, shard: str, tagged: bool = True) -> Iterator[ShardSample]:
    """Yield the images of an opened shard in their order; a damaged one raises `DataError` where the damage begins.

    Unless `tagged`, the tags of a table are not read; it need not have any.
    """
    stem = PurePosixPath(shard).name
    yield from _of_tar(file, shard, stem) if shard.lower().endswith(TAR) else _of_table(file, shard, stem, tagged)


def tags_of(suffix: str, content: bytes, place: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the present and the unknown tags that a member of a tar holds."""
    try:
        text = content.decode("utf-8")
        if suffix != ".json":
            return _trimmed(text.split(";")), ()
        found = json.loads(text)
        present, unknown = found.get("tags", []), found.get("unknown", [])
        if not all(isinstance(tags, list) and all(isinstance(tag, str) for tag in tags) for tags in (present, unknown)):
            raise ValueError("'tags' and 'unknown' must be lists of strings")
        "".join((*present, *unknown)).encode()  # which half of a character does not pass
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f'{place}: no tags can be read ({error}). Wanted {{"tags": ["dog"]}} in a .json.') from None
    return _trimmed(present), _trimmed(unknown)


def _trimmed(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))


def _of_tar(file: BinaryIO, shard: str, stem: str) -> Iterator[ShardSample]:
    held: dict[str, tuple[str, bytes]] = {}
    before: str | None = None
    try:
        with tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
                if member.size < 0:
                    raise tarfile.ReadError("negative size")
                if not member.isfile():
                    continue
                key, suffix = split_name(member.name)
                if key != before and held:
                    yield from _sample(held, shard, stem)
                    held = {}
                before = key
                if suffix in TAG_SUFFIXES or suffix in IMAGE_SUFFIXES:
                    opened = tar.extractfile(member)
                    content = b"" if opened is None else opened.read()
                    if len(content) != member.size:
                        raise tarfile.ReadError("unexpected end of data")
                    held[suffix] = member.name, content
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"{shard}: the shard is cut off or damaged ({error}). Copy it again.") from None
    if held:
        yield from _sample(held, shard, stem)


def _sample(held: dict[str, tuple[str, bytes]], shard: str, stem: str) -> Iterator[ShardSample]:
    image = next((suffix for suffix in held if suffix in IMAGE_SUFFIXES), None)
    if image is None:
        return
    name, content = held[image]
    tags: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    of_tags = next((suffix for suffix in TAG_SUFFIXES if suffix in held), None)
    if of_tags is not None:
        tags = tags_of(of_tags, held[of_tags][1], f"{shard}/{held[of_tags][0]}")
    yield ShardSample(f"{stem}/{name}", f"{shard}/{name}", content, *tags)


Tags = tuple[tuple[str, ...], tuple[str, ...]]  # present and unknown
Tagged = tuple[str, tuple[str, ...], tuple[str, ...]]  # the name in the shard, present and unknown tags


def tags_in_tar(shard: Path) -> Iterator[Tagged]:
    """Yield the images of a local tar with their tags; the images themselves are passed over."""
    before, image, tags = "", "", ((), ())  # type: tuple[str, str, tuple[tuple[str, ...], tuple[str, ...]]]
    with shard.open("rb") as file:
        for member in members(shard):
            key, suffix = split_name(member.name)
            if key != before:
                if image:
                    yield image, *tags
                before, image, tags = key, "", ((), ())
            if suffix in IMAGE_SUFFIXES:
                image = image or member.name
            elif suffix in TAG_SUFFIXES:
                file.seek(member.offset_data)
                tags = tags_of(suffix, file.read(member.size), f"{shard}/{member.name}")
    if image:
        yield image, *tags


def tags_in_table(shard: Path) -> Iterator[Tagged]:
    """Yield the row numbers of a local table with the tags of each; the images are not read."""
    with shard.open("rb") as file:
        for number, tags in enumerate(_tags_of_rows(open_table(file, str(shard)), str(shard))):
            yield str(number), *tags


def _tags_of_rows(table: Any, shard: str) -> Iterator[Tags]:
    import pyarrow

    try:
        yield from _read_tags(table, shard)
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{shard}: its tags cannot be read ({first_line(error)}). Copy it again.") from None


def _read_tags(table: Any, shard: str) -> Iterator[Tags]:
    schema = table.schema_arrow
    if features_of(schema):  # of Hugging Face, with numbers for classes
        yield from tagged_rows(schema, table.iter_batches(columns=tag_columns(schema, shard)), shard)
        return
    columns = [name for name in ("tags", "unknown") if name in schema.names]
    for batch in table.iter_batches(columns=columns):
        for row in batch.to_pylist() if columns else [{}] * len(batch):
            yield _trimmed(_listed(row.get("tags"), shard)), _trimmed(_listed(row.get("unknown"), shard))


def _listed(found: Any, shard: str) -> list[str]:
    """Return the tags in a cell of a table; a text alone is no list of its letters."""
    if found is not None and not (isinstance(found, list) and all(isinstance(tag, str) for tag in found)):
        raise DataError(f"{shard}: its tags are {short(found)} in a row, wanted a list of texts. Correct the column.")
    return found or []


def _of_table(file: BinaryIO, shard: str, stem: str, tagged: bool) -> Iterator[ShardSample]:
    import pyarrow

    table = open_table(file, shard)
    columns = [name for name in ("image", "name") if name in table.schema_arrow.names]
    tags: Iterator[Tags] = _tags_of_rows(table, shard) if tagged else repeat(((), ()))
    number = 0
    try:
        for batch in table.iter_batches(ROWS_AT_ONCE, columns=columns):
            for row in batch.to_pylist():
                yield _row(row, next(tags), number, shard, stem)
                number += 1
    except (pyarrow.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        said = first_line(error)
        raise DataError(f"{shard}, row {number}: the shard is damaged ({said}). Copy it again.") from None


def _row(row: dict[str, Any], tags: Tags, number: int, shard: str, stem: str) -> ShardSample:
    image = row["image"]
    content = image.get("bytes") if isinstance(image, dict) else image
    if not isinstance(content, bytes):
        found = type(content).__name__
        raise DataError(f"{shard}, row {number}: 'image' holds {found}, wanted the bytes of an image file.")
    name = row.get("name")
    return ShardSample(f"{stem}/{number}" if name is None else str(name), f"{shard}/{number}", content, *tags)
