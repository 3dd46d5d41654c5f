"""A teacher small enough for tests."""

import torch
from torch import Tensor, nn

from deep_patch_learning.training.teacher import Taught


class SmallTeacher(nn.Module):
    """A random classifier of 10 classes, with one batch norm that would change if it were ever trained."""

    classes, width = 10, 12

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(nn.Conv2d(3, 12, 5, 4), nn.BatchNorm2d(12), nn.ReLU())
        self.fc = nn.Linear(12, 10)

    def forward(self, crops: Tensor) -> Taught:
        features = self.body(crops / 64 - 2).mean(dim=(2, 3))
        return Taught(self.fc(features) * 8, features)
