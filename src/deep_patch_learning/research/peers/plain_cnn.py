"""The plain CNN of the paper's figure (a): the whole network on the whole image, at the same resolution and scales."""

import torch
from torch import Tensor, nn

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.backbone import Backbone, PaddingGuard
from deep_patch_learning.model.network import DeepPatchNet, Scores
from deep_patch_learning.model.patch_features import ConvolutionalStage

STAGE_STRIDE = 2  # a residual network's last stage halves the map


class PlainCnn(nn.Module):
    """A backbone's maps, its last layers on the whole image, and a linear classifier.

    A residual network's last stage slides over the whole map at its natural stride and is averaged over the image's own area.
    A network with fc6 and fc7 has the whole image as its only patch, pooled by the SPP layer.
    """

    def __init__(
        self, backbone: Backbone, pool: nn.Module, patch_features: nn.Module, classification: nn.Module
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = pool
        self.patch_features = patch_features
        self.classification = classification
        self._guard = PaddingGuard(patch_features.stage) if isinstance(patch_features, ConvolutionalStage) else None

    def forward(self, batch: Batch, chunk: int | None = None) -> Scores:
        """Return the image scores of a batch; its patches and `chunk` are not used."""
        features = self.features(batch)  # (I, K)
        with torch.autocast(features.device.type, enabled=False):
            features = features if features.dtype == torch.float64 else features.float()
            return Scores(self.classification(features), None, None, None)

    def features(self, batch: Batch) -> Tensor:
        """Return one feature vector for each whole image: (I, K)."""
        maps = self.backbone(batch.images, batch.sizes if batch.padded else None)  # (I, D, h, w)
        if self._guard is None:
            index = torch.arange(len(maps), device=maps.device)
            return self.patch_features(self.pool(maps, whole_boxes(batch.sizes), index))
        if not batch.padded:
            return self.patch_features(maps)
        cells = own_cells(batch, maps, self.backbone.stride)  # (I, 2)
        last = self._guard(self.patch_features.stage, maps, cells)  # type: ignore[arg-type]
        area = divided_up(cells, STAGE_STRIDE).prod(dim=1)  # (I,)
        return last.sum(dim=(2, 3)) / area[:, None]  # beyond an image's edge the map is zero


def build_plain(parts: DeepPatchNet, width: int, classes: int) -> PlainCnn:
    """Return the plain CNN with another network's backbone and patch layers, and a new classifier."""
    classifier = nn.Linear(width, classes)
    nn.init.normal_(classifier.weight, std=0.01)
    nn.init.zeros_(classifier.bias)
    return PlainCnn(parts.backbone, parts.pool, parts.patch_features, classifier)


def whole_boxes(sizes: Tensor) -> Tensor:
    """Return the box of each whole image: (I, 4) from heights and widths (I, 2)."""
    height, width = sizes.float().unbind(1)
    return torch.stack((torch.zeros_like(width), torch.zeros_like(height), width, height), dim=1)


def divided_up(numbers: Tensor, divisor: int) -> Tensor:
    """Return whole numbers divided and rounded up."""
    return -(-numbers // divisor)


def own_cells(batch: Batch, maps: Tensor, stride: int) -> Tensor:
    """Return the rows and columns of a residual network's maps that belong to each image, without padding: (I, 2)."""
    found, wanted = tuple(maps.shape[2:]), tuple(-(-side // stride) for side in batch.images.shape[2:])
    if found != wanted:
        raise ModelError(f"images of {tuple(batch.images.shape[2:])} pixels gave maps of {found} cells, not {wanted}")
    return divided_up(batch.sizes, stride)
