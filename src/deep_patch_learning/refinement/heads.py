"""The refinement block: patch features -> a two-stream head, and patch classifiers that are each trained on the one before.

As in OICR (Tang et al., 2017). `seeds.py` and `targets.py` turn scores and tags into the targets of each classifier.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows, by_image, by_patch
from deep_patch_learning.model.kernels.fused import linear


class RefinementScores(NamedTuple):
    """The output of the refinement.

    `image` (I, C) the two-stream head's probability of each class and `shares` (P, C) each patch's share of it; `heads`
    (P, K, C + 1) the raw scores of K classifiers, background last; `probabilities` (P, C) the mean of their probabilities,
    by which boxes are ranked; `offsets` (P, 4) from each patch to the object on it, where boxes are regressed. `image_logs`
    (2, I, C), where gradients are computed: the logarithms of `image` and of 1 - `image`, exact where these round to 0.
    """

    image: Tensor
    shares: Tensor
    heads: Tensor
    probabilities: Tensor
    offsets: Tensor | None
    image_logs: Tensor | None = None


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
        streams = self.two_stream.streams(hidden, rows)
        image, shares = self.two_stream.joined(streams, rows, len(hidden))  # (I, C), (P, C)
        # of a single class the probability is always 1, whatever the scores
        learns = torch.is_grad_enabled() and image.shape[1] > 1
        logs = log_probabilities(streams, rows) if learns else None  # (2, I, C)
        heads = self.classifiers(hidden).view(-1, *self.shape)  # (P, K, C + 1)
        offsets = None if self.regressor is None else self.regressor(hidden)  # (P, 4)
        probabilities = heads.detach().softmax(dim=2)[..., :-1].mean(dim=1)  # (P, C)
        return RefinementScores(image, shares, heads, probabilities, offsets, logs)


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
        return self.joined(self.streams(features, rows), rows, len(features))

    def streams(self, features: Tensor, rows: PatchRows) -> tuple[Tensor, Tensor]:
        """Return the raw scores of both streams, of classes and of detection, (I, M, C) each."""
        return by_image(self.class_stream(features), rows), by_image(self.detection_stream(features), rows)

    def joined(self, streams: tuple[Tensor, Tensor], rows: PatchRows, patches: int) -> tuple[Tensor, Tensor]:
        """Return image probabilities (I, C) and each patch's share of them (P, C) from the raw scores of both streams."""
        shares = streams[0].softmax(dim=2) * softmax_over_patches(streams[1], rows)  # (I, M, C)
        return shares.sum(dim=1), by_patch(shares, rows, patches)


FAR = 1e3  # in logarithms: below everything, and yet a number


def log_probabilities(streams: tuple[Tensor, Tensor], rows: PatchRows) -> Tensor:
    """Return the logarithms of the image probabilities and of their complements, (2, I, C), from the raw scores of both streams.

    Computed without leaving logarithms, they and their gradients stay exact where a probability rounds to 0 or 1. 0 for an image
    without patches.
    """
    classes, detection = streams
    images, most, count = classes.shape
    if not most:
        return classes.new_zeros(2, images, count)
    there = rows.there[..., None]  # (I, M, 1)
    class_logs = classes.log_softmax(dim=2)  # (I, M, C)
    # a class other than a patch's first has at most a half; the first one's complement is the sum of the others
    first = torch.zeros_like(classes, dtype=torch.bool).scatter(2, classes.argmax(dim=2, keepdim=True), True)
    others = class_logs.masked_fill(first, -FAR).logsumexp(dim=2, keepdim=True)  # (I, M, 1)
    rest = torch.log1p(-class_logs.masked_fill(first, -FAR).exp())
    complements = torch.where(first, others, rest)  # (I, M, C)
    detection_logs = detection.masked_fill(~there, -FAR).log_softmax(dim=1)
    both = torch.stack((class_logs, complements)) + detection_logs  # (2, I, M, C)
    found = both.masked_fill(~there, -FAR).logsumexp(dim=2)
    return found.masked_fill(~rows.there.any(dim=1)[:, None], 0)


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
