"""Network -> raw scores of images, added up over scales as in the authors' program; and which heads make an image score."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.devices import usable_precision
from deep_patch_learning.data.batch import lay_out, render
from deep_patch_learning.inference.prediction import HeadScores
from deep_patch_learning.model.network import Scores
from deep_patch_learning.refinement.selection import SMALLEST, BoxSelection

# Up to this many patches of a micro-batch pass the patch layers at once; VGG16's fc6 input then takes 400 MB in half precision.
PATCHES_AT_ONCE = 8_000


class ImageInput(NamedTuple):
    """An image ready for prediction: its name, pixels (H, W, 3) uint8 RGB, patches (P, 4), and its file where it has one."""

    name: str
    image: np.ndarray
    patches: np.ndarray
    source: Path | None = None


@dataclass(frozen=True)
class PredictSettings:
    """How a trained network is used on images.

    `scales` are the lengths of an image's longest side. `shapes` rounds the ratio of its sides (see `scaled_size`). `precision`
    is that of a recipe. At most `boxes_per_class` boxes of a class are kept, in which `box_selection` says the order and
    `nms` the IoU from which one suppresses another. With `two_stream_tags` the image score includes the two-stream head.
    """

    scales: tuple[int, ...]
    shapes: int = 0
    precision: str = "32-true"
    box_selection: BoxSelection = field(default_factory=BoxSelection)
    nms: float = 0.3
    boxes_per_class: int = 30
    two_stream_tags: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(self.scales))
        if not self.scales:
            raise ValueError("at least one scale is needed")


def head_scores(totals: Scores, settings: PredictSettings) -> HeadScores:
    """Return the scores (I, C) of each head that counts for tags, from scores summed over scales.

    The two-stream head counts where the settings say so, or where there is no other head.
    """
    scales = len(settings.scales)
    heads = (totals.classification, totals.discovery)
    classification, discovery = (None if total is None else total.float() / scales for total in heads)
    two_stream = None
    if totals.refinement is not None and (settings.two_stream_tags or heads == (None, None)):
        mean = totals.refinement.image.float() / scales
        two_stream = mean.clamp(SMALLEST, 1 - SMALLEST).logit()
    return HeadScores(classification, discovery, two_stream)


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
    settings: PredictSettings,
    device: torch.device | str = "cpu",
    chunk: int = PATCHES_AT_ONCE,
) -> Scores:
    """Return the scores of images that share a micro-batch, summed over scales, where they were computed.

    For an image's score the maximum over patches is taken at each scale, then summed; a patch's raw scores are summed first.
    """
    device = torch.device(device)
    half = _half_precision(settings.precision, device)
    originals = [(one.image.shape[0], one.image.shape[1]) for one in images]
    patches = [one.patches for one in images]
    pixels = [torch.as_tensor(one.image).to(device, non_blocking=True) for one in images]
    totals: Scores | None = None
    with torch.autocast(device.type, half, enabled=half is not None):
        for scale in settings.scales:
            batch = render(lay_out(originals, patches, scale, shapes=settings.shapes), pixels, device)
            scores: Scores = network(batch, chunk=chunk)
            totals = scores if totals is None else _plus(totals, scores)
    assert totals is not None  # there is at least one scale
    return totals


def score_images(
    network: nn.Module,
    images: Sequence[ImageInput],
    settings: PredictSettings,
    device: torch.device | str = "cpu",
    chunk: int = PATCHES_AT_ONCE,
) -> list[ImageScores]:
    """Return the scores of images that share a micro-batch, at each scale, added up as the authors' program does.

    For an image's score the maximum over patches is taken at each scale and averaged over scales; for a patch's score the
    raw scores are summed over scales first.
    """
    totals = score_on_device(network, images, settings, device, chunk)
    counts = [len(one.patches) for one in images]
    scales = len(settings.scales)
    per_image = [_rows(total, scales, len(images)) for total in (totals.classification, totals.discovery)]
    refined = None if totals.refinement is None else totals.refinement.probabilities
    per_patch = [_split(total, counts) for total in (totals.patches, totals.parts, refined)]
    return [ImageScores(*(scores[i] for scores in (*per_image, *per_patch))) for i in range(len(images))]


def _half_precision(precision: str, device: torch.device) -> torch.dtype | None:
    return {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(usable_precision(precision, device.type))


def _plus(first: Any, second: Any) -> Any:
    """Return the sum of scores: of tensors, of each field of a tuple, and None where there is nothing to add."""
    if first is None or second is None:
        return None
    if isinstance(first, tuple):
        return type(first)(*map(_plus, first, second))
    return first + second


def _rows(total: Tensor | None, scales: int, images: int) -> Sequence[np.ndarray | None]:
    return [None] * images if total is None else list((total / scales).float().cpu().numpy())


def _split(total: Tensor | None, counts: list[int]) -> Sequence[np.ndarray | None]:
    return [None] * len(counts) if total is None else [part.float().cpu().numpy() for part in total.split(counts)]
