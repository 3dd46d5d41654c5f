"""Feature maps of a frozen backbone, kept on the disk: many trainings on the same images then compute them once."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.common.atomic_files import written_whole
from deep_patch_learning.model.backbone import Backbone

SMALLEST = 64


def keep_maps(folder: Path) -> None:
    """Let every backbone read the map (D, h, w) of an image from `folder`, by its pixels; one that learns is refused.

    They are kept in half precision, without the weights they came from: use a folder for one backbone and its weights. Images
    that are padded in a batch are computed at their own size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compute = Backbone.forward

    def kept(backbone: Backbone, image: Tensor) -> Tensor:
        file = folder / f"{hashlib.blake2b(image.contiguous().numpy().data, digest_size=12).hexdigest()}.npy"
        if not file.exists():
            with torch.no_grad():
                found = compute(backbone, image[None])[0].half().numpy()
            with written_whole(file) as part, part.open("wb") as out:
                np.save(out, found)
        return torch.from_numpy(np.load(file)).float()

    def forward(backbone: Backbone, images: Tensor, sizes: Tensor | None = None) -> Tensor:
        if (
            torch.is_grad_enabled()
            and backbone.training
            and any(weight.requires_grad for weight in backbone.parameters())
        ):
            raise ValueError("the backbone learns, so that its maps change. Leave --maps out.")
        if sizes is None:
            return torch.stack([kept(backbone, image) for image in images])
        real = [(max(height, SMALLEST), max(width, SMALLEST)) for height, width in sizes.tolist()]
        own = [kept(backbone, image[:, :high, :wide]) for image, (high, wide) in zip(images, real, strict=True)]
        rows, columns = (-(-side // backbone.stride) + 1 for side in images.shape[2:])
        maps = own[0].new_zeros(len(own), len(own[0]), rows, columns)
        for each, found in zip(maps, own, strict=True):
            each[:, : found.shape[1], : found.shape[2]] = found
        return maps

    Backbone.forward = forward  # type: ignore[method-assign]
