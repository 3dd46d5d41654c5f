"""Both opinions: sure and unsure around each class's threshold, best and worst, and where the two disagree."""

import dataclasses

import numpy as np
import pytest

from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN
from deep_patch_learning.report.opinions import Counts, Doubt, Opinions, thresholds_of


def opinions(probabilities, labels, threshold=0.5):
    probabilities = np.array(probabilities, float).reshape(len(labels), -1)
    labels = np.array(labels).reshape(probabilities.shape)
    return Opinions(probabilities, np.broadcast_to(threshold, probabilities.shape), labels)


@pytest.mark.parametrize(
    ("probability", "threshold", "certainty"),
    [
        (0.5, 0.5, 0),
        (0.75, 0.5, 0.5),
        (0.25, 0.5, -0.5),
        (1, 0.2, 1),
        (0, 0.2, -1),
        (0.6, 0.2, 0.5),
        (0.1, 0.2, -0.5),
        (1, 1, 0),
        (0, 0, 0),
        (0.5, 0, 0.5),
        (0.5, 1, -0.5),
    ],
)
def test_certainty_counts_from_the_threshold(probability, threshold, certainty):
    assert opinions([probability], [1], threshold).certainty[0, 0] == pytest.approx(certainty)


def test_counts_tell_tagged_from_untagged_and_leave_the_unknown_out():
    said = opinions([0.9, 0.6, 0.4, 0.1, 0.9, 0.6, 0.1, 0.1, 0.99], [1, 1, 1, 1, 0, 0, 0, 0, -1])
    assert said.counts(0, PRESENT) == Counts(1, 2, 1)
    assert said.counts(0, ABSENT) == Counts(2, 1, 1)


def test_best_and_worst():
    said = opinions([0.3, 0.9, 0.1, 0.8, 0.2, 0.7, 0.95], [1, 1, 1, 0, 0, 0, UNKNOWN])
    assert said.best(0, 2) == [1, 0]
    assert said.worst(0, 4) == [2, 0, 3, 5]  # half tagged from the lowest, half untagged from the highest
    assert said.worst(0, 5) == [2, 0, 1, 3, 5]
    assert said.worst(0, 99) == [2, 0, 1, 3, 5, 4]  # each once, the unknown nowhere


def test_worst_fills_up_where_one_kind_is_short():
    assert opinions([0.3, 0.9, 0.1], [1, 1, 1]).worst(0, 2) == [2, 0]
    assert opinions([0.3, 0.9, 0.1], [0, 0, 1]).worst(0, 4) == [2, 1, 0]
    assert opinions([0.3], [UNKNOWN]).worst(0, 4) == []


def test_disagreements_are_ranked_and_unknown_labels_stand_apart():
    probabilities = [[0.1, 0.99], [0.02, 0.8], [0.3, 0.01], [0.98, 0.6]]
    labels = [[PRESENT, ABSENT], [PRESENT, ABSENT], [PRESENT, UNKNOWN], [UNKNOWN, ABSENT]]
    said = opinions(probabilities, labels)
    assert said.likely_wrong() == [Doubt(1, 0), Doubt(0, 0)]
    assert said.likely_missing() == [Doubt(0, 1), Doubt(1, 1)]
    assert said.unknown() == [Doubt(2, 1), Doubt(3, 0)]


def test_a_class_with_its_own_threshold_is_sure_elsewhere():
    said = opinions([[0.4, 0.4]], [[ABSENT, ABSENT]], np.array([0.1, 0.8]))
    assert said.likely_missing() == []  # 0.4 is a third of the way from 0.1 to 1
    assert said.counts(1, ABSENT) == Counts(1, 0, 0)  # and half of the way from 0.8 to 0


def test_opinions_of_predictions(hand):
    one = dataclasses.replace(hand.prediction("a", None), threshold=0.25)
    np.testing.assert_allclose(thresholds_of(one), [0.25, 0.25])
    said = Opinions.of([one, one], np.array([[1, 0], [0, 1]], np.int8))
    np.testing.assert_allclose(said.probabilities, np.stack([one.probabilities] * 2))
    assert said.thresholds.shape == (2, 2)


def test_nothing_to_say_of_no_images():
    said = Opinions.of([], np.zeros((0, 2), np.int8))
    assert said.counts(0, PRESENT) == Counts(0, 0, 0)
    assert said.likely_wrong() == said.best(0, 3) == []
