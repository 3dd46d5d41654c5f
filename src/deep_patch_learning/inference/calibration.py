"""Scores -> probabilities that mean what they say, and the threshold of each class, both from held-out tags.

A class's probability is the sigmoid of slope * score + bias (Platt scaling). The slope is above 0, so that the order of
images, and with it every average precision, stays.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from deep_patch_learning.common.atomic_files import fitting, read_json, written_afresh
from deep_patch_learning.common.errors import RunError, short
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN
from deep_patch_learning.inference.prediction import Prediction, sigmoid

FORMAT = "deep_patch_learning.calibration/1"
FEW = 5  # images that show a class (or do not), below which it takes what all classes share
# how far a class may stray from what all share: the standard deviations of the logarithm of its slope and of its bias
SPREAD = np.array([0.5, 1.0])
WIDE = np.array(
    [2.0, 10.0]
)  # the same for what all share, around the scores as they are: only what has no bounds is held
FOLDS = 5  # the error after calibrating is measured on each fifth of the images, fitted on the others
BINS = 15
PLAIN_THRESHOLD = 0.5


class _StoredClass(TypedDict):
    positives: int
    slope: float
    bias: float
    threshold: float
    box_slope: NotRequired[float]
    box_bias: NotRequired[float]


class _StoredErrors(TypedDict):
    before: float
    after: float


class _Stored(TypedDict):
    """The schema of calibration.json."""

    format: str
    classes: dict[str, _StoredClass]
    expected_calibration_error: _StoredErrors
    images: NotRequired[int]  # under another key in earlier versions


@dataclass(frozen=True)
class Calibration:
    """The calibration of C classes: `slopes`, `biases` and `thresholds` (C,), and what they were fitted on.

    `positives` (C,) counts the held-out images that show each class; one with fewer than `FEW` has what all classes share.
    `box_lines` (C, 2) are slope and bias for the scores of boxes, None for a network that finds none. `error_before` and
    `error_after` are expected calibration errors, from 0 to 1, the second on images that were left out of the fit it is
    measured on.
    """

    classes: tuple[str, ...]
    slopes: np.ndarray
    biases: np.ndarray
    thresholds: np.ndarray
    positives: np.ndarray
    images: int
    error_before: float
    error_after: float
    box_lines: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("slopes", "biases", "thresholds", "positives"):
            value = np.array(getattr(self, name), np.int64 if name == "positives" else np.float64)
            if value.shape != (len(self.classes),) or not np.isfinite(value).all():
                raise ValueError(f"{name} is {value.tolist()}; wanted {len(self.classes)} finite numbers")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        if (self.slopes <= 0).any():
            raise ValueError(f"slopes are {self.slopes.tolist()}; wanted numbers above 0")
        if self.box_lines is not None:
            lines = np.array(self.box_lines, np.float64)
            if lines.shape != (len(self.classes), 2) or not np.isfinite(lines).all() or (lines[:, 0] <= 0).any():
                raise ValueError(f"slopes and biases of boxes are {lines.tolist()}; wanted finite ones, slopes above 0")
            lines.setflags(write=False)
            object.__setattr__(self, "box_lines", lines)
        if ((self.thresholds < 0) | (self.thresholds > 1)).any():
            raise ValueError(f"thresholds are {self.thresholds.tolist()}; wanted probabilities")

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the calibrated probabilities of scores (..., C)."""
        return sigmoid(self.slopes * np.asarray(scores, np.float64) + self.biases)

    def __str__(self) -> str:
        few = int((self.positives < FEW).sum())
        said = (
            f"calibrated on {self.images:,} images: the error of probabilities is {100 * self.error_before:.1f} % before, "
            f"{100 * self.error_after:.1f} % after; thresholds from {self.thresholds.min():.2f} to {self.thresholds.max():.2f}"
        )
        kept = f"; {few} of {len(self.classes)} classes, in fewer than {FEW} images, take what all share"
        return said + (kept if few else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration ready for JSON."""
        columns = zip(self.positives, self.slopes, self.biases, self.thresholds, strict=True)
        return {
            "format": FORMAT,
            "images": self.images,
            "expected_calibration_error": {"before": self.error_before, "after": self.error_after},
            "classes": {
                name: {
                    "positives": int(count),
                    "slope": float(slope),
                    "bias": float(bias),
                    "threshold": float(threshold),
                    **({} if self.box_lines is None else _of_boxes(self.box_lines[index])),
                }
                for index, (name, (count, slope, bias, threshold)) in enumerate(zip(self.classes, columns, strict=True))
            },
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Calibration":
        """Return the calibration that `as_dict` gave; what is missing or wrong raises `KeyError`, `TypeError` or `ValueError`."""
        fitting(saved, _Stored)
        if saved["format"] != FORMAT:
            raise ValueError(f"its format is {saved['format']!r}; wanted {FORMAT!r}")
        rows, errors = saved["classes"], saved["expected_calibration_error"]
        slopes, biases, thresholds, positives = (
            np.array([row[key] for row in rows.values()]) for key in ("slope", "bias", "threshold", "positives")
        )
        images = fitting(
            saved["images"] if "images" in saved else saved["pictures"], int
        )  # the key of earlier versions
        about = images, errors["before"], errors["after"]
        lines = [[row["box_slope"], row["box_bias"]] for row in rows.values() if "box_slope" in row]
        return cls(tuple(rows), slopes, biases, thresholds, positives, *about, np.array(lines) if lines else None)


def _of_boxes(line: np.ndarray) -> dict[str, float]:
    return {"box_slope": float(line[0]), "box_bias": float(line[1])}


def write_calibration(path: Path, calibration: Calibration, source: dict[str, Any]) -> None:
    """Write the calibration, and what it was fitted on, whole or not at all."""
    with written_afresh(path) as part:
        part.write_text(json.dumps({**calibration.as_dict(), "fitted_on": source}, indent=1, allow_nan=False))


def read_calibration(path: Path, classes: Sequence[str]) -> Calibration | None:
    """Return the calibration in a file, None where there is none; one that is damaged or of other classes is a `RunError`."""
    again = "Remove it, or make it anew: dpl calibrate RUN DATA --split val"
    try:
        found = Calibration.from_dict(read_json(path, _Stored, RunError, again))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is damaged ({type(error).__name__}: {error}). {again}") from None
    if found.classes != tuple(classes):
        raise RunError(f"{path}: is of the classes {short([*found.classes])}, the run has {short([*classes])}. {again}")
    return found


def calibrate_predictions(predictions: Sequence[Prediction], labels: np.ndarray, classes: Sequence[str]) -> Calibration:
    """Return the calibration fitted on what was found in held-out images, and their tags `labels` (I, C)."""
    boxes = [one.best_scores for one in predictions if one.best_boxes is not None]
    scores = np.stack([one.tag_scores for one in predictions])
    return calibrate(scores, labels, classes, box_scores=np.stack(boxes) if len(boxes) == len(predictions) else None)


def calibrate(
    scores: np.ndarray, labels: np.ndarray, classes: Sequence[str], seed: int = 0, box_scores: np.ndarray | None = None
) -> Calibration:
    """Return the calibration fitted on held-out images: their raw `scores` (I, C) and tags `labels` (I, C).

    `box_scores` (I, C) are those of the best box of each class. They too are held against the tags: a box is worth what it says
    of the image.

    Slope and bias of a class lie near those that fit all classes together, nearer where fewer images show it. Its threshold is
    where F1 is highest on these images. A class that fewer than `FEW` images show takes what is best for all together.
    Unknown tags do not count.
    """
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    if scores.shape != labels.shape or scores.ndim != 2 or scores.shape[1] != len(classes):
        raise ValueError(f"scores are {scores.shape} and labels {labels.shape}; wanted (I, {len(classes)}) for both")
    lines = fit_lines(scores, labels)
    probabilities = sigmoid(scores * lines[:, 0] + lines[:, 1])
    return Calibration(
        tuple(classes),
        lines[:, 0],
        lines[:, 1],
        best_thresholds(probabilities, labels),
        (labels == PRESENT).sum(0),
        len(scores),
        expected_calibration_error(sigmoid(scores), labels),
        expected_calibration_error(_fitted_on_others(scores, labels, seed), labels),
        None if box_scores is None else fit_lines(np.asarray(box_scores, np.float64), labels),
    )


def fit_lines(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return slope and bias of each class (C, 2) from scores (I, C) and labels (I, C)."""
    known, present = labels != UNKNOWN, labels == PRESENT
    shared = _fit(scores[known], present[known], np.zeros(2), WIDE)
    lines = np.tile(shared, (scores.shape[1], 1))
    for index in np.flatnonzero(_has_enough(labels)):
        of_class = known[:, index]
        lines[index] = _fit(scores[of_class, index], present[of_class, index], shared, SPREAD)
    lines[:, 0] = np.exp(lines[:, 0])
    return lines


def _has_enough(labels: np.ndarray) -> np.ndarray:
    """Return for each class (C,) whether enough images show it, and enough do not, to tell anything of it alone."""
    positives, negatives = (labels == PRESENT).sum(0), ((labels != PRESENT) & (labels != UNKNOWN)).sum(0)
    return (positives >= FEW) & (negatives >= FEW)


def _fit(scores: np.ndarray, present: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the logarithm of the slope and the bias (2,) with the least cross entropy, plus what it costs to leave `centre`.

    Newton's steps with the expected curvature, which is never negative, halved until the loss falls.
    """
    found = centre.copy()
    loss = _loss(found, scores, present, centre, spread)
    for _ in range(200):
        tilt = np.stack((np.exp(found[0]) * scores, np.ones_like(scores)), axis=1)  # (I, 2): d(slope * score + bias)
        probabilities = sigmoid(np.exp(found[0]) * scores + found[1])
        gradient = tilt.T @ (probabilities - present) + (found - centre) / spread**2
        curvature = (tilt * (probabilities * (1 - probabilities))[:, None]).T @ tilt + np.diag(1 / spread**2)
        move = np.linalg.solve(curvature, gradient)
        while (new := _loss(found - move, scores, present, centre, spread)) > loss and np.abs(move).max() > 1e-12:
            move = move / 2
        if new > loss or np.abs(move).max() < 1e-10:
            break
        found, loss = found - move, new
    return found


def _loss(line: np.ndarray, scores: np.ndarray, present: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # a step too far is infinite, and is halved
        logits = np.exp(line[0]) * scores + line[1]
        entropy = np.logaddexp(0, np.where(present, -logits, logits)).sum()
    found = float(entropy + 0.5 * (((line - centre) / spread) ** 2).sum())
    return found if np.isfinite(found) else np.inf


def _fitted_on_others(scores: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Return calibrated probabilities (I, C), each of a line fitted without its image's part of the images."""
    part = np.random.default_rng((seed, 4)).permutation(len(scores)) % FOLDS
    found = np.empty_like(scores)
    for number in np.unique(part):
        own = part == number
        lines = fit_lines(scores[~own], labels[~own])
        found[own] = sigmoid(scores[own] * lines[:, 0] + lines[:, 1])
    return found


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return by how much probabilities (I, C) miss the share that is present, from 0 to 1, as the mean over known tags.

    Tags are put into `BINS` bins of equal width by their probability; in each the mean probability is held against the share.
    """
    known = labels != UNKNOWN
    values, present = probabilities[known], (labels == PRESENT)[known]
    bins = np.minimum((values * BINS).astype(int), BINS - 1)
    misses = np.bincount(bins, values - present, BINS)
    return float(np.abs(misses).sum() / max(len(values), 1))


def best_thresholds(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return for each class (C,) the threshold with the highest F1; one for all together where few images show it."""
    known, present = labels != UNKNOWN, labels == PRESENT
    shared = PLAIN_THRESHOLD
    if present.sum() >= FEW:
        shared = best_threshold(probabilities[known], present[known])
    found = np.full(probabilities.shape[1], shared)
    for index in np.flatnonzero(_has_enough(labels)):
        of_class = known[:, index]
        found[index] = best_threshold(probabilities[of_class, index], present[of_class, index])
    return found


def best_threshold(probabilities: np.ndarray, present: np.ndarray) -> float:
    """Return the threshold with the highest F1 of probabilities (I,), at least one of them of an image that is `present`.

    It lies in the middle between the lowest probability that reaches it and the highest that does not. Of equals the
    highest counts.
    """
    order = np.argsort(-probabilities, kind="stable")
    values, hits = probabilities[order], np.cumsum(present[order])
    last = np.append(values[1:] < values[:-1], True)  # of equal probabilities all or none reach a threshold
    f1 = np.where(last, 2 * hits / (np.arange(1, len(values) + 1) + hits[-1]), -1.0)
    at = int(f1.argmax())
    below = values[at + 1] if at + 1 < len(values) else 0.0
    middle = (values[at] + below) / 2
    return float(middle if below < middle else values[at])
