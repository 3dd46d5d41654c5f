"""The classification block: patch features -> part filters -> spatial pyramid -> image scores."""

import torch
from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows, maximum_over_patches
from deep_patch_learning.model.kernels.fused import linear

# The edges of the pyramid's three bands in the authors' program; the paper's text would give thirds.
PROGRAM_BANDS = (0.33, 0.67)
PAPER_BANDS = (1 / 3, 2 / 3)


class SpatialPyramid(nn.Module):
    """Max-pooling of encoded patches over 8 cells: the whole image, 2 x 2 quarters and 3 full-width bands.

    A patch belongs to the cells that hold its centre, half-open: low <= centre < high. The order of cells is the whole;
    (left, top), (left, bottom), (right, top), (right, bottom); then the bands from the top. An empty cell gives 0.
    """

    cells = 8

    def __init__(self, bands: tuple[float, float] = PROGRAM_BANDS) -> None:
        super().__init__()
        self.bands = bands

    def cells_of(self, centres: Tensor) -> Tensor:
        """Return the three cells (P, 3) that hold each centre (P, 2), given as shares of the width and height."""
        x, y = centres.unbind(1)
        whole = torch.zeros_like(x, dtype=torch.long)
        quarter = 1 + 2 * (x >= 0.5).long() + (y >= 0.5).long()
        band = 5 + (y >= self.bands[0]).long() + (y >= self.bands[1]).long()
        return torch.stack((whole, quarter, band), dim=1)

    def forward(self, encoded: Tensor, centres: Tensor, rows: PatchRows) -> Tensor:
        """Return image representations (I, 8 * N), cell by cell, of encoded patches (P, N)."""
        held = self.cells_of(centres)  # (P, 3)
        cells = torch.arange(self.cells, device=held.device)
        inside = (held[:, :, None] == cells).any(dim=1)  # (P, 8)
        return maximum_over_patches(encoded, rows, inside).flatten(1)


class ClassificationHead(nn.Module):
    """Part filters W, the pyramid's maximum F and the classifier U_cls: s_cls = U_cls' F(W' f)."""

    def __init__(self, width: int, classes: int, filters: int = 256, pyramid: SpatialPyramid | None = None) -> None:
        super().__init__()
        self.part_filters = nn.Linear(width, filters)
        self.pyramid = pyramid or SpatialPyramid()
        self.classifier = nn.Linear(filters * self.pyramid.cells, classes)
        for layer in (self.part_filters, self.classifier):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, centres: Tensor, rows: PatchRows) -> tuple[Tensor, Tensor]:
        """Return image scores (I, C) and encoded patches (P, N) from patch features (P, K)."""
        encoded = linear(self.part_filters, features)  # (P, N), no ReLU and no normalisation
        representation = self.pyramid(encoded, centres, rows)  # (I, 8N)
        return self.classifier(representation), encoded
