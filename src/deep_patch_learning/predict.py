"""Network -> Prediction: several scales, the authors' way of adding them up, NMS; patches pass in chunks that bound memory."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import batched_nms, box_iou

from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.transforms import View, collate, make_view
from deep_patch_learning.devices import usable_device
from deep_patch_learning.errors import RunError
from deep_patch_learning.model.build import build_network
from deep_patch_learning.model.network import DeepPatchNet, Scores
from deep_patch_learning.patches import PatchGenerator
from deep_patch_learning.prediction import Prediction
from deep_patch_learning.training.checkpoint import read_checkpoint, restore_network
from deep_patch_learning.training.recipe import Recipe, recipe_patches
from deep_patch_learning.training.run import RunFolder

# Up to this many patches of a pass go through the patch layers at once; VGG16's fc6 input then takes 200 MB.
PATCHES_AT_ONCE = 2_000


class Picture(NamedTuple):
    """A picture ready for prediction: its name, pixels (H, W, 3) uint8 RGB and patches (P, 4)."""

    name: str
    image: np.ndarray
    patches: np.ndarray


class PictureScores(NamedTuple):
    """The raw scores of one picture, added up over scales; None where the network lacks the head.

    `classification` and `discovery` (C,) are means over scales; `patches` (P, C) sums; `parts` (P, N) sums.
    """

    classification: np.ndarray | None
    discovery: np.ndarray | None
    patches: np.ndarray | None
    parts: np.ndarray | None


@torch.inference_mode()
def score_pictures(
    network: DeepPatchNet, pictures: Sequence[Picture], scales: Sequence[int], device: torch.device | str = "cpu"
) -> list[PictureScores]:
    """Return the scores of pictures that share a pass, at each scale, added up as the authors' program does.

    For an image's score the maximum over patches is taken at each scale and averaged over scales; for a patch's score the
    raw scores are summed over scales first.
    """
    totals: Scores | None = None
    for scale in scales:
        views: list[View] = [make_view(p.image, p.patches, scale, device=device) for p in pictures]
        scores = network(collate(views), chunk=PATCHES_AT_ONCE)
        totals = scores if totals is None else Scores(*(_plus(a, b) for a, b in zip(totals, scores, strict=True)))
    if totals is None:
        raise ValueError("at least one scale is needed")
    counts = [len(p.patches) for p in pictures]
    per_image = [_rows(total, len(scales)) for total in (totals.classification, totals.discovery)]
    per_patch = [_split(total, counts) for total in (totals.patches, totals.parts)]
    return [
        PictureScores(per_image[0][i], per_image[1][i], per_patch[0][i], per_patch[1][i]) for i in range(len(pictures))
    ]


def _plus(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else first + second


class _Nothing:
    """None at every index: what stands for the scores of a head that is not there."""

    def __getitem__(self, index: int) -> None:
        return None


def _rows(total: Tensor | None, scales: int) -> np.ndarray | _Nothing:
    return _Nothing() if total is None else (total / scales).float().cpu().numpy()


def _split(total: Tensor | None, counts: list[int]) -> list[np.ndarray] | _Nothing:
    return _Nothing() if total is None else [part.float().cpu().numpy() for part in total.split(counts)]


class Model:
    """A trained network with its class names: `model.predict(picture)` says what is in it and where."""

    def __init__(
        self,
        network: DeepPatchNet,
        classes: Sequence[str],
        scales: Sequence[int],
        patch_generator: PatchGenerator,
        device: str | None = None,
        nms: float = 0.3,
        boxes_per_class: int = 30,
        picking: str = "best",
    ) -> None:
        self.device = torch.device(usable_device(device or "auto"))
        self.network = network.eval().to(self.device)
        self.classes = tuple(classes)
        self.scales = tuple(scales)
        self.patch_generator = patch_generator
        self.nms = nms
        self.boxes_per_class = boxes_per_class
        self.picking = picking

    def predict(self, picture: str | Path | np.ndarray) -> Prediction:
        """Return what is found in one picture: a path, or an (H, W, 3) uint8 RGB array."""
        if isinstance(picture, np.ndarray):
            image, name = picture, "picture"
        else:
            image, name = read_image(picture), Path(picture).name
        found = next(self.predict_pictures([Picture(name, image, self.patch_generator(image))]))
        return found if isinstance(picture, np.ndarray) else dataclasses.replace(found, source=Path(picture))

    def predict_pictures(self, pictures: Iterable[Picture], images_per_pass: int = 1) -> Iterator[Prediction]:
        """Yield the predictions of pictures with their patches, in order."""
        waiting: list[Picture] = []
        for picture in pictures:
            waiting.append(picture)
            if len(waiting) == images_per_pass:
                yield from self._predict_together(waiting)
                waiting = []
        if waiting:
            yield from self._predict_together(waiting)

    def scores(self, pictures: Sequence[Picture]) -> list[PictureScores]:
        """Return the raw scores of pictures that share a pass."""
        return score_pictures(self.network, pictures, self.scales, self.device)

    def _predict_together(self, pictures: list[Picture]) -> Iterator[Prediction]:
        for picture, scores in zip(pictures, self.scores(pictures), strict=True):
            yield self._prediction(picture, scores)

    def _prediction(self, picture: Picture, scores: PictureScores) -> Prediction:
        heads = [head for head in (scores.classification, scores.discovery) if head is not None]
        patch_scores = scores.patches
        if patch_scores is not None and self.picking == "vote":
            patch_scores = voted(picture.patches, patch_scores, len(self.scales))
        boxes, classes, box_scores = self._separate(picture.patches, patch_scores)
        height, width = picture.image.shape[:2]
        return Prediction(
            name=picture.name,
            classes=self.classes,
            height=height,
            width=width,
            image_scores=np.sum(heads, axis=0),
            classification_scores=scores.classification,
            discovery_scores=scores.discovery,
            found_boxes=boxes,
            found_classes=classes,
            found_scores=box_scores,
            best_boxes=None
            if patch_scores is None
            else picture.patches[patch_scores.argmax(axis=0)].astype(np.float32),
        )

    def _separate(self, patches: np.ndarray, scores: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return boxes, classes and scores after NMS within each class, the best `boxes_per_class` of each."""
        if scores is None:
            return np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32)
        candidates = torch.from_numpy(np.ascontiguousarray(scores.T)).flatten()  # class by class
        boxes = torch.from_numpy(patches.astype(np.float32)).repeat(scores.shape[1], 1)
        classes = torch.arange(scores.shape[1]).repeat_interleave(len(patches))
        kept = batched_nms(boxes, candidates, classes, self.nms)  # best first
        place = _place_within_class(classes[kept])
        kept = kept[place < self.boxes_per_class]
        # the sum over scales becomes the mean, which reads as a score of one pass; the order stays
        return boxes[kept].numpy(), classes[kept].numpy(), candidates[kept].numpy() / len(self.scales)


def voted(patches: np.ndarray, scores: np.ndarray, scales: int = 1) -> np.ndarray:
    """Return patch scores (P, C) in which the patch that a vote elects has the highest score of each class.

    Every patch votes with the exponential of its mean score over `scales` for those it overlaps, in proportion to IoU.
    So a part that scores high alone loses to a whole that many good patches agree on. All other scores stay.
    """
    boxes = torch.from_numpy(patches.astype(np.float32))
    raw = torch.from_numpy(scores) / scales
    votes = box_iou(boxes, boxes) @ (raw - raw.amax(dim=0)).exp()  # (P, C)
    elected = votes.argmax(dim=0).numpy()
    changed = scores.copy()
    classes = np.arange(scores.shape[1])
    changed[elected, classes] = np.nextafter(scores.max(axis=0), np.float32(np.inf))
    return changed


def _place_within_class(classes: Tensor) -> Tensor:
    """Return how many of the same class come before each entry."""
    order = torch.argsort(classes, stable=True)
    starts = torch.cumsum(torch.bincount(classes), 0) - torch.bincount(classes)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order)) - starts[classes[order]]
    return place


def load(run: str | Path | None = None, device: str | None = None, scales: Sequence[int] | None = None) -> Model:
    """Return the model of a run folder, ready to predict at `scales` (those it was trained with, if not given)."""
    if run is None:
        raise RunError("no model was named and none is shipped yet. Give the folder of a run: dpl.load('runs/photos')")
    folder = RunFolder(run)
    classes = folder.describe()["classes"]
    recipe = Recipe.load(folder.config)
    network, _ = build_network(recipe.backbone, len(classes), recipe.heads, recipe.filters, recipe.bands)
    _, tensors, _ = read_checkpoint(folder.weights if folder.weights.exists() else folder.checkpoint)
    restore_network(network, tensors, folder.weights)
    return Model(network, classes, scales or recipe.scales, recipe_patches(recipe), device, picking=recipe.picking)
