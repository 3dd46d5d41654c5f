"""How far the patches of a picture agree on the boxes of a class: a confidence in boxes that needs no true ones."""

from torch import Tensor
from torchvision.ops import box_iou

SHARPNESS = 0.5  # softer than a vote: whether the many middling patches lie there tells more than the few best


def agreement(boxes: Tensor, heard: Tensor, rows: Tensor, sharpness: float = SHARPNESS) -> Tensor:
    """Return the mean IoU of all patches with each chosen one, (C, M), from 0 to 1.

    `boxes` (P, 4) are the patches, `heard` (P, C) their scores, the mean over scales, and `rows` (C, M) the chosen patches of
    each class. A patch counts with the exponential of `sharpness` times its score. High: the good patches all lie on this box.
    Low: they lie elsewhere too, or are much smaller or larger.
    """
    voices = (sharpness * heard).softmax(dim=0)  # (P, C)
    classes, most = rows.shape
    iou = box_iou(boxes[rows.flatten()], boxes).view(classes, most, -1)  # (C, M, P)
    return (iou @ voices.T[:, :, None])[:, :, 0]
