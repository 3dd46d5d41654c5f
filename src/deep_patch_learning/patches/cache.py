"""Patches kept on disk, so that an image is searched once.

A folder holds one set of append-only files per generator setting, one file per writing process:

    FOLDER/<hash of the generator's key>/settings.txt      the key itself, for people
    FOLDER/<hash of the generator's key>/<random>.patches  records, one after the other
    FOLDER/<hash of the generator's key>/part-<digest>.patches the same, of one part of a data set, made by a cluster
    FOLDER/<hash of the generator's key>/claims            an empty file whose bytes are locked, one per image in work

A process that is killed leaves at most one torn record (see `cache_files.py`) at the end of its own file; readers ignore it,
its image is made again, and nobody ever appends to that file again. Processes therefore write without a lock, and see
each other's new records while they run. A lock only says who makes which image (also there): processes that need the
same images share the work, and the images of one that dies are made by the others.
"""

import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np

from deep_patch_learning.common.devices import user_folder
from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import open_image, read_image, single_threaded_opencv
from deep_patch_learning.patches.cache_files import (
    claims_in,
    digest_of_content,
    pack_record,
    read_count,
    read_record,
    records,
)
from deep_patch_learning.patches.generator import PatchGenerator

LOOK_AGAIN = 1.0  # seconds between looks for other processes' records
ASK_AGAIN = 0.05  # seconds between looks at an image that another process or thread is making
PATIENCE = 60.0  # seconds after which such an image is made here too: its maker may be stopped, which frees no claim


def default_folder() -> Path:
    """Return the folder for cached patches: `$DPL_CACHE/patches`, or one below `$XDG_CACHE_HOME`, `~/.cache`, or `/tmp`."""
    chosen = os.environ.get("DPL_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "patches"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else user_folder()) / "deep-patch-learning" / "patches"


def cache_folder(root: Path, generator: PatchGenerator) -> Path:
    """Return the folder below `root` that keeps the patches of one generator's settings."""
    setting = hashlib.blake2b(generator.key().encode(), digest_size=8).hexdigest()
    return root / f"{generator.name}-{setting}"


@dataclass
class FillReport:
    """What filling a cache did: images made now, found ready, broken (path and reason), and seconds of computing."""

    made: int = 0
    found: int = 0
    broken: list[tuple[Path, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class _Wanted:
    """An image whose patches are wanted, since when they are waited for, and its pixels where they are known."""

    path: Path
    waiting_since: float | None = None
    pixels: np.ndarray | None = None

    def waits(self) -> "_Wanted":
        """Return this image, which is waited for from now on if it was not before."""
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        return self

    @property
    def long_waited(self) -> bool:
        return self.waiting_since is not None and time.monotonic() - self.waiting_since > PATIENCE


@dataclass(frozen=True)
class _Ready:
    """The patches (P, 4) of an image, the seconds they took, and whether they were made now."""

    boxes: np.ndarray
    seconds: float
    made: bool


class PatchCache:
    """The patches of images under one generator, made once and kept in `folder`.

    Keyed by the content of the image file and by `generator.key()`: a renamed file is found again, a changed one is
    made anew. Safe to use from several threads and several processes at once.
    """

    def __init__(self, folder: str | Path | None, generator: PatchGenerator) -> None:
        self.generator = generator
        self._root = Path(folder) if folder is not None else default_folder()
        self.folder = cache_folder(self._root, generator)
        self._lock = threading.RLock()
        self._places: dict[bytes, tuple[Path, int]] = {}  # image's digest -> file and offset of its record
        self._scanned: dict[Path, int] = {}  # how far each file has been read
        self._looked = 0.0
        self._shard: BinaryIO | None = None
        self._shard_path = self.folder  # one object for all its records
        self._shard_owner = 0  # the process that opened it: a forked child opens its own
        self._warm = False
        self._scan()

    def __reduce__(self) -> tuple[type["PatchCache"], tuple[Path, PatchGenerator]]:
        return PatchCache, (self._root, self.generator)  # another process opens its own files

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, path: str | Path) -> bool:
        return self._lookup(_digest_of(Path(path))) is not None

    def patches_of(self, path: str | Path, pixels: np.ndarray | None = None) -> np.ndarray:
        """Return the patches (P, 4) uint16 of an image file, from the cache or made and kept now.

        Where `pixels`, what `read_image` gives, are at hand, the file need not be decoded again.
        """
        return self._find_or_make(Path(path), pixels).boxes

    def seconds_of(self, path: str | Path) -> float:
        """Return the processor time that the patches of an image file took when they were made."""
        return self._find_or_make(Path(path)).seconds

    def fill(
        self,
        paths: Iterable[str | Path],
        workers: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> FillReport:
        """Return what was done to have the patches of every image in the cache, using `workers` threads (all cores).

        Images that another process is making now are waited for, after all others. A broken image is listed in the
        report and does not stop the others. `progress(done, total)` is called from this thread after each image.
        """
        wanted = deque(_Wanted(Path(path)) for path in paths)
        total, report = len(wanted), FillReport()
        threads = workers or os.cpu_count() or 1
        with (
            single_threaded_opencv(),
            ThreadPoolExecutor(threads) as pool,
            closing(self._work_off(wanted, pool, 2 * threads)) as finished,
        ):
            for done, (path, future) in enumerate(finished, start=1):
                _count(report, path, future)
                if progress is not None:
                    progress(done, total)
        return report

    def _work_off(
        self, wanted: "deque[_Wanted]", pool: ThreadPoolExecutor, depth: int
    ) -> "Generator[tuple[Path, Future[_Ready | None]]]":
        """Yield each image when it is ready or broken, with at most `depth` of them in the pool."""
        running: dict[Future[_Ready | None], _Wanted] = {}
        elsewhere: list[_Wanted] = []  # made by another process or thread
        asked = 0.0
        try:
            while wanted or running or elsewhere:
                while wanted and len(running) < depth:
                    image = wanted.popleft()
                    running[pool.submit(self._try, image)] = image
                for future in wait(running, ASK_AGAIN if elsewhere else None, FIRST_COMPLETED).done:
                    image = running.pop(future)
                    if future.exception() is None and future.result() is None:
                        elsewhere.append(image)
                    else:
                        yield image.path, future
                if elsewhere and not wanted and not running:
                    time.sleep(ASK_AGAIN)
                if not wanted and time.monotonic() - asked >= ASK_AGAIN:
                    asked = time.monotonic()
                    wanted.extend(image.waits() for image in elsewhere)
                    elsewhere.clear()
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """Close the file this process appends to; the next new image opens another."""
        with self._lock:
            if self._shard is not None:
                self._shard.close()
                self._shard = None

    def _find_or_make(self, path: Path, pixels: np.ndarray | None = None) -> "_Ready":
        """Return the patches of an image, waiting for them if another process or thread is making them."""
        image = _Wanted(path, pixels=pixels)
        while (ready := self._try(image)) is None:
            time.sleep(ASK_AGAIN)
            image.waits()
        return ready

    def _try(self, image: "_Wanted") -> "_Ready | None":
        """Return the patches of an image, found or made now, or None while another process or thread makes them."""
        digest = _digest_of(image.path)
        ready = self._lookup(digest)
        if ready is not None:
            return ready
        claims = claims_in(self.folder / "claims")
        with self._must_be_writable():
            claimed = claims.take(digest)
        if not claimed and not image.long_waited:
            return None
        try:
            with self._lock:
                self._scan()  # its last maker may have finished it just before the claim
            return self._lookup(digest) or self._make(image, digest)
        finally:
            if claimed:
                claims.release(digest)

    def _make(self, image: "_Wanted", digest: bytes) -> "_Ready":
        """Return the patches of an image after making and keeping them."""
        pixels = read_image(image.path) if image.pixels is None else image.pixels
        self._warm_up()
        before = time.thread_time()
        boxes = np.ascontiguousarray(self.generator(pixels), dtype="<u2")
        seconds = time.thread_time() - before
        self._append(digest, boxes, seconds)
        return _Ready(boxes, seconds, made=True)

    def _warm_up(self) -> None:
        """Let the generator compile its code once, so that no image's seconds include it."""
        with self._lock:
            if not self._warm:
                self.generator(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
                self._warm = True

    def _lookup(self, digest: bytes) -> "_Ready | None":
        """Return the patches kept for an image and the seconds they took, or None when it has no whole record."""
        place = self._place_of(digest)
        if place is None:
            return None
        record = read_record(*place)
        if record is None or record[0] != digest:  # damaged since it was indexed: make it anew
            with self._lock:
                self._places.pop(digest, None)
            return None
        return _Ready(record[1], record[2], made=False)

    def _place_of(self, digest: bytes) -> tuple[Path, int] | None:
        with self._lock:
            if digest not in self._places and time.monotonic() - self._looked > LOOK_AGAIN:
                self._scan()
            return self._places.get(digest)

    def _append(self, digest: bytes, boxes: np.ndarray, seconds: float) -> None:
        with self._lock:
            shard = self._own_shard()
            offset = shard.tell()
            try:
                shard.write(pack_record(digest, boxes, seconds))
                shard.flush()
            except OSError as error:
                self._shard = None  # a torn record stays the last one of its file
                raise DplError(
                    f"{self.folder}: cannot keep patches ({error}). Free some space or set DPL_CACHE."
                ) from None
            self._places[digest] = (self._shard_path, offset)

    def _own_shard(self) -> BinaryIO:
        if self._shard is None or self._shard_owner != os.getpid():
            with self._must_be_writable():
                (self.folder / "settings.txt").write_text(self.generator.key() + "\n")
                self._shard_path = self.folder / f"{os.getpid():x}-{os.urandom(8).hex()}.patches"
                self._shard = self._shard_path.open("xb")
            self._shard_owner = os.getpid()
        return self._shard

    @contextmanager
    def _must_be_writable(self) -> Iterator[None]:
        """Return a context in which the folder exists, and in which a failure to write there says what to do."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise DplError(
                f"{self.folder}: cannot write here ({error}). Set DPL_CACHE to a folder you may write to."
            ) from None

    def _scan(self) -> None:
        """Index the records of every file in the folder that were not yet there the last time."""
        self._looked = time.monotonic()
        for shard in sorted(self.folder.glob("*.patches")):
            for digest, offset, end in records(shard, self._scanned.get(shard, 0)):
                self._places[digest] = (shard, offset)
                self._scanned[shard] = end


class CachedPatches(Sequence[np.ndarray]):
    """The patches (P, 4) uint16 of each of many images, read from a cache whenever one is asked for.

    Memory holds the digest of an image's content once it was asked for, and never its patches. Fill the cache first: patches
    that are not there are made when they are asked for, as `PatchCache.patches_of` does. A slice is such a sequence too.
    """

    def __init__(self, cache: PatchCache, paths: Sequence[str | Path]) -> None:
        self.cache = cache
        self.paths = [Path(path) for path in paths]
        self._digests: list[bytes | None] = [None] * len(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> "CachedPatches": ...
    def __getitem__(self, index: int | slice) -> "np.ndarray | CachedPatches":
        if isinstance(index, slice):
            return self.subset(range(len(self))[index])
        found = self.cache._lookup(self._digest(index))
        return self.cache.patches_of(self.paths[index]) if found is None else found.boxes

    def subset(self, indices: Iterable[int]) -> "CachedPatches":
        """Return the patches of some of the images, in the order given."""
        chosen = list(indices)
        some = CachedPatches(self.cache, [self.paths[index] for index in chosen])
        some._digests = [self._digests[index] for index in chosen]
        return some

    def counts(self) -> np.ndarray:
        """Return the number of patches of each image (images,), of which only the heads of the records are read."""
        return np.array([self._count(index) for index in range(len(self))], np.int64)

    def _digest(self, index: int) -> bytes:
        known = self._digests[index]
        if known is None:
            known = self._digests[index] = _digest_of(self.paths[index])
        return known

    def _count(self, index: int) -> int:
        digest = self._digest(index)
        place = self.cache._place_of(digest)
        count = None if place is None else read_count(*place, digest)
        return len(self[index]) if count is None else count


def _digest_of(path: Path) -> bytes:
    """Return the digest of a file's content."""
    try:
        with open_image(path) as file:
            return digest_of_content(file.read())
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such image. Check the path, or remove it from the tags.") from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}). Fix its permissions or remove it from the tags."
        ) from None


def _count(report: FillReport, path: Path, future: "Future[_Ready | None]") -> None:
    try:
        ready = future.result()
    except DataError as error:
        report.broken.append((path, str(error)))
        return
    if ready is not None and ready.made:
        report.made += 1
        report.seconds += ready.seconds
    else:
        report.found += 1
