"""The layers between the SPP layer and the heads: one pooled map per patch -> one feature vector per patch."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.model.backbone import freeze_norms
from deep_patch_learning.model.kernels.fused import run


class PartDropout(nn.Dropout):
    """Dropout that can drop from some rows of a batch what it would drop from them in the whole batch.

    `part` maps the number of rows that come to the first of them and the number of all; empty: the whole batch comes.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.part: dict[int, tuple[int, int]] = {}

    def forward(self, features: Tensor) -> Tensor:
        """Return the features (P, K) with a share of `p` of them at 0 and the others scaled up, in training."""
        if not self.training or len(features) not in self.part:
            return super().forward(features)
        first, rows = self.part[len(features)]
        kept = F.dropout(features.new_ones(rows, *features.shape[1:]), self.p)
        return features * kept[first : first + len(features)]


class FullyConnected(nn.Module):
    """fc6 and fc7 with ReLU and dropout, as in AlexNet and VGG16. Both heads read the same dropped-out fc7."""

    def __init__(self, inputs: int, hidden: int, width: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.fc6 = nn.Linear(inputs, hidden)
        self.fc7 = nn.Linear(hidden, width)
        self.dropout = PartDropout(dropout)
        self.width = width

    def forward(self, pooled: Tensor) -> Tensor:
        """Return patch features (P, K) of pooled maps (P, D, s, s)."""
        hidden = self.dropout(torch.relu(self._fc6(pooled)))  # (P, hidden)
        return self.dropout(torch.relu(self.fc7(hidden)))  # (P, K)

    def _fc6(self, pooled: Tensor) -> Tensor:
        if pooled.is_contiguous():
            return self.fc6(pooled.flatten(1))
        # channels last in memory: transposing the weights once is cheaper than transposing every patch
        channels = pooled.shape[1]
        weight = self.fc6.weight.to(pooled.dtype).view(self.fc6.out_features, channels, -1)
        return F.linear(
            pooled.permute(0, 2, 3, 1).flatten(1), weight.transpose(1, 2).flatten(1), self.fc6.bias.to(pooled.dtype)
        )


class ConvolutionalStage(nn.Module):
    """A residual network's last stage run on each patch, then averaged: the patch layers of a network without fc6 and fc7."""

    def __init__(self, stage: nn.Module, width: int, places: int = 4) -> None:
        super().__init__()
        self.stage = stage
        self.width = width
        self.places = places  # cells along a side of the stage's map of a patch

    def forward(self, pooled: Tensor) -> Tensor:
        """Return patch features (P, K) of pooled maps (P, D, s, s)."""
        return run(self.stage, pooled).mean(dim=(2, 3))

    def in_cells(self, pooled: Tensor, cells: int) -> tuple[Tensor, Tensor]:
        """Return patch features (P, K), and those of each of cells x cells parts of the patch, (P, K * cells * cells)."""
        maps = run(self.stage, pooled)  # (P, K, t, t)
        if maps.shape[-2:] != (cells, cells):
            return maps.mean(dim=(2, 3)), F.adaptive_avg_pool2d(maps, cells).flatten(1)
        return maps.mean(dim=(2, 3)), maps.flatten(1)  # each cell is a place

    def train(self, mode: bool = True) -> "ConvolutionalStage":
        """Return itself in training mode, with pretrained batch norm in evaluation mode."""
        super().train(mode)
        freeze_norms(self.stage)
        return self
