"""Agreement against the slow mean; it tells a box on which good patches lie from one that stands alone."""

import numpy as np
import pytest
import torch

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.refinement.selection import agreement


@pytest.mark.parametrize("seed", range(5))
def test_is_the_slow_mean(seed: int) -> None:
    random = np.random.default_rng(seed)
    corner = random.integers(0, 60, (15, 2))
    boxes = np.concatenate([corner, corner + random.integers(4, 60, (15, 2))], axis=1)
    scores, rows = random.normal(0, 3, (15, 4)), random.integers(0, 15, (4, 2))
    found = agreement(torch.tensor(boxes).double(), torch.tensor(scores), torch.tensor(rows), 0.7)
    for c in range(4):
        for place, row in enumerate(rows[c]):
            weights = [np.exp(0.7 * scores[p, c]) for p in range(15)]
            iou = box_iou(boxes[row], boxes)[0]
            assert found[c, place] == pytest.approx(
                sum(v * o for v, o in zip(weights, iou, strict=True)) / sum(weights)
            )


def test_a_box_that_stands_alone_is_agreed_on_less() -> None:
    boxes = torch.tensor([[10, 10, 90, 90], [12, 10, 90, 92], [8, 9, 88, 90], [200, 200, 250, 250]]).float()
    found = agreement(boxes, torch.tensor([[1.0], [1.0], [1.0], [1.0]]), torch.tensor([[0, 3]]))[0]
    assert found[0] > 0.7 > 0.3 > found[1]


def test_one_patch_agrees_with_itself() -> None:
    assert agreement(torch.tensor([[0.0, 0, 5, 5]]), torch.tensor([[3.0]]), torch.tensor([[0]])).item() == 1
