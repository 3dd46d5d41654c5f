"""The two-stream head: which class a patch shows, times which patch of the image shows the class."""

from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows, by_image, by_patch


class TwoStreamHead(nn.Module):
    """A softmax over classes times a softmax over the patches of each image, as in WSDDN (Bilen and Vedaldi, 2016).

    The products, summed over patches, say how likely each class is in the image: from 0 to 1, so that a class needs patches that
    show it and the patches of an image compete for it.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.class_stream = nn.Linear(width, classes)
        self.detection_stream = nn.Linear(width, classes, bias=False)  # a softmax over patches would not see a bias
        for layer in (self.class_stream, self.detection_stream):
            nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(self.class_stream.bias)

    def forward(self, features: Tensor, rows: PatchRows) -> tuple[Tensor, Tensor]:
        """Return image probabilities (I, C) and each patch's share of them (P, C) from patch features (P, K).

        An image without patches gets 0.
        """
        classes = by_image(self.class_stream(features), rows).softmax(dim=2)  # (I, M, C)
        detection = by_image(self.detection_stream(features), rows)  # (I, M, C)
        shares = classes * softmax_over_patches(detection, rows)
        return shares.sum(dim=1), by_patch(shares, rows, len(features))


def softmax_over_patches(values: Tensor, rows: PatchRows) -> Tensor:
    """Return the softmax of values (I, M, C) over the patches that each image has; 0 where it has none."""
    if not rows.places.shape[1]:
        return values
    if rows.full:
        return values.softmax(dim=1)
    missing = ~rows.there[..., None]  # (I, M, 1)
    # finite, so that an image without any patch does not become 0 / 0
    lowest = values.masked_fill(missing, -1e30)
    return lowest.softmax(dim=1).masked_fill(missing, 0)
