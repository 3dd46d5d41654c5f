"""Images with tags: what training sees, and nothing more.

Boxes are not here. They are kept in `data/truth.py`, which only measuring may import.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.data.images import problem, read_image

PRESENT, ABSENT, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class TaggedImages:
    """An ordered list of images with their tags; images are opened only when asked for.

    `labels` is (I, C) int8 of PRESENT, ABSENT and UNKNOWN (VOC's "difficult": neither a hit nor a false alarm).
    `names` identify images in outputs and join them to their boxes; they are unique.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: np.ndarray

    def __post_init__(self) -> None:
        wanted = (len(self.paths), len(self.classes))
        if self.labels.shape != wanted or len(self.names) != len(self.paths):
            raise ValueError(f"labels are {self.labels.shape} for {len(self.names)} names; wanted {wanted}")

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> np.ndarray:
        """Return image `index` as (H, W, 3) uint8 RGB, turned upright as its EXIF says."""
        return read_image(self.paths[index])

    def subset(self, indices: Iterable[int]) -> "TaggedImages":
        """Return the images at `indices`, in that order."""
        kept: Sequence[int] = list(indices)
        return TaggedImages(
            self.classes,
            tuple(self.names[i] for i in kept),
            tuple(self.paths[i] for i in kept),
            self.labels[kept],
        )

    def without(self, names: Iterable[str]) -> "TaggedImages":
        """Return the images that are not named, in the same order; a name that is not here raises `ValueError`."""
        left_out = set(names)
        strangers = sorted(left_out.difference(self.names))
        if strangers:
            raise ValueError(f"no image is named {', '.join(map(repr, strangers[:5]))}; cannot leave it out")
        return self.subset(i for i, name in enumerate(self.names) if name not in left_out)


def unreadable(
    images: TaggedImages,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> list[tuple[str, str]]:
    """Return (name, reason) of each image that cannot be decoded in full, in order; an empty list when all can.

    `progress(done, total)` is called after each image. `workers` threads decode at once: one per core if not given.
    """
    found = []
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:  # decoding frees the interpreter lock
        try:
            for done, reason in enumerate(pool.map(problem, images.paths), start=1):
                if reason is not None:
                    found.append((images.names[done - 1], reason))
                if progress is not None:
                    progress(done, len(images))
        except BaseException:  # Ctrl-C ends now, not after the thousands that still wait
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def limited(images: TaggedImages, limit: int | None) -> TaggedImages:
    """Return the first `limit` images, or all."""
    return images if limit is None else images.subset(range(min(limit, len(images))))
