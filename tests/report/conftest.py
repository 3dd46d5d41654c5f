"""A small run on hand-made pictures: two classes, true boxes known, a tiny network that was never trained."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.model.build import build_network
from deep_patch_learning.patches import SlidingWindow
from deep_patch_learning.predict import Model
from deep_patch_learning.prediction import Prediction
from deep_patch_learning.training.run import RunFolder

CLASSES = ('<b>&"cat', "dog's")  # names that break a page which does not escape them
LOG = [
    {"step": step, "visits": 16 * step, "loss": 1.4 / step, "classification": 0.8 / step, "discovery": 0.6 / step}
    for step in range(1, 8)
]
TRUE_BOX = np.array([10, 10, 50, 40], np.float32)


@dataclass(frozen=True)
class Ready:
    pictures: TaggedPictures
    patches: list[np.ndarray]


def make_prediction(name: str, boxes: np.ndarray | None, scores: tuple[float, float] = (2.0, -2.0)) -> Prediction:
    nothing = np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)
    return Prediction(name, CLASSES, 60, 80, np.array(scores), *nothing, best_boxes=boxes)


def truth_of(index: int) -> TrueBoxes:
    return TrueBoxes(TRUE_BOX[None], np.array([index]), np.array([False]))


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    """Eight pictures, the even ones tagged with the first class and the odd ones with the second."""
    rng = np.random.default_rng(0)
    names, paths = [], []
    for number in range(8):
        names.append(f'<i>"{number}&.jpg')
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(rng.integers(0, 256, (60, 80, 3), np.uint8)).save(paths[-1])
    labels = np.array([[1 - number % 2, number % 2] for number in range(8)], np.int8)
    patches = np.array([[0, 0, 80, 60], [10, 10, 50, 40], [5, 20, 30, 60], [40, 0, 80, 30]], np.uint16)
    return Ready(TaggedPictures(CLASSES, tuple(names), tuple(paths), labels), [patches] * 8)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "a<b>&c")
    folder.folder.mkdir(parents=True)
    folder.config.write_text('name = "</dl><script>"\nscales = [160]\nflips = true\nlearning_rate = 0.003\n')
    folder.versions.write_text(json.dumps({"torch": "2.6.0"}))
    folder.log.write_text("".join(json.dumps(entry) + "\n" for entry in LOG))
    return folder


def make_model(heads: tuple[str, ...] = ("classification", "discovery"), filters: int = 6) -> Model:
    torch.manual_seed(1)
    network, _ = build_network("tiny", 2, heads, filters)
    if network.classification is not None:  # larger weights than a new network has, so that responses differ
        torch.nn.init.normal_(network.classification.part_filters.weight)
        torch.nn.init.normal_(network.classification.classifier.weight)
    return Model(network, CLASSES, (64,), SlidingWindow(), device="cpu")


@pytest.fixture
def model() -> Model:
    return make_model()


@pytest.fixture
def hand() -> SimpleNamespace:
    """What tests build their own cases from."""
    return SimpleNamespace(
        classes=CLASSES, log=LOG, true_box=TRUE_BOX, prediction=make_prediction, truth=truth_of, model=make_model
    )
