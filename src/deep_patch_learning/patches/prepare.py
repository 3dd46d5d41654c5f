"""Images + their patches, made now or found in the cache: what training and evaluation start from."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import read_image
from deep_patch_learning.patches.cache import CachedPatches, PatchCache
from deep_patch_learning.patches.generator import PatchGenerator, ProposalFile


@dataclass(frozen=True)
class Prepared:
    """Images that can be read, with the patches (P, 4) of each, and the ones that were left out with the reason.

    `prepare` gives patches that are read from the cache whenever they are asked for, so that memory does not hold them.
    """

    images: TaggedImages
    patches: Sequence[np.ndarray]
    broken: list[tuple[Path, str]]


def prepare(
    images: TaggedImages, patches: PatchGenerator, cache: Path | None = None, workers: int | None = None
) -> Prepared:
    """Return the images with their patches, made now or found in the cache; broken images are named and left out."""
    if isinstance(patches, ProposalFile):
        return _with_proposals(images, patches, workers)
    store = PatchCache(cache, patches)
    with bar("patches") as show:
        report = store.fill(images.paths, workers, show)
    images = _readable(images, report.broken)
    return Prepared(images, CachedPatches(store, images.paths), report.broken)


def _readable(images: TaggedImages, broken: list[tuple[Path, str]]) -> TaggedImages:
    """Return the images without the broken ones, after naming these."""
    if broken:
        console.print(f"{len(broken)} of {len(images)} images cannot be read and are left out:", style="yellow")
        for path, reason in broken[:10]:
            console.print(f"  {reason or path}", markup=False)
        if len(broken) > 10:
            console.print(f"  ... and {len(broken) - 10} more")
        unreadable = {path for path, _ in broken}
        images = images.subset([i for i, path in enumerate(images.paths) if path not in unreadable])
    if not len(images):
        raise DataError("none of the images can be read. Check the data set's images.")
    return images


def _with_proposals(images: TaggedImages, file: ProposalFile, workers: int | None) -> Prepared:
    """Return the images with the boxes of a proposal file; each image is decoded once, to know that it can be."""

    def size_of(path: Path) -> tuple[int, int] | str:
        try:
            height, width = read_image(path).shape[:2]
        except DataError as error:
            return str(error)
        return height, width

    for name, path in zip(images.names, images.paths, strict=True):
        file.of(path, (2**16, 2**16), name)  # one that is missing is named before anything is decoded
    sizes: dict[Path, tuple[int, int]] = {}
    broken = []
    with bar("images") as show, ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for done, (path, found) in enumerate(zip(images.paths, pool.map(size_of, images.paths), strict=True), start=1):
            if isinstance(found, str):
                broken.append((path, found))
            else:
                sizes[path] = found
            show(done, len(images))
    images = _readable(images, broken)
    boxes = [file.of(path, sizes[path], name) for name, path in zip(images.names, images.paths, strict=True)]
    return Prepared(images, boxes, broken)
