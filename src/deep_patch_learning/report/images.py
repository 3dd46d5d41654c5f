"""Images on the page: small enough to be embedded, with boxes laid over them and what was found in words."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from deep_patch_learning.common.boxes import pairwise_iou
from deep_patch_learning.common.drawing import as_image
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.evaluation.matching import overlaps
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.report.opinions import thresholds_of

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

SAID = {PRESENT: "tagged", ABSENT: "not tagged", UNKNOWN: "unknown"}


@dataclass(frozen=True)
class Find:
    """A class in an image: how likely it is, the best box of it, and what the tags say (one of SAID's words).

    `box` is None for a network that only classifies; `overlap` (IoU) and `right` are None where no true box is known.
    From a probability of `threshold` on the class is shown as a tag.
    """

    tag: str
    class_index: int
    probability: float
    box: np.ndarray | None = None
    overlap: float | None = None
    right: bool | None = None
    said: str = SAID[PRESENT]
    threshold: float = 0.5


class PlacedBox(NamedTuple):
    """A box over an image, in percent of its width and height; `kind` is right, wrong, found or true."""

    left: float
    top: float
    width: float
    height: float
    kind: str
    label: str = ""


class Shot(NamedTuple):
    """A small image as a data URI; `width` and `height` are its pixels."""

    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class Card:
    """An image with boxes over it, the classes it is shown for, and further ones that were predicted and not tagged."""

    name: str
    shot: Shot
    boxes: tuple[PlacedBox, ...]
    finds: tuple[Find, ...]
    beyond: tuple[tuple[str, float], ...] = ()

    @property
    def alt(self) -> str:
        """Return what the image shows, for those who do not see it."""
        told = ", ".join(f"{find.tag} {100 * find.probability:.0f}%, {find.said}" for find in self.finds)
        return f"{self.name}: {told}" if told else self.name


def judge(
    prediction: Prediction,
    labels: np.ndarray,
    truth: "TrueBoxes | None",
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> tuple[Find, ...]:
    """Return a find for each tag of the image; right when the best box of its class lies on a true one, as in CorLoc.

    `labels` (C,) of present, absent and unknown. A tag without a true box cannot be judged.
    """
    present = np.flatnonzero(np.asarray(labels) == PRESENT).tolist()
    return tuple(find(prediction, index, labels, truth, threshold=threshold, strict=strict) for index in present)


def find(
    prediction: Prediction,
    index: int,
    labels: np.ndarray,
    truth: "TrueBoxes | None",
    *,
    threshold: float = 0.5,
    strict: bool = False,
) -> Find:
    """Return what the network says of one class of an image, judged where the class has a true box."""
    box = None if prediction.best_boxes is None else prediction.best_boxes[index]
    true_boxes = np.zeros((0, 4)) if truth is None else truth.of_class(index)
    overlap = float(pairwise_iou(box, true_boxes).max()) if box is not None and len(true_boxes) else None
    return Find(
        prediction.classes[index],
        index,
        float(prediction.probabilities[index]),
        box,
        overlap,
        None if overlap is None else bool(overlaps(np.asarray(overlap), threshold, strict)),
        SAID[int(labels[index])],
        float(thresholds_of(prediction)[index]),
    )


@dataclass(frozen=True)
class CardMaker:
    """Images with what was found in each and what is true; makes cards and holds no image open.

    `side` and `most_bytes` bound each image. Small images are kept, since many are shown more than once.
    """

    images: TaggedImages
    predictions: Sequence[Prediction]
    truth: "Sequence[TrueBoxes | None]"
    strict: bool
    side: int
    most_bytes: int
    kept: dict[int, Shot]

    def shot(self, index: int) -> Shot:
        """Return the image at a size for the page."""
        if index not in self.kept:
            self.kept[index] = small(as_image(self.images.read(index)), self.side, self.most_bytes)
        return self.kept[index]

    def of_class(self, image: int, class_index: int) -> Card:
        """Return the card that shows an image for one class: its best box, and the true ones dashed."""
        prediction, truth = self.predictions[image], self.truth[image]
        found = find(prediction, class_index, self.images.labels[image], truth, strict=self.strict)
        return Card(prediction.name, self.shot(image), placed((found,), truth, prediction), (found,))

    def of_tags(self, image: int) -> Card:
        """Return the card that shows an image with all of its tags."""
        prediction, truth, labels = self.predictions[image], self.truth[image], self.images.labels[image]
        finds = judge(prediction, labels, truth, strict=self.strict)
        likely = [tag for tag in prediction.tags if labels[prediction.classes.index(tag.name)] != PRESENT]
        beyond = tuple((tag.name, tag.probability) for tag in likely)
        return Card(prediction.name, self.shot(image), placed(finds, truth, prediction, named=True), finds, beyond)


def placed(
    finds: Sequence[Find], truth: "TrueBoxes | None", prediction: Prediction, *, named: bool = False
) -> tuple[PlacedBox, ...]:
    """Return the true boxes of the finds' classes, then the finds' own boxes over them; `named` labels the latter."""
    size = prediction.width, prediction.height
    made = []
    for one in finds:
        true_boxes = np.zeros((0, 4)) if truth is None or one.box is None else truth.of_class(one.class_index)
        made += [place(box, size, "true") for box in true_boxes]
    kinds = {True: "right", False: "wrong", None: "found"}
    for one in finds:
        if one.box is not None:
            made.append(place(one.box, size, kinds[one.right], one.tag if named else ""))
    return tuple(made)


def place(box: np.ndarray, size: tuple[int, int], kind: str, label: str = "") -> PlacedBox:
    """Return a box in pixels of an image of `size` (width, height) as percentages of it, kept inside."""
    x1, y1, x2, y2 = np.clip(np.asarray(box, np.float64) / (*size, *size) * 100, 0, 100).tolist()
    return PlacedBox(x1, y1, x2 - x1, y2 - y1, kind, label)


def small(image: Image.Image, side: int, most_bytes: int) -> Shot:
    """Return the image with its longest side at `side` at most, as a JPEG of at most `most_bytes`.

    Quality falls until it fits, then size. An image that is smaller than `side` keeps its size.
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
                return Shot(uri, *scaled.size)
        side = max(size) * 3 // 4
