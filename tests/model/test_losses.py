"""The loss against the paper's formula, unknown labels, and the named terms."""

import math

import pytest
import torch

from deep_patch_learning.model.losses import HeadLosses, tag_loss
from deep_patch_learning.model.network import Scores


def slow_loss(scores: torch.Tensor, labels: torch.Tensor, ignore: bool) -> float:
    """Return the sum over classes, averaged over images, of the paper's G."""
    total = 0.0
    for i in range(len(scores)):
        for c in range(scores.shape[1]):
            label = int(labels[i, c])
            if label == -1 and ignore:
                continue
            sigma = 1 / (1 + math.exp(-float(scores[i, c])))
            total -= math.log(sigma) if label == 1 else math.log(1 - sigma)
    return total / len(scores)


@pytest.mark.parametrize("unknown", ["absent", "ignore"])
def test_equals_the_papers_formula(unknown: str) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(5, 4, dtype=torch.float64), torch.randint(-1, 2, (5, 4))
    assert (labels == -1).any()
    found = tag_loss(scores, labels, "sum", unknown)
    assert found.item() == pytest.approx(slow_loss(scores, labels, unknown == "ignore"))


def test_an_ignored_label_has_no_gradient() -> None:
    scores = torch.zeros(1, 3, requires_grad=True)
    tag_loss(scores, torch.tensor([[1, -1, 0]]), unknown="ignore").backward()
    assert scores.grad[0, 1] == 0
    assert scores.grad[0, 0] < 0 < scores.grad[0, 2]


def test_large_scores_stay_finite() -> None:
    assert torch.isfinite(tag_loss(torch.tensor([[1e4, -1e4]]), torch.tensor([[0, 1]])))


def test_half_precision_scores_are_summed_in_single() -> None:
    scores = torch.randn(4, 20).bfloat16()
    labels = torch.randint(0, 2, (4, 20))
    assert tag_loss(scores, labels).item() == tag_loss(scores.float(), labels).item()


def test_a_term_for_each_head_that_is_there() -> None:
    scores = torch.randn(2, 3)
    labels = torch.randint(0, 2, (2, 3))
    both = HeadLosses()(Scores(scores, scores, None, None), labels)
    assert both.keys() == {"classification", "discovery"}
    assert HeadLosses()(Scores(None, scores, None, None), labels).keys() == {"discovery"}


def test_passes_of_equal_size_average_to_the_whole_batch() -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(4, 3), torch.randint(-1, 2, (4, 3))
    whole = tag_loss(scores, labels, unknown="ignore")
    halves = [tag_loss(scores[at : at + 2], labels[at : at + 2], unknown="ignore") for at in (0, 2)]
    torch.testing.assert_close(whole, (halves[0] + halves[1]) / 2)
