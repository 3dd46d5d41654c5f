"""Suppression against torchvision's, class by class."""

import numpy as np
import pytest
import torch
from torchvision.ops import nms as torchvision_nms

from deep_patch_learning.inference.nms import gather, nms


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [3, 1000])
def test_equals_torchvision_within_each_class(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    corner = random.integers(0, 60, (70, 2))
    boxes = np.concatenate([corner, corner + random.integers(4, 60, (70, 2))], axis=1).astype(np.float32)
    scores = random.integers(0, 30, (4, 70)).astype(np.float32)  # many ties
    orders = np.argsort(-scores, axis=1, kind="stable")
    found, classes, values = nms(boxes, orders, np.take_along_axis(scores, orders, 1), 0.3, most)
    assert (np.diff(values) <= 0).all()
    for c in range(4):
        kept = torchvision_nms(torch.from_numpy(boxes), torch.from_numpy(scores[c]), 0.3).numpy()[:most]
        assert np.array_equal(found[classes == c], boxes[kept])
        assert np.array_equal(values[classes == c], scores[c][kept])


def test_gather_leaves_out_what_has_no_score() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]], np.float32)
    rows, scores = np.array([[2, 0], [1, 2]]), np.array([[0.5, -np.inf], [0.7, 0.5]], np.float32)
    found, classes, values = gather(boxes, rows, scores)
    assert found[:, 2].tolist() == [2, 3, 3]
    assert classes.tolist() == [1, 0, 1]
    assert values.tolist() == pytest.approx([0.7, 0.5, 0.5])


def test_no_patches_give_no_boxes() -> None:
    found = nms(np.zeros((0, 4), np.float32), np.zeros((3, 0), np.int32), np.zeros((3, 0), np.float32), 0.3, 30)
    assert [len(part) for part in found] == [0, 0, 0]
