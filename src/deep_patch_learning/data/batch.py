"""What one pass of the network takes."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Several images and all their patches.

    `images` (I, 3, H, W) RGB from 0 to 255, padded at the right and bottom; `sizes` (I, 2) real heights and widths;
    `patches` (P, 4) in pixels of those images; `patch_image` (P,) the index of each patch's image; `padded` says whether any
    image is smaller than the tensor. `counts`, where given, is the number of patches of each image, which then lie image by
    image: known on the host, so that the device need not be asked.
    """

    images: Tensor
    sizes: Tensor
    patches: Tensor
    patch_image: Tensor
    padded: bool = True
    counts: tuple[int, ...] | None = None
