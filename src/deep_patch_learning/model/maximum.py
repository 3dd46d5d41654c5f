"""The maximum over the patches of an image, in which the first of equal patches wins and alone gets the gradient."""

from collections.abc import Sequence

import torch
from torch import Tensor


def patch_rows(patch_image: Tensor, images: int, counts: Sequence[int] | None = None) -> Tensor:
    """Return (I, M): the rows of each image's patches in their order, -1 beyond its last; M is the largest number of patches.

    `patch_image` (P,) is the index of each patch's image. With `counts`, the number of patches of each image, they must lie
    image by image; nothing has to be asked of the device then, so that it is never waited for.
    """
    device = patch_image.device
    if counts is None:
        order = torch.argsort(patch_image, stable=True)
        counts = torch.bincount(patch_image, minlength=images).tolist()
    else:
        order = torch.arange(len(patch_image), device=device)
    most = max(counts, default=0)
    if all(count == most for count in counts):
        return order.view(images, most)
    ends = torch.tensor(counts).cumsum(0)
    place = torch.arange(most)
    rows = (ends - torch.tensor(counts))[:, None] + place
    rows = rows.where(rows < ends[:, None], -1).to(device, non_blocking=True)
    return order[rows].where(rows >= 0, -1)


def maximum_over_patches(values: Tensor, rows: Tensor, inside: Tensor | None = None) -> Tensor:
    """Return the maximum over each image's patches, in each of K cells: (I, K, N) of values (P, N).

    `rows` (I, M) comes from `patch_rows`; `inside` (P, K) says which cells hold a patch, and without it there is one cell that
    holds all. An empty cell gives 0 without gradient. A value that is not a number wins, so that it shows in the loss.
    """
    images, most = rows.shape
    cells = 1 if inside is None else inside.shape[1]
    if not most:
        return values.new_zeros(images, cells, values.shape[1])
    there = rows >= 0  # (I, M)
    flat = rows.clamp(min=0).flatten()
    candidates = values.detach().index_select(0, flat).view(images, most, -1)
    member = there[:, :, None]  # (I, M, K)
    if inside is not None:
        member = member & inside.index_select(0, flat).view(images, most, cells)
    place = candidates[:, :, None].masked_fill(~member[..., None], -torch.inf).argmax(dim=1)  # (I, K, N)
    winner = rows.clamp(min=0).gather(1, place.flatten(1)).view(images * cells, -1)
    empty = ~member.any(dim=1)  # (I, K)
    return values.gather(0, winner).view(images, cells, -1).masked_fill(empty[:, :, None], 0)
