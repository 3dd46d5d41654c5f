"""The two-stream head against a slow loop, image by image, and its loss with labels that are not known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common import boxes as box_tools
from deep_patch_learning.model.by_image import PatchRows, by_image, by_patch, patch_rows
from deep_patch_learning.refinement.heads import TwoStreamHead, log_probabilities
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


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(2, 4), st.integers(0, 10_000), st.sampled_from([1.0, 20.0]))
def test_logarithms_are_those_of_the_probabilities(counts: list[int], classes: int, seed: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows, features = rows_of(counts), torch.randn(sum(counts), 2 * classes, generator=generator, dtype=torch.float64)
    streams = tuple(by_image(part * spread, rows) for part in features.split(classes, dim=1))
    found = log_probabilities(streams, rows)
    head = TwoStreamHead(1, classes)
    image = head.joined(streams, rows, sum(counts))[0]
    for i, count in enumerate(counts):
        expected = (image[i].log(), (1 - image[i]).log()) if count else (torch.zeros(classes).double(),) * 2
        near = (1 - image[i] > 1e-9) | (count == 0)  # beyond, 1 - p itself is not exact
        torch.testing.assert_close(found[0, i], expected[0], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(found[1, i][near], expected[1][near], rtol=1e-4, atol=1e-9)


def saturated(score: float, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the raw class and detection scores of three patches that all show class 0 beyond doubt."""
    classes = torch.tensor([[[score, 0.0, -1.0], [score, 1.0, 0.5], [score, 0.3, 0.0]]], dtype=dtype)
    detection = torch.tensor([[[1.0, 0.0, 0.2], [0.5, 1.0, 0.0], [0.0, 0.3, 1.0]]], dtype=dtype)
    return classes.requires_grad_(), detection.requires_grad_()


@pytest.mark.parametrize("score", [3.0, 12.0, 30.0, 90.0, 300.0])
@pytest.mark.parametrize("labels", [(0, 1, 0), (0, 0, 0), (1, 1, 0)])
def test_a_class_that_is_wrong_beyond_doubt_keeps_its_gradient(score: float, labels: tuple[int, ...]) -> None:
    rows, head = rows_of([3]), TwoStreamHead(1, 3)
    wanted = torch.tensor([labels])

    def loss_of(*streams: torch.Tensor) -> torch.Tensor:
        image = head.joined(streams, rows, 3)[0]
        return two_stream_loss(image, wanted, "sum", "ignore", None, log_probabilities(streams, rows))

    streams, exact = saturated(score), saturated(score, torch.float64)
    found = torch.autograd.grad(loss_of(*streams), streams)
    expected = torch.autograd.grad(loss_of(*exact), exact)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)
    if labels[0] == 0:
        assert found[0][..., 0].sum() > 0.5  # as of a logit that is wrong
    assert torch.autograd.gradcheck(loss_of, exact)


def test_logarithms_change_nothing_where_no_probability_is_near_its_end() -> None:
    torch.manual_seed(0)
    streams, rows = (torch.randn(2, 4, 3), torch.randn(2, 4, 3)), rows_of([4, 4])
    image = TwoStreamHead(1, 3).joined(streams, rows, 8)[0]
    labels = torch.tensor([[1, 0, -1], [0, 1, 0]])
    plain = two_stream_loss(image, labels, "mean", "ignore")
    assert torch.equal(plain, two_stream_loss(image, labels, "mean", "ignore", None, log_probabilities(streams, rows)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1000))
def test_overlaps_are_torchvisions(first: int, second: int, seed: int) -> None:
    from torchvision.ops import box_iou

    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(3, first + second, 2, generator=generator, dtype=torch.float64) * 10
    boxes = torch.cat((corners, corners + 1 + torch.rand(corners.shape, generator=generator) * 10), dim=2)
    found = box_tools.box_iou(boxes[:, :first], boxes[:, first:])
    for i in range(3):
        torch.testing.assert_close(found[i], box_iou(boxes[i, :first], boxes[i, first:]))
