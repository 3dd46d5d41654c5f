"""The layers between the SPP layer and the heads: one pooled map per patch -> one feature vector per patch."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.model.backbone import freeze_norms
from deep_patch_learning.model.kernels.fused import run


class FullyConnected(nn.Module):
    """fc6 and fc7 with ReLU and dropout, as in AlexNet and VGG16. Both heads read the same dropped-out fc7."""

    def __init__(self, inputs: int, hidden: int, width: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.fc6 = nn.Linear(inputs, hidden)
        self.fc7 = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)
        self.width = width

    def forward(self, pooled: Tensor) -> Tensor:
        """Return patch features (P, K) of pooled maps (P, D, s, s)."""
        hidden = self.dropout(torch.relu(self._fc6(pooled)))  # (P, hidden)
        return self.dropout(torch.relu(self.fc7(hidden)))  # (P, K)

    def _fc6(self, pooled: Tensor) -> Tensor:
        if pooled.is_contiguous():
            return self.fc6(pooled.flatten(1))
        # channels last in memory: turning the weights once is cheaper than turning every patch
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
        self.places = places  # along a side of its maps of a patch

    def forward(self, pooled: Tensor) -> Tensor:
        """Return patch features (P, K) of pooled maps (P, D, s, s)."""
        return run(self.stage, pooled).mean(dim=(2, 3))

    def in_cells(self, pooled: Tensor, cells: int) -> tuple[Tensor, Tensor]:
        """Return patch features (P, K), and those of each of cells x cells places of the patch, (P, K * cells * cells)."""
        maps = run(self.stage, pooled)  # (P, K, t, t)
        if maps.shape[-2:] != (cells, cells):
            return maps.mean(dim=(2, 3)), F.adaptive_avg_pool2d(maps, cells).flatten(1)
        return maps.mean(dim=(2, 3)), maps.flatten(1)  # each cell is a place

    def train(self, mode: bool = True) -> "ConvolutionalStage":
        """Return itself in training mode, with pretrained batch norm left as it is."""
        super().train(mode)
        freeze_norms(self.stage)
        return self
