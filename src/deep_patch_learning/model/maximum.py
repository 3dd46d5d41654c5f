"""The maximum over the patches of an image; of equal patches the first wins and alone gets the gradient."""

import torch
from torch import Tensor

from deep_patch_learning.model.by_image import PatchRows, by_image


def maximum_over_patches(values: Tensor, rows: PatchRows, inside: Tensor | None = None) -> Tensor:
    """Return the maximum over each image's patches, in each of K cells: (I, K, N) of values (P, N).

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
