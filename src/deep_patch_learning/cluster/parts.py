"""A data set in parts, each the work of one worker at a time: some rows of a table, or one shard.

Which images a part holds follows from the data alone, never from who works on it, so that what is written of a part is the same
whoever does it, and a part that is done stays done.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from deep_patch_learning.cluster.places import (
    UnreachableError,
    content_of,
    fetched,
    listed,
    opened,
    unreachable,
    version_of,
)
from deep_patch_learning.common.errors import DataError, DplError, did_you_mean
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages, limited
from deep_patch_learning.data.readers.read import read_table, recognise
from deep_patch_learning.data.readers.table import is_uri, to_images
from deep_patch_learning.data.shards import is_shard, samples_of, shard_files

PART_IMAGES = 250  # rows of a table in a part if nothing else is asked for
FIRST = 3  # images of a table, one of which must answer before a cluster is asked to work
MOST_UNREACHABLE = 10  # images of a table in a row: then the network or the credentials are at fault, not the images


@dataclass(frozen=True)
class Part:
    """One part of a data set: rows of a table (names, places and labels), or a shard.

    `digest` identifies its images: those of a table by names and places, without their tags; a shard by its name and version.
    `images` is how many there are, None where only reading tells.
    """

    number: int
    digest: str
    images: int | None
    shard: str | None = None
    names: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    labels: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"part-{self.number:05d}"


@dataclass(frozen=True)
class Item:
    """One image of a part: its name, its place, its tags (C,), and its file's content or why that cannot be read."""

    name: str
    place: str
    states: np.ndarray
    content: bytes | DataError


@dataclass(frozen=True)
class Parts:
    """The parts of a data set, cut when they are asked for, and its classes; `images` is their number where it is known.

    `table` holds the images where the data set is a table, with their `places`.
    """

    classes: tuple[str, ...]
    shards: tuple[str, ...] = ()
    table: TaggedImages | None = None
    places: "Sequence[str]" = ()
    part_images: int = PART_IMAGES
    _versions: "dict[str, str | DplError]" = field(default_factory=dict, repr=False, compare=False)  # of shards

    def __len__(self) -> int:
        if self.table is None:
            return len(self.shards)
        return -(-len(self.table) // self.part_images)

    def __iter__(self) -> Iterator[Part]:
        return map(self.part, range(len(self)))

    @property
    def images(self) -> int | None:
        """The number of images, None where the data set is in shards."""
        return None if self.table is None else len(self.table)

    def part(self, number: int) -> Part:
        """Return one part; a shard that is missing or does not answer raises a `DplError`."""
        if self.table is None:
            shard = self.shards[number]
            return Part(number, _digest(shard.rpartition("/")[2], self._version(shard)), None, shard)
        rows = slice(number * self.part_images, (number + 1) * self.part_images)
        names, places = self.table.names[rows], tuple(self.places[rows])
        digest = _digest(*names, *places)
        return Part(number, digest, len(names), None, names, places, self.table.labels[rows])

    def _version(self, shard: str) -> str:
        """Return the version of a shard, for which its store is asked once."""
        if shard not in self._versions:
            try:
                self._versions[shard] = version_of(shard)
            except DplError as error:
                self._versions[shard] = error
        found = self._versions[shard]
        if isinstance(found, DplError):
            raise found
        return found


def read_parts(
    data: str | Path,
    split: str | None = None,
    classes: Sequence[str] | None = None,
    limit: int | None = None,
    part_images: int = PART_IMAGES,
) -> Parts:
    """Return the parts of a data set: of whatever `read_tags` reads, of tags at a URI, or of shards.

    Shards are a folder of `.tar` or `.parquet` files, one such file, or a pattern with `*` or `{000..099}`, local or a URI.
    """
    shards = _shards(str(data))
    if shards is not None:
        if split is not None or limit is not None:
            raise DataError(f"{data}: shards have no --split and no --limit. Name the shards that you want.")
        parts = Parts(tuple(classes or ()), tuple(shards))
        with suppress(
            DataError
        ):  # one that is missing fails alone; what is wrong with a place far away is said at once
            parts.part(0)
        return parts
    if not is_uri(str(data)):
        return _of_table(Path(data), split, classes, limit, part_images, None)
    with tempfile.TemporaryDirectory() as folder:
        base = str(data).rpartition("/")[0]
        return _of_table(fetched(str(data), folder), split, classes, limit, part_images, base)


def _of_table(
    path: Path, split: str | None, classes: Sequence[str] | None, limit: int | None, part_images: int, base: str | None
) -> Parts:
    kind, place = recognise(path)
    table, remaining = read_table(kind, place, split)
    if base is not None:
        table = table.moved(base)
    images = limited(to_images(table, remaining, classes, remote=True), limit)
    rows = zip(images.names, images.paths, strict=True)
    places = [name if is_uri(name) else str(path.absolute()) for name, path in rows]
    _must_answer([place for place in places[:FIRST] if is_uri(place)])
    return Parts(images.classes, (), images, places, part_images)


def _must_answer(places: Sequence[str]) -> None:
    """Raise an error if none of the first places lets anybody in; a missing image is found later."""
    closed: UnreachableError | None = None
    for place in places:
        try:
            with suppress(FileNotFoundError):
                content_of(place)
            return
        except UnreachableError as error:
            closed = closed or error
    if closed is not None:
        raise closed


def _shards(data: str) -> list[str] | None:
    """Return the shards that a text names, in order; None where it names something else."""
    if not is_uri(data) and Path(data).is_dir():
        inside = [str(path.absolute()) for path in shard_files(Path(data))]
        _must_be_text(inside)
        return inside or None
    patterns = _braces(data)
    if not is_shard(data):
        return None
    found: list[str] = []
    for pattern in patterns:
        files = listed(pattern) if "*" in pattern else [pattern]
        if not files:
            raise DataError(f"{pattern}: no file has such a name. Check the pattern.")
        found += [file if is_uri(file) else str(Path(file).absolute()) for file in files]
    for file in found:
        if not is_uri(file) and not Path(file).is_file():
            beside = [path.name for path in shard_files(Path(file).parent)]
            hint = did_you_mean(Path(file).name, beside) if beside else ""
            raise DataError(f"{file}: there is no such shard.{hint} Copy it there, or leave it out.")
    _must_be_text(found)
    return found


def _must_be_text(names: Sequence[str]) -> None:
    """Raise `DataError` for a name that no file of labels can hold."""
    for name in names:
        shown = name.encode("utf-8", "backslashreplace").decode()
        if shown != name:
            raise DataError(f"{shown}: the name is not UTF-8. Rename it.")


def _braces(pattern: str) -> list[str]:
    """Return what `{000..003}` and `{a,b}` in a text stand for, as a shell does."""
    pieces = re.split(r"\{([^{}]*)\}", pattern)
    choices = [[piece] if index % 2 == 0 else _choices(piece, pattern) for index, piece in enumerate(pieces)]
    return ["".join(words) for words in product(*choices)]


def _choices(inside: str, pattern: str) -> list[str]:
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", inside)
    if numbers is None:
        return inside.split(",")
    first, last = int(numbers[1]), int(numbers[2])
    if last < first:
        raise DataError(f"{pattern}: {{{inside}}} goes down. Write the smaller number first.")
    return [str(number).zfill(len(numbers[1])) for number in range(first, last + 1)]


def _digest(*words: str) -> str:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest()


def items_of(part: Part, classes: Sequence[str]) -> Iterator[Item]:
    """Yield the images of a part in their order, one by one.

    An image of a table whose place cannot be reached is a broken one. `UnreachableError` is raised where that is said of a shard,
    of every image, or of many in a row.
    """
    if part.shard is not None:
        yield from _items_of_shard(part.shard, classes)
        return
    labels = np.zeros((len(part.names), len(classes)), np.int8) if part.labels is None else part.labels
    waiting: list[Item] = []  # what cannot be read, until one that can be shows that the place as a whole answers
    lost: list[UnreachableError] = []  # in a row
    answers = False
    for name, place, states in zip(part.names, part.places, labels, strict=True):
        try:
            content = _content(place)
            lost.clear()
        except UnreachableError as error:
            lost.append(error)
            if len(lost) == MOST_UNREACHABLE:
                raise UnreachableError(f"{lost[0]} So it is with {len(lost) - 1} images after it.") from None
            content = DataError(str(error))
        waiting.append(Item(name, place, states, content))
        answers = answers or isinstance(content, bytes)
        if answers and not lost:
            yield from waiting
            waiting.clear()
    if lost and not answers:
        raise lost[0]
    yield from waiting


def _content(place: str) -> bytes | DataError:
    try:
        return content_of(place)
    except DataError as error:
        return error
    except FileNotFoundError:
        return DataError(f"{place}: there is no such image. Check the path, or remove it from the tags.")
    except OSError as error:
        return DataError(
            f"{place}: cannot be read ({error.strerror or error}). Make it readable, or remove it from the tags."
        )


def _items_of_shard(shard: str, classes: Sequence[str]) -> Iterator[Item]:
    column = {name: index for index, name in enumerate(classes)}
    seen: set[str] = set()
    try:
        with opened(shard) as file:
            for sample in samples_of(file, shard, tagged=bool(classes)):
                if sample.name in seen:
                    raise DataError(
                        f"{shard}: the image '{sample.name}' is there twice. Give each image a name of its own."
                    )
                seen.add(sample.name)
                states = np.full(len(classes), ABSENT, np.int8)
                for tags, state in ((sample.present, PRESENT), (sample.unknown, UNKNOWN)):
                    for tag in tags if classes else ():
                        if tag not in column:
                            raise DataError(
                                f"{sample.place}: unknown class '{tag}'.{did_you_mean(tag, classes)} Correct the tag."
                            )
                        states[column[tag]] = state
                yield Item(sample.name, sample.place, states, sample.content)
    except FileNotFoundError:
        raise DataError(f"{shard}: there is no such shard. Copy it there, or leave it out.") from None
    except OSError as error:
        raise unreachable(shard, error) from None
