"""What the tests of labels share: images on disk with odd names, and predictions for them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.inference.prediction import Prediction

CLASSES = ("bus", "a dog", "père & fils")


def logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


def prediction(
    name: str,
    size: tuple[int, int],
    boxes: Sequence[tuple[Sequence[float], int, float]],
    classes: Sequence[str] = CLASSES,
) -> Prediction:
    """Return a prediction of a (width, height) image with (box, class, probability) of each box found."""
    width, height = size
    best = np.tile([0, 0, width, height], (len(classes), 1))
    return Prediction(
        name=name,
        classes=tuple(classes),
        height=height,
        width=width,
        image_scores=np.zeros(len(classes)),
        found_boxes=np.array([box for box, _, _ in boxes]).reshape(-1, 4),
        found_classes=np.array([index for _, index, _ in boxes], int),
        found_scores=np.array([logit(score) for _, _, score in boxes]),
        best_boxes=best,
    )


@pytest.fixture
def tagged(tmp_path: Path) -> Callable[..., TaggedImages]:
    """Make images of (width, height) by name below a folder `photos`, with their states."""

    def make(sizes: dict[str, tuple[int, int]], states: Sequence[Sequence[int]]) -> TaggedImages:
        paths = []
        for name, size in sizes.items():
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (90, 120, 40)).save(path)
            paths.append(path)
        return TaggedImages(CLASSES, tuple(sizes), tuple(paths), np.array(states, np.int8))

    return make


@pytest.fixture
def odd(tagged: Callable[..., TaggedImages]) -> tuple[TaggedImages, list[Prediction]]:
    """Five images, some with names that are hard on formats, and what was found in them."""
    sizes = {
        "beach/001.jpg": (120, 80),
        "beach_001.jpg": (64, 64),
        "images/my dog, naïve 100%.png": (50, 90),
        "images/b&w <x>#1.JPG": (33, 47),
        "empty.jpg": (20, 10),
    }
    states = [[1, 0, 0], [1, 1, -1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]
    found = [
        [([10, 20, 60, 70], 0, 0.9), ([70, 5, 120, 80], 0, 0.6), ([0, 0, 9, 9], 0, 0.2), ([1, 1, 5, 5], 1, 0.99)],
        [([0, 0, 64, 64], 1, 0.8), ([3, 4, 5, 6], 0, 0.4), ([8, 8, 16, 16], 2, 0.97)],
        [([0, 0, 1, 1], 1, 0.75), ([49, 89, 50, 90], 2, 0.55), ([10.25, 20.5, 30.75, 40.125], 2, 0.7)],
        [([2, 3, 33, 47], 0, 0.51)],
        [([0, 0, 20, 10], 0, 0.95)],
    ]
    images = tagged(sizes, states)
    pairs = zip(sizes.items(), found, strict=True)
    return images, [prediction(name, size, boxes) for (name, size), boxes in pairs]


# what is written of `odd` when all boxes of a class are wanted: (box, class, probability) by image
WRITTEN = {
    "beach/001.jpg": [([10, 20, 60, 70], 0, 0.9), ([70, 5, 120, 80], 0, 0.6)],
    "beach_001.jpg": [([0, 0, 64, 64], 1, 0.8)],
    "images/my dog, naïve 100%.png": [
        ([0, 0, 1, 1], 1, 0.75),
        ([10.25, 20.5, 30.75, 40.125], 2, 0.7),
        ([49, 89, 50, 90], 2, 0.55),
    ],
    "images/b&w <x>#1.JPG": [([2, 3, 33, 47], 0, 0.51)],
    "empty.jpg": [],
}


@pytest.fixture
def written() -> dict[str, list]:
    return WRITTEN
