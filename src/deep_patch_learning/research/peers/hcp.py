"""Hypotheses-CNN-Pooling, the paper's figure (b): each patch is cropped from the image and passes the whole CNN on its own.

Nothing is shared between the patches of an image. That is what the SPP layer of the paper saves.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import roi_align

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.by_image import patch_rows
from deep_patch_learning.model.discovery import DiscoveryHead
from deep_patch_learning.model.network import DeepPatchNet, Scores
from deep_patch_learning.model.patch_features import ConvolutionalStage

SIDE_IN_CELLS = 14  # 224 pixels at stride 16, what ImageNet's networks were trained with
CROPS_AT_ONCE = 128  # in testing; a crop takes far more memory than a patch of a shared map


class HypothesesCnn(nn.Module):
    """Crops, the whole CNN on each, a classifier, and the maximum over the hypotheses of an image."""

    def __init__(
        self, backbone: Backbone, pooled_size: int, patch_features: nn.Module, discovery: DiscoveryHead, side: int
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooled_size = pooled_size
        self.patch_features = patch_features
        self.discovery = discovery
        self.side = side

    def forward(self, batch: Batch, chunk: int | None = None) -> Scores:
        """Return the scores of a batch; every patch is a hypothesis. With `chunk`, few crops pass the network at a time."""
        images = edges_repeated(batch.images, batch.sizes) if batch.padded else batch.images
        chunk = min(chunk, CROPS_AT_ONCE) if chunk else max(len(batch.patches), 1)
        parts = zip(batch.patches.split(chunk), batch.patch_image.split(chunk), strict=True)
        features = torch.cat([self.features(cropped(images, patches, i, self.side)) for patches, i in parts])  # (P, K)
        rows = patch_rows(batch.patch_image, len(batch.images), batch.counts)
        with torch.autocast(features.device.type, enabled=False):
            features = features if features.dtype == torch.float64 else features.float()
            discovery, patches = self.discovery(features, rows)
        return Scores(None, discovery, patches, None)

    def features(self, crops: Tensor) -> Tensor:
        """Return the features (P, K) of crops (P, 3, side, side): all layers, none of them shared between crops."""
        maps = self.backbone(crops)
        if isinstance(self.patch_features, ConvolutionalStage):
            return self.patch_features(maps)
        # at 224 pixels this is the last max-pooling of AlexNet (13 -> 6) and of VGG16 (14 -> 7)
        return self.patch_features(F.adaptive_max_pool2d(maps, self.pooled_size))


def build_hcp(parts: DeepPatchNet, width: int, classes: int) -> HypothesesCnn:
    """Return the network made of another's backbone and patch layers, with a new classifier of hypotheses."""
    head = DiscoveryHead(width, classes)
    side = SIDE_IN_CELLS * parts.backbone.stride
    size: int = parts.pool.size  # type: ignore[assignment]
    return HypothesesCnn(parts.backbone, size, parts.patch_features, head, side)


def cropped(images: Tensor, patches: Tensor, patch_image: Tensor, side: int) -> Tensor:
    """Return each patch cut out and warped to a square: (P, 3, side, side)."""
    pixels = images if images.is_floating_point() else images.float()
    rois = torch.cat((patch_image[:, None].to(pixels.dtype), patches.to(pixels.dtype)), dim=1)  # (P, 5)
    return roi_align(pixels, rois, side, aligned=True)


def edges_repeated(images: Tensor, sizes: Tensor) -> Tensor:
    """Return padded images (I, 3, H, W) with their last rows and columns repeated over the padding.

    A crop at the edge then takes what it would take from the image alone, where sampling stops at the last pixel.
    """
    height, width = images.shape[2:]
    rows = torch.arange(height, device=images.device).minimum(sizes[:, :1] - 1)  # (I, H)
    columns = torch.arange(width, device=images.device).minimum(sizes[:, 1:] - 1)  # (I, W)
    images = images.gather(2, rows[:, None, :, None].expand_as(images))
    return images.gather(3, columns[:, None, None, :].expand_as(images))
