"""The teacher of distillation: a whole ImageNet classifier on patches cut out of the image.

The patch layers see a patch through the shared feature maps; the teacher sees its pixels, resized to a square.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchvision.ops import roi_align

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.backbones.registry import trunk as build_trunk
from deep_patch_learning.model.backbones.weights import fill, read_weights
from deep_patch_learning.model.kernels.fused import fold_norms

TEACHERS = ("resnet50", "resnet50-v1")
IMAGENET_CLASSES = 1000
# The teacher gets up to this many crops at once; ResNet-50's widest maps then take 400 MB in half precision.
CROPS_AT_ONCE = 512


class Taught(NamedTuple):
    """What a teacher, or a student of it, says of each patch: `logits` (P, classes) and `features` (P, width)."""

    logits: Tensor
    features: Tensor


class Teacher(nn.Module):
    """A classifier on crops (P, 3, s, s), RGB from 0 to 255. It never learns: always in evaluation mode, no gradients."""

    def __init__(self, backbone: Backbone, stage: nn.Module, width: int, classes: int = IMAGENET_CLASSES) -> None:
        super().__init__()
        self.backbone = backbone
        self.patch_features = stage
        self.fc = nn.Linear(width, classes)
        self.width, self.classes = width, classes
        self.requires_grad_(False).eval()

    def forward(self, crops: Tensor) -> Taught:
        """Return the logits (P, classes) and the pooled features (P, width) that they are read from."""
        features = self.patch_features(self.backbone(crops))
        return Taught(self.fc(features), features)

    def train(self, mode: bool = True) -> "Teacher":
        """Return itself, in evaluation mode whatever is asked for."""
        return super().train(False)


def check_teacher_backbone(backbone: str) -> None:
    """Raise `ModelError` with the nearest name unless a teacher of this kind can be built."""
    if backbone not in TEACHERS:
        raise ModelError(f"there is no teacher '{backbone}'.{did_you_mean(backbone, TEACHERS)}")


def read_teacher(source: str, backbone: str = "resnet50") -> Teacher:
    """Return the classifier whose weights `source` holds: `imagenet`, a torchvision weights name or a file.

    `resnet50-v1` has its strides where the 2015 paper put them. The weights must be whole, the last layer `fc` included.
    """
    check_teacher_backbone(backbone)
    trunk = build_trunk(backbone)
    width: int = trunk.patch_features.width  # type: ignore[assignment]
    teacher = Teacher(trunk.backbone, trunk.patch_features, width)
    filled = fill(teacher, trunk, read_weights(source, trunk), source)
    if filled.new:
        raise ModelError(
            f"{source}: lacks {', '.join(filled.new)}, so it cannot teach: a teacher is a whole classifier with its "
            f"{IMAGENET_CLASSES}-way fc. Give --teacher a file with all layers, or imagenet."
        )
    fold_norms(teacher)
    return teacher.requires_grad_(False)


def patch_crops(images: Tensor, rois: Tensor, side: int) -> Tensor:
    """Return (P, 3, side, side): each patch's pixels warped to a square.

    `images` are (I, 3, H, W); `rois` (P, 5) hold the image's index and the patch in its pixels. A patch that is enlarged is
    interpolated bilinearly; one that is shrunk is averaged over a sample for each pixel that a crop's pixel covers.
    """
    return roi_align(images, rois, side, spatial_scale=1.0, sampling_ratio=0, aligned=True)


@torch.no_grad()
def teach(teacher: nn.Module, batch: Batch, side: int) -> Taught:
    """Return what the teacher says of each patch of a batch, in single precision; half precision inside on a GPU."""
    images = batch.images.float().contiguous()
    rois = torch.cat((batch.patch_image[:, None].to(images.dtype), batch.patches.to(images.dtype)), dim=1)  # (P, 5)
    said = []
    with torch.autocast(images.device.type, torch.bfloat16, enabled=images.device.type == "cuda"):
        for some in rois.split(CROPS_AT_ONCE):
            crops = patch_crops(images, some, side).contiguous(memory_format=torch.channels_last)
            said.append(teacher(crops))
    return Taught(*(torch.cat(parts).float() for parts in zip(*said, strict=True)))
