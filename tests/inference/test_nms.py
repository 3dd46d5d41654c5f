"""Suppression against torchvision's, class by class."""

import numpy as np
import pytest
import torch
from torchvision.ops import nms as torchvision_nms

from deep_patch_learning.inference.model import PredictSettings, selected_boxes
from deep_patch_learning.refinement.selection import BoxSelection, Ranked


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [3, 1000])
def test_equals_torchvision_within_each_class(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    corner = random.integers(0, 60, (70, 2))
    boxes = np.concatenate([corner, corner + random.integers(4, 60, (70, 2))], axis=1).astype(np.float32)
    scores = random.integers(0, 30, (4, 70)).astype(np.float32)  # many ties
    orders = np.argsort(-scores, axis=1, kind="stable")
    ranked = Ranked(torch.from_numpy(orders), torch.from_numpy(np.take_along_axis(scores, orders, 1)))
    settings = PredictSettings((64,), nms=0.3, boxes_per_class=most)
    found, classes, values = selected_boxes(torch.from_numpy(boxes), ranked, settings)
    assert (np.diff(values) <= 0).all()
    for c in range(4):
        kept = torchvision_nms(torch.from_numpy(boxes), torch.from_numpy(scores[c]), 0.3).numpy()[:most]
        assert np.array_equal(found[classes == c], boxes[kept])
        assert np.array_equal(values[classes == c], scores[c][kept])


@pytest.mark.parametrize("elections", [0, 2])
def test_what_has_no_score_is_left_out(elections: int) -> None:
    boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]])
    ranked = Ranked(torch.tensor([[2, 0], [1, 2]]), torch.tensor([[0.5, -torch.inf], [0.7, 0.5]]))
    settings = PredictSettings((64,), nms=0.9, box_selection=BoxSelection(bool(elections), elections=elections))
    found, classes, values = selected_boxes(boxes, ranked, settings)
    assert found[:, 2].tolist() == [2, 3, 3]
    assert classes.tolist() == [1, 0, 1]
    assert values.tolist() == pytest.approx([0.7, 0.5, 0.5])


def test_no_patches_give_no_boxes() -> None:
    nothing = Ranked(torch.zeros((3, 0), dtype=torch.int64), torch.zeros((3, 0)))
    found = selected_boxes(torch.zeros((0, 4)), nothing, PredictSettings((64,)))
    assert [len(part) for part in found] == [0, 0, 0]
