"""Several trained networks that are asked as one: what they say is averaged."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import Scores
from deep_patch_learning.refinement.heads import RefinementScores


class Ensemble(nn.Module):
    """The mean of what networks of the same classes say of the same patches; heads that one of them lacks are not heard."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        if not members:
            raise ValueError("a ensemble needs at least one network")
        self.members = nn.ModuleList(members)

    def forward(self, batch: Batch, chunk: int | None = None) -> Scores:
        """Return the mean scores of a batch. `parts` stay None: part filters of different networks have nothing in common."""
        said: list[Scores] = [member(batch, chunk=chunk) for member in self.members]
        return Scores(
            _mean([each.classification for each in said]),
            _mean([each.discovery for each in said]),
            _mean([each.patches for each in said]),
            None,
            _refined([each.refinement for each in said]),
        )


def _refined(said: Sequence[RefinementScores | None]) -> RefinementScores | None:
    there = [each for each in said if each is not None]
    if len(there) < len(said):
        return None
    image, shares, probabilities, offsets = (
        _mean([getattr(each, name) for each in there]) for name in ("image", "shares", "probabilities", "offsets")
    )
    assert image is not None  # as of every refinement
    assert shares is not None
    assert probabilities is not None
    return RefinementScores(image, shares, torch.cat([each.heads for each in there], dim=1), probabilities, offsets)


def _mean(said: Sequence[Tensor | None]) -> Tensor | None:
    there = [each for each in said if each is not None]
    return torch.stack(there).mean(dim=0) if len(there) == len(said) else None
