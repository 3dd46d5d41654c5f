"""All patches in one list (P, ...) <-> those of each image in a row of its own (I, M, ...), and the maximum over them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class PatchRows(NamedTuple):
    """Where the patches of each image are in the list of all: `places` (I, M) in their order, -1 beyond an image's last.

    M is the largest number of patches. `full`: they lie image by image, and every image has M of them. Then rows are a view of
    the list, which saves a GPU many small kernels.
    """

    places: Tensor
    full: bool

    @property
    def there(self) -> Tensor:
        """Return where there is a patch, (I, M)."""
        return self.places >= 0


def patch_rows(patch_image: Tensor, images: int, counts: Sequence[int] | None = None) -> PatchRows:
    """Return where the patches of each image are; `patch_image` (P,) is the index of each patch's image.

    With `counts`, the number of patches of each image, they must lie image by image; then the device is not waited for.
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
    """Return values (P, ...) as rows (I, M, ...), one per image; 0 where an image has no further patch."""
    shape = (*rows.places.shape, *values.shape[1:])
    if rows.full:
        return values.unflatten(0, rows.places.shape)
    if not rows.places.numel():
        return values.new_zeros(shape)
    chosen = values.index_select(0, rows.places.clamp(min=0).flatten()).view(shape)
    return chosen.masked_fill(~rows.there.view(*rows.places.shape, *(1,) * (values.ndim - 1)), 0)


def by_patch(values: Tensor, rows: PatchRows, patches: int) -> Tensor:
    """Return rows (I, M, ...) as values (P, ...) in the order of all patches: the inverse of `by_image`."""
    if rows.full:
        return values.flatten(0, 1)
    # one entry more takes the values where there is no patch
    flat = rows.places.where(rows.there, patches).flatten()
    found = values.new_zeros(patches + 1, *values.shape[2:]).index_copy(0, flat, values.flatten(0, 1))
    return found[:patches]


def maximum_over_patches(values: Tensor, rows: PatchRows, inside: Tensor | None = None) -> Tensor:
    """Return the maximum over each image's patches, in each of K cells: (I, K, N) of values (P, N).

    Of equal patches the first wins and alone gets the gradient.

    `inside` (P, K) says which cells hold a patch; without it one cell holds all. An empty cell gives 0 without gradient. NaN
    wins, so that it shows in the loss.
    """
    images, most = rows.places.shape
    cells = 1 if inside is None else inside.shape[1]
    if not most:
        return values.new_zeros(images, cells, values.shape[1])
    candidates = by_image(values.detach(), rows)[:, :, None]  # (I, M, 1, N)
    if inside is None and rows.full:  # no cell is empty
        winner = rows.places.gather(1, candidates.argmax(dim=1).flatten(1))  # (I, N)
        return values.gather(0, winner)[:, None]
    member = rows.there[..., None] if inside is None else by_image(inside, rows)  # (I, M, K)
    place = candidates.masked_fill(~member[..., None], -torch.inf).argmax(dim=1)  # (I, K, N)
    winner = rows.places.clamp(min=0).gather(1, place.flatten(1)).view(images * cells, -1)
    empty = ~member.any(dim=1)  # (I, K)
    return values.gather(0, winner).view(images, cells, -1).masked_fill(empty[:, :, None], 0)
