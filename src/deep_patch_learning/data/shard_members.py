"""The inside of local shards: paths that lead into them, such as `shards/0001.tar/beach.jpg`, and what they lead to.

What was asked for last is kept: the places of the members of a tar, and the images of a row group of a table.
"""

import tarfile
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.arrow import ARROW, content_of, image_in_row

TAR, PARQUET = ".tar", ".parquet"
SUFFIXES = (TAR, PARQUET)
TAG_SUFFIXES = (".json", ".txt", ".cls")
INDICES_KEPT = 64  # of tars that were opened last, each some 200 bytes per image
GROUPS_KEPT = 4  # row groups of tables that were read last

Key = TypeVar("Key")
Kept = TypeVar("Kept")


def split_name(member: str) -> tuple[str, str]:
    """Return the key and the suffix of a tar's member: `a/b.seg.png` has the key `a/b` and the suffix `.seg.png`."""
    folder, _, name = member.rpartition("/")
    stem, dot, suffix = name.partition(".")
    return (f"{folder}/{stem}" if folder else stem), (dot + suffix).lower()


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
        columns = table.schema_arrow.names
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"{shard}: the shard is cut off or no Parquet table ({first_line(error)}). Copy it again."
        ) from None
    if "image" not in columns:
        raise DataError(
            f"{shard}: has no column 'image' with the images' bytes; it has {', '.join(columns)}. Rename the column."
        )
    return table


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
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
        if parent.suffix.lower() in (*SUFFIXES, ARROW) and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return None


def open_in_shard(path: Path) -> BinaryIO:
    """Return an image in a local shard, opened for reading."""
    found = shard_of(path)
    if found is None:
        raise NotADirectoryError(20, "a file stands where a folder is named", str(path))
    shard, name = found
    if shard.suffix.lower() == ARROW:
        return BytesIO(image_in_row(shard, int(name)))
    if shard.suffix.lower() == PARQUET:
        return BytesIO(_row_content(shard, int(name)))
    offset, size = _tar_index(shard).get(name, (-1, 0))
    if offset < 0:
        raise FileNotFoundError(2, "no such member", str(path))
    with shard.open("rb") as file:
        file.seek(offset)
        return BytesIO(file.read(size))


def _read_tar_index(shard: Path) -> dict[str, tuple[int, int]]:
    """Return offset and size of each member of a tar that holds no tags, of which only the heads of its members are read."""
    return {
        member.name: (member.offset_data, member.size)
        for member in members(shard)
        if split_name(member.name)[1] not in TAG_SUFFIXES
    }


def members(shard: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the files in a local tar; one that is cut off raises `DataError`."""
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                if member.size < 0:  # it would lead back to a member before it, without end
                    raise tarfile.ReadError("negative size")
                if member.isfile():
                    if member.offset_data + member.size > shard.stat().st_size:
                        raise tarfile.ReadError("unexpected end of data")
                    yield member
    except tarfile.TarError as error:
        raise DataError(f"{shard}: the shard is cut off or damaged ({error}). Copy it again.") from None


def _read_group(key: tuple[Path, int]) -> list[Any]:
    shard, group = key
    with shard.open("rb") as file:
        rows = open_table(file, str(shard)).read_row_group(group, columns=["image"]).to_pylist()
    return [row["image"] for row in rows]  # a cell without an image is broken alone, and not its row group


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
    starts = _group_starts(shard)
    group = bisect_right(starts, row) - 1
    return content_of(_group((shard, group))[row - starts[group]], f"{shard}, row {row}")
