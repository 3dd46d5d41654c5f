"""Pictures on the page: what was found, drawn and judged, and small enough to be embedded."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from deep_patch_learning.boxes import pairwise_iou
from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.drawing import as_picture, class_colour, draw_boxes, draw_verdict
from deep_patch_learning.evaluation.matching import overlaps
from deep_patch_learning.prediction import Prediction

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

LONGEST_SIDE = 480
SMALL = 320  # pictures below are enlarged, so that labels do not hide what they name
BOLD = 1.5  # lines and labels are drawn bolder by this: cards show the picture at about half its size
MOST_BYTES = 110_000  # of one embedded JPEG; quality falls until it fits


@dataclass(frozen=True)
class Find:
    """One tag of a picture and the best box of its class.

    `box` is None for a network that only classifies; `overlap` (IoU) and `right` are None where no true box is known.
    """

    tag: str
    class_index: int
    probability: float
    box: np.ndarray | None = None
    overlap: float | None = None
    right: bool | None = None


@dataclass(frozen=True)
class Card:
    """A drawn picture as a data URI, with the finds drawn on it and the classes predicted beyond its tags."""

    name: str
    uri: str
    width: int
    height: int
    finds: tuple[Find, ...]
    beyond: tuple[tuple[str, float], ...] = ()


def judge(
    prediction: Prediction,
    labels: np.ndarray,
    truth: "TrueBoxes | None",
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> tuple[Find, ...]:
    """Return a find for each tag of the picture; right when the best box of its class lies on a true one, as in CorLoc.

    `labels` (C,) of present, absent and unknown. A tag without a true box cannot be judged.
    """
    finds = []
    for index in np.flatnonzero(np.asarray(labels) == PRESENT).tolist():
        tag, probability = prediction.classes[index], float(prediction.probabilities[index])
        if prediction.best_boxes is None:
            finds.append(Find(tag, index, probability))
            continue
        box = prediction.best_boxes[index]
        true_boxes = np.zeros((0, 4)) if truth is None else truth.of_class(index)
        if not len(true_boxes):
            finds.append(Find(tag, index, probability, box))
            continue
        overlap = pairwise_iou(box, true_boxes).max()
        right = bool(overlaps(overlap, threshold, strict))
        finds.append(Find(tag, index, probability, box, float(overlap), right))
    return tuple(finds)


def verdict_card(
    image: np.ndarray,
    prediction: Prediction,
    labels: np.ndarray,
    truth: "TrueBoxes | None" = None,
    *,
    strict: bool = False,
) -> Card:
    """Return the picture (H, W, 3) uint8 with the best box of each of its tags drawn on it.

    Where true boxes are known, right boxes are green, wrong ones red and the true boxes of those tags dashed in white;
    elsewhere boxes have the colour of their class.
    """
    finds = judge(prediction, labels, truth, strict=strict)
    picture, factor = fitted(as_picture(image))
    drawn = _drawn(picture, finds, truth, factor)
    likely = [tag for tag in prediction.tags if labels[prediction.classes.index(tag.name)] != PRESENT]
    beyond = tuple((tag.name, tag.probability) for tag in likely)
    return Card(prediction.name, jpeg_uri(drawn), drawn.width, drawn.height, finds, beyond)


def _drawn(picture: Image.Image, finds: Sequence[Find], truth: "TrueBoxes | None", factor: float) -> Image.Image:
    unjudged = [find for find in finds if find.box is not None and find.right is None]
    if unjudged:
        colours = [class_colour(find.class_index) for find in unjudged]
        picture = draw_boxes(picture, _boxes(unjudged) * factor, [find.tag for find in unjudged], colours, scale=BOLD)
    judged = [find for find in finds if find.box is not None and find.right is not None]
    if judged and truth is not None:
        true_boxes = np.concatenate([truth.of_class(find.class_index) for find in judged])
        right = [bool(find.right) for find in judged]
        tags = [find.tag for find in judged]
        picture = draw_verdict(picture, _boxes(judged) * factor, right, tags, true_boxes * factor, scale=BOLD)
    return picture


def _boxes(finds: Sequence[Find]) -> np.ndarray:
    return np.array([find.box for find in finds], np.float64).reshape(-1, 4)


def fitted(picture: Image.Image) -> tuple[Image.Image, float]:
    """Return the picture at a size for the page, and the factor that its boxes must be multiplied by.

    Pictures below SMALL become up to three times as large, large ones shrink to LONGEST_SIDE; between, nothing changes.
    """
    longest = max(picture.size)
    enlarged = float(min(3, LONGEST_SIDE // longest))
    factor = enlarged if longest < SMALL else min(1.0, LONGEST_SIDE / longest)
    if factor == 1.0:
        return picture, factor
    size = max(1, round(picture.width * factor)), max(1, round(picture.height * factor))
    return picture.resize(size, Image.Resampling.LANCZOS), factor


def jpeg_uri(picture: Image.Image, most_bytes: int = MOST_BYTES) -> str:
    """Return the picture as a JPEG data URI, of lower quality where it would take more than `most_bytes`."""
    for quality in (82, 70, 55, 40, 25, 10):
        buffer = io.BytesIO()
        # full colour resolution: thin red lines blur without it; not `optimize`: Pillow fails at it on noisy pictures
        picture.save(buffer, "JPEG", quality=quality, subsampling=0)
        if buffer.tell() <= most_bytes:
            break
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
