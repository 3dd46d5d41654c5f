"""With the paper's heads CorLoc is measured both ways: by arg-max, as in the paper, and by vote."""

from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.discovery import corloc
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
