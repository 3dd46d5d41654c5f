"""Suppression against torchvision's, class by class."""

import numpy as np
import pytest
import torch
from torchvision.ops import nms

from deep_patch_learning.separate import separate


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [3, 1000])
def test_equals_torchvision_within_each_class(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    corner = random.integers(0, 60, (70, 2))
    boxes = np.concatenate([corner, corner + random.integers(4, 60, (70, 2))], axis=1).astype(np.float32)
    scores = random.integers(0, 30, (4, 70)).astype(np.float32)  # many ties
    orders = np.argsort(-scores, axis=1, kind="stable")
    found, classes, values = separate(boxes, orders, np.take_along_axis(scores, orders, 1), 0.3, most)
    assert (np.diff(values) <= 0).all()
    for c in range(4):
        kept = nms(torch.from_numpy(boxes), torch.from_numpy(scores[c]), 0.3).numpy()[:most]
        assert np.array_equal(found[classes == c], boxes[kept])
        assert np.array_equal(values[classes == c], scores[c][kept])


def test_no_patches_give_no_boxes() -> None:
    found = separate(np.zeros((0, 4), np.float32), np.zeros((3, 0), np.int32), np.zeros((3, 0), np.float32), 0.3, 30)
    assert [len(part) for part in found] == [0, 0, 0]
