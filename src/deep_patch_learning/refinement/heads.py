"""The refinement block: patch features -> a two-stream head, and patch classifiers that are each trained on the one before.

As in OICR (Tang et al., 2017). `seeds.py` and `targets.py` turn scores and tags into the targets of each classifier.
"""

from typing import NamedTuple, cast

from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows, by_image, by_patch
from deep_patch_learning.model.kernels.linear import linear


class RefinementScores(NamedTuple):
    """The output of the refinement.

    `image` (I, C) the two-stream head's probability of each class and `shares` (P, C) each patch's share of it; `heads`
    (P, K, C + 1) the raw scores of K classifiers, background last; `probabilities` (P, C) the mean of their probabilities,
    by which boxes are ranked; `offsets` (P, 4) from each patch to the object on it, where boxes are regressed.
    """

    image: Tensor
    shares: Tensor
    heads: Tensor
    probabilities: Tensor
    offsets: Tensor | None


class HiddenLayer(nn.Sequential):
    """A linear layer with ReLU whose outputs start about as large as its inputs."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(nn.Linear(inputs, width), nn.ReLU())
        nn.init.kaiming_normal_(self.layer.weight, nonlinearity="relu")
        nn.init.zeros_(self.layer.bias)

    @property
    def layer(self) -> nn.Linear:
        """The linear layer."""
        return cast(nn.Linear, self[0])

    def forward(self, features: Tensor) -> Tensor:
        """Return (P, H) from patch features (P, K)."""
        return self[1](linear(self.layer, features))


class Refinement(nn.Module):
    """A hidden layer, the two-stream head, K classifiers of C classes and background, and box offsets.

    `width` is that of the features it reads, those of cells x cells parts of a patch. Without the hidden layer (`hidden` of 0)
    the classifiers are linear in features that are shared with the other heads and tend to respond to small discriminative
    parts.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        refinements: int = 3,
        hidden: int = 2048,
        regression: bool = False,
        cells: int = 1,
    ) -> None:
        super().__init__()
        self.cells = cells
        self.shape = (refinements, classes + 1)
        self.hidden = HiddenLayer(width, hidden) if hidden else nn.Identity()
        width = hidden or width
        self.two_stream = TwoStreamHead(width, classes)
        self.classifiers = nn.Linear(width, refinements * (classes + 1))  # all K as one matrix
        self.regressor = nn.Linear(width, 4) if regression else None
        nn.init.normal_(self.classifiers.weight, std=0.01)
        nn.init.zeros_(self.classifiers.bias)
        if self.regressor is not None:
            nn.init.normal_(self.regressor.weight, std=0.001)
            nn.init.zeros_(self.regressor.bias)

    def forward(self, features: Tensor, rows: PatchRows) -> RefinementScores:
        """Return the scores from patch features (P, K)."""
        hidden = self.hidden(features)  # (P, H)
        image, shares = self.two_stream(hidden, rows)  # (I, C), (P, C)
        heads = self.classifiers(hidden).view(-1, *self.shape)  # (P, K, C + 1)
        offsets = None if self.regressor is None else self.regressor(hidden)  # (P, 4)
        return RefinementScores(image, shares, heads, heads.detach().softmax(dim=2)[..., :-1].mean(dim=1), offsets)


class TwoStreamHead(nn.Module):
    """A softmax over classes times a softmax over the patches of each image, as in WSDDN (Bilen and Vedaldi, 2016).

    The products, summed over patches, are the probability of each class in the image: the patches of an image compete for a
    class, and the classes for a patch.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.class_stream = nn.Linear(width, classes)
        self.detection_stream = nn.Linear(width, classes, bias=False)  # a softmax over patches cancels a bias
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
