"""Feature maps of a frozen backbone, kept on the disk: many trainings on the same images then compute them once."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.common.atomic_files import written_whole
from deep_patch_learning.model.backbone import Backbone


def keep_maps(backbone: Backbone, folder: Path) -> None:
    """Let a backbone whose weights do not change read maps (D, h, w) from `folder`, by the pixels of each image.

    They are kept in half precision. Images that are padded in a batch are computed at their own size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compute = backbone.forward

    def kept(image: Tensor) -> Tensor:
        file = folder / f"{hashlib.blake2b(image.contiguous().numpy().data, digest_size=12).hexdigest()}.npy"
        if not file.exists():
            with torch.no_grad(), written_whole(file) as part, part.open("wb") as out:
                np.save(out, compute(image[None])[0].half().numpy())
        return torch.from_numpy(np.load(file)).float()

    def forward(images: Tensor, sizes: Tensor | None = None) -> Tensor:
        if sizes is None:
            return torch.stack([kept(image) for image in images])
        own = [kept(image[:, : max(h, 64), : max(w, 64)]) for image, (h, w) in zip(images, sizes.tolist(), strict=True)]
        rows, columns = -(-images.shape[2] // backbone.stride) + 1, -(-images.shape[3] // backbone.stride) + 1
        maps = own[0].new_zeros(len(own), len(own[0]), rows, columns)
        for each, found in zip(maps, own, strict=True):
            each[:, : found.shape[1], : found.shape[2]] = found
        return maps

    backbone.forward = forward  # type: ignore[method-assign]
