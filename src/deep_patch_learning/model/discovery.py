"""The discovery block: patch features -> patch scores -> their maximum over the image."""

from torch import Tensor, nn

from deep_patch_learning.model.maximum import grouped_maximum


class DiscoveryHead(nn.Module):
    """The patch classifier U_dis and the maximum over patches: s_dis = max_j U_dis' f_j."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.patch_classifier = nn.Linear(width, classes)
        nn.init.normal_(self.patch_classifier.weight, std=0.01)
        nn.init.zeros_(self.patch_classifier.bias)

    def forward(self, features: Tensor, patch_image: Tensor, images: int) -> tuple[Tensor, Tensor]:
        """Return image scores (I, C) and patch scores (P, C) from patch features (P, K)."""
        patch_scores = self.patch_classifier(features)  # (P, C)
        return grouped_maximum(patch_scores, patch_image, images), patch_scores
