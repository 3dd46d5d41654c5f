"""A trained network with its class names: images in, `Prediction`s out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.boxes import decoded, inside, nms
from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import DataError, DplError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.batch import scaled_size
from deep_patch_learning.data.images import image_files, pixels_of, read_image
from deep_patch_learning.inference.calibration import Calibration
from deep_patch_learning.inference.prediction import HeadScores, Prediction
from deep_patch_learning.inference.scoring import (
    PATCHES_AT_ONCE,
    ImageInput,
    ImageScores,
    PredictSettings,
    head_scores,
    score_images,
    score_on_device,
)
from deep_patch_learning.inference.stream import plan_for, stream
from deep_patch_learning.model.network import Scores
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.generator import PatchGenerator, ProposalFile
from deep_patch_learning.refinement.selection import Ranked, other_way

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ImageInput", "ImageScores", "Model", "PredictSettings"]

FEWEST_AT_ONCE = 125  # patches


class _Begun(NamedTuple):
    """What leaves the device for one micro-batch: the image scores (I, C) of each head; per image the boxes (P, 4) where they
    moved, and the patches of each class in their order; the patch (C,) of each class that the other way selects, with
    the paper's heads; `ready` says when the copies are whole."""

    heads: HeadScores
    moved: list[Tensor]
    orders: list[Ranked]
    otherwise: list[Tensor]
    ready: torch.cuda.Event | None


class Model:
    """A trained network with its class names: `model.predict(image)` says what is in it and where."""

    views_are_fixed = False  # True where scales and flips cannot be changed

    def __init__(
        self,
        network: nn.Module,
        classes: Sequence[str],
        settings: PredictSettings,
        patch_generator: PatchGenerator,
        device: str | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.device = torch.device(usable_device(device or "auto"))
        self.network: Any = network.eval().to(self.device)
        if self.device.type == "cuda":
            self.network.to(memory_format=torch.channels_last)
        self.classes = tuple(classes)
        self.settings = settings
        self.patch_generator = patch_generator
        self.calibration = calibration
        self._cache: PatchCache | None = None
        self._keeps_patches = True
        self._chunk = PATCHES_AT_ONCE

    @property
    def finds_boxes(self) -> bool:
        """Whether a head scores patches; of an ensemble, one of each network."""
        networks = getattr(self.network, "members", [self.network])
        return all(network.discovery is not None or network.refinement is not None for network in networks)

    @property
    def scales(self) -> tuple[int, ...]:
        """The lengths of an image's longest side at which the network sees it."""
        return self.settings.scales

    def with_settings(self, **changes: Any) -> "Model":
        """Return a model with the same network and some of the settings changed, such as `nms=0.4`."""
        settings = replace(self.settings, **changes)
        return type(self)(
            self.network, self.classes, settings, self.patch_generator, str(self.device), self.calibration
        )

    @overload
    def predict(self, source: "np.ndarray | Image.Image") -> Prediction: ...
    @overload
    def predict(
        self,
        source: "Sequence[str | Path | np.ndarray | Image.Image]",
        on_broken: Callable[[Any, DataError], None] | None = None,
    ) -> Iterator[Prediction]: ...
    @overload
    def predict(self, source: str | Path, on_broken: Callable[[Any, DataError], None] | None = None) -> Any: ...
    def predict(self, source: Any, on_broken: Callable[[Any, DataError], None] | None = None) -> Any:
        """Return the prediction of an image, or an iterator over the predictions of several.

        An image is a file, an (H, W, 3) uint8 RGB array or a PIL image. Several are a list of those, or a folder. They are
        predicted as the iterator is read, in order; memory does not grow with their number.

        An image that cannot be read raises `DataError`. Among several it is left out after `on_broken(source, error)`, which
        without a function of yours prints the error.
        """
        if isinstance(source, str | Path) and Path(source).is_dir():
            return self._predict_all(image_files([Path(source)]), on_broken or _print_broken)
        if isinstance(source, list | tuple):
            return self._predict_all(source, on_broken or _print_broken)
        found = next(self.stream([source]))[1]
        if isinstance(found, DataError):
            raise found
        return found

    def _predict_all(self, sources: Sequence[Any], on_broken: Callable[[Any, DataError], None]) -> Iterator[Prediction]:
        for source, found in self.stream(sources):
            if isinstance(found, DataError):
                on_broken(source, found)
            else:
                yield found

    def stream(
        self,
        sources: Iterable[Any],
        read: Callable[[Any], ImageInput] | None = None,
        images_per_micro_batch: int | None = None,
    ) -> Iterator[tuple[Any, Prediction | DataError]]:
        """Yield each image (see `predict`) with its prediction, or with the error where it cannot be read, in order.

        `read` makes the input from whatever the sources are, in a thread; files are read and their patches cached if it is not
        given. Images of one size share a micro-batch: 8 on a GPU, 1 on the CPU, or as many as given.
        """
        self._chunk = PATCHES_AT_ONCE  # memory that was short in an earlier call may be there again
        count = len(sources) if isinstance(sources, Sequence) else None
        plan = plan_for(self.device, max(self.scales), images_per_micro_batch, count)
        return stream(sources, read or self.read, self, plan)

    def predict_images(self, images: Iterable[ImageInput], images_per_micro_batch: int = 1) -> Iterator[Prediction]:
        """Yield the predictions of images whose patches are known, in order."""
        for _, found in self.stream(images, lambda image: image, images_per_micro_batch):
            if isinstance(found, DataError):
                raise found
            yield found

    def read(self, source: "str | Path | np.ndarray | Image.Image") -> ImageInput:
        """Return an image with its patches; those of a file come from the cache or are kept there."""
        if isinstance(source, str | Path):
            path = Path(source)
            pixels = read_image(path)
            return ImageInput(path.name, pixels, self._patches_of(path, pixels), path)
        if isinstance(source, np.ndarray):
            if source.ndim != 3 or source.shape[2] != 3 or source.dtype != np.uint8 or 0 in source.shape:
                raise DataError(
                    f"the image is an array {source.shape} of {source.dtype}; wanted (H, W, 3) of uint8, RGB."
                )
            return ImageInput("image", source, self.patch_generator(source))
        if not hasattr(source, "getexif"):
            raise DataError(
                f"{type(source).__name__} is no image. Give a path, an (H, W, 3) uint8 array or a PIL image."
            )
        file = getattr(source, "filename", "")
        pixels = pixels_of(source)
        return ImageInput(Path(file).name if file else "image", pixels, self.patch_generator(pixels))

    def _patches_of(self, path: Path, pixels: np.ndarray) -> np.ndarray:
        if isinstance(self.patch_generator, ProposalFile):
            return self.patch_generator.of(path, (pixels.shape[0], pixels.shape[1]))
        if not self._keeps_patches:
            return self.patch_generator(pixels)
        if self._cache is None:
            self._cache = PatchCache(None, self.patch_generator)
        try:
            return self._cache.patches_of(path, pixels)
        except DataError:
            raise
        except DplError as error:  # the cache saves time, but an image can be predicted without it
            console.print(f"patches are not kept: {error}", markup=False, style="yellow")
            self._keeps_patches = False
            return self.patch_generator(pixels)

    def size_of(self, image: ImageInput) -> tuple[int, int]:
        """Return the size in which an image passes the network, of images with a longest side of 1,000."""
        return scaled_size(image.image.shape[0], image.image.shape[1], 1_000, self.settings.shapes)

    def scores(self, images: Sequence[ImageInput]) -> list[ImageScores]:
        """Return the raw scores of images that share a micro-batch."""
        return score_images(self.network, images, self.settings, self.device, self._chunk)

    @torch.inference_mode()
    def begin(self, images: list[ImageInput]) -> Any:
        """Return image scores and ranked patches, on their way to the host."""
        totals = self._totals(images)
        boxes = self._boxes(images, totals)
        counts = [len(own) for own in boxes]
        orders, otherwise = [], []
        selection = self.settings.box_selection
        rank, of_patches = selection.rank_scores, totals.patches
        if totals.refinement is not None:
            rank, of_patches = selection.rank_probabilities, totals.refinement.probabilities
        if of_patches is not None:
            for own, found in zip(boxes, of_patches.float().split(counts), strict=True):
                ranked = rank(own, found, len(self.settings.views))
                orders.append(Ranked(_to_host(ranked.rows), _to_host(ranked.scores)))
                if totals.refinement is None:
                    otherwise.append(_to_host(other_way(own, found, len(self.settings.views), selection)))
        heads = HeadScores(*(None if head is None else _to_host(head) for head in head_scores(totals, self.settings)))
        moved = [_to_host(own) for own in boxes] if _moves(totals) else []
        ready = None
        if self.device.type == "cuda":
            ready = torch.cuda.Event()
            ready.record()
        return _Begun(heads, moved, orders, otherwise, ready)

    def _boxes(self, images: list[ImageInput], totals: Scores) -> list[Tensor]:
        """Return the boxes (P, 4) of each image: its patches, moved by the mean offsets over views where they are learnt."""
        boxes = [torch.as_tensor(one.patches).to(self.device, torch.float32, non_blocking=True) for one in images]
        if totals.refinement is None or totals.refinement.offsets is None:
            return boxes
        offsets = totals.refinement.offsets.float() / len(self.settings.views)  # (P, 4)
        moved = decoded(torch.cat(boxes), offsets[:, None])[:, 0]  # (P, 4)
        parts = moved.split([len(own) for own in boxes])
        sizes = [image.image.shape[:2] for image in images]
        return [inside(part, height, width) for part, (height, width) in zip(parts, sizes, strict=True)]

    def _totals(self, images: list[ImageInput]) -> Scores:
        """Return the scores summed over views; where memory is short, fewer patches pass at once for the rest of the call."""
        while True:
            try:
                return score_on_device(self.network, images, self.settings, self.device, self._chunk)
            except torch.cuda.OutOfMemoryError as error:
                if self._chunk <= FEWEST_AT_ONCE:
                    raise RunError(
                        f"the device's memory does not hold {len(images)} images of {max(self.scales)} pixels "
                        f"({str(error).split('.')[0]}). Use smaller --scales, or --device cpu."
                    ) from None
            torch.cuda.empty_cache()
            self._chunk //= 2
            console.print(f"the device's memory is short: {self._chunk} patches pass at once from now on", markup=False)

    @torch.inference_mode()
    def finish(self, images: list[ImageInput], begun: Any) -> list[Prediction]:
        """Return the predictions of images that `begin` has begun."""
        if begun.ready is not None:
            begun.ready.synchronize()
        return [self._prediction(image, begun, index) for index, image in enumerate(images)]

    def _prediction(self, image: ImageInput, ranked: _Begun, index: int) -> Prediction:
        heads = HeadScores(*(None if head is None else head[index].numpy() for head in ranked.heads))
        boxes = ranked.moved[index] if ranked.moved else torch.from_numpy(image.patches.astype(np.float32))
        found: tuple[Any, Any, Any] = np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32)
        best = None
        if ranked.orders:
            best = boxes[ranked.orders[index].rows[:, 0]].numpy()
            found = selected_boxes(boxes, ranked.orders[index], self.settings)
        return Prediction(
            name=image.name,
            classes=self.classes,
            height=image.image.shape[0],
            width=image.image.shape[1],
            image_scores=heads.image_scores(),
            classification_scores=heads.classification,
            discovery_scores=heads.discovery,
            two_stream_scores=heads.two_stream,
            found_boxes=found[0],
            found_classes=found[1],
            found_scores=found[2],
            best_boxes=best,
            **self._otherwise(boxes, ranked.otherwise[index] if ranked.otherwise else None),
            source=image.source,
            **self._calibrated(),
        )

    def _otherwise(self, boxes: Tensor, rows: Tensor | None) -> dict[str, Any]:
        """Return the boxes (C, 4) selected the other way, by the name of that way."""
        if rows is None:
            return {}
        return {"argmax_boxes" if self.settings.box_selection.vote else "voted_boxes": boxes[rows].numpy()}

    def _calibrated(self) -> dict[str, Any]:
        """Return what a calibration adds to each prediction."""
        if self.calibration is None:
            return {}
        lines = np.stack((self.calibration.slopes, self.calibration.biases), axis=1)
        of_boxes = self.calibration.box_lines
        return {"calibration": lines, "box_calibration": of_boxes, "threshold": tuple(self.calibration.thresholds)}


def selected_boxes(
    boxes: Tensor, ranked: Ranked, settings: PredictSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes (B, 4), classes (B,) and scores (B,) of all classes, best score first, from boxes (P, 4) in their order."""
    rows, scores = ranked
    there, most = scores > -torch.inf, min(settings.boxes_per_class, rows.shape[1])
    if settings.box_selection.elections or not most:  # elected boxes hardly overlap
        classes, places = there[:, :most].nonzero(as_tuple=True)
    else:
        kept, real = nms(boxes[rows], there, settings.nms, most)
        classes, columns = real.nonzero(as_tuple=True)
        places = kept[classes, columns]
    found = scores[classes, places].sort(descending=True, stable=True)
    classes, places = classes[found.indices], places[found.indices]
    return boxes[rows[classes, places]].numpy(), classes.numpy(), found.values.numpy()


def _print_broken(source: Any, error: DataError) -> None:
    console.print(f"left out: {error}", markup=False)


def _moves(totals: Scores) -> bool:
    return totals.refinement is not None and totals.refinement.offsets is not None


def _to_host(tensor: Tensor) -> Tensor:
    """Return a copy on the host that is whole only when the device has come so far."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
