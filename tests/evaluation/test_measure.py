"""With the paper's heads CorLoc is measured both ways: by arg-max, as in the paper, and by vote."""

from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.discovery import corloc
from deep_patch_learning.evaluation.matching import BLOCK
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.refinement.selection import HEADS_VOTE, BoxSelection


@pytest.fixture(scope="module")
def both(small_run: Path, small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The figures of one network by vote and by arg-max, and the CorLoc of its highest scores."""
    images = read_tags(small_world, "train")
    truth = read_truth(small_world, images)
    assert truth is not None
    model = load(small_run, "cpu")
    prepared = prepare(images, model.patch_generator, tmp_path_factory.mktemp("patches"))
    ways = {"vote": HEADS_VOTE, "argmax": BoxSelection()}
    found = {
        way: list(predict_prepared(model.with_settings(box_selection=selection), prepared))
        for way, selection in ways.items()
    }
    figures = {way: measure_predictions(each, images.labels, truth) for way, each in found.items()}
    boxes = np.stack([one.best_boxes for one in found["argmax"] if one.best_boxes is not None])
    return figures | {"of highest scores": corloc(boxes, truth, images.classes).as_dict()["CorLoc"]}


def test_the_other_way_has_the_figure_of_a_run_that_selects_so(both: dict) -> None:
    assert both["vote"]["CorLoc_argmax"] == both["argmax"]["CorLoc"] == both["of highest scores"]
    assert both["argmax"]["CorLoc_vote"] == both["vote"]["CorLoc"]
    assert both["vote"]["CorLoc_argmax_per_class"] == both["argmax"]["CorLoc_per_class"]


def test_the_way_that_counts_is_not_shown_again(both: dict) -> None:
    assert "CorLoc_vote" not in both["vote"]
    assert "CorLoc_argmax" not in both["argmax"]


class _Found:
    """A prediction that knows how many of its kind are alive."""

    classes = ("cat",)
    argmax_boxes = voted_boxes = None
    alive = most = 0

    def __init__(self) -> None:
        self.image_scores, self.best_boxes = np.ones(1), np.float32([[0, 0, 10, 10]])
        self.found_boxes, self.found_scores = np.tile(np.float32([0, 0, 10, 10]), (50, 1)), np.linspace(0.9, 0.1, 50)
        self.found_classes = np.zeros(50, np.int64)
        _Found.alive += 1
        _Found.most = max(_Found.most, _Found.alive)

    def __del__(self) -> None:
        _Found.alive -= 1


def test_predictions_are_measured_as_they_come_and_not_kept() -> None:
    _Found.most = _Found.alive = 0
    truth = [TrueBoxes(np.float32([[0, 0, 10, 10]]), np.array([0]), np.array([False])) for _ in range(3 * BLOCK)]
    labels = np.full((len(truth), 1), PRESENT, np.int8)
    figures = measure_predictions((_Found() for _ in truth), labels, truth)
    assert figures["images"] == len(truth)
    assert figures["CorLoc"] == figures["instance_recall"] == 100
    assert _Found.most <= BLOCK + 2
    with pytest.raises(ValueError, match=f"for {len(truth) + 1} images and true boxes for {len(truth)}"):
        measure_predictions((_Found() for _ in range(len(truth) + 1)), labels, truth)
