"""Pictures decoded once for all the trainings and measurements of a reproduction."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.images import read_image

MOST_BYTES = 12 << 30


class PictureMemory:
    """Decoded pictures by path, kept until `limit` bytes are held; the rest is decoded at each use."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = min(MOST_BYTES, _machine_memory() // 3) if limit is None else limit
        self.held = 0
        self._images: dict[Path, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> np.ndarray:
        """Return the picture (H, W, 3) uint8 RGB of a file; it is shared, and so not to be written to."""
        image = self._images.get(path)
        if image is not None:
            return image
        image = read_image(path)
        with self._lock:
            if path not in self._images and self.held + image.nbytes <= self.limit:
                self._images[path] = image
                self.held += image.nbytes
        return self._images.get(path, image)

    def fill(self, paths: Sequence[Path]) -> None:
        """Decode the pictures now, on all cores, until the memory is full."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(self._fill_one, paths))

    def _fill_one(self, path: Path) -> None:
        if self.held < self.limit:
            self(path)


@dataclass(frozen=True)
class RememberedPictures(TaggedPictures):
    """Pictures with tags that are read through a shared memory."""

    memory: PictureMemory

    def read(self, index: int) -> np.ndarray:
        """Return picture `index` as (H, W, 3) uint8 RGB, decoded now or before."""
        return self.memory(self.paths[index])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not told on this system
        return 8 << 30
