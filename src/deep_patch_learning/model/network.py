"""The network of the paper's architecture figure, composed of the parts that are handed in."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.by_image import patch_rows
from deep_patch_learning.model.classification import ClassificationHead
from deep_patch_learning.model.discovery import DiscoveryHead

HEADS = ("classification", "discovery")  # the paper's
ALL_HEADS = (*HEADS, "refinement")


class Scores(NamedTuple):
    """The output of the network: raw scores, no sigmoid. A head that is not there gives None.

    `classification` (I, C) and `discovery` (I, C) per image; `patches` (P, C) the discovery head's score of each patch;
    `parts` (P, N) the response of each part filter; `refinement` the `RefinementScores` of heads beyond the paper.
    """

    classification: Tensor | None
    discovery: Tensor | None
    patches: Tensor | None
    parts: Tensor | None
    refinement: Any = None


class DeepPatchNet(nn.Module):
    """Convolutions, SPP layer, patch features, and the heads that read them: the paper's two, and a refinement."""

    def __init__(
        self,
        backbone: Backbone,
        pool: nn.Module,
        patch_features: nn.Module,
        classification: ClassificationHead | None,
        discovery: DiscoveryHead | None,
        refinement: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if classification is None and discovery is None and refinement is None:
            raise ValueError(f"a network needs at least one head: {', '.join(ALL_HEADS)}")
        self.backbone = backbone
        self.pool = pool
        self.patch_features = patch_features
        self.classification = classification
        self.discovery = discovery
        self.refinement = refinement
        # the refinement reads the features of cells x cells parts of a patch apart
        self.cells: int = getattr(refinement, "cells", 1)

    def forward(self, batch: Batch, chunk: int | None = None) -> Scores:
        """Return the scores of a batch; the patch layers take `chunk` patches at a time, to bound memory."""
        maps = batch.maps  # (I, D, h, w)
        if maps is None:
            maps = self.backbone(batch.images, batch.sizes if batch.padded else None)
        if batch.erased is not None:
            maps = erase(maps, batch.erased, self.backbone.stride)
        features, placed = self._patch_features(maps, batch, chunk)  # (P, K), (P, K')
        rows = patch_rows(batch.patch_image, len(batch.images), batch.counts)  # (I, M)
        classification = discovery = patches = parts = refined = None
        # in half precision hundreds of patches would tie for the maximum, so the heads compute in single (or double)
        with torch.autocast(features.device.type, enabled=False):
            features, placed = (f if f.dtype == torch.float64 else f.float() for f in (features, placed))
            if self.classification is not None:
                classification, parts = self.classification(features, centres(batch), rows)
            if self.discovery is not None:
                discovery, patches = self.discovery(features, rows)
            if self.refinement is not None:
                refined = self.refinement(placed, rows)
        return Scores(classification, discovery, patches, parts, refined)

    def _patch_features(self, maps: Tensor, batch: Batch, chunk: int | None) -> tuple[Tensor, Tensor]:
        """Return the features of patches that the paper's heads read, and those that the refinement reads."""
        chunk = chunk or max(len(batch.patches), 1)
        parts = zip(batch.patches.split(chunk), batch.patch_image.split(chunk), strict=True)
        pooled = (self.pool(maps, patches, image, batch.pixels) for patches, image in parts)
        if self.cells == 1:
            features = _joined([self.patch_features(one) for one in pooled])
            return features, features
        both = [self.patch_features.in_cells(one, self.cells) for one in pooled]  # type: ignore[operator]
        return _joined([first for first, _ in both]), _joined([second for _, second in both])


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def erase(maps: Tensor, regions: Tensor, stride: int) -> Tensor:
    """Return maps (I, D, h, w) that are 0 in the cells whose centres lie in one of the regions (I, R, 4), given in pixels."""
    height, width = maps.shape[2:]
    x1, y1, x2, y2 = regions[..., None].unbind(2)  # (I, R, 1) each
    x, y = ((torch.arange(side, device=maps.device) + 0.5) * stride for side in (width, height))
    inside = ((y1 <= y) & (y < y2))[..., None] & ((x1 <= x) & (x < x2))[:, :, None]  # (I, R, h, w)
    return maps.masked_fill(inside.any(dim=1)[:, None], 0)


def centres(batch: Batch) -> Tensor:
    """Return the centre of each patch as a share of its image's width and height: (P, 2), each in [0, 1)."""
    x1, y1, x2, y2 = batch.patches.unbind(1)
    height, width = batch.sizes[batch.patch_image].unbind(1)
    return torch.stack(((x1 + x2) / (2 * width), (y1 + y2) / (2 * height)), dim=1)
