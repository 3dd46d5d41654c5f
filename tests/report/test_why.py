"""Reasons add up: what the part filters add, and the bias, is the score; the patches are those that won."""

import numpy as np
import pytest
import torch

from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.patches.sliding_window import SlidingWindow
from deep_patch_learning.report.why import reasons


@pytest.fixture
def image():
    rng = np.random.default_rng(3)
    corners = rng.integers(0, 40, (11, 2))
    patches = np.concatenate([corners, corners + rng.integers(8, 24, (11, 2))], axis=1).astype(np.uint16)
    return ImageInput("a.jpg", rng.integers(0, 256, (64, 64, 3), np.uint8), patches)


@pytest.mark.parametrize("scales", [(64,), (64, 96)])
@pytest.mark.parametrize("index", [0, 1])
def test_filters_and_bias_add_up_to_the_score(hand, image, scales, index):
    model = Model(hand.model().network, hand.classes, scales, SlidingWindow(), device="cpu")
    torch.nn.init.constant_(model.network.classification.classifier.bias, 0.7)
    why = reasons(model, image, index)
    assert why.score == pytest.approx(model.scores([image])[0].classification[index], rel=1e-5)
    assert sum(one.added for one in why.filters) + 0.7 == pytest.approx(why.score, abs=1e-4)
    assert why.raised - why.lowered + 0.7 == pytest.approx(why.score, abs=1e-4)
    assert sorted(one.filter for one in why.filters) == list(range(6))
    added = [one.added for one in why.filters]
    assert added == sorted(added, reverse=True)


def test_a_filter_that_counts_in_the_whole_image_alone_adds_weight_times_its_greatest_response(hand, image):
    model = hand.model()
    head = model.network.classification
    with torch.no_grad():
        head.classifier.weight[:, 6:] = 0  # the other cells of the pyramid
    responses = model.scores([image])[0].parts  # (P, N), of the one scale
    why = reasons(model, image, 1)
    for one in why.filters:
        weight = head.classifier.weight[1, one.filter].item()
        assert one.added == pytest.approx(weight * responses[:, one.filter].max(), rel=1e-4)
        if one.added > 0:
            assert one.patch == responses[:, one.filter].argmax()


def test_the_best_patch_is_that_of_the_discovery_head(hand, image):
    model = Model(hand.model().network, hand.classes, (64, 96), SlidingWindow(), device="cpu")
    why = reasons(model, image, 0)
    scores = model.scores([image])[0].patches[:, 0]
    assert why.patch == scores.argmax()
    assert why.patch_score == pytest.approx(scores.max() / 2, rel=1e-5)


def test_networks_of_one_head(hand, image):
    why = reasons(hand.model(heads=("discovery",)), image, 0)
    assert (why.score, why.filters, why.raised) == (None, (), 0)
    assert why.patch is not None
    why = reasons(hand.model(heads=("classification",)), image, 0)
    assert (why.patch, why.patch_score) == (None, None)
    assert len(why.filters) == 6


def test_nothing_stays_on_the_network(hand, image):
    model = hand.model()
    reasons(model, image, 0)
    assert not model.network.classification._forward_hooks
