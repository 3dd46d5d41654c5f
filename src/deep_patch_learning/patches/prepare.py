"""Images + their patches, made now or found in the cache: what training and evaluation start from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.generator import PatchGenerator


@dataclass(frozen=True)
class Prepared:
    """Images that can be read, with the patches of each, and the ones that were left out with the reason."""

    images: TaggedImages
    patches: list[np.ndarray]
    broken: list[tuple[Path, str]]


def prepare(
    images: TaggedImages, patches: PatchGenerator, cache: Path | None = None, workers: int | None = None
) -> Prepared:
    """Return the images with their patches, made now or found in the cache; broken images are named and left out."""
    store = PatchCache(cache, patches)
    with bar("patches") as show:
        report = store.fill(images.paths, workers, show)
    if report.broken:
        console.print(f"{len(report.broken)} of {len(images)} images cannot be read and are left out:", style="yellow")
        for path, reason in report.broken[:10]:
            console.print(f"  {reason or path}", markup=False)
        if len(report.broken) > 10:
            console.print(f"  ... and {len(report.broken) - 10} more")
        unreadable = {path for path, _ in report.broken}
        images = images.subset([i for i, path in enumerate(images.paths) if path not in unreadable])
    if not len(images):
        raise DataError("none of the images can be read. Check the data set's images.")
    return Prepared(images, [store.patches_of(path) for path in images.paths], report.broken)
