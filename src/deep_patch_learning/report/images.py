"""The images of the page: small enough to be embedded, with boxes over them and the predicted tags."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.drawing import as_image
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.evaluation.matching import overlaps
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.report.opinions import thresholds_of

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

TAG_STATES = {PRESENT: "tagged", ABSENT: "not tagged", UNKNOWN: "unknown"}


@dataclass(frozen=True)
class ScoredTag:
    """A class in an image: its probability, its best box, and the state of its tag (a value of TAG_STATES).

    `box` is None for a network that only classifies; `iou` with the true boxes and `right` are None without a true box. From
    a probability of `threshold` the network predicts the tag.
    """

    name: str
    class_index: int
    probability: float
    box: np.ndarray | None = None
    iou: float | None = None
    right: bool | None = None
    state: str = TAG_STATES[PRESENT]
    threshold: float = 0.5


class PlacedBox(NamedTuple):
    """A box over an image, in percent of its width and height; `kind` is right, wrong, found or true."""

    left: float
    top: float
    width: float
    height: float
    kind: str
    label: str = ""


class Thumbnail(NamedTuple):
    """A small image as a data URI; `width` and `height` are its pixels."""

    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class Card:
    """An image with boxes over it, the tags it is shown for, and classes that are predicted and not tagged."""

    name: str
    thumbnail: Thumbnail
    boxes: tuple[PlacedBox, ...]
    tags: tuple[ScoredTag, ...]
    untagged: tuple[tuple[str, float], ...] = ()

    @property
    def alt(self) -> str:
        """Return the alternative text of the image."""
        text = ", ".join(f"{tag.name} {100 * tag.probability:.0f}%, {tag.state}" for tag in self.tags)
        return f"{self.name}: {text}" if text else self.name


def scored_tags(
    prediction: Prediction,
    labels: np.ndarray,
    truth: "TrueBoxes | None",
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> tuple[ScoredTag, ...]:
    """Return each tag of the image with its scores; right when the best box of its class lies on a true one, as in CorLoc.

    `labels` (C,) of present, absent and unknown. A tag without a true box cannot be judged.
    """
    present = np.flatnonzero(np.asarray(labels) == PRESENT).tolist()
    return tuple(scored_tag(prediction, index, labels, truth, threshold=threshold, strict=strict) for index in present)


def scored_tag(
    prediction: Prediction,
    index: int,
    labels: np.ndarray,
    truth: "TrueBoxes | None",
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> ScoredTag:
    """Return one class of an image with its scores, judged where the class has a true box."""
    box = None if prediction.best_boxes is None else prediction.best_boxes[index]
    true_boxes = np.zeros((0, 4)) if truth is None else truth.of_class(index)
    iou = float(box_iou(box, true_boxes).max()) if box is not None and len(true_boxes) else None
    return ScoredTag(
        prediction.classes[index],
        index,
        float(prediction.probabilities[index]),
        box,
        iou,
        None if iou is None else bool(overlaps(np.asarray(iou), threshold, strict)),
        TAG_STATES[int(labels[index])],
        float(thresholds_of(prediction)[index]),
    )


@dataclass(frozen=True)
class CardMaker:
    """Makes the cards of images, with the predictions and true boxes of each.

    `side` and `most_bytes` bound each thumbnail. Thumbnails are kept, since many are shown more than once.
    """

    images: TaggedImages
    predictions: Sequence[Prediction]
    truth: "Sequence[TrueBoxes | None]"
    strict: bool
    side: int
    most_bytes: int
    kept: dict[int, Thumbnail]

    def thumbnail(self, index: int) -> Thumbnail:
        """Return a small version of the image."""
        if index not in self.kept:
            self.kept[index] = small(as_image(self.images.read(index)), self.side, self.most_bytes)
        return self.kept[index]

    def of_class(self, image: int, class_index: int) -> Card:
        """Return the card that shows an image for one class: its best box, and the true ones dashed."""
        prediction, truth = self.predictions[image], self.truth[image]
        found = scored_tag(prediction, class_index, self.images.labels[image], truth, strict=self.strict)
        return Card(prediction.name, self.thumbnail(image), placed((found,), truth, prediction), (found,))

    def of_tags(self, image: int) -> Card:
        """Return the card that shows an image with all of its tags."""
        prediction, truth, labels = self.predictions[image], self.truth[image], self.images.labels[image]
        tags = scored_tags(prediction, labels, truth, strict=self.strict)
        likely = [tag for tag in prediction.tags if labels[prediction.classes.index(tag.name)] != PRESENT]
        untagged = tuple((tag.name, tag.probability) for tag in likely)
        return Card(prediction.name, self.thumbnail(image), placed(tags, truth, prediction, named=True), tags, untagged)


def placed(
    tags: Sequence[ScoredTag], truth: "TrueBoxes | None", prediction: Prediction, *, named: bool = False
) -> tuple[PlacedBox, ...]:
    """Return the true boxes of the tags' classes, then the found boxes over them; `named` labels the latter."""
    size = prediction.width, prediction.height
    made = []
    for one in tags:
        true_boxes = np.zeros((0, 4)) if truth is None or one.box is None else truth.of_class(one.class_index)
        made += [place(box, size, "true") for box in true_boxes]
    kinds = {True: "right", False: "wrong", None: "found"}
    for one in tags:
        if one.box is not None:
            made.append(place(one.box, size, kinds[one.right], one.name if named else ""))
    return tuple(made)


def place(box: np.ndarray, size: tuple[int, int], kind: str, label: str = "") -> PlacedBox:
    """Return a box in pixels of an image of `size` (width, height) as percentages of it, kept inside."""
    x1, y1, x2, y2 = np.clip(np.asarray(box, np.float64) / (*size, *size) * 100, 0, 100).tolist()
    return PlacedBox(x1, y1, x2 - x1, y2 - y1, kind, label)


def small(image: Image.Image, side: int, most_bytes: int) -> Thumbnail:
    """Return the image with its longest side at `side` at most, as a JPEG of at most `most_bytes`.

    Quality is lowered until it fits, then size. An image smaller than `side` keeps its size.
    """
    while True:
        factor = min(1.0, side / max(image.size))
        size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
        scaled = image if factor == 1.0 else image.resize(size, Image.Resampling.LANCZOS)
        for quality in (82, 74, 66, 58, 50, 40, 30):
            buffer = io.BytesIO()
            scaled.save(buffer, "JPEG", quality=quality)  # not `optimize`: Pillow fails at it on noisy images
            if buffer.tell() <= most_bytes or max(size) <= 16:
                uri = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
                return Thumbnail(uri, *scaled.size)
        side = max(size) * 3 // 4
