"""CorLoc, detection average precision and recall: by hand, and against slow loops written from the devkit's words."""

import json
import math
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.evaluation import matching
from deep_patch_learning.evaluation.average_precision import interpolated_ap, recall_at
from deep_patch_learning.evaluation.discovery import corloc, detection_mean_ap, instance_recall
from deep_patch_learning.evaluation.matching import paired_iou


class Found(NamedTuple):
    found_boxes: np.ndarray
    found_classes: np.ndarray
    found_scores: np.ndarray


def true_boxes(*objects):
    """Return the truth of one image from (box, class) or (box, class, difficult)."""
    boxes = np.array([o[0] for o in objects], np.float32).reshape(-1, 4)
    difficult = np.array([len(o) > 2 and o[2] for o in objects], bool)
    return TrueBoxes(boxes, np.array([o[1] for o in objects], np.int64), difficult)


def found_boxes(*objects):
    """Return the detections of one image from (box, class, score)."""
    return Found(
        np.array([o[0] for o in objects], np.float32).reshape(-1, 4),
        np.array([o[1] for o in objects], np.int64),
        np.array([o[2] for o in objects], np.float32),
    )


TEN = (0, 0, 10, 10)
HALF = (0, 0, 10, 5)  # IoU with TEN: 50 / 100, exactly 0.5
UNDER = (0, 0, 10, 4)  # 0.4
OVER = (0, 0, 10, 6)  # 0.6
AWAY = (20, 20, 30, 30)


def corloc_of(best, truth, **options):
    return corloc(np.array(best, np.float32)[:, None], truth, ["cat"], **options).mean


@pytest.mark.parametrize(
    ("best", "options", "expected"),
    [
        (TEN, {}, 100),
        (OVER, {}, 100),
        (HALF, {}, 100),
        (HALF, {"strict": True}, 0),
        (OVER, {"strict": True}, 100),
        (UNDER, {}, 0),
        (UNDER, {"threshold": 0.4}, 100),
        (AWAY, {}, 0),
        ((np.nan,) * 4, {}, 0),
        ((0, 0, 0, 0), {}, 0),
    ],
)
def test_corloc_overlap(best, options, expected):
    assert corloc_of([best], [true_boxes((TEN, 0))], **options) == expected


@pytest.mark.parametrize(
    ("truth", "inside", "outside"),
    [
        # The best box lies on an easy box: a hit either way.
        ([true_boxes((TEN, 0))], 100, 100),
        # On a difficult one beside an easy one elsewhere: a hit only while difficult boxes are in.
        ([true_boxes((TEN, 0, True), (AWAY, 0))], 100, 0),
        # Only difficult: the image is not measured at all when they are out.
        ([true_boxes((TEN, 0, True))], 100, math.nan),
        ([true_boxes((AWAY, 0, True))], 0, math.nan),
        # The class has no box here.
        ([true_boxes()], math.nan, math.nan),
    ],
)
def test_corloc_difficult_in_and_out(truth, inside, outside):
    assert corloc_of([TEN], truth) == pytest.approx(inside, nan_ok=True)
    assert corloc_of([TEN], truth, with_difficult=False) == pytest.approx(outside, nan_ok=True)


def test_corloc_hand_worked_over_images_and_classes():
    truth = [
        true_boxes((TEN, 0), (AWAY, 0), (AWAY, 1)),  # two cats count as one image with a cat
        true_boxes((TEN, 0)),
        true_boxes((TEN, 1)),
        true_boxes(),
    ]
    best = np.array(
        [
            [AWAY, TEN, TEN],  # cat: on the second cat, a hit; dog: on the cat, a miss
            [UNDER, TEN, TEN],  # cat: miss; dog is not here
            [TEN, HALF, TEN],  # dog: hit; cat is not here
            [TEN, TEN, TEN],
        ],
        np.float32,
    )
    report = corloc(best, truth, ["cat", "dog", "owl"])
    assert report.per_class["cat"] == 50
    assert report.per_class["dog"] == 50
    assert math.isnan(report.per_class["owl"])
    assert report.images == {"cat": 2, "dog": 2, "owl": 0}
    figures = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert figures["CorLoc"] == 50
    assert figures["CorLoc_per_class"]["owl"] is None
    assert figures["CorLoc_rule"] == "IoU >= 0.5, difficult boxes in"


def test_half_open_iou_is_the_devkits_plus_one_iou():
    # One-based corners with the last pixel inside, as VOC writes them, against the same boxes in our convention.
    rng = np.random.default_rng(0)
    inclusive = np.sort(rng.integers(1, 30, (2, 50, 2, 2)), axis=2).reshape(2, 50, 4)
    first, second = inclusive
    low, high = np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])
    shared = np.prod((high - low + 1).clip(0), axis=1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2] + 1, axis=1) for boxes in inclusive]
    devkit = shared / (areas[0] + areas[1] - shared)
    ours = inclusive - np.array([1, 1, 0, 0])
    assert np.array_equal(paired_iou(ours[0], ours[1]), devkit)
    assert np.array_equal(np.diagonal(box_iou(ours[0], ours[1])), devkit)


def test_detection_hand_worked():
    # One class, two images, three easy boxes and one difficult one. Ranked by score:
    #   .9 on TEN of image 0               right
    #   .8 on TEN of image 0 again         wrong (a duplicate)
    #   .7 on the difficult box              ignored
    #   .6 on TEN of image 1, IoU 0.5      right
    #   .5 on nothing                        wrong
    # so right, wrong, right, wrong with three to find: precision 1, 1/2, 2/3, 1/2; recall 1/3, 1/3, 2/3, 2/3
    # all-point: (1 + 2/3) / 3 = 5/9; 11-point: 0-0.3 reads 1 (4), 0.4-0.6 reads 2/3 (3), 0.7-1 reads 0: 6/11
    far = (60, 60, 70, 70)
    truth = [true_boxes((TEN, 0), (AWAY, 0, True)), true_boxes((TEN, 0), (far, 0))]
    found = [
        found_boxes((OVER, 0, 0.8), (TEN, 0, 0.9), (AWAY, 0, 0.7)),
        found_boxes(((40, 40, 45, 45), 0, 0.5), (HALF, 0, 0.6)),
    ]
    report = detection_mean_ap(found, truth, ["cat"])
    assert report.mean_ap == pytest.approx(100 * 5 / 9)
    assert report.mean_ap_11_point == pytest.approx(100 * 6 / 11)
    assert report.boxes == {"cat": 3}
    assert report.as_dict()["recall_at_80"] == pytest.approx(
        100 / 3
    )  # after the first one, half of them are right at most
    assert report.as_dict()["detection_rule"] == "IoU >= 0.5, difficult boxes ignored"
    # Strictly more than 0.5: HALF is now wrong, which leaves right, wrong, wrong, wrong: 1/3.
    assert detection_mean_ap(found, truth, ["cat"], strict=True).mean_ap == pytest.approx(100 / 3)
    # Found by anything: 2 of 3 easy ones, 3 of 4 with the difficult one.
    assert instance_recall(found, truth, ["cat"]).overall == 75
    assert instance_recall(found, truth, ["cat"], with_difficult=False).overall == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([1, 1, 1, 1, 0], 4 / 6),  # 80 % to the end, to the last digit
        ([1, 0, 1, 1, 1, 0], 4 / 6),  # too many wrong at first, enough right later
        ([0, 1, 1], 0),
        ([], 0),
    ],
)
def test_recall_at_a_precision(hits, expected):
    assert recall_at(0.8, np.array(hits, bool), 6) == pytest.approx(expected)
    assert math.isnan(recall_at(0.8, np.zeros(2, bool), 0))


def test_a_second_box_is_not_handed_to_the_next_best_object():
    # Both found boxes overlap the first object most; the devkit does not let the second one take the other object.
    truth = [true_boxes(((0, 0, 10, 10), 0), ((0, 2, 10, 12), 0))]
    found = [found_boxes((TEN, 0, 0.9), ((0, 0, 10, 11), 0, 0.8))]  # the second one: IoU 10/11 and 9/12
    assert detection_mean_ap(found, truth, ["cat"]).mean_ap == pytest.approx(50)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([found_boxes((TEN, 0, 1.0))], 100),
        ([found_boxes((TEN, 1, 1.0))], 0),  # the right box under the wrong name
        ([found_boxes((AWAY, 0, 1.0))], 0),
        ([found_boxes()], 0),
    ],
)
def test_detection_ends_of_the_scale(found, expected):
    report = detection_mean_ap(found, [true_boxes((TEN, 0))], ["cat", "dog"])
    assert report.mean_ap == report.mean_ap_11_point == report.recall_at_80["cat"] == expected
    assert math.isnan(report.all_point["dog"])
    assert instance_recall(found, [true_boxes((TEN, 0))], ["cat", "dog"]).overall == expected


def test_no_images_is_nan_not_a_crash():
    assert math.isnan(detection_mean_ap([], [], ["cat"]).mean_ap)
    assert math.isnan(corloc(np.zeros((0, 1, 4)), [], ["cat"]).mean)
    assert instance_recall([], [], ["cat"]).as_dict()["instance_recall"] is None


# Small grids, so that overlaps of exactly one half, duplicates and equal scores are common.
corners = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 4), st.integers(1, 4))
some_boxes = corners.map(lambda c: (c[0], c[1], c[0] + c[2], c[1] + c[3]))
true_images = st.lists(st.tuples(some_boxes, st.integers(0, 1), st.booleans()), max_size=4)
found_images = st.lists(st.tuples(some_boxes, st.integers(0, 1), st.integers(0, 3)), max_size=6)
images = st.lists(st.tuples(true_images, found_images), min_size=1, max_size=4)


def slow_iou(a, b):
    columns, rows = set(range(a[0], a[2])) & set(range(b[0], b[2])), set(range(a[1], a[3])) & set(range(b[1], b[3]))
    shared = len(columns) * len(rows)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def slow_hits(rows, index, strict):
    """Return (hits in rank order, easy objects to find) of one class, by the devkit's loop."""
    detections = [(p, box, score) for p, (_, found) in enumerate(rows) for box, c, score in found if c == index]
    taken, hits = set(), []
    for p, box, _ in sorted(detections, key=lambda d: -d[2]):
        best, at = -1.0, None
        for g, (true_box, c, _) in enumerate(rows[p][0]):
            if c == index and slow_iou(box, true_box) > best:
                best, at = slow_iou(box, true_box), g
        if at is None or (best <= 0.5 if strict else best < 0.5):
            hits.append(False)
        elif not rows[p][0][at][2]:
            hits.append((p, at) not in taken)
            taken.add((p, at))
    return hits, sum(c == index and not difficult for true, _ in rows for _, c, difficult in true)


BLOCKS = st.sampled_from([1, 2, 500])  # images that are matched at a time


@pytest.mark.parametrize("block", [1, 2, 500])
def test_objects_of_one_block_are_not_those_of_another(block):
    truth = [true_boxes((TEN, 0, index == 2)) for index in range(4)]  # the third one difficult
    found = [found_boxes((TEN, 0, 0.9 - index / 10)) for index in range(4)]
    with patch.object(matching, "BLOCK", block):
        report = detection_mean_ap(found, truth, ["cat"])
        assert (report.mean_ap, report.boxes) == (100, {"cat": 3})
        assert instance_recall(found, truth, ["cat"]).overall == 100


@given(images, st.booleans(), BLOCKS)
def test_detection_equals_the_devkits_loop(rows, strict, block):
    truth = [true_boxes(*true) for true, _ in rows]
    found = [found_boxes(*detections) for _, detections in rows]
    with patch.object(matching, "BLOCK", block):
        report = detection_mean_ap(found, truth, ["cat", "dog"], strict=strict)
    for index, name in enumerate(["cat", "dog"]):
        hits, positives = slow_hits(rows, index, strict)
        expected = 100 * interpolated_ap(np.array(hits, bool), positives, "all-point")
        assert report.all_point[name] == pytest.approx(expected, nan_ok=True)


@given(images, st.booleans(), st.booleans(), BLOCKS)
def test_corloc_and_recall_equal_slow_loops(rows, strict, with_difficult, block):
    truth, found = [true_boxes(*true) for true, _ in rows], [found_boxes(*detections) for _, detections in rows]
    best = np.array([[TEN, found[0][0] if found else AWAY] for _, found in rows], np.float32)
    options = {"strict": strict, "with_difficult": with_difficult}
    enough = (lambda iou: iou > 0.5) if strict else (lambda iou: iou >= 0.5)
    shown = located = there = got = 0
    for (true, detections), boxes in zip(rows, best, strict=True):
        wanted = [(box, c) for box, c, difficult in true if with_difficult or not difficult]
        of_dog = [box for box, c in wanted if c == 1]
        shown += bool(of_dog)
        located += any(enough(slow_iou(box, boxes[1].astype(int))) for box in of_dog)
        there += len(wanted)
        got += sum(any(c == d and enough(slow_iou(b, box)) for b, d, _ in detections) for box, c in wanted)
    expected = 100 * located / shown if shown else math.nan
    assert corloc(best, truth, ["cat", "dog"], **options).per_class["dog"] == pytest.approx(expected, nan_ok=True)
    expected = 100 * got / there if there else math.nan
    with patch.object(matching, "BLOCK", block):
        recall = instance_recall(found, truth, ["cat", "dog"], **options).overall
    assert recall == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: corloc(np.zeros((1, 2, 4)), [true_boxes()], ["cat"]), r"\(1, 2, 4\); wanted \(1, 1, 4\)"),
        (lambda: corloc(np.zeros((1, 1, 4)), [true_boxes((TEN, 3))], ["cat"]), "image 0 has class 3; wanted 0 to 0"),
        (lambda: detection_mean_ap([], [true_boxes()], ["cat"]), "0 images and true boxes for 1"),
        (lambda: detection_mean_ap([found_boxes((TEN, 0, np.nan))], [true_boxes()], ["cat"]), "1 of them nan"),
        (lambda: instance_recall([found_boxes((TEN, -1, 0))], [true_boxes()], ["cat"]), "class -1"),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()
