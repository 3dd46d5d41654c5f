"""All patches in one row <-> the patches of each image side by side, so that images are compared with themselves alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class PatchRows(NamedTuple):
    """Where the patches of each image stand among all: `places` (I, M) in their order, -1 beyond an image's last.

    M is the largest number of patches. `full`: they lie image by image, and every image has M of them. Then nothing has to be
    moved to have images side by side, which spares a GPU many small kernels.
    """

    places: Tensor
    full: bool

    @property
    def there(self) -> Tensor:
        """Return where there is a patch, (I, M)."""
        return self.places >= 0


def patch_rows(patch_image: Tensor, images: int, counts: Sequence[int] | None = None) -> PatchRows:
    """Return where the patches of each image stand; `patch_image` (P,) is the index of each patch's image.

    With `counts`, the number of patches of each image, they must lie image by image; nothing has to be asked of the device then,
    so that it is never waited for.
    """
    device, lie_so = patch_image.device, counts is not None
    if counts is None:
        order = torch.argsort(patch_image, stable=True)
        counts = torch.bincount(patch_image, minlength=images).tolist()
    else:
        order = torch.arange(len(patch_image), device=device)
    most = max(counts, default=0)
    if all(count == most for count in counts):
        return PatchRows(order.view(images, most), lie_so)
    ends = torch.tensor(counts).cumsum(0)
    place = torch.arange(most)
    places = (ends - torch.tensor(counts))[:, None] + place
    places = places.where(places < ends[:, None], -1).to(device, non_blocking=True)
    return PatchRows(order[places].where(places >= 0, -1), False)


def by_image(values: Tensor, rows: PatchRows) -> Tensor:
    """Return (I, M, ...): what belongs to each image's patches, of values (P, ...); 0 where an image has no further patch."""
    shape = (*rows.places.shape, *values.shape[1:])
    if rows.full:
        return values.unflatten(0, rows.places.shape)
    if not rows.places.numel():
        return values.new_zeros(shape)
    chosen = values.index_select(0, rows.places.clamp(min=0).flatten()).view(shape)
    return chosen.masked_fill(~rows.there.view(*rows.places.shape, *(1,) * (values.ndim - 1)), 0)


def by_patch(values: Tensor, rows: PatchRows, patches: int) -> Tensor:
    """Return (P, ...), the way back from `by_image`: values (I, M, ...) of each patch in the order of all patches."""
    if rows.full:
        return values.flatten(0, 1)
    # one row more takes what stands where no patch is
    flat = rows.places.where(rows.there, patches).flatten()
    found = values.new_zeros(patches + 1, *values.shape[2:]).index_copy(0, flat, values.flatten(0, 1))
    return found[:patches]
