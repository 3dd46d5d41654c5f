"""The refinement block: patch features -> a two-stream head, and classifiers of patches that each learn from the one before.

As in OICR (Tang et al., 2017). What each classifier learns from is made of scores and tags in `seeds.py` and `targets.py`.
"""

from typing import NamedTuple

from torch import Tensor, nn

from deep_patch_learning.model.by_image import PatchRows
from deep_patch_learning.model.two_stream import TwoStreamHead


class RefinementScores(NamedTuple):
    """What the refinement says.

    `image` (I, C) the two-stream head's probability of each class and `shares` (P, C) each patch's share of it; `heads`
    (P, K, C + 1) the raw scores of K classifiers, background last; `probabilities` (P, C) the mean of their probabilities,
    which is what boxes are ranked by; `offsets` (P, 4) from each patch to the object on it, where they are learnt.
    """

    image: Tensor
    shares: Tensor
    heads: Tensor
    probabilities: Tensor
    offsets: Tensor | None


def hidden_layer(inputs: int, width: int) -> nn.Sequential:
    """Return a linear layer with ReLU whose outputs start about as large as its inputs."""
    layer = nn.Linear(inputs, width)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return nn.Sequential(layer, nn.ReLU())


class Refinement(nn.Module):
    """A hidden layer of its own, the two-stream head, K classifiers of C classes and background, and offsets of boxes.

    Without the hidden layer (`hidden` of 0) the classifiers are linear in features that are shared with the other heads; those
    tend to settle on small, telling parts.
    """

    def __init__(
        self, width: int, classes: int, refinements: int = 3, hidden: int = 2048, regression: bool = False
    ) -> None:
        super().__init__()
        self.shape = (refinements, classes + 1)
        self.hidden = hidden_layer(width, hidden) if hidden else nn.Identity()
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
