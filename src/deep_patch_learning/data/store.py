"""Decoded images, held where they fit: on the device, pinned in host memory, or decoded at each use."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import image_size

Made = TypeVar("Made")

SHARE = 0.4  # of the free memory of device or host that images may fill
AT_HAND = 4 << 30  # bytes kept at most on a machine without a GPU


class ImageStore:
    """Images by index as (H, W, 3) uint8 tensors.

    On a GPU all are decoded once, by `fill`, and held on the device or, where they do not fit, in pinned host memory.
    Otherwise each is decoded at its first use and kept while `limit` bytes are not exceeded; the rest is decoded at each use.
    """

    def __init__(self, images: TaggedImages, device: torch.device | str = "cpu", limit: int | None = None) -> None:
        self.device = torch.device(device)
        self._tagged = images
        self._images: dict[int, Tensor] = {}
        self._lock = threading.Lock()
        self._held = 0
        self._sizes: list[tuple[int, int]] | None = None
        self._limit = min(AT_HAND, int(_free_memory() * SHARE)) if limit is None else limit
        self.place = self._choose_place(limit)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The (height, width) of each image, read from the files' headers."""
        if self._sizes is None:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                self._sizes = list(pool.map(image_size, self._tagged.paths))
        return self._sizes

    def _choose_place(self, limit: int | None) -> str:
        if self.device.type != "cuda":
            return "host"
        total = sum(height * width * 3 for height, width in self.sizes)
        free = torch.cuda.mem_get_info(self.device)[0]
        if total <= (free * SHARE if limit is None else limit):
            return "device"
        return "pinned" if total <= _free_memory() * SHARE else "host"

    def expected_growth(self, used: int) -> int:
        """Return how many bytes are still to be held once `used` images have been used, judged by those held so far."""
        if self.place != "host" or not self._images:
            return 0
        in_the_end = self._held // len(self._images) * min(used, len(self._tagged))
        return max(min(in_the_end, self._limit) - self._held, 0)

    def fill(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Decode all images with every core, where they are to be held on the device or pinned."""
        if self.place == "host":
            return
        for index, image in self._decode_all():
            self._images[index] = image.to(self.device) if self.place == "device" else image.pin_memory()
            if progress is not None:
                progress(index + 1, len(self._tagged))

    def _decode_all(self) -> Iterator[tuple[int, Tensor]]:
        """Yield images in order; at most 64 decoded ones wait at any time."""
        ahead = 64
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            waiting = [pool.submit(self._decode, index) for index in range(min(ahead, len(self._tagged)))]
            for index in range(len(self._tagged)):
                yield index, waiting[index % ahead].result()
                if index + ahead < len(self._tagged):
                    waiting[index % ahead] = pool.submit(self._decode, index + ahead)

    def _decode(self, index: int) -> Tensor:
        return torch.from_numpy(self._tagged.read(index))

    def __getitem__(self, index: int) -> Tensor:
        """Return image `index` as (H, W, 3) uint8 RGB, wherever it is held."""
        image = self._images.get(index)
        if image is not None:
            return image
        image = self._decode(index)
        with self._lock:
            if index not in self._images and self._held + image.nbytes <= self._limit:
                self._images[index] = image
                self._held += image.nbytes
        return image


def _free_memory() -> int:
    """Return the bytes of the host's memory that are free, or as many as this process is allowed, for each rank on the host."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # unknown on this system: assume little
        free = 2 << 30
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(min([free, *_allowed()]), 0) // ranks


def _allowed(system: Path = Path("/")) -> list[int]:
    """Return how many bytes more each limit lets this process take: `ulimit -d` and `-v`, and each control group it is in."""
    found = []
    try:
        import resource

        pages = (system / "proc/self/statm").read_text().split()
        for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                found.append(most - int(used) * resource.getpagesize())
    except (ImportError, OSError):  # not on this system
        pass
    for group in _groups(system):
        for limit_file, used_file, cache in _OF_GROUP:
            with suppress(OSError, ValueError):  # another version of groups, or no limit ("max")
                held = int((group / used_file).read_text()) - _in_stat(group / "memory.stat", cache)
                found.append(int((group / limit_file).read_text()) - held)
    return found


# of a control group, in version 2 and 1: its limit, what it holds, and the part of it that the kernel drops when it must
_OF_GROUP = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _groups(system: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in: its own and those around it, each with its limit."""
    try:
        lines = (system / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        top = system / "sys/fs/cgroup" / ("memory" if kinds else "")
        inside = top / path.lstrip("/")
        yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(top))


def _in_stat(file: Path, key: str) -> int:
    """Return a number in a file of names and numbers; 0 where it is not there."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == key:
                return int(number)
    return 0


def prefetch(make: Callable[[int], Made], items: Sequence[int], depth: int = 4, threads: int = 2) -> Iterator[Made]:
    """Yield `make(item)` for each item in order, with up to `depth` of them prepared ahead by threads.

    Without threads each is made when it is asked for, which is best where the network keeps every core busy.
    """
    if not threads:
        yield from map(make, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[Made]] = []
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > depth:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
