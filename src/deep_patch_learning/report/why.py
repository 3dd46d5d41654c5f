"""Why a tag was given: the patches and part filters that the score of one class in one image is made of."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.inference.model import ImageInput, Model


class FilterShare(NamedTuple):
    """What one part filter adds to a class's score, and the patch (an index) through which it adds most of that."""

    filter: int
    added: float
    patch: int


@dataclass(frozen=True)
class Reasons:
    """The score of one class in one image, taken apart.

    `score` is the classification head's, `filters` what its part filters add to it, most first; None and nothing
    without that head. `patch` is the patch (an index) that the discovery head scores highest for the class, `patch_score` its
    mean score over scales; None without that head.
    """

    score: float | None
    filters: tuple[FilterShare, ...]
    patch: int | None
    patch_score: float | None

    @property
    def speaking_for(self) -> tuple[FilterShare, ...]:
        """Return the filters that raise the score, the strongest first."""
        return tuple(one for one in self.filters if one.added > 0)

    @property
    def raised(self) -> float:
        """Return by how much the filters that speak for the class raise its score."""
        return sum(one.added for one in self.speaking_for)

    @property
    def lowered(self) -> float:
        """Return by how much the other filters lower it; the classifier's bias is all that is left."""
        return -sum(one.added for one in self.filters if one.added < 0)


def reasons(model: Model, image: ImageInput, class_index: int) -> Reasons:
    """Return why the network gives a class its score in an image.

    The classification score is a sum over part filters and cells of the pyramid: weight times greatest response. It is
    taken apart exactly, at each scale, and the parts are averaged over scales as the score is.
    """
    head = model.network.classification
    seen: list[tuple[Tensor, Tensor]] = []  # of each scale: the patches' centres (P, 2) and responses (P, N)

    def note(module: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        seen.append((inputs[1].cpu(), output[1].float().cpu()))

    hook = None if head is None else head.register_forward_hook(note)
    try:
        scores = model.scores([image])[0]
    finally:
        if hook is not None:
            hook.remove()
    filters: tuple[FilterShare, ...] = ()
    if head is not None:
        added = np.mean([_added(head, class_index, *one) for one in seen], axis=0)  # (P, N)
        totals = added.sum(axis=0)
        order = np.argsort(-totals, kind="stable").tolist()
        filters = tuple(FilterShare(n, float(totals[n]), int(added[:, n].argmax())) for n in order)
    patch = None if scores.patches is None else int(scores.patches[:, class_index].argmax())
    return Reasons(
        None if scores.classification is None else float(scores.classification[class_index]),
        filters,
        patch,
        None if scores.patches is None else float(scores.patches[patch, class_index]) / len(model.scales),
    )


def _added(head: Any, class_index: int, centres: Tensor, responses: Tensor) -> np.ndarray:
    """Return what each patch adds to the score of a class through each part filter, (P, N), at one scale."""
    weights = head.classifier.weight[class_index].detach().float().cpu().view(head.pyramid.cells, -1)  # (8, N)
    held = head.pyramid.cells_of(centres)  # (P, 3)
    added = torch.zeros_like(responses)
    for cell, weight in enumerate(weights):
        inside = (held == cell).any(dim=1)  # (P,)
        if inside.any():
            greatest, winner = responses.masked_fill(~inside[:, None], -torch.inf).max(dim=0)  # (N,) each
            added.scatter_add_(0, winner[None], (weight * greatest)[None])
    return added.numpy()
