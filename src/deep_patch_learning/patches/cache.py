"""Patches kept on disk, so that a picture is searched once.

A folder holds one set of append-only files per generator setting, one file per writing process:

    FOLDER/<hash of the generator's key>/settings.txt      the key itself, for people
    FOLDER/<hash of the generator's key>/<random>.patches  records, one after the other

A record is: the mark `DPLP`, the picture's hash (16 bytes), the seconds its patches took (float32), their number
(uint32), their corners (uint16 x 4 each), and a CRC-32 of all that; numbers are little-endian. A process that is
killed leaves at most one torn record at the end of its own file; readers ignore it, its picture is made again, and
nobody ever appends to that file again. Processes therefore need no lock, and see each other's new records while they
run.
"""

import hashlib
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import read_image
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.patches.preparation import single_threaded_opencv

MARK = b"DPLP"
HEAD = struct.Struct("<4s16sfI")  # mark, picture's hash, seconds, number of boxes
CHECK = struct.Struct("<I")
MOST_BOXES = 1 << 24  # a count above this is damage, not a record
LOOK_AGAIN = 1.0  # seconds between looks for other processes' records


def default_folder() -> Path:
    """Return the folder for cached patches: `$DPL_CACHE/patches`, else under `$XDG_CACHE_HOME` or `~/.cache`."""
    chosen = os.environ.get("DPL_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "patches"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "deep-patch-learning" / "patches"


@dataclass
class FillReport:
    """What filling a cache did: pictures made now, found ready, broken (path and reason), and seconds of computing."""

    made: int = 0
    found: int = 0
    broken: list[tuple[Path, str]] = field(default_factory=list)
    seconds: float = 0.0


class PatchCache:
    """The patches of pictures under one generator, made once and kept in `folder`.

    Keyed by the content of the image file and by `generator.key()`: a renamed file is found again, a changed one is
    made anew. Safe to use from several threads and several processes at once.
    """

    def __init__(self, folder: str | Path | None, generator: PatchGenerator) -> None:
        self.generator = generator
        digest = hashlib.blake2b(generator.key().encode(), digest_size=8).hexdigest()
        self._root = Path(folder) if folder is not None else default_folder()
        self.folder = self._root / f"{generator.name}-{digest}"
        self._lock = threading.RLock()
        self._places: dict[bytes, tuple[Path, int]] = {}  # picture's hash -> file and offset of its record
        self._scanned: dict[Path, int] = {}  # how far each file has been read
        self._looked = 0.0
        self._shard: BinaryIO | None = None
        self._shard_owner = 0  # the process that opened it: a forked child opens its own
        self._warm = False
        self._scan()

    def __reduce__(self) -> tuple[type["PatchCache"], tuple[Path, PatchGenerator]]:
        return PatchCache, (self._root, self.generator)  # another process opens its own files

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, path: str | Path) -> bool:
        return self._lookup(_hash_of(Path(path))) is not None

    def patches_of(self, path: str | Path) -> np.ndarray:
        """Return the patches (P, 4) uint16 of an image file, from the cache or made and kept now."""
        return self._find_or_make(Path(path))[0]

    def seconds_of(self, path: str | Path) -> float:
        """Return the processor time that the patches of an image file took when they were made."""
        return self._find_or_make(Path(path))[1]

    def fill(
        self,
        paths: Iterable[str | Path],
        workers: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> FillReport:
        """Return what was done to have the patches of every picture in the cache, using `workers` threads (all cores).

        A broken picture is listed in the report and does not stop the others. `progress(done, total)` is called from
        this thread after each picture.
        """
        wanted = [Path(path) for path in paths]
        threads = workers or os.cpu_count() or 1
        report, queue, done = FillReport(), iter(wanted), 0
        running: dict[Future[tuple[np.ndarray, float, bool]], Path] = {}
        with single_threaded_opencv(), ThreadPoolExecutor(threads) as pool:
            try:
                while True:
                    while len(running) < 2 * threads and (path := next(queue, None)) is not None:
                        running[pool.submit(self._find_or_make, path)] = path
                    if not running:
                        return report
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        _count(report, running.pop(future), future)
                        done += 1
                        if progress is not None:
                            progress(done, len(wanted))
            finally:
                for future in running:
                    future.cancel()

    def close(self) -> None:
        """Close the file this process appends to; the next new picture opens another."""
        with self._lock:
            if self._shard is not None:
                self._shard.close()
                self._shard = None

    def _find_or_make(self, path: Path) -> tuple[np.ndarray, float, bool]:
        """Return the patches, the seconds they took, and whether they were made now."""
        picture = _hash_of(path)
        ready = self._lookup(picture)
        if ready is not None:
            return *ready, False
        image = read_image(path)
        self._warm_up()
        before = time.thread_time()
        boxes = np.ascontiguousarray(self.generator(image), dtype="<u2")
        seconds = time.thread_time() - before
        self._append(picture, boxes, seconds)
        return boxes, seconds, True

    def _warm_up(self) -> None:
        """Let the generator compile its code once, so that no picture's seconds hold it."""
        with self._lock:
            if not self._warm:
                self.generator(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
                self._warm = True

    def _lookup(self, picture: bytes) -> tuple[np.ndarray, float] | None:
        """Return the patches kept for a picture and the seconds they took, or None when it has no whole record."""
        with self._lock:
            if picture not in self._places and time.monotonic() - self._looked > LOOK_AGAIN:
                self._scan()
            place = self._places.get(picture)
        if place is None:
            return None
        record = _read_record(*place)
        if record is None or record[0] != picture:  # damaged since it was indexed: make it anew
            with self._lock:
                self._places.pop(picture, None)
            return None
        return record[1], record[2]

    def _append(self, picture: bytes, boxes: np.ndarray, seconds: float) -> None:
        body = HEAD.pack(MARK, picture, seconds, len(boxes)) + boxes.tobytes()
        with self._lock:
            shard = self._own_shard()
            offset = shard.tell()
            try:
                shard.write(body + CHECK.pack(zlib.crc32(body)))
                shard.flush()
            except OSError as error:
                self._shard = None  # a torn record stays the last one of its file
                raise DplError(
                    f"{self.folder}: cannot keep patches ({error}). Free some space or set DPL_CACHE."
                ) from None
            self._places[picture] = (Path(shard.name), offset)

    def _own_shard(self) -> BinaryIO:
        if self._shard is None or self._shard_owner != os.getpid():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / "settings.txt").write_text(self.generator.key() + "\n")
                path = self.folder / f"{os.getpid():x}-{os.urandom(8).hex()}.patches"
                self._shard = path.open("xb")
            except OSError as error:
                raise DplError(
                    f"{self.folder}: cannot write here ({error}). Set DPL_CACHE to a folder you may write to."
                ) from None
            self._shard_owner = os.getpid()
        return self._shard

    def _scan(self) -> None:
        """Index the records of every file in the folder that were not yet there the last time."""
        self._looked = time.monotonic()
        for shard in sorted(self.folder.glob("*.patches")):
            for picture, offset, end in _records(shard, self._scanned.get(shard, 0)):
                self._places[picture] = (shard, offset)
                self._scanned[shard] = end


def _records(shard: Path, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (picture's hash, offset, end) of each whole record from `offset` on; a torn one ends the file."""
    size = shard.stat().st_size
    if offset + HEAD.size > size:
        return
    with shard.open("rb") as file:
        while offset + HEAD.size + CHECK.size <= size:
            file.seek(offset)
            mark, picture, _, count = HEAD.unpack(file.read(HEAD.size))
            end = offset + HEAD.size + 8 * count + CHECK.size
            if mark != MARK or count > MOST_BOXES or end > size:
                return
            yield picture, offset, end
            offset = end


def _read_record(shard: Path, offset: int) -> tuple[bytes, np.ndarray, float] | None:
    """Return the picture's hash, boxes and seconds of the record at `offset`, or None when it is damaged or gone."""
    try:
        with shard.open("rb") as file:
            file.seek(offset)
            head = file.read(HEAD.size)
            if len(head) < HEAD.size:
                return None
            mark, picture, seconds, count = HEAD.unpack(head)
            if mark != MARK or count > MOST_BOXES:
                return None
            body, check = file.read(8 * count), file.read(CHECK.size)
    except OSError:
        return None
    if len(check) < CHECK.size or CHECK.unpack(check)[0] != zlib.crc32(body, zlib.crc32(head)):
        return None
    return picture, np.frombuffer(body, "<u2").reshape(-1, 4).astype(np.uint16), seconds


def _hash_of(path: Path) -> bytes:
    """Return the hash of a file's content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such image. Check the path, or remove it from the tags.") from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}). Mend its permissions or remove it from the tags."
        ) from None


def _count(report: FillReport, path: Path, future: "Future[tuple[np.ndarray, float, bool]]") -> None:
    try:
        _, seconds, made = future.result()
    except DataError as error:
        report.broken.append((path, str(error)))
        return
    if made:
        report.made += 1
        report.seconds += seconds
    else:
        report.found += 1
