"""The maps of a frozen backbone, computed once for each image, scale and flip and kept in memory.

A frozen backbone gives the same maps each time, and on a CPU it takes most of a training's time. What changes from sample to
sample, the patches drawn and the regions erased, acts on the maps. They are kept in 8 bits: 0.75 MB for 448 pixels of Lite0.
A map that is not kept, because the memory allowed is full, is rounded too, so that what a run learns does not depend on the
memory, or on when it was resumed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_patch_learning.data.batch import Batch, Layout, lay_out, render
from deep_patch_learning.data.store import ImageStore
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.training.samples import Sample

MOST_BYTES = 2 << 30  # of all maps that are kept: those of about 450 images in six views of the recipe `fast`


class RoundedMap(NamedTuple):
    """A map (D, h, w) in 8 bits: `levels` times `step`, above `low`."""

    levels: Tensor
    low: float
    step: float

    @classmethod
    def of(cls, found: Tensor) -> "RoundedMap":
        """Return a map (D, h, w) rounded to 256 levels from its least to its greatest number."""
        low, high = (float(end) for end in torch.aminmax(found))
        step = (high - low) / 255 or 1.0
        return cls(((found - low) / step).round().to(torch.uint8), low, step)

    def on(self, device: torch.device) -> Tensor:
        """Return the map (D, h, w) in float32 on a device."""
        return self.levels.to(device).float().mul_(self.step).add_(self.low)


class KeptMaps:
    """The maps of samples, from memory where they are known; at most `limit` bytes are kept.

    `shapes` rounds the ratio of an image's sides, as in the recipe.
    """

    def __init__(self, backbone: Backbone, images: ImageStore, shapes: int = 0, limit: int | None = None) -> None:
        self._backbone, self._images, self._shapes = backbone, images, shapes
        self._limit = MOST_BYTES if limit is None else limit
        self._kept: dict[tuple[int, int, bool], RoundedMap] = {}
        self.held = 0  # bytes

    def fill(self, views: Sequence[tuple[int, int, bool]], progress: Callable[[int, int], None] | None = None) -> None:
        """Compute the maps of views, each an image, its scale and whether it is mirrored, until the memory is full."""
        for number, view in enumerate(views, start=1):
            if self.held >= self._limit:
                return
            self._map(view)
            if progress is not None:
                progress(number, len(views))

    def batch(self, layout: Layout, samples: Sequence[Sample], device: torch.device) -> Batch:
        """Return the batch that a layout of samples describes, with maps in place of pixels."""
        maps = [self._map((sample.image, sample.scale, sample.flip)).on(device) for sample in samples]
        height, width = (max(one.shape[side] for one in maps) for side in (1, 2))
        padded = torch.stack([F.pad(one, (0, width - one.shape[2], 0, height - one.shape[1])) for one in maps])
        parts = (torch.tensor(layout.sizes), layout.patches, layout.patch_image)
        sizes, patches, patch_image = (part.to(device) for part in parts)
        return Batch(
            padded.new_empty(len(samples), 3, 0, 0),
            sizes,
            patches,
            patch_image,
            padded=False,
            counts=layout.counts,
            erased=None if layout.erased is None else layout.erased.to(device),
            pixels=torch.tensor(layout.pixels, device=device),
            maps=padded,
        )

    def _map(self, view: tuple[int, int, bool]) -> RoundedMap:
        known = self._kept.get(view)
        if known is not None:
            return known
        found = RoundedMap.of(self._compute(*view))
        if self.held + found.levels.nbytes <= self._limit:
            self._kept[view] = found
            self.held += found.levels.nbytes
        return found

    @torch.no_grad()
    def _compute(self, index: int, scale: int, flip: bool) -> Tensor:
        image, mean = self._images[index], self._backbone.mean
        no_patches = torch.empty(0, 4).numpy()
        layout = lay_out([(image.shape[0], image.shape[1])], [no_patches], scale, [flip], self._shapes)
        batch = render(layout, [image], mean.device)
        return self._backbone(batch.images, batch.sizes if batch.padded else None)[0].float().cpu()
