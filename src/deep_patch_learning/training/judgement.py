"""Whether a self-training round made boxes worse, judged without any true box.

A network that knows where an object is finds it at the same place in another view of the image, and elsewhere than classes that
the image does not show. So the *agreement* of a network is the IoU of a tag's best boxes on an image and on the same image
mirrored and made smaller, less the mean IoU with the best boxes of absent classes there. Without the second term a network that
knows nothing and always frames the same would agree with itself. Agreement shows boxes that follow chance, not those that are
wrong alike in every view, such as a part that belongs to one class alone. On held-out images the mAP of tags is measured too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.boxes import box_iou, flip
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.scoring import mirrored_input
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.training.early_stopping import clear_fall, mean_ap

JUDGED = 400  # images at most, spread evenly
SMALLER = 0.75  # the size of the other view
NOISE = 2.0  # standard errors by which the agreement must fall before it means anything


@dataclass(frozen=True)
class NetworkFigures:
    """What a network is judged by: its agreement (I,) on images that show a class, and on held-out images the mAP of tags."""

    agreement: np.ndarray
    mean_ap: float | None


@dataclass(frozen=True)
class Fall:
    """One figure, in percent, of two networks on the same images, and the fall from which on it is not chance."""

    before: float
    after: float
    noise: float

    @property
    def is_clear(self) -> bool:
        """Whether the second network's figure is lower by more than chance."""
        return self.after < self.before - self.noise

    def as_dict(self) -> dict[str, float]:
        """Return the figures ready for JSON."""
        return {key: round(value, 2) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Judgement:
    """Two networks on the same images: the agreement of their boxes, and the mAP of tags where images were held out."""

    agreement: Fall
    mean_ap: Fall | None

    @property
    def is_worse(self) -> bool:
        """Whether the second network is worse than the first."""
        return self.agreement.is_clear or (self.mean_ap is not None and self.mean_ap.is_clear)

    def __str__(self) -> str:
        agreement, tags = self.agreement, self.mean_ap
        words = f"agreement of boxes {agreement.before:.1f} before, {agreement.after:.1f} after"
        return (
            words if tags is None else f"{words}; mAP of held-out tags {tags.before:.1f} before, {tags.after:.1f} after"
        )


def judged(before: NetworkFigures, after: NetworkFigures) -> Judgement:
    """Return the judgement on two networks that were measured on the same images."""
    differences = after.agreement - before.agreement
    # one image says nothing: no fall is larger than all
    error = NOISE * float(differences.std(ddof=1)) / math.sqrt(len(differences)) if len(differences) > 1 else 1.0
    agreement = Fall(_percent(before.agreement), _percent(after.agreement), 100 * error)
    if before.mean_ap is None or after.mean_ap is None:
        return Judgement(agreement, None)
    return Judgement(agreement, Fall(before.mean_ap, after.mean_ap, clear_fall(len(differences))))


def _percent(agreement: np.ndarray) -> float:
    return 100 * float(agreement.mean())


class Judge:
    """Measures the networks of finished runs on the same images, each once: on held-out ones where there are any."""

    def __init__(self, prepared: Prepared, held_out: Prepared | None, device: str | None = None) -> None:
        images = held_out or prepared
        tagged = np.flatnonzero((images.images.labels == PRESENT).any(axis=1))
        if not len(tagged):
            raise DataError("none of the images shows a class, so that boxes cannot be judged. Check their tags.")
        most = min(len(tagged), JUDGED)
        self._indices = [int(tagged[place * len(tagged) // most]) for place in range(most)]
        self.count = most
        self._prepared, self._device = images, device
        self.held_out = held_out is not None
        self._known: dict[Path, NetworkFigures] = {}

    @property
    def images(self) -> str:
        """The images in words."""
        return f"{self.count} {'held-out' if self.held_out else 'training'} images"

    def compare(self, before: Path, after: Path) -> Judgement:
        """Return the judgement on the networks of two finished runs."""
        return judged(self.figures(before), self.figures(after))

    def figures(self, run: Path) -> NetworkFigures:
        """Return the figures of a finished run's network."""
        if run not in self._known:
            self._known[run] = self._measure(load(run, self._device))
        return self._known[run]

    def _measure(self, model: Model) -> NetworkFigures:
        model = model.with_settings(flips=False)  # a mean over mirrored views is the same in both
        smaller = tuple(max(round(SMALLER * scale), 16) for scale in model.scales)
        labels = self._prepared.images.labels[self._indices]
        with bar("judging") as show:
            seen = self._predict(model, self._image, show, 0)
            other = self._predict(model.with_settings(scales=smaller), self._mirrored, show, 1)
        agreement = [agreement_of(*views) for views in zip(seen, other, labels, strict=True)]
        scores = np.stack([one.image_scores for one in seen])
        return NetworkFigures(np.array(agreement), mean_ap(scores, labels) if self.held_out else None)

    def _predict(
        self, model: Model, read: Callable[[int], ImageInput], show: Callable[..., None], view: int
    ) -> list[Prediction]:
        found = []
        for index, (_, one) in enumerate(model.stream(self._indices, read), start=1):
            if isinstance(one, DataError):
                raise one
            found.append(one)
            show(view * len(self._indices) + index, 2 * len(self._indices))
        return found

    def _image(self, index: int) -> ImageInput:
        images = self._prepared.images
        return ImageInput(images.names[index], images.read(index), self._prepared.patches[index])

    def _mirrored(self, index: int) -> ImageInput:
        return mirrored_input(self._image(index))


def agreement_of(seen: Prediction, mirrored: Prediction, labels: np.ndarray) -> float:
    """Return the mean IoU of the best boxes of an image's tags, 1 in `labels` (C,), in the image and in its mirrored view.

    The mean IoU with the boxes of absent classes, 0 in `labels`, is taken off where there are any.
    """
    tags, absent = np.flatnonzero(labels == PRESENT), np.flatnonzero(labels == ABSENT)
    if seen.best_boxes is None or mirrored.best_boxes is None or not len(tags):
        raise ValueError(f"{seen.name}: wanted best boxes and at least one tag")
    overlap = box_iou(seen.best_boxes[tags], flip(mirrored.best_boxes, seen.width))  # (T, C)
    found_again = overlap[np.arange(len(tags)), tags].mean()
    return float(found_again - overlap[:, absent].mean()) if len(absent) else float(found_again)


def as_dict(judgement: Judgement, **about: Any) -> dict[str, Any]:
    """Return a judgement ready for JSON, after what it is about."""
    tags = {} if judgement.mean_ap is None else {"mAP": judgement.mean_ap.as_dict()}
    return {**about, "agreement": judgement.agreement.as_dict(), **tags, "worse": judgement.is_worse}
