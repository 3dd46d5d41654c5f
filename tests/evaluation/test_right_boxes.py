"""The share of right boxes and its interval: against scipy's distribution, at the ends, and over simulated reviews."""

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from deep_patch_learning.data.reviewed import LEFT_OPEN, UNJUDGED, Judged
from deep_patch_learning.evaluation.right_boxes import Share, design_effect, right_boxes, share_interval


@pytest.mark.parametrize(("right", "drawn", "boxes"), [(5, 8, 12), (20, 30, 300), (0, 4, 9), (4, 4, 9), (1, 1, 50)])
def test_the_interval_holds_the_shares_that_the_distribution_allows(right: int, drawn: int, boxes: int) -> None:
    possible = range(right, boxes - (drawn - right) + 1)
    low = min(whole for whole in possible if hypergeom.sf(right - 1, boxes, whole, drawn) >= 0.025)
    high = max(whole for whole in possible if hypergeom.cdf(right, boxes, whole, drawn) >= 0.025)
    assert share_interval(right, drawn, boxes) == pytest.approx((low / boxes, high / boxes))


def test_among_very_many_boxes_the_interval_is_clopper_and_pearsons() -> None:
    wanted = binomtest(70, 100).proportion_ci(method="exact")
    assert share_interval(70, 100, 1_000_000) == pytest.approx((wanted.low, wanted.high), abs=1e-4)


def test_all_judged_leaves_no_doubt() -> None:
    assert share_interval(7, 10, 10) == (0.7, 0.7)


def test_a_design_effect_widens_the_interval() -> None:
    low, high = share_interval(70, 100, 1000)
    wide_low, wide_high = share_interval(70, 100, 1000, effect=2.0)
    assert wide_low < low < high < wide_high
    assert (wide_low, wide_high) == share_interval(35, 50, 500)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="3 right of 2 judged of 9 boxes"):
        share_interval(3, 2, 9)


def test_boxes_that_are_right_by_image_count_as_fewer() -> None:
    images = np.repeat(np.arange(50), 4)
    together = np.repeat(np.arange(50) % 2, 4)  # all four of an image are right, or none is
    assert design_effect(together, images) == pytest.approx(4, rel=0.03)
    assert design_effect(together, np.arange(200)) == 1
    assert design_effect(np.ones(200, int), images) == 1


def judged(right: list[int], places: list[int], classes: list[int], sample: list[int]) -> Judged:
    return Judged(*map(np.array, (places, classes, places, right, sample)))


def test_only_the_sample_counts_and_what_is_known_beyond_it_bounds_the_interval() -> None:
    right = [1, 0, 1, UNJUDGED, 0, 0, 0, 0]
    found = right_boxes(judged(right, [*range(8)], [0] * 8, [4])).per_class[0]
    assert found is not None
    assert (found.right, found.judged, found.boxes) == (2, 3, 8)
    assert found.low >= 2 / 8
    assert found.high <= 3 / 8  # five of the eight are known to be wrong
    assert found.low <= found.share <= found.high


def test_over_all_classes_only_images_count_that_were_judged_whole() -> None:
    right = [1, 1, 1, 1, UNJUDGED, 0]
    found = right_boxes(judged(right, [0, 1, 2, 0, 2, 1], [0, 0, 0, 1, 1, 1], [3, 2]))
    assert found.overall is not None
    assert (found.overall.right, found.overall.judged) == (3, 4)  # the images at places 0 and 1
    assert [one and one.judged for one in found.per_class] == [3, 2]


def test_a_box_that_was_left_open_may_be_either() -> None:
    def share(*right: int) -> Share:
        found = right_boxes(judged([*right, *[UNJUDGED] * 4], [*range(10)], [0] * 10, [6])).per_class[0]
        assert found is not None
        return found

    found = share(1, 1, LEFT_OPEN, 0, 1, LEFT_OPEN)
    assert (found.right, found.judged, found.left_open, found.share) == (3, 4, 2, 0.75)
    assert found.low == share(1, 1, 0, 0, 1, 0).low
    assert found.high == share(1, 1, 1, 0, 1, 1).high
    assert right_boxes(judged([LEFT_OPEN], [0], [0], [1])).per_class == [None]


def test_without_a_sample_there_is_no_estimate() -> None:
    found = right_boxes(judged([1, 0], [0, 1], [0, 0], [0, 0]))
    assert found.overall is None
    assert found.per_class == [None, None]
    assert right_boxes(judged([], [], [], [0])).overall is None
    assert found.as_dict(("cat", "dog")) == {"overall": None, "per_class": {}}


def reviewed(random: np.random.Generator, images: int, sampled: int) -> tuple[Judged, np.ndarray]:
    """One simulated review: images of one to four boxes, right together more often than by chance; and which are right."""
    counts = random.integers(1, 5, images)
    ease = np.repeat(random.normal(0.5, 1.0, images), counts)
    right = (random.random(len(ease)) < 1 / (1 + np.exp(-ease))).astype(int)
    classes, of_image = random.integers(0, 4, len(ease)), np.repeat(np.arange(images), counts)
    places = random.permutation(images)[of_image]
    known = np.where(places < sampled, right, UNJUDGED)
    return Judged(of_image, classes, places, known, np.full(4, sampled)), right


@pytest.mark.parametrize("sampled", [20, 60, 150])
def test_over_200_simulated_reviews_the_interval_covers_the_truth(sampled: int) -> None:
    random = np.random.default_rng(sampled)
    overall, of_classes = [], []
    for _ in range(200):
        known, right = reviewed(random, 300, sampled)
        found = right_boxes(known)
        assert found.overall is not None
        overall.append(found.overall.low <= right.mean() <= found.overall.high)
        of_classes += [
            one.low <= right[known.classes == index].mean() <= one.high
            for index, one in enumerate(found.per_class)
            if one is not None
        ]
    assert np.mean(overall) >= 0.93
    assert np.mean(of_classes) >= 0.93
