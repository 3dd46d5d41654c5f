"""Cards: right boxes green, wrong ones red, unknown ones in their class colour; sizes that suit a page."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.drawing import RIGHT, WRONG, class_colour
from deep_patch_learning.report.pictures import LONGEST_SIDE, MOST_BYTES, fitted, jpeg_uri, judge, verdict_card

GREY = np.full((60, 80, 3), 128, np.uint8)
WIDE = np.array([10, 10, 50, 40], np.float32)  # the true box itself
NEAR = np.array([10, 10, 46, 40], np.float32)  # IoU 0.9
HALF = np.array([10, 10, 30, 40], np.float32)  # IoU 0.5, to the last digit
FAR = np.array([55, 42, 75, 58], np.float32)  # IoU 0
BOTH = np.array([1, 1])


def decoded(uri):
    head, data = uri.split(",", 1)
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB")


def colour_of_right_edge(picture, box, factor):
    """Return which of the known colours the middle of the box's right edge has."""
    x, y = int(box[2] * factor) - 1, int((box[1] + box[3]) / 2 * factor)
    pixel = np.array(picture.getpixel((x, y)), float)
    known = {"right": RIGHT, "wrong": WRONG, "first": class_colour(0), "second": class_colour(1), "grey": (128,) * 3}
    return min(known, key=lambda name: np.abs(pixel - known[name]).sum())


@pytest.mark.parametrize(
    ("box", "strict", "overlap", "right"),
    [
        (WIDE, False, 1.0, True),
        (NEAR, True, 0.9, True),
        (HALF, False, 0.5, True),
        (HALF, True, 0.5, False),
        (FAR, False, 0, False),
    ],
)
def test_a_find_is_judged_as_corloc_judges(hand, box, strict, overlap, right):
    prediction = hand.prediction("a", np.stack([box, FAR]))
    (find,) = judge(prediction, np.array([1, 0]), hand.truth(0), strict=strict)
    assert (find.tag, find.right) == (hand.classes[0], right)
    assert find.overlap == pytest.approx(overlap)
    assert find.probability == pytest.approx(1 / (1 + np.exp(-2.0)))


def test_only_tags_that_are_present_are_judged(hand):
    prediction = hand.prediction("a", np.stack([WIDE, FAR]))
    assert judge(prediction, np.array([-1, 0]), hand.truth(0)) == ()
    assert [find.class_index for find in judge(prediction, np.array([-1, 1]), hand.truth(1))] == [1]


def test_a_tag_without_a_true_box_cannot_be_judged(hand):
    finds = judge(hand.prediction("a", np.stack([WIDE, FAR])), BOTH, hand.truth(0))
    assert [find.right for find in finds] == [True, None]


def test_right_is_green_and_wrong_is_red(hand):
    prediction = hand.prediction("a", np.stack([NEAR, FAR]))
    card = verdict_card(GREY, prediction, BOTH, both_true(hand))
    assert [find.right for find in card.finds] == [True, False]
    picture = decoded(card.uri)
    assert picture.size == (card.width, card.height) == (240, 180)
    assert colour_of_right_edge(picture, NEAR, 3) == "right"
    assert colour_of_right_edge(picture, FAR, 3) == "wrong"


def both_true(hand):
    return type(hand.truth(0))(np.stack([hand.true_box] * 2), np.array([0, 1]), np.array([False, False]))


def test_without_true_boxes_colours_are_those_of_the_classes(hand):
    card = verdict_card(GREY, hand.prediction("a", np.stack([NEAR, FAR])), BOTH)
    picture = decoded(card.uri)
    assert colour_of_right_edge(picture, NEAR, 3) == "first"
    assert colour_of_right_edge(picture, FAR, 3) == "second"
    assert all(find.right is None and find.overlap is None for find in card.finds)


def test_true_boxes_are_drawn_of_the_tags_alone(hand):
    prediction = hand.prediction("a", np.stack([FAR, FAR]))
    with_tag = decoded(verdict_card(GREY, prediction, np.array([1, 0]), hand.truth(0)).uri)
    without = decoded(verdict_card(GREY, prediction, np.array([0, 0]), hand.truth(0)).uri)
    edge = np.asarray(with_tag)[30:33, 40:140].astype(int)
    assert edge.max() > 220  # white dashes
    assert edge.min() < 40  # on a dark line
    assert np.abs(np.asarray(without).astype(int) - 128).max() <= 4  # an untagged picture stays as it is


def test_what_is_predicted_beyond_the_tags_is_told(hand):
    card = verdict_card(GREY, hand.prediction("a", np.stack([WIDE, FAR])), np.array([0, 1]), hand.truth(1))
    assert [name for name, _ in card.beyond] == [hand.classes[0]]


def test_a_network_without_boxes_still_has_cards(hand):
    card = verdict_card(GREY, hand.prediction("a", None), np.array([1, 0]), hand.truth(0))
    assert [(find.box, find.right) for find in card.finds] == [(None, None)]
    assert np.abs(np.asarray(decoded(card.uri)).astype(int) - 128).max() <= 4


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((1, 1), (3, 3)),
        ((160, 100), (480, 300)),
        ((200, 240), (400, 480)),
        ((319, 50), (319, 50)),
        ((320, 400), (320, 400)),
        ((480, 480), (480, 480)),
        ((2000, 1000), (480, 240)),
        ((10, 5000), (1, 480)),
    ],
)
def test_pictures_are_fitted(size, wanted):
    picture, factor = fitted(Image.new("RGB", size))
    assert picture.size == wanted
    assert factor == pytest.approx(max(wanted) / max(size))


def test_a_noisy_picture_loses_quality_and_not_the_page_its_size():
    noise = np.random.default_rng(0).integers(0, 256, (LONGEST_SIDE, LONGEST_SIDE, 3), np.uint8)
    uri = jpeg_uri(Image.fromarray(noise))
    assert decoded(uri).size == (LONGEST_SIDE, LONGEST_SIDE)
    assert len(base64.b64decode(uri.split(",")[1])) <= MOST_BYTES
