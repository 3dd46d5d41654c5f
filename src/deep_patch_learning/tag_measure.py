"""The mAP of a network on held-out tags while it trains: some pictures, one scale, few patches, so that it costs little."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.data.dataset import PRESENT, TaggedPictures
from deep_patch_learning.data.holding_out import drawn_share
from deep_patch_learning.data.store import PictureStore
from deep_patch_learning.data.transforms import scaled_size
from deep_patch_learning.devices import usable_precision
from deep_patch_learning.errors import DataError
from deep_patch_learning.model.network import Scores
from deep_patch_learning.predict import Picture, score_on_device
from deep_patch_learning.training.early_stop import MEASUREMENTS
from deep_patch_learning.training.recipe import Recipe

# A picture costs at most about what a visit in training does, which has a way back too and mostly larger scales.
SHARE = 0.15  # of the visits of training is what all measurements together may look at
FEWEST = 32  # pictures, for trainings so short that it does not matter


class TagMeasure:
    """Gives the mAP of a network on held-out pictures, in percent, and leaves the network as it was.

    Always the same pictures are looked at, at the smallest scale of the recipe, with twice the patches of a visit in training.
    Pictures are decoded once, as far as memory is there for them.
    """

    def __init__(self, pictures: TaggedPictures, patches: Sequence[np.ndarray], recipe: Recipe) -> None:
        kept = measured_pictures(pictures.labels, recipe)
        self.pictures = len(kept)
        self._recipe = recipe
        self._tagged = pictures.subset(kept)
        self._patches = [_first(patches[index], recipe) for index in kept]
        self._images = PictureStore(self._tagged)

    def __call__(self, network: nn.Module) -> float:
        """Return the mAP of a network."""
        was_training = network.training
        network.eval()
        scores = np.zeros(self._tagged.labels.shape, np.float32)
        for together in self._passes():
            ready = [Picture(self._tagged.names[i], self._images[i].numpy(), self._patches[i]) for i in together]
            scores[together] = _image_scores(network, ready, self._recipe).float().cpu().numpy()
        network.train(was_training)
        return mean_ap(scores, self._tagged.labels)

    def _passes(self) -> list[list[int]]:
        """Return the pictures pass by pass; those of a pass have about one size, so that little of it is padding."""
        scale, together = min(self._recipe.scales), self._recipe.images_per_pass
        sizes = [scaled_size(*size, scale, self._recipe.shapes) for size in self._images.sizes]
        order = sorted(range(self.pictures), key=lambda index: (sizes[index], index))
        return [order[at : at + together] for at in range(0, len(order), together)]


def measured_pictures(labels: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Return the indices of the held-out pictures, with tags `labels` (I, C), that every measurement looks at."""
    if not (labels == PRESENT).any():
        raise DataError(f"none of the {len(labels)} pictures held out shows a class. Hold out more.")
    visits = recipe.total_steps * recipe.batch_images
    wanted = max(SHARE * visits / MEASUREMENTS, FEWEST)
    kept = drawn_share(labels, min(wanted / len(labels), 1.0), recipe.seed)
    return kept if (labels[kept] == PRESENT).any() else np.arange(len(labels))


def mean_ap(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean all-point average precision, in percent, over the classes that a picture shows."""
    # here, not above: with it comes the reader of boxes, which what trains does not load before it measures
    from deep_patch_learning.evaluation.classification import average_precision

    found = [average_precision(scores[:, index], labels[:, index]) for index in range(labels.shape[1])]
    return 100.0 * float(np.nanmean(found))


def _first(patches: np.ndarray, recipe: Recipe) -> np.ndarray:
    return patches[: 2 * recipe.max_patches] if recipe.max_patches else patches


def _image_scores(network: nn.Module, pictures: Sequence[Picture], recipe: Recipe) -> Tensor:
    """Return the scores (I, C) that rank pictures, as `Prediction.image_scores` does."""
    device = next(network.parameters()).device
    half = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(
        usable_precision(recipe.precision, device.type)
    )
    totals: Scores = score_on_device(network, pictures, (min(recipe.scales),), device, recipe.shapes, half)
    heads = [head for head in (totals.classification, totals.discovery) if head is not None]
    if totals.refinement is not None and (recipe.two_stream_tags or not heads):
        heads.append(totals.refinement.image.logit(eps=1e-7))
    return torch.stack(heads).sum(dim=0)
