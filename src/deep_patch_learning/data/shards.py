"""Shards: many images in one file, a tar in WebDataset's layout or a Parquet table with the images' bytes.

A path may lead into a local shard: `shards/0001.tar/beach.jpg` is the member `beach.jpg`, `shards/0001.parquet/17` row 17 of the
table. `open_in_shard` opens such a path. `samples_of` reads a shard from its start to its end, from wherever it is stored.

In a tar, files that share a name up to the first dot of its last part are one sample: one of them is the image, and `.json` with
the keys `tags` and `unknown`, or `.txt` or `.cls` with `dog;sofa`, holds its tags. A table has the columns `image` (bytes, or a
struct with `bytes`), and if wanted `name`, `tags` and `unknown` (lists of strings).
"""

import json
import tarfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Generic, TypeVar

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import IMAGE_SUFFIXES

TAR, PARQUET = ".tar", ".parquet"
SUFFIXES = (TAR, PARQUET)
TAG_SUFFIXES = (".json", ".txt", ".cls")
INDICES_KEPT = 64  # of tars that were opened last, each some 200 bytes per image
GROUPS_KEPT = 4  # row groups of tables that were read last
ROWS_AT_ONCE = 32  # of a table that is read from start to end

Key = TypeVar("Key")
Kept = TypeVar("Kept")


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


def samples_of(file: BinaryIO, shard: str) -> Iterator[ShardSample]:
    """Yield the images of an opened shard in their order; a damaged one raises `DataError` where the damage begins."""
    stem = PurePosixPath(shard).name
    yield from (_of_tar if shard.lower().endswith(TAR) else _of_table)(file, shard, stem)


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
    except (ValueError, AttributeError) as error:
        raise DataError(f'{place}: no tags can be read ({error}). Wanted {{"tags": ["dog"]}} in a .json.') from None
    return _trimmed(present), _trimmed(unknown)


def _trimmed(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))


def split_name(member: str) -> tuple[str, str]:
    """Return the key and the suffix of a tar's member: `a/b.seg.png` has the key `a/b` and the suffix `.seg.png`."""
    folder, _, name = member.rpartition("/")
    stem, dot, suffix = name.partition(".")
    return (f"{folder}/{stem}" if folder else stem), (dot + suffix).lower()


def _of_tar(file: BinaryIO, shard: str, stem: str) -> Iterator[ShardSample]:
    held: dict[str, tuple[str, bytes]] = {}
    before: str | None = None
    try:
        with tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
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
        table = open_table(file, str(shard))
        columns = [name for name in _columns(table) if name in ("tags", "unknown")]
        number = 0
        for batch in table.iter_batches(columns=columns):
            for row in batch.to_pylist() if columns else [{}] * len(batch):
                yield str(number), _trimmed(row.get("tags") or ()), _trimmed(row.get("unknown") or ())
                number += 1


def parquet() -> Any:
    """Return the library that reads and writes Parquet, or raise an error that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DplError('Parquet needs pyarrow. Fix: pip install "deep-patch-learning[ray]"') from None
    return pyarrow.parquet


def open_table(file: Any, shard: str) -> Any:
    """Return an opened Parquet table that has a column `image`."""
    import pyarrow

    try:
        table = parquet().ParquetFile(file)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"{shard}: the shard is cut off or no Parquet table ({_first_line(error)}). Copy it again."
        ) from None
    if "image" not in table.schema_arrow.names:
        found = ", ".join(table.schema_arrow.names)
        raise DataError(f"{shard}: has no column 'image' with the images' bytes; it has {found}. Rename the column.")
    return table


def _columns(table: Any) -> list[str]:
    return [name for name in ("image", "name", "tags", "unknown") if name in table.schema_arrow.names]


def _of_table(file: BinaryIO, shard: str, stem: str) -> Iterator[ShardSample]:
    import pyarrow

    table = open_table(file, shard)
    number = 0
    try:
        for batch in table.iter_batches(ROWS_AT_ONCE, columns=_columns(table)):
            for row in batch.to_pylist():
                yield _row(row, number, shard, stem)
                number += 1
    except (pyarrow.ArrowInvalid, OSError) as error:
        said = _first_line(error)
        raise DataError(f"{shard}, row {number}: the shard is damaged ({said}). Copy it again.") from None


def _row(row: dict[str, Any], number: int, shard: str, stem: str) -> ShardSample:
    image = row["image"]
    content = image.get("bytes") if isinstance(image, dict) else image
    if not isinstance(content, bytes):
        found = type(content).__name__
        raise DataError(f"{shard}, row {number}: 'image' holds {found}, wanted the bytes of an image file.")
    tags = tuple(_trimmed(row.get(name) or ()) for name in ("tags", "unknown"))
    name = row.get("name")
    return ShardSample(f"{stem}/{number}" if name is None else str(name), f"{shard}/{number}", content, *tags)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class Latest(Generic[Key, Kept]):
    """The values that were asked for last, made when they are first asked for; safe between threads."""

    def __init__(self, make: Callable[[Key], Kept], count: int) -> None:
        self._make, self._count = make, count
        self._held: OrderedDict[Key, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: Key) -> Kept:
        """Return the value of a key."""
        with self._lock:
            if key not in self._held:
                self._held[key] = self._make(key)
                while len(self._held) > self._count:
                    self._held.popitem(last=False)
            self._held.move_to_end(key)
            return self._held[key]


def shard_of(path: Path) -> tuple[Path, str] | None:
    """Return the shard that a path leads into and the name in it, or None where there is no such shard."""
    for parent in path.parents:
        if parent.suffix.lower() in SUFFIXES and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return None


def open_in_shard(path: Path) -> BinaryIO:
    """Return an image in a local shard, opened for reading."""
    found = shard_of(path)
    if found is None:
        raise NotADirectoryError(20, "a file stands where a folder is named", str(path))
    shard, name = found
    if shard.suffix.lower() == PARQUET:
        return BytesIO(_row_content(shard, int(name)))
    offset, size = _tar_index(shard).get(name, (-1, 0))
    if offset < 0:
        raise FileNotFoundError(2, "no such member", str(path))
    with shard.open("rb") as file:
        file.seek(offset)
        return BytesIO(file.read(size))


def _read_tar_index(shard: Path) -> dict[str, tuple[int, int]]:
    """Return offset and size of each image in a tar, of which only the heads of its members are read."""
    return {member.name: (member.offset_data, member.size) for member in members(shard) if _is_image(member.name)}


def _is_image(member: str) -> bool:
    return split_name(member)[1] in IMAGE_SUFFIXES


def members(shard: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the files in a local tar; one that is cut off raises `DataError`."""
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                if member.isfile():
                    if member.offset_data + member.size > shard.stat().st_size:
                        raise tarfile.ReadError("unexpected end of data")
                    yield member
    except tarfile.TarError as error:
        raise DataError(f"{shard}: the shard is cut off or damaged ({error}). Copy it again.") from None


def _read_group(key: tuple[Path, int]) -> list[bytes]:
    shard, group = key
    with shard.open("rb") as file:
        rows = open_table(file, str(shard)).read_row_group(group, columns=["image"]).to_pylist()
    return [row["image"]["bytes"] if isinstance(row["image"], dict) else row["image"] for row in rows]


def _read_group_starts(shard: Path) -> list[int]:
    with shard.open("rb") as file:
        about = open_table(file, str(shard)).metadata
        starts = [0]
        for group in range(about.num_row_groups):
            starts.append(starts[-1] + about.row_group(group).num_rows)
    return starts


_tar_index = Latest(_read_tar_index, INDICES_KEPT)
_group = Latest(_read_group, GROUPS_KEPT)
_group_starts = Latest(_read_group_starts, INDICES_KEPT)


def _row_content(shard: Path, row: int) -> bytes:
    from bisect import bisect_right

    starts = _group_starts(shard)
    group = bisect_right(starts, row) - 1
    return _group((shard, group))[row - starts[group]]
