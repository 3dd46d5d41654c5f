"""The discovery block: patch features -> patch scores -> their maximum over the image."""

from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows, maximum_over_patches


class DiscoveryHead(nn.Module):
    """The patch classifier U_dis and the maximum over patches: s_dis = max_j U_dis' f_j."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.patch_classifier = nn.Linear(width, classes)
        nn.init.normal_(self.patch_classifier.weight, std=0.01)
        nn.init.zeros_(self.patch_classifier.bias)

    def forward(self, features: Tensor, rows: PatchRows) -> tuple[Tensor, Tensor]:
        """Return image scores (I, C) and patch scores (P, C) from patch features (P, K)."""
        patch_scores = self.patch_classifier(features)  # (P, C)
        return maximum_over_patches(patch_scores, rows)[:, 0], patch_scores
