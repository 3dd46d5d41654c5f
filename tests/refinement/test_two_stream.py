"""The two-stream head against a slow loop, image by image, and its loss with labels that are not known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import overlaps
from deep_patch_learning.model.by_image import PatchRows, by_image, by_patch, patch_rows
from deep_patch_learning.refinement.heads import TwoStreamHead
from deep_patch_learning.refinement.losses import two_stream_loss

COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def rows_of(counts: list[int]) -> PatchRows:
    return patch_rows(torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)), len(counts), counts)


def slow_two_stream(classes: torch.Tensor, detection: torch.Tensor) -> torch.Tensor:
    """Return each patch's share (P, C) for the patches of one image, number by number."""
    shares = torch.zeros_like(classes)
    for patch in range(classes.shape[0]):
        for c in range(classes.shape[1]):
            which = math.exp(classes[patch, c]) / sum(math.exp(x) for x in classes[patch])
            where = math.exp(detection[patch, c]) / sum(math.exp(x) for x in detection[:, c])
            shares[patch, c] = which * where
    return shares


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(1, 4), st.integers(0, 10_000))
def test_equals_the_slow_loop_with_images_of_any_number_of_patches(counts: list[int], classes: int, seed: int) -> None:
    torch.manual_seed(seed)
    head = TwoStreamHead(6, classes).double()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    features = torch.randn(sum(counts), 6, dtype=torch.float64)
    image, shares = head(features, rows_of(counts))
    assert shares.shape == (sum(counts), classes)
    for i, own in enumerate(features.split(counts)):
        expected = slow_two_stream(head.class_stream(own).detach(), head.detection_stream(own).detach())
        torch.testing.assert_close(shares.split(counts)[i].detach(), expected)
        torch.testing.assert_close(image[i].detach(), expected.sum(dim=0))
    assert image.min() >= 0
    assert image.max() <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(COUNTS, st.integers(0, 1000))
def test_there_and_back(counts: list[int], seed: int) -> None:
    values = torch.randn(sum(counts), 3, 2, generator=torch.Generator().manual_seed(seed))
    rows = rows_of(counts)
    assert torch.equal(by_patch(by_image(values, rows), rows, len(values)), values)
    assert not by_image(values, rows).masked_fill(rows.there[..., None, None], 0).any()


def test_patches_in_any_order_of_images() -> None:
    torch.manual_seed(1)
    head, features = TwoStreamHead(4, 3), torch.randn(6, 4)
    image = torch.tensor([1, 0, 1, 1, 0, 0])
    order = image.argsort(stable=True)
    mixed, sorted_ = head(features, patch_rows(image, 2)), head(features[order], patch_rows(image[order], 2))
    torch.testing.assert_close(mixed[0], sorted_[0])
    torch.testing.assert_close(mixed[1][order], sorted_[1])


def test_the_gradient_is_that_of_differences() -> None:
    torch.manual_seed(2)
    head = TwoStreamHead(3, 2).double()
    features = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f: head(f, rows_of([2, 0, 3])), (features,))


def test_no_patches_at_all() -> None:
    image, shares = TwoStreamHead(4, 3)(torch.zeros(0, 4), rows_of([0, 0]))
    assert image.tolist() == [[0, 0, 0]] * 2
    assert shares.shape == (0, 3)


@pytest.mark.parametrize("unknown", ["ignore", "absent"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_is_the_cross_entropy_of_probabilities(unknown: str, reduction: str) -> None:
    image = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.7, 0.3]], dtype=torch.float64)
    labels = torch.tensor([[1, 0, -1], [0, 1, 0]])
    total = 0.0
    for i in range(2):
        for c in range(3):
            if labels[i, c] == -1 and unknown == "ignore":
                continue
            p = image[i, c].item()
            total -= math.log(p) if labels[i, c] == 1 else math.log(1 - p)
    found = two_stream_loss(image, labels, reduction, unknown)
    assert found.item() == pytest.approx(total / 2 / (3 if reduction == "mean" else 1))


def test_loss_at_the_edges_is_finite_and_images_without_patches_add_nothing() -> None:
    image = torch.tensor([[0.0, 1.0 + 1e-7], [0.0, 0.0]], requires_grad=True)
    loss = two_stream_loss(image, torch.tensor([[1, 0], [1, 1]]), "mean", "ignore", torch.tensor([1.0, 0.0]))
    loss.backward()
    assert torch.isfinite(loss)
    assert not image.grad[1].any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1000))
def test_overlaps_are_torchvisions(first: int, second: int, seed: int) -> None:
    from torchvision.ops import box_iou

    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(3, first + second, 2, generator=generator, dtype=torch.float64) * 10
    boxes = torch.cat((corners, corners + 1 + torch.rand(corners.shape, generator=generator) * 10), dim=2)
    found = overlaps(boxes[:, :first], boxes[:, first:])
    for i in range(3):
        torch.testing.assert_close(found[i], box_iou(boxes[i, :first], boxes[i, first:]))
