"""Scores of the refinement + tags -> named loss terms: each classifier is trained on the seeds of the one before it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.by_image import by_image, patch_rows
from deep_patch_learning.model.losses import HeadLosses
from deep_patch_learning.model.network import Scores
from deep_patch_learning.refinement.heads import RefinementScores
from deep_patch_learning.refinement.seeds import Best, SeedRule, Seeds, find_seeds
from deep_patch_learning.refinement.targets import BACKGROUND, FOREGROUND, PatchTargets, box_targets, patch_targets

if TYPE_CHECKING:  # not loaded where nobody said anything about boxes
    from deep_patch_learning.refinement.exact import Exact


@dataclass(frozen=True)
class RefinementLosses:
    """The loss terms of the refinement heads and of the offsets.

    `seeds` is the seed rule; `foreground` and `background` as of `patch_targets`. With `by_cluster` the loss of the patches on a
    seed is that of their mean probability, as in PCL.
    """

    seeds: SeedRule = field(default_factory=Best)
    foreground: float = FOREGROUND
    background: float = BACKGROUND
    by_cluster: bool = False

    def __call__(
        self,
        scores: RefinementScores,
        labels: Tensor,
        batch: Batch,
        given: Seeds | None = None,
        exact: "Exact | None" = None,
    ) -> dict[str, Tensor]:
        """Return `refinement`, the sum over classifiers, and `boxes` where boxes are regressed, each as a mean over images.

        Only present classes, 1 in `labels` (I, C), have seeds. All classifiers use the `given` seeds where there are any, and
        what is known to be `exact` in place of what they would choose.
        """
        rows = patch_rows(batch.patch_image, len(labels), batch.counts)  # (I, M)
        if not rows.places.shape[1]:
            outputs = {"refinement": scores.heads, "boxes": scores.offsets}
            return {name: output.sum() * 0 for name, output in outputs.items() if output is not None}
        boxes, there, present = by_image(batch.patches, rows).to(scores.heads.dtype), rows.there, labels == 1
        heads = by_image(scores.heads, rows).movedim(2, 0)  # (K, I, M, C + 1)
        shares = by_image(scores.shares.detach(), rows)  # (I, M, C)
        # each classifier is trained on the scores of the one before it, the offsets on those of the last
        said = torch.cat((shares[None], heads.detach().softmax(dim=3)[..., :-1]))  # (K + 1, I, M, C)
        said = said if scores.offsets is not None else said[:-1]
        seeds, targets = self._targets(boxes, said, there, present, given, exact)
        learnt, of_heads, of_offsets = heads.flatten(0, 1), slice(len(labels) * len(heads)), slice(-len(labels), None)
        bags = seeds.of(of_heads) if self.by_cluster else None
        mean = (
            patch_loss(learnt, targets.of(of_heads))
            if bags is None
            else cluster_loss(learnt, targets.of(of_heads), bags)
        )
        terms = {"refinement": mean * len(heads)}
        if scores.offsets is not None:
            offsets = by_image(scores.offsets, rows)  # (I, M, 4)
            terms["boxes"] = offset_loss(offsets, boxes, seeds.of(of_offsets), targets.of(of_offsets))
        return terms

    def _targets(
        self, boxes: Tensor, said: Tensor, there: Tensor, present: Tensor, given: Seeds | None, exact: "Exact | None"
    ) -> tuple[Seeds, PatchTargets]:
        """Return the seeds and targets from each of the scores `said` (N, I, M, C), as those of N * I images."""
        # together, since on a GPU N launches take longer than the work
        classes = present.shape[1]
        boxes, there, present = (_repeated(each, len(said)) for each in (boxes, there, present))
        if exact is not None:
            exact = exact.repeated(len(said))
            free = exact.without_rejected(boxes, said.flatten(0, 1))
            seeds = exact.with_found(find_seeds(self.seeds, boxes, free, there, present & ~exact.known))
            targets = patch_targets(boxes, there, seeds, classes, self.foreground, self.background)
            return seeds, exact.corrected(boxes, there, targets)
        if given is None:
            seeds = find_seeds(self.seeds, boxes, said.flatten(0, 1), there, present)
        else:
            own = [_repeated(each, len(said)) for each in (given.boxes, given.scores, given.real)]
            seeds = Seeds(own[0], own[1], own[2], given.classes)
        return seeds, patch_targets(boxes, there, seeds, classes, self.foreground, self.background)


def _repeated(each: Tensor, times: int) -> Tensor:
    return each.repeat(times, *[1] * (each.ndim - 1))


class RefinedLosses:
    """The losses of the paper's heads and, where the network has a refinement, its own: all as named terms."""

    def __init__(self, heads: HeadLosses | None = None, refinement: RefinementLosses | None = None) -> None:
        self.heads = heads or HeadLosses()
        self.refinement = refinement or RefinementLosses()

    def __call__(
        self,
        scores: Scores,
        labels: Tensor,
        batch: Batch | None = None,
        given: Seeds | None = None,
        exact: "Exact | None" = None,
    ) -> dict[str, Tensor]:
        """Return the loss of each head that is there; their sum is what training minimises.

        The refinement needs the places of the patches, so the `batch` that was scored. With `given` seeds it is trained on them
        alone, and the two-stream head, which they replace, is not trained. What is `exact` takes the place of found seeds.
        """
        terms = self.heads(scores, labels)
        if scores.refinement is None:
            return terms
        if batch is None:
            raise ValueError("the loss of a refinement needs the batch whose patches were scored")
        refinement = self.refinement(scores.refinement, labels, batch, given, exact)
        if given is not None:
            return terms | refinement
        there = None  # every image has patches, as far as the host knows
        if not batch.counts or 0 in batch.counts:
            there = torch.zeros(len(labels), device=labels.device).index_fill(0, batch.patch_image, 1)  # (I,)
        reduction, unknown = self.heads.reduction, self.heads.unknown
        found = scores.refinement
        image = two_stream_loss(found.image, labels, reduction, unknown, there, found.image_logs)
        return terms | {"two_stream": image} | refinement


EXACT_BELOW = 1e-3  # a complement below it has lost digits, and at 1 - 1 all of them, with its gradient


def two_stream_loss(
    image: Tensor,
    labels: Tensor,
    reduction: str,
    unknown: str,
    there: Tensor | None = None,
    logs: Tensor | None = None,
) -> Tensor:
    """Return the cross entropy of probabilities (I, C) and labels (I, C), averaged over the images of the batch.

    As `tag_loss`, of probabilities. Images without patches, not `there` (I,), add nothing. With `logs` (2, I, C) of the
    probabilities and their complements, small ones are taken from there: a class that is wrong beyond doubt keeps its gradient.
    """
    # torch's own function raises where a sum of shares is just above 1 or NaN
    right = torch.where(labels == 1, image, 1 - image)  # (I, C)
    loss = -right.clamp(min=1e-30).log()
    if logs is not None:
        small = right < torch.where(labels == 1, 1e-30, EXACT_BELOW)
        loss = torch.where(small, -torch.where(labels == 1, logs[0], logs[1]), loss)
    if unknown == "ignore":
        loss = loss * (labels != -1)
    if there is not None:
        loss = loss * there[:, None]
    per_image = loss.mean(dim=1) if reduction == "mean" else loss.sum(dim=1)
    return per_image.mean()


def patch_loss(scores: Tensor, targets: PatchTargets) -> Tensor:
    """Return the weighted cross entropy of patch scores (I, M, C + 1) over the patches that count, as a mean over images."""
    entropy = F.cross_entropy(scores.transpose(1, 2), targets.classes, reduction="none")  # (I, M)
    return ((entropy * targets.weights).sum(dim=1) / targets.counted).mean()


def cluster_loss(scores: Tensor, targets: PatchTargets, seeds: Seeds) -> Tensor:
    """Return `patch_loss` with the patches on one seed as a single bag, whose probability is the mean of theirs.

    The weight of a bag is the sum of its patches' weights; background patches count one by one.
    """
    logs = scores.log_softmax(dim=2)  # (I, M, C + 1)
    column = targets.classes[..., None]
    probability = logs.gather(2, column).squeeze(2).exp() * targets.foreground  # (I, M)
    bags = torch.zeros_like(seeds.scores)  # (I, S)
    size = bags.scatter_add(1, targets.seeds, targets.foreground.to(bags.dtype))
    mean = bags.scatter_add(1, targets.seeds, probability) / size.clamp(min=1)
    tiny = torch.finfo(mean.dtype).tiny
    of_bags = -(mean.clamp(min=tiny).log() * size * seeds.scores * (size > 0)).sum(dim=1)  # (I,)
    of_background = -(logs[..., -1] * targets.weights * ~targets.foreground).sum(dim=1)
    return ((of_bags + of_background) / targets.counted).mean()


def offset_loss(offsets: Tensor, boxes: Tensor, seeds: Seeds, targets: PatchTargets) -> Tensor:
    """Return the weighted smooth L1 loss of offsets (I, M, 4) of the patches on a seed, as a mean over images."""
    distance = F.smooth_l1_loss(offsets, box_targets(boxes, seeds, targets), reduction="none").sum(dim=2)  # (I, M)
    distance = distance * targets.weights * targets.foreground
    return (distance.sum(dim=1) / targets.counted).mean()
