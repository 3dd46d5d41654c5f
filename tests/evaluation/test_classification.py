"""Average precision: by hand, against slow loops written from the devkit's words, and against scikit-learn."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from deep_patch_learning.common.errors import DplError
from deep_patch_learning.evaluation.average_precision import DEFINITIONS, interpolated_ap
from deep_patch_learning.evaluation.classification import average_precision, classification_report

# Ranked best first: right, wrong, right, wrong, wrong, right. Three positives.
#   rank       1     2     3     4     5     6
#   precision  1     1/2   2/3   2/4   2/5   3/6
#   recall     1/3   1/3   2/3   2/3   2/3   1
#   envelope   1     2/3   2/3   1/2   1/2   1/2     (best precision from here on)
# all-point: each step of recall is 1/3: (1 + 2/3 + 1/2) / 3                              = 13/18
# 11-point: recall 0-0.3 reads 1 (4 times), 0.4-0.6 reads 2/3 (3), 0.7-1 reads 1/2 (4): 8/11
# non-interpolated: (1 + 2/3 + 3/6) / 3                                                     = 13/18
MIXED = ([6, 5, 4, 3, 2, 1], [1, 0, 1, 0, 0, 1])
# wrong, right, right: precision 0, 1/2, 2/3; envelope 2/3 everywhere, which lifts the two interpolated ones.
# all-point and 11-point: 2/3; non-interpolated: (1/2 + 2/3) / 2 = 7/12
RISING = ([3, 2, 1], [0, 1, 1])
# wrong, wrong, right: precision 1/3 at the only positive, whatever the definition.
ALL_WRONG_FIRST = ([3, 2, 1], [0, 0, 1])
# Ten positives in the first ten ranks but for rank 4: recall 3/10 is reached with precision 1.
#   hits at 1 2 3, miss at 4, hits at 5..11: envelope after rank 3 is that of rank 11 = 10/11
#   11-point: recall 0, .1, .2, .3 read 1; the other seven read 10/11: (4 + 70/11) / 11 = 114/121
#   all-point: (3 + 7 * 10/11) / 10 = 103/110
TENTHS = (list(range(11, 0, -1)), [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("ranking", "definition", "expected"),
    [
        (MIXED, "all-point", 13 / 18),
        (MIXED, "11-point", 8 / 11),
        (MIXED, "non-interpolated", 13 / 18),
        (RISING, "all-point", 2 / 3),
        (RISING, "11-point", 2 / 3),
        (RISING, "non-interpolated", 7 / 12),
        (ALL_WRONG_FIRST, "all-point", 1 / 3),
        (ALL_WRONG_FIRST, "11-point", 1 / 3),
        (ALL_WRONG_FIRST, "non-interpolated", 1 / 3),
        (TENTHS, "all-point", 103 / 110),
        (TENTHS, "11-point", 114 / 121),
    ],
)
def test_hand_worked(ranking, definition, expected):
    assert average_precision(*map(np.array, ranking), definition) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 1, 1], 1.0),
        ([1, 0, 0], 1.0),
        ([1, 1, 0], 1.0),
        ([0, 0, 0], math.nan),
        ([0, -1, -1], math.nan),
        ([], math.nan),
    ],
)
def test_ends_of_the_scale(definition, labels, expected):
    scores = -np.arange(len(labels), dtype=float)
    assert average_precision(scores, np.array(labels), definition) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_unknown_is_neither_hit_nor_false_alarm(definition):
    scores, labels = map(np.array, MIXED)
    with_unknown = average_precision(
        np.concatenate([scores, [9, 4.5, 2.5, 0]]), np.concatenate([labels, [-1, -1, -1, -1]]), definition
    )
    assert with_unknown == average_precision(scores, labels, definition)


def test_ties_are_ranked_in_input_order_by_the_devkit_definitions():
    # Both score the same: right then wrong gives 1; wrong then right gives precision 1/2 at the only positive.
    for definition in ("all-point", "11-point"):
        assert average_precision(np.zeros(2), np.array([1, 0]), definition) == 1
        assert average_precision(np.zeros(2), np.array([0, 1]), definition) == 0.5


def test_ties_are_one_step_in_the_non_interpolated_definition():
    # One step of two, half of it right: 1/2 in either order.
    assert average_precision(np.zeros(2), np.array([1, 0]), "non-interpolated") == 0.5
    assert average_precision(np.zeros(2), np.array([0, 1]), "non-interpolated") == 0.5


few_scores = st.integers(-4, 4)  # few values, so that ties are common
rankings = st.lists(st.tuples(few_scores, st.sampled_from([1, 0, -1])), min_size=1, max_size=40)


@given(rankings)
def test_non_interpolated_equals_scikit_learn(rows):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    ours = average_precision(scores / 3, labels, "non-interpolated")
    known = labels >= 0
    if not (labels == 1).any():
        assert math.isnan(ours)
    else:
        assert ours == pytest.approx(average_precision_score(labels[known], scores[known] / 3), abs=1e-12)


def slow_ranking(rows):
    """Return (precision, hits so far) at every rank, and the number of positives."""
    ranked = sorted((row for row in rows if row[1] >= 0), key=lambda row: -row[0])  # Python's sort is stable
    positives = sum(label for _, label in ranked)
    points, right = [], 0
    for rank, (_, label) in enumerate(ranked, start=1):
        right += label
        points.append((right / rank, right))
    return points, positives


def slow_all_point(rows):
    points, positives = slow_ranking(rows)
    recall = [0.0] + [right / positives for _, right in points] + [1.0]
    precision = [0.0] + [value for value, _ in points] + [0.0]
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    return sum((recall[i] - recall[i - 1]) * precision[i] for i in range(1, len(recall)))


def slow_11_point(rows):
    points, positives = slow_ranking(rows)
    total = 0.0
    for tenth in range(11):
        total += max((value for value, right in points if 10 * right >= tenth * positives), default=0.0) / 11
    return total


@given(rankings)
def test_interpolated_definitions_equal_slow_loops(rows):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    if (labels == 1).any():
        assert average_precision(scores, labels, "all-point") == pytest.approx(slow_all_point(rows), abs=1e-12)
        assert average_precision(scores, labels, "11-point") == pytest.approx(slow_11_point(rows), abs=1e-12)


@given(rankings)
def test_unrecalled_positives_count_as_zero(rows):
    # Detection may never find some positives: the area beyond the last recall is 0.
    hits = np.array([label == 1 for _, label in rows])
    positives = int(hits.sum()) + 3
    found = interpolated_ap(hits, int(hits.sum()), "all-point") if hits.any() else 0.0
    assert interpolated_ap(hits, positives, "all-point") == pytest.approx(found * hits.sum() / positives)
    assert 0 <= interpolated_ap(hits, positives, "11-point") <= 1


def test_report_leaves_classes_without_positives_out_of_the_mean():
    scores = np.array([[3, 3, 1.0], [2, 2, 2], [1, 1, 3]])
    labels = np.array([[1, 0, 0], [0, 1, 0], [0, 1, -1]])  # cat: 1; dog: RISING; owl: none
    report = classification_report(scores, labels, ["cat", "dog", "owl"])
    assert report.mean_ap == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert report.mean_ap_non_interpolated == pytest.approx(100 * (1 + 7 / 12) / 2)
    assert report.positives == {"cat": 1, "dog": 2, "owl": 0}
    figures = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert figures["AP"] == {"cat": 100.0, "dog": pytest.approx(200 / 3), "owl": None}
    assert figures["mAP"] == report.mean_ap
    assert figures["mAP_11pt"] == report.mean_ap_11_point


def test_report_of_nothing_known_is_null():
    report = classification_report(np.zeros((2, 1)), np.full((2, 1), -1), ["cat"])
    assert report.as_dict()["mAP"] is None


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: average_precision(np.zeros(3), np.zeros(2)), ValueError, r"\(3,\) and labels \(2,\)"),
        (lambda: average_precision(np.zeros(2), np.array([1, 2])), ValueError, "label 1 is 2"),
        (lambda: average_precision(np.array([0, np.nan]), np.array([1, 0])), DplError, "image 1 is nan"),
        (lambda: average_precision(np.zeros(1), np.ones(1), "11point"), DplError, "Did you mean '11-point'"),
        (lambda: classification_report(np.zeros((2, 3)), np.zeros((2, 3)), ["a", "b"]), ValueError, r"wanted \(I, 2\)"),
        (lambda: classification_report(np.zeros((2, 2)), np.zeros((2, 2)), ["a", "a"]), ValueError, "differ"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
