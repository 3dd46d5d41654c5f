"""Cards: boxes judged as CorLoc judges, placed in percent of the image; sizes that suit a page."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.report.images import CardMaker, find, judge, place, small

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


def maker(prediction, labels, truth=None, *, strict=False, side=200):
    """Return the maker of cards of one grey image, held in memory."""
    images = SimpleNamespace(labels=np.array([labels]), read=lambda index: GREY, classes=prediction.classes)
    return CardMaker(images, [prediction], [truth], strict, side, 20_000, {})


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


def test_a_class_that_is_not_tagged_has_an_opinion_too(hand):
    prediction = hand.prediction("a", np.stack([WIDE, FAR]))
    absent, unknown = np.array([0, 1]), np.array([-1, 1])
    assert find(prediction, 0, absent, None).said == "not tagged"
    assert find(prediction, 0, unknown, hand.truth(0)).said == "unknown"
    assert find(prediction, 0, unknown, hand.truth(0)).right is True
    assert find(prediction, 0, absent, hand.truth(1)).right is None  # no true box of this class: nothing to judge by


def both_true(hand):
    return type(hand.truth(0))(np.stack([hand.true_box] * 2), np.array([0, 1]), np.array([False, False]))


def test_all_tags_of_an_image_on_one_card(hand):
    prediction = hand.prediction("a", np.stack([NEAR, FAR]))
    card = maker(prediction, BOTH, both_true(hand)).of_tags(0)
    assert [(box.kind, box.label) for box in card.boxes] == [
        ("true", ""),
        ("true", ""),
        ("right", hand.classes[0]),
        ("wrong", hand.classes[1]),
    ]
    assert card.alt == f"a: {hand.classes[0]} 88%, tagged, {hand.classes[1]} 12%, tagged"


def test_a_card_of_one_class_shows_its_boxes_alone(hand):
    prediction = hand.prediction("a", np.stack([NEAR, FAR]))
    card = maker(prediction, BOTH, both_true(hand)).of_class(0, 1)
    assert [box.kind for box in card.boxes] == ["true", "wrong"]
    assert [one.class_index for one in card.finds] == [1]
    assert [box.kind for box in maker(prediction, BOTH).of_class(0, 1).boxes] == ["found"]


def test_strict_reaches_the_cards(hand):
    prediction = hand.prediction("a", np.stack([HALF, FAR]))
    assert [maker(prediction, BOTH, hand.truth(0), strict=s).of_class(0, 0).finds[0].right for s in (False, True)] == [
        True,
        False,
    ]


def test_boxes_are_placed_in_percent_and_kept_inside():
    assert place(np.array([20, 15, 60, 45]), (80, 60), "found")[:4] == pytest.approx((25, 25, 50, 50))
    assert place(np.array([-8, -6, 160, 66]), (80, 60), "true")[:4] == pytest.approx((0, 0, 100, 100))


def test_what_is_predicted_beyond_the_tags_is_told(hand):
    card = maker(hand.prediction("a", np.stack([WIDE, FAR])), [0, 1], hand.truth(1)).of_tags(0)
    assert [name for name, _ in card.beyond] == [hand.classes[0]]


def test_a_network_without_boxes_still_has_cards(hand):
    card = maker(hand.prediction("a", None), [1, 0], hand.truth(0)).of_tags(0)
    assert [(one.box, one.right) for one in card.finds] == [(None, None)]
    assert card.boxes == ()


def test_an_image_is_read_once_for_all_its_cards(hand):
    made = maker(hand.prediction("a", np.stack([NEAR, FAR])), BOTH)
    assert made.of_tags(0).shot is made.of_class(0, 0).shot
    assert list(made.kept) == [0]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((1, 1), (1, 1)),
        ((160, 100), (160, 100)),
        ((200, 240), (167, 200)),
        ((2000, 1000), (200, 100)),
        ((10, 5000), (1, 200)),
    ],
)
def test_images_shrink_and_never_grow(size, wanted):
    shot = small(Image.new("RGB", size, (10, 200, 30)), 200, 50_000)
    assert (shot.width, shot.height) == decoded(shot.uri).size == wanted
    assert np.abs(np.asarray(decoded(shot.uri)).astype(int) - (10, 200, 30)).max() <= 4


@pytest.mark.parametrize("most_bytes", [40_000, 6_000, 1_500])
def test_a_noisy_image_loses_quality_then_size_and_not_the_page_its_own(most_bytes):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    shot = small(Image.fromarray(noise), 200, most_bytes)
    assert decoded(shot.uri).size == (shot.width, shot.height)
    assert len(base64.b64decode(shot.uri.split(",")[1])) <= most_bytes
    assert (shot.width == 200) == (most_bytes == 40_000)
