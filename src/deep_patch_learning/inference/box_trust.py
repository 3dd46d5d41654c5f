"""How likely a box is right: IoU of at least 0.5 with a true object, judged by how well it is found again in other views.

A box that the network finds again in the mirrored image and at another scale is right more often than one that moves. A logistic
regression turns that agreement, the box's score and its size into an expected precision. Its coefficients were fitted to true
boxes of VOC 2007 with the shipped model (`benchmarks/box_trust.py`) and lie beside this file. No network is trained with them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from deep_patch_learning.common.boxes import area, box_iou, flip
from deep_patch_learning.common.errors import DataError, SettingError
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction, sigmoid
from deep_patch_learning.inference.scoring import ImageInput, mirrored_input
from deep_patch_learning.refinement.selection import SMALLEST, agreement

FORMAT = "deep_patch_learning.box_trust/1"
FITTED = Path(__file__).with_name("box_trust.json")
OTHER_SCALE = 0.75  # of the model's scales: cheaper than a larger one
FEATURES = ("mirrored", "scaled", "score", "evidence", "size", "further")


class Views(NamedTuple):
    """What was found in one image: as it is, mirrored (its boxes mirrored back), and at another scale."""

    plain: Prediction
    mirrored: Prediction
    scaled: Prediction


@dataclass(frozen=True)
class BoxTrust:
    """A fitted logistic regression: the probability that a box is right is the sigmoid of weights * features + bias."""

    weights: np.ndarray
    bias: float

    def precision(self, features: np.ndarray) -> np.ndarray:
        """Return the expected precision (B,) of boxes with these features (B, F)."""
        return sigmoid(features @ self.weights + self.bias)

    def as_dict(self) -> dict[str, Any]:
        """Return the regression ready for JSON."""
        weights = dict(zip(FEATURES, map(float, self.weights), strict=True))
        return {"format": FORMAT, "weights": weights, "bias": float(self.bias)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "BoxTrust":
        """Return the regression that `as_dict` gave; of another format or other features it is a `ValueError`."""
        if saved.get("format") != FORMAT or tuple(saved.get("weights", ())) != FEATURES:
            found = f"{saved.get('format')!r} with {list(saved.get('weights', ()))}"
            raise ValueError(f"the box trust is {found}; wanted {FORMAT!r} with {list(FEATURES)}")
        return cls(np.array([saved["weights"][name] for name in FEATURES], np.float64), float(saved["bias"]))


def read_box_trust(path: Path = FITTED) -> BoxTrust:
    """Return the regression in a file, that of this package if none is named."""
    return BoxTrust.from_dict(json.loads(path.read_text(encoding="utf-8")))


def box_features(views: Views) -> np.ndarray:
    """Return the features (B, F) of all boxes found in an image, in the order of `FEATURES`.

    `mirrored` and `scaled`: how well the box is found again in that view, from 0 to 1 (see `found_again`). `score`: the
    logit of the box's calibrated probability, from -5 to 5. `evidence`: the weighted mean IoU of all boxes of its class with it.
    `size`: the logarithm of its share of the image. `further`: 1 for a box that is not the best of its class, else 0.
    """
    found = views.plain
    if not len(found.found_boxes):
        return np.zeros((0, len(FEATURES)))
    probabilities = found.box_probabilities(found.found_scores, found.found_classes)
    probabilities = probabilities.astype(np.float64).clip(SMALLEST, 1 - SMALLEST)
    size = area(found.found_boxes.astype(np.float64)) / (found.height * found.width)
    columns = (
        found_again(found, views.mirrored),
        found_again(found, views.scaled),
        np.log(probabilities / (1 - probabilities)).clip(-5, 5),
        _evidence(found),
        np.log(size),
        _further(found),
    )
    return np.stack(columns, axis=1).astype(np.float64)


def found_again(found: Prediction, other: Prediction) -> np.ndarray:
    """Return for each box (B,) the highest of: its IoU with a box of its class in another view, times that one's probability
    as a share of the best of the class there. A box that was found again in the same place as the best one has 1."""
    again = np.zeros(len(found.found_boxes))
    for index in np.unique(found.found_classes):
        mine, theirs = found.found_classes == index, other.found_classes == index
        if theirs.any():
            odds = sigmoid(other.found_scores[theirs].astype(np.float64))
            again[mine] = (box_iou(found.found_boxes[mine], other.found_boxes[theirs]) * (odds / odds.max())).max(1)
    return again


def _evidence(found: Prediction) -> np.ndarray:
    evidence = np.zeros(len(found.found_boxes))
    for index in np.unique(found.found_classes):
        own = np.flatnonzero(found.found_classes == index)
        boxes = torch.from_numpy(found.found_boxes[own].astype(np.float64))
        scores = torch.from_numpy(found.found_scores[own].astype(np.float64))
        evidence[own] = agreement(boxes, scores[:, None], torch.arange(len(own))[None])[0].numpy()
    return evidence


def _further(found: Prediction) -> np.ndarray:
    order = np.argsort(-found.found_scores, kind="stable")
    further = np.ones(len(order))
    further[order[np.unique(found.found_classes[order], return_index=True)[1]]] = 0
    return further


def mirrored_back(found: Prediction) -> Prediction:
    """Return what was found in a mirrored image, in the coordinates of the image."""
    of_classes = {name: getattr(found, name) for name in ("best_boxes", "argmax_boxes", "voted_boxes")}
    flipped = {name: flip(boxes, found.width) for name, boxes in of_classes.items() if boxes is not None}
    return replace(found, found_boxes=flip(found.found_boxes, found.width), **flipped)


class TrustingModel(Model):
    """A model whose boxes have an expected precision. It sees every image three times: as it is, mirrored, at another scale."""

    @classmethod
    def of(cls, model: Model, trust: BoxTrust | None = None) -> "TrustingModel":
        """Return a trusting model with the network and settings of another; the trust of this package if none is given."""
        if model.views_are_fixed:
            raise SettingError(
                "other views, which the expected precision needs, are not part of an ONNX file. Give the folder of its run."
            )
        settings, generator = model.settings, model.patch_generator
        made = cls(model.network, model.classes, settings, generator, str(model.device), model.calibration)
        scales = tuple(max(round(OTHER_SCALE * scale), 32) for scale in model.scales)
        made._mirrored = model.with_settings(flips=False)  # where flips are averaged, both ways would be the same
        made._scaled = model.with_settings(scales=scales)
        made._trust = trust or read_box_trust()
        return made

    _mirrored: Model
    _scaled: Model
    _trust: BoxTrust

    def begin(self, images: list[ImageInput]) -> Any:
        """Return what the device was asked for these images, in all views."""
        mirrored = [mirrored_input(one) for one in images]
        return super().begin(images), mirrored, self._mirrored.begin(mirrored), self._scaled.begin(images)

    def views(self, images: list[ImageInput], begun: Any) -> list[Views]:
        """Return what was found in each view of images that `begin` has begun."""
        plain, mirrored, of_mirrored, of_scaled = begun
        found = super().finish(images, plain)
        again = [mirrored_back(one) for one in self._mirrored.finish(mirrored, of_mirrored)]
        return [Views(*three) for three in zip(found, again, self._scaled.finish(images, of_scaled), strict=True)]

    def finish(self, images: list[ImageInput], begun: Any) -> list[Prediction]:
        """Return the predictions of images that `begin` has begun, each box with its expected precision."""
        return [with_precision(views, self._trust) for views in self.views(images, begun)]


def with_precision(views: Views, trust: BoxTrust) -> Prediction:
    """Return what was found in the image as it is, each box with its expected precision."""
    if views.plain.best_boxes is None:
        raise DataError("the model only classifies and finds no boxes. Train one with --heads both or discovery.")
    features = box_features(views)
    return replace(views.plain, found_precision=trust.precision(features), found_views=features[:, :2])
