"""Network -> raw scores of images, added up over views as in the authors' program; and which heads make an image score.

A view is an image at one scale, as it is or mirrored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.boxes import flip
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


def mirrored_input(image: ImageInput) -> ImageInput:
    """Return an image and its patches mirrored."""
    return image._replace(
        image=np.ascontiguousarray(image.image[:, ::-1]), patches=flip(image.patches, image.image.shape[1])
    )


@dataclass(frozen=True)
class PredictSettings:
    """How a trained network is used on images.

    `scales` are the lengths of an image's longest side; with `flips` each is seen mirrored too. `shapes` rounds the ratio of
    its sides (see `scaled_size`). `precision` is that of a recipe. At most `boxes_per_class` boxes of a class are kept, in
    which `box_selection` says the order and `nms` the IoU from which one suppresses another. With `two_stream_tags` the image
    score includes the two-stream head.
    """

    scales: tuple[int, ...]
    shapes: int = 0
    precision: str = "32-true"
    box_selection: BoxSelection = field(default_factory=BoxSelection)
    nms: float = 0.3
    boxes_per_class: int = 30
    two_stream_tags: bool = False
    flips: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(self.scales))
        if not self.scales:
            raise ValueError("at least one scale is needed")

    @property
    def views(self) -> list[tuple[int, bool]]:
        """The scale of each view, and whether it is mirrored."""
        return [(scale, flip) for scale in self.scales for flip in ((False, True) if self.flips else (False,))]


def head_scores(totals: Scores, settings: PredictSettings) -> HeadScores:
    """Return the scores (I, C) of each head that counts for tags, from scores summed over views.

    The two-stream head counts where the settings say so, or where there is no other head.
    """
    views = len(settings.views)
    heads = (totals.classification, totals.discovery)
    classification, discovery = (None if total is None else total.float() / views for total in heads)
    two_stream = None
    if totals.refinement is not None and (settings.two_stream_tags or heads == (None, None)):
        mean = totals.refinement.image.float() / views
        two_stream = mean.clamp(SMALLEST, 1 - SMALLEST).logit()
    return HeadScores(classification, discovery, two_stream)


class ImageScores(NamedTuple):
    """The raw scores of one image, added up over views; None where the network lacks the head.

    `classification` and `discovery` (C,) are means over views; `patches` (P, C) sums; `parts` (P, N) sums; `refined` (P, C) is
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
    """Return the scores of images that share a micro-batch, summed over views, where they were computed.

    For an image's score the maximum over patches is taken in each view, then summed; a patch's raw scores are summed first.
    """
    device = torch.device(device)
    half = _half_precision(settings.precision, device)
    originals = [(one.image.shape[0], one.image.shape[1]) for one in images]
    patches = [one.patches for one in images]
    pixels = [torch.as_tensor(one.image).to(device, non_blocking=True) for one in images]
    totals: Scores | None = None
    with torch.autocast(device.type, half, enabled=half is not None):
        for scale, mirror in settings.views:
            layout = lay_out(originals, patches, scale, [mirror] * len(images), settings.shapes)
            scores: Scores = network(render(layout, pixels, device), chunk=chunk)
            scores = _mirrored(scores) if mirror else scores
            totals = scores if totals is None else _plus(totals, scores)
    assert totals is not None  # there is at least one view
    return totals


def score_images(
    network: nn.Module,
    images: Sequence[ImageInput],
    settings: PredictSettings,
    device: torch.device | str = "cpu",
    chunk: int = PATCHES_AT_ONCE,
) -> list[ImageScores]:
    """Return the scores of images that share a micro-batch, in each view, added up as the authors' program does.

    For an image's score the maximum over patches is taken in each view and averaged over views; for a patch's score the
    raw scores are summed over views first.
    """
    totals = score_on_device(network, images, settings, device, chunk)
    counts = [len(one.patches) for one in images]
    views = len(settings.views)
    per_image = [_rows(total, views, len(images)) for total in (totals.classification, totals.discovery)]
    refined = None if totals.refinement is None else totals.refinement.probabilities
    per_patch = [_split(total, counts) for total in (totals.patches, totals.parts, refined)]
    return [ImageScores(*(scores[i] for scores in (*per_image, *per_patch))) for i in range(len(images))]


def _half_precision(precision: str, device: torch.device) -> torch.dtype | None:
    return {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(usable_precision(precision, device.type))


def _mirrored(scores: Scores) -> Scores:
    """Return the scores of mirrored images with offsets (P, 4) that move boxes of the images as they are."""
    if scores.refinement is None or scores.refinement.offsets is None:
        return scores
    offsets = scores.refinement.offsets * scores.refinement.offsets.new_tensor([-1, 1, 1, 1])  # the centre's x
    return scores._replace(refinement=scores.refinement._replace(offsets=offsets))


def _plus(first: Any, second: Any) -> Any:
    """Return the sum of scores: of tensors, of each field of a tuple, and None where there is nothing to add."""
    if first is None or second is None:
        return None
    if isinstance(first, tuple):
        return type(first)(*map(_plus, first, second))
    return first + second


def _rows(total: Tensor | None, views: int, images: int) -> Sequence[np.ndarray | None]:
    return [None] * images if total is None else list((total / views).float().cpu().numpy())


def _split(total: Tensor | None, counts: list[int]) -> Sequence[np.ndarray | None]:
    return [None] * len(counts) if total is None else [part.float().cpu().numpy() for part in total.split(counts)]
