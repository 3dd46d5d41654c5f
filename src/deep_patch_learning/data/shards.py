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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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
    """One image of a shard: its unique name, where it is, the content of its file or why it has none, and its tags."""

    name: str
    place: str
    content: bytes | DataError
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


Tags = tuple[tuple[str, ...], tuple[str, ...]]  # present and unknown
Tagged = tuple[str, tuple[str, ...], tuple[str, ...]]  # the name in the shard, present and unknown tags


@dataclass
class _Group:
    """The members of a tar that are one sample: its image, its tags by suffix, and images that are none of their own."""

    key: str
    image: str | None = None
    content: bytes = b""
    tags: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def read_tags(self, shard: str) -> Tags:
        """Return the present and the unknown tags."""
        for suffix in TAG_SUFFIXES:
            if suffix in self.tags:
                name, content = self.tags[suffix]
                return tags_of(suffix, content, f"{shard}/{name}")
        return (), ()

    def why_left_out(self, name: str) -> str:
        """Return why an image file of the group is no image of the data set, with the fix."""
        if self.image is not None:
            return f"is of the same sample as '{self.image}', since both names begin with '{self.key}.'. Rename one."
        folder, _, last = name.rpartition("/")
        fixed = PurePosixPath(folder, PurePosixPath(last).stem.replace(".", "_") + PurePosixPath(last).suffix)
        return f"has a dot inside its name, where the name of its sample ends. Rename it, for example to '{fixed}'."


def _grouped(
    files: Iterable[tarfile.TarInfo], read: Callable[[tarfile.TarInfo, bool], bytes], shard: str
) -> Iterator[_Group]:
    """Yield the samples of a tar. `read` returns the content of a member, and is given whether it is an image.

    A sample whose files are not beside each other raises `DataError`, since one that reads from start to end would miss its tags.
    """
    group: _Group | None = None
    tagged: dict[str, bool] = {}  # keys that were before, and whether tags came with them
    for member in files:
        key, suffix = split_name(member.name)
        last = PurePosixPath(member.name)
        if last.suffix.lower() not in (*IMAGE_SUFFIXES, *TAG_SUFFIXES) or last.name.startswith("._"):
            continue  # of another kind, or what macOS puts beside a file
        if group is None or key != group.key:
            if group is not None:
                yield group
                tagged[group.key] = bool(group.tags)
            group = _Group(key)
        if suffix in TAG_SUFFIXES:
            group.tags.setdefault(suffix, (member.name, read(member, False)))
        elif suffix in IMAGE_SUFFIXES and group.image is None:
            group.image, group.content = member.name, read(member, True)
        elif last.suffix.lower() in IMAGE_SUFFIXES:
            group.left_out.append(member.name)
        if key in tagged and (tagged[key] or group.tags):
            raise DataError(
                f"{shard}: the files of the sample '{_text(key)}' are not beside each other, so that its tags would be lost. "
                "Write the tar in the order of names (tar --sort=name)."
            )
    if group is not None:
        yield group


def _of_tar(file: BinaryIO, shard: str, stem: str) -> Iterator[ShardSample]:
    try:
        with tarfile.open(fileobj=file, mode="r|") as tar:

            def read(member: tarfile.TarInfo, _: bool) -> bytes:
                opened = tar.extractfile(member)
                content = b"" if opened is None else opened.read()
                if len(content) != member.size:
                    raise tarfile.ReadError("unexpected end of data")
                return content

            for group in _grouped(_files(tar), read, shard):
                yield from _samples(group, shard, stem)
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"{shard}: the shard is cut off or damaged ({error}). Copy it again.") from None


def _files(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in tar:
        if member.size < 0:  # it would be read again and again
            raise tarfile.ReadError("negative size")
        if member.isfile():
            yield member


def _samples(group: _Group, shard: str, stem: str) -> Iterator[ShardSample]:
    """Yield the image of a group, and each image file that is left out with the reason in the place of its content."""
    if group.image is not None:
        name = _text(group.image)
        content: bytes | DataError = group.content
        if name != group.image:  # no file of labels can hold it
            content = DataError(f"{shard}/{name}: its name is not UTF-8. Rename it, and write the tar again.")
        yield ShardSample(f"{stem}/{name}", f"{shard}/{name}", content, *group.read_tags(_text(shard)))
    for left_out in group.left_out:
        name = _text(left_out)
        why = DataError(f"{shard}/{name}: {_text(group.why_left_out(left_out))}")
        yield ShardSample(f"{stem}/{name}", f"{shard}/{name}", why, ())


def _text(name: str) -> str:
    """Return a name that can be written as UTF-8: bytes that are none are shown as `\\udcff`."""
    return name.encode("utf-8", "backslashreplace").decode()


def tags_in_tar(shard: Path, left_out: list[str] | None = None) -> Iterator[Tagged]:
    """Yield the images of a local tar with their tags; the images themselves are passed over.

    Image files that are no image of their own are added to `left_out`, with the reason.
    """
    with shard.open("rb") as file:

        def read(member: tarfile.TarInfo, is_image: bool) -> bytes:
            if is_image:
                return b""
            file.seek(member.offset_data)
            return file.read(member.size)

        for group in _grouped(members(shard), read, str(shard)):
            if group.image is not None:
                yield group.image, *group.read_tags(str(shard))
            if left_out is not None:
                left_out += [f"{shard.name}/{name} {group.why_left_out(name)}" for name in group.left_out]


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
    _must_hold_images(table.schema_arrow, shard)
    columns = [name for name in ("image", "name") if name in table.schema_arrow.names]
    tags: Iterator[Tags] = _tags_of_rows(table, shard) if tagged else repeat(((), ()))
    number = 0
    try:
        for batch in table.iter_batches(ROWS_AT_ONCE, columns=columns):
            for row in batch.to_pylist():
                yield _row(row, next(tags), number, shard, stem)
                number += 1
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        said = first_line(error)
        raise DataError(f"{shard}, row {number}: the shard is damaged ({said}). Copy it again.") from None


def _must_hold_images(schema: Any, shard: str) -> None:
    """Raise `DataError` where no row can hold an image; a row that holds none is a broken image."""
    from pyarrow import types

    kind = schema.field("image").type
    kinds = types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_struct, types.is_null
    if not any(fits(kind) for fits in kinds):
        raise DataError(f"{shard}: the column 'image' holds {kind}, wanted the bytes of image files.")


def _row(row: dict[str, Any], tags: Tags, number: int, shard: str, stem: str) -> ShardSample:
    image = row["image"]
    content: Any = image.get("bytes") if isinstance(image, dict) else image
    if not isinstance(content, bytes):
        found = "nothing" if content is None else type(content).__name__
        content = DataError(f"{shard}, row {number}: 'image' holds {found}, wanted the bytes of an image file.")
    name = row.get("name")
    return ShardSample(f"{stem}/{number}" if name is None else str(name), f"{shard}/{number}", content, *tags)
