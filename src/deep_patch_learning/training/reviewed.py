"""A training that learns from what people said about boxes: theirs are exact seeds, and the rest stays weakly supervised."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.reviewed import RIGHT_IOU, ReviewedImage, nothing_said
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.exact import added_patches, exact_among
from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes, seeds_among
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.samples import Sample

SHARE = 0.5  # of the samples, those of reviewed images
MOST_REPEATS = 8  # of a reviewed image in an epoch


class ReviewedTrainer(Trainer):
    """A training in which some images have exact boxes. They are added to the patches, and their images are shown more often."""

    def __init__(self, *arguments: Any, reviewed: Mapping[str, ReviewedImage], **others: Any) -> None:
        self.reviewed = reviewed
        super().__init__(*arguments, **others)

    def entries(self) -> Sequence[int]:
        """Return the images of an epoch, the reviewed ones several times."""
        return shown_images(self.dataset, self.reviewed)

    def patches_of(self, sample: Sample) -> np.ndarray:
        """Return the patches that a sample draws, and after them the boxes about which people said something."""
        return np.concatenate((super().patches_of(sample).astype(np.float32), added_patches(self._known(sample))))

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the named loss terms of one micro-batch, those of the refinement with exact seeds."""
        assert batch.counts is not None  # as `render` makes it
        known = [self._known(sample) for sample in samples]
        boxes = [PseudoBoxes(one.boxes, one.classes) for one in known]
        seeds = seeds_among(batch.patches, batch.counts, boxes, labels.shape[1])
        exact = exact_among(batch.patches, batch.counts, known, seeds)
        return self.losses(self.network(batch), labels, batch, exact=exact)

    def _known(self, sample: Sample) -> ReviewedImage:
        return self.reviewed.get(self.dataset.names[sample.image]) or nothing_said()


def shown_images(images: TaggedImages, reviewed: Mapping[str, ReviewedImage]) -> list[int]:
    """Return the images of an epoch: the reviewed ones make up `SHARE` of it, each shown at most `MOST_REPEATS` times."""
    own = [index for index, name in enumerate(images.names) if name in reviewed]
    wanted = SHARE / (1 - SHARE) * (len(images) - len(own)) / max(len(own), 1)
    return [*range(len(images)), *(own * (int(np.clip(round(wanted), 1, MOST_REPEATS)) - 1))]


def with_exact_boxes(
    found: Sequence[PseudoBoxes], images: TaggedImages, reviewed: Mapping[str, ReviewedImage]
) -> list[PseudoBoxes]:
    """Return pseudo boxes with the exact ones in place of those of their classes, and without those that people rejected."""
    together = []
    for name, labels, one in zip(images.names, images.labels, found, strict=True):
        said = reviewed.get(name)
        if said is None:
            together.append(one)
            continue
        on = (
            box_iou(one.boxes, said.rejected) >= RIGHT_IOU
            if len(said.rejected)
            else np.zeros((len(one.boxes), 0), bool)
        )
        rejected = (on & (one.classes[:, None] == said.rejected_classes)).any(axis=1)
        kept = ~rejected & ~np.isin(one.classes, said.classes) & (labels[one.classes] == 1)
        kept &= not said.done
        weights = None
        if one.weights is not None:
            weights = np.concatenate((one.weights[kept], np.ones(len(said.boxes), np.float32)))
        boxes = np.concatenate((one.boxes[kept], said.boxes)).astype(np.float32)
        together.append(PseudoBoxes(boxes, np.concatenate((one.classes[kept], said.classes)), weights))
    return together


def check_reviewed(recipe: Recipe) -> None:
    """Raise `SettingError` where no head of a recipe learns from boxes."""
    if "refinement" not in recipe.model.heads:
        raise SettingError(
            f"recipe {recipe.name}: its heads learn from tags alone, and --reviewed says which boxes are right. "
            "Use a recipe with a refinement, such as fast or refined, or --heads all."
        )


def in_words(own: Mapping[str, ReviewedImage], images: TaggedImages) -> str:
    """Return in one line what people said about the images to train on."""
    right, wrong = sum(len(one.boxes) for one in own.values()), sum(len(one.rejected) for one in own.values())
    tags = sum(len(one.tags) for one in own.values())
    return (
        f"{len(own):,} of {len(images):,} images are reviewed: {right:,} exact boxes, {wrong:,} rejected ones, "
        f"{tags:,} changed tags"
    )
