"""Network -> Prediction: several scales, the authors' way of adding them up, NMS; patches pass in chunks that bound memory."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.devices import usable_device, usable_precision
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.batch import lay_out, render, scaled_size
from deep_patch_learning.data.images import read_image
from deep_patch_learning.inference.calibration import Calibration
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.selection import SMALLEST, BoxSelection
from deep_patch_learning.model.network import Scores
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.refinement.targets import decoded, inside

# Up to this many patches of a pass go through the patch layers at once; VGG16's fc6 input then takes 400 MB in half precision.
PATCHES_AT_ONCE = 8_000
FEWEST_AT_ONCE = 125


class ImageInput(NamedTuple):
    """An image ready for prediction: its name, pixels (H, W, 3) uint8 RGB and patches (P, 4)."""

    name: str
    image: np.ndarray
    patches: np.ndarray


class ImageScores(NamedTuple):
    """The raw scores of one image, added up over scales; None where the network lacks the head.

    `classification` and `discovery` (C,) are means over scales; `patches` (P, C) sums; `parts` (P, N) sums; `refined` (P, C) is
    the sum of the probabilities that a refinement gives.
    """

    classification: np.ndarray | None
    discovery: np.ndarray | None
    patches: np.ndarray | None
    parts: np.ndarray | None
    refined: np.ndarray | None = None


@torch.inference_mode()
def score_on_device(
    network: nn.Module,
    images: Sequence[ImageInput],
    scales: Sequence[int],
    device: torch.device | str = "cpu",
    shapes: int = 0,
    precision: torch.dtype | None = None,
    chunk: int = PATCHES_AT_ONCE,
) -> Scores:
    """Return the scores of images that share a pass, summed over scales, where they were computed.

    For an image's score the maximum over patches is taken at each scale, then summed; a patch's raw scores are summed first.
    """
    device = torch.device(device)
    originals = [(p.image.shape[0], p.image.shape[1]) for p in images]
    patches = [p.patches for p in images]
    pixels = [torch.as_tensor(p.image).to(device, non_blocking=True) for p in images]
    totals: Scores | None = None
    with torch.autocast(device.type, precision, enabled=precision is not None):
        for scale in scales:
            batch = render(lay_out(originals, patches, scale, shapes=shapes), pixels, device)
            scores: Scores = network(batch, chunk=chunk)
            totals = scores if totals is None else _plus(totals, scores)
    if totals is None:
        raise ValueError("at least one scale is needed")
    return totals


def score_images(
    network: nn.Module,
    images: Sequence[ImageInput],
    scales: Sequence[int],
    device: torch.device | str = "cpu",
    **ways: Any,
) -> list[ImageScores]:
    """Return the scores of images that share a pass, at each scale, added up as the authors' program does.

    For an image's score the maximum over patches is taken at each scale and averaged over scales; for a patch's score the
    raw scores are summed over scales first.
    """
    totals = score_on_device(network, images, scales, device, **ways)
    counts = [len(p.patches) for p in images]
    per_image = [_rows(total, len(scales)) for total in (totals.classification, totals.discovery)]
    refined = None if totals.refinement is None else totals.refinement.probabilities
    per_patch = [_split(total, counts) for total in (totals.patches, totals.parts, refined)]
    return [ImageScores(*(scores[i] for scores in (*per_image, *per_patch))) for i in range(len(images))]


def _plus(first: Any, second: Any) -> Any:
    """Return the sum of scores: of tensors, of each field of a tuple, and None where there is nothing to add."""
    if first is None or second is None:
        return None
    if isinstance(first, tuple):
        return type(first)(*map(_plus, first, second))
    return first + second


class _Nothing:
    """None at every index: what stands for the scores of a head that is not there."""

    def __getitem__(self, index: int) -> None:
        return None


def _rows(total: Tensor | None, scales: int) -> np.ndarray | _Nothing:
    return _Nothing() if total is None else (total / scales).float().cpu().numpy()


def _split(total: Tensor | None, counts: list[int]) -> list[np.ndarray] | _Nothing:
    return _Nothing() if total is None else [part.float().cpu().numpy() for part in total.split(counts)]


class _Ranked(NamedTuple):
    """What leaves the device for one pass: image scores (I, C) of each head, that of the two-stream head as a logit; per image
    the boxes (P, 4) where they moved, the patches of each class, best first, (C, P), or (C, M) where they are elected, and their
    scores; `ready` says when the copies are whole."""

    classification: Tensor | None
    discovery: Tensor | None
    two_stream: Tensor | None
    moved: list[Tensor]
    orders: list[Tensor]
    scores: list[Tensor]
    ready: torch.cuda.Event | None


class Model:
    """A trained network with its class names: `model.predict(image)` says what is in it and where."""

    def __init__(
        self,
        network: nn.Module,
        classes: Sequence[str],
        scales: Sequence[int],
        patch_generator: PatchGenerator,
        device: str | None = None,
        nms: float = 0.3,
        boxes_per_class: int = 30,
        box_selection: BoxSelection | None = None,
        shapes: int = 0,
        precision: str = "32-true",
        two_stream_tags: bool = False,
        calibration: Calibration | None = None,
    ) -> None:
        self.device = torch.device(usable_device(device or "auto"))
        self.network: Any = network.eval().to(self.device)
        if self.device.type == "cuda":
            self.network.to(memory_format=torch.channels_last)
        self.classes = tuple(classes)
        self.scales = tuple(scales)
        self.patch_generator = patch_generator
        self.nms = nms
        self.boxes_per_class = boxes_per_class
        self.box_selection = box_selection or BoxSelection()
        self.shapes = shapes
        self.half = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(
            usable_precision(precision, self.device.type)
        )
        self.two_stream_tags = two_stream_tags
        self.calibration = calibration
        self._chunk = PATCHES_AT_ONCE

    def _calibrated(self) -> dict[str, Any]:
        """Return what a calibration adds to each prediction."""
        if self.calibration is None:
            return {}
        lines = np.stack((self.calibration.slopes, self.calibration.biases), axis=1)
        of_boxes = self.calibration.box_lines
        return {"calibration": lines, "box_calibration": of_boxes, "threshold": tuple(self.calibration.thresholds)}

    def predict(self, image: str | Path | np.ndarray) -> Prediction:
        """Return what is found in one image: a path, or an (H, W, 3) uint8 RGB array."""
        if isinstance(image, np.ndarray):
            pixels, name = image, "image"
        else:
            pixels, name = read_image(image), Path(image).name
        found = next(self.predict_images([ImageInput(name, pixels, self.patch_generator(pixels))]))
        return found if isinstance(image, np.ndarray) else dataclasses.replace(found, source=Path(image))

    def predict_images(self, images: Iterable[ImageInput], images_per_micro_batch: int = 1) -> Iterator[Prediction]:
        """Yield the predictions of images with their patches, in order; neighbours of one size share a pass.

        The device works on a pass while the host finishes the one before.
        """
        begun: tuple[list[ImageInput], _Ranked] | None = None
        for together in self._passes(images, images_per_micro_batch):
            ranked = self._rank(together)
            if begun is not None:
                yield from self._finish(*begun)
            begun = together, ranked
        if begun is not None:
            yield from self._finish(*begun)

    def _passes(self, images: Iterable[ImageInput], most: int) -> Iterator[list[ImageInput]]:
        waiting: list[ImageInput] = []
        for image in images:
            if waiting and (len(waiting) == most or self._size(image) != self._size(waiting[0])):
                yield waiting
                waiting = []
            waiting.append(image)
        if waiting:
            yield waiting

    def _size(self, image: ImageInput) -> tuple[int, int]:
        return scaled_size(image.image.shape[0], image.image.shape[1], 1_000, self.shapes)

    def scores(self, images: Sequence[ImageInput]) -> list[ImageScores]:
        """Return the raw scores of images that share a pass."""
        return score_images(
            self.network, images, self.scales, self.device, shapes=self.shapes, precision=self.half, chunk=self._chunk
        )

    @torch.inference_mode()
    def _rank(self, images: list[ImageInput]) -> _Ranked:
        """Return image scores and ranked patches, on their way to the host."""
        totals = self._totals(images)
        boxes = self._boxes(images, totals)
        counts = [len(own) for own in boxes]
        orders, scores = [], []
        rank, of_patches = self.box_selection.rank_scores, totals.patches
        if totals.refinement is not None:
            rank, of_patches = self.box_selection.rank_probabilities, totals.refinement.probabilities
        if of_patches is not None:
            for own, found in zip(boxes, of_patches.float().split(counts), strict=True):
                ranked = rank(own, found, len(self.scales))
                orders.append(_to_host(ranked.rows.int()))
                scores.append(_to_host(ranked.scores))
        two_stream = None if totals.refinement is None else totals.refinement.image
        heads = [totals.classification, totals.discovery, two_stream]
        means = [None if total is None else total.float() / len(self.scales) for total in heads]
        if means[2] is not None:
            means[2] = means[2].clamp(SMALLEST, 1 - SMALLEST).logit()
        sent = [None if mean is None else _to_host(mean) for mean in means]
        moved = [_to_host(own) for own in boxes] if _moves(totals) else []
        ready = None
        if self.device.type == "cuda":
            ready = torch.cuda.Event()
            ready.record()
        return _Ranked(sent[0], sent[1], sent[2], moved, orders, scores, ready)

    def _boxes(self, images: list[ImageInput], totals: Scores) -> list[Tensor]:
        """Return the boxes (P, 4) of each image: its patches, moved by the mean offsets over scales where they are learnt."""
        boxes = [torch.as_tensor(p.patches).to(self.device, torch.float32, non_blocking=True) for p in images]
        if totals.refinement is None or totals.refinement.offsets is None:
            return boxes
        offsets = totals.refinement.offsets.float() / len(self.scales)  # (P, 4)
        moved = decoded(torch.cat(boxes), offsets[:, None])[:, 0]  # (P, 4)
        parts = moved.split([len(own) for own in boxes])
        sizes = [image.image.shape[:2] for image in images]
        return [inside(part, height, width) for part, (height, width) in zip(parts, sizes, strict=True)]

    def _totals(self, images: list[ImageInput]) -> Scores:
        """Return the scores summed over scales; where memory does not reach, fewer patches pass at once from then on."""
        while True:
            try:
                return score_on_device(
                    self.network, images, self.scales, self.device, self.shapes, self.half, self._chunk
                )
            except torch.cuda.OutOfMemoryError as error:
                if self._chunk <= FEWEST_AT_ONCE:
                    raise RunError(
                        f"the device's memory does not hold {len(images)} images of {max(self.scales)} pixels "
                        f"({str(error).split('.')[0]}). Use smaller --scales, or --device cpu."
                    ) from None
            torch.cuda.empty_cache()
            self._chunk //= 2
            console.print(f"the device's memory is short: {self._chunk} patches pass at once from now on", markup=False)

    def _finish(self, images: list[ImageInput], ranked: _Ranked) -> Iterator[Prediction]:
        from deep_patch_learning.inference.nms import gather, nms

        if ranked.ready is not None:
            ranked.ready.synchronize()
        for i, image in enumerate(images):
            heads = [None if head is None else head[i].numpy() for head in (ranked.classification, ranked.discovery)]
            of_image = [head for head in heads if head is not None]
            if ranked.two_stream is not None and (self.two_stream_tags or not of_image):
                of_image.append(ranked.two_stream[i].numpy())
            order = ranked.orders[i].numpy() if ranked.orders else None
            boxes = ranked.moved[i].numpy() if ranked.moved else image.patches.astype(np.float32)
            found = np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32)
            if order is not None and self.box_selection.elections:
                # an election leaves only boxes that lie apart
                most = self.boxes_per_class
                found = gather(boxes, order[:, :most], ranked.scores[i].numpy()[:, :most])
            elif order is not None:
                found = nms(boxes, order, ranked.scores[i].numpy(), self.nms, self.boxes_per_class)
            yield Prediction(
                name=image.name,
                classes=self.classes,
                height=image.image.shape[0],
                width=image.image.shape[1],
                image_scores=np.sum(of_image, axis=0),
                classification_scores=heads[0],
                discovery_scores=heads[1],
                found_boxes=found[0],
                found_classes=found[1],
                found_scores=found[2],
                best_boxes=None if order is None else boxes[order[:, 0]],
                **self._calibrated(),
            )


def _moves(totals: Scores) -> bool:
    return totals.refinement is not None and totals.refinement.offsets is not None


def _to_host(tensor: Tensor) -> Tensor:
    """Return a copy on the host that is whole only when the device has come so far."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
