"""Which boxes are written: tags respected, unknown left out, weak ones abstained from; true of any prediction."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.select import LabelRule, LabelSet, select, summary

from .conftest import CLASSES, prediction


def boxes_by_image(labels: LabelSet) -> dict[str, list]:
    return {
        p.name: [
            (box, index, round(score, 6))
            for box, index, score in zip(p.boxes.tolist(), p.classes.tolist(), p.scores.tolist(), strict=True)
        ]
        for p in labels.images
    }


def test_tags_are_respected_and_unknown_left_out(odd: tuple, written: dict) -> None:
    images, predictions = odd
    assert boxes_by_image(select(predictions, images, LabelRule(boxes_per_class=None))) == written


def test_a_tag_whose_best_box_is_weak_is_abstained_from_and_counted(odd: tuple) -> None:
    images, predictions = odd
    counts = summary(select(predictions, images, LabelRule(boxes_per_class=None)))
    assert counts["abstained_images"] == {"bus": ["beach_001.jpg"]}
    assert counts["per_class"]["bus"] == {
        "tagged": 3,
        "boxes": 3,
        "parts": 0,
        "abstained": 1,
        "mean_score": pytest.approx((0.9 + 0.6 + 0.51) / 3),
    }
    assert (counts["images"], counts["images_without_boxes"], counts["boxes"]) == (5, 1, 7)
    assert (counts["tagged"], counts["abstained"]) == (6, 1)


@pytest.mark.parametrize(("min_score", "boxes"), [(0, 9), (0.4, 8), (0.5, 7), (0.7, 4), (0.85, 1), (1, 0)])
def test_min_score(odd: tuple, min_score: float, boxes: int) -> None:
    images, predictions = odd
    counts = summary(select(predictions, images, LabelRule(min_score - 1e-6 if 0 < min_score < 1 else min_score, None)))
    assert counts["boxes"] == boxes


def test_the_best_box_alone_unless_more_are_asked_for(odd: tuple, written: dict) -> None:
    images, predictions = odd
    found = boxes_by_image(select(predictions, images))
    assert found["beach/001.jpg"] == written["beach/001.jpg"][:1]
    assert found["images/my dog, naïve 100%.png"] == written["images/my dog, naïve 100%.png"][:2]


def test_boxes_that_look_like_parts_are_counted_by_class(odd: tuple) -> None:
    """The bus's best box lies in a larger one that scores little less; that of the dog in one that scores little."""
    images, _ = odd
    wheel, bus, dog, sofa = [10, 40, 25, 55], [5, 5, 100, 70], [60, 60, 70, 75], [30, 10, 110, 78]
    found = [(wheel, 0, 0.9), (bus, 0, 0.85), (dog, 1, 0.9), (sofa, 1, 0.3)]
    one = TaggedImages(CLASSES, images.names[:1], images.paths[:1], np.array([[1, 1, 0]], np.int8))
    labels = select([prediction(images.names[0], (120, 80), found)], one)
    assert labels.images[0].parts.tolist() == [True, False]
    counts = summary(labels)
    assert (counts["parts"], counts["per_class"]["bus"]["parts"], counts["per_class"]["a dog"]["parts"]) == (1, 1, 0)
    both = summary(select([prediction(images.names[0], (120, 80), found)], one, LabelRule(boxes_per_class=2)))
    assert (both["parts"], both["boxes"]) == (1, 3)  # the whole bus is no part


def test_untagged_adds_confident_others_but_never_unknown_ones(odd: tuple) -> None:
    images, predictions = odd
    found = boxes_by_image(select(predictions, images, LabelRule(0.5, untagged=True)))
    assert ([1, 1, 5, 5], 1, 0.99) in found["beach/001.jpg"]
    assert found["empty.jpg"] == [([0, 0, 20, 10], 0, 0.95)]
    assert all(index != 2 for _, index, _ in found["beach_001.jpg"])
    # the image as a whole says 0.5 of every class: a higher minimum leaves the untagged ones out
    assert boxes_by_image(select(predictions, images, LabelRule(0.6, untagged=True)))["empty.jpg"] == []


def test_pairs_must_match(odd: tuple) -> None:
    images, predictions = odd
    with pytest.raises(DataError, match="4 predictions for 5 images"):
        select(predictions[:4], images)
    with pytest.raises(DataError, match="more than 5 predictions for 5 images"):
        select([*predictions, predictions[0]], images)
    with pytest.raises(DataError, match=r"'empty.jpg' stands where 'beach/001.jpg' is"):
        select(predictions[::-1], images)
    other = [prediction("a.jpg", (9, 9), [], ("x", "y", "z"))]
    with pytest.raises(DataError, match="the model's classes are"):
        select(other, TaggedImages(CLASSES, ("a.jpg",), images.paths[:1], images.labels[:1]))


@pytest.mark.parametrize("rule", [{"min_score": 1.5}, {"min_score": -0.1}, {"boxes_per_class": 0}])
def test_a_rule_that_makes_no_sense(rule: dict) -> None:
    with pytest.raises(DataError, match="wanted"):
        LabelRule(**rule)


def test_a_model_that_only_classifies(odd: tuple) -> None:
    images, predictions = odd
    without = [
        Prediction(
            p.name, p.classes, p.height, p.width, p.image_scores, np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)
        )
        for p in predictions
    ]
    with pytest.raises(DataError, match="--heads both"):
        select(without, images)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[TaggedImages, list[Prediction]]:
    """Draw images with any tags and any boxes inside them."""
    from pathlib import Path

    count = draw(st.integers(1, 4))
    names = [f"{index}.jpg" for index in range(count)]
    states = draw(
        st.lists(st.tuples(*[st.sampled_from([PRESENT, ABSENT, UNKNOWN])] * 3), min_size=count, max_size=count)
    )
    predictions = []
    for name in names:
        width, height = draw(st.integers(1, 300)), draw(st.integers(1, 300))
        found = []
        for _ in range(draw(st.integers(0, 8))):
            x1, y1 = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
            box = [x1, y1, draw(st.integers(x1 + 1, width)), draw(st.integers(y1 + 1, height))]
            found.append((box, draw(st.integers(0, 2)), draw(st.floats(0.001, 0.999))))
        predictions.append(prediction(name, (width, height), found))
    paths = tuple(Path("/photos", name) for name in names)
    return TaggedImages(CLASSES, tuple(names), paths, np.array(states, np.int8).reshape(-1, 3)), predictions


@settings(max_examples=150, deadline=None)
@given(worlds(), st.floats(0, 1), st.none() | st.integers(1, 3), st.booleans())
def test_what_holds_of_any_selection(world: tuple, min_score: float, most: int | None, untagged: bool) -> None:
    images, predictions = world
    labels = select(predictions, images, LabelRule(min_score, most, untagged))
    counts = summary(labels)
    assert [p.name for p in labels.images] == list(images.names)
    assert counts["boxes"] == sum(len(p.boxes) for p in labels.images)
    assert counts["boxes"] == sum(row["boxes"] for row in counts["per_class"].values())
    assert list(counts["per_class"]) == list(CLASSES)
    for image, found in zip(labels.images, predictions, strict=True):
        assert (image.scores >= min_score).all()
        assert (image.scores <= 1).all()
        assert (image.boxes >= 0).all()
        assert (image.boxes[:, 2] <= image.width).all()
        assert (image.boxes[:, 3] <= image.height).all()
        assert (np.diff(image.classes) >= 0).all()  # in the order of classes, best first
        assert (np.diff(image.scores)[np.diff(image.classes) == 0] <= 0).all()
        allowed = (PRESENT, ABSENT) if untagged else (PRESENT,)
        assert np.isin(image.states[image.classes], allowed).all()
        for index in range(3):
            own = found.found_classes == index
            reached = [box.probability for box in found.filter(min_probability=0) if box.tag == CLASSES[index]]
            count = sum(score >= min_score for score in reached)
            if image.states[index] == PRESENT:
                assert (image.classes == index).sum() == min(count, most or len(own))
                assert (index in image.abstained) == (count == 0)


def test_without_a_score_each_class_has_the_threshold_of_its_tag(odd: tuple) -> None:
    images, predictions = odd
    own = np.linspace(0.3, 0.9, len(images.classes))
    asked = [replace(one, threshold=tuple(own)) for one in predictions]
    found = select(asked, images, LabelRule(None, None))
    everything = select(predictions, images, LabelRule(0.0, None))
    assert sum(len(one.boxes) for one in found.images) < sum(len(one.boxes) for one in everything.images)
    for some, every in zip(found.images, everything.images, strict=True):
        kept = every.scores >= own[every.classes]
        np.testing.assert_array_equal(some.boxes, every.boxes[kept])
    plain = select(predictions, images, LabelRule(None, None))
    half = select(predictions, images, LabelRule(0.5, None))
    assert [one.boxes.tolist() for one in plain.images] == [one.boxes.tolist() for one in half.images]


def precise(name: str, boxes: list, precision: list[float]) -> Prediction:
    return replace(prediction(name, (120, 80), boxes), found_precision=np.array(precision))


@pytest.fixture
def two_images(odd: tuple) -> TaggedImages:
    """Two images, the first tagged bus and dog, the second bus."""
    images = odd[0].subset([0, 1])
    states = np.zeros((2, len(CLASSES)), np.int8)
    states[0, :2] = states[1, 0] = PRESENT
    return TaggedImages(CLASSES, images.names, images.paths, states)


BUS, SECOND, DOG = ([0, 0, 50, 80], 0, 0.9), ([60, 0, 110, 80], 0, 0.8), ([5, 5, 40, 40], 1, 0.7)


def test_an_expected_precision_decides_and_is_the_score(two_images: TaggedImages) -> None:
    names = two_images.names
    found = [precise(names[0], [BUS, SECOND, DOG], [0.3, 0.85, 0.95]), precise(names[1], [BUS, SECOND], [0.7, 0.2])]
    labels = select(found, two_images, LabelRule(precision=0.8))
    assert boxes_by_image(labels)[names[0]] == [([60, 0, 110, 80], 0, 0.85), ([5, 5, 40, 40], 1, 0.95)]
    assert boxes_by_image(labels)[names[1]] == []
    counts = summary(labels)
    assert (counts["boxes"], counts["abstained"]) == (2, 1)
    assert counts["per_class"]["bus"]["mean_score"] == pytest.approx(0.85)
    with pytest.raises(DataError, match="no expected precision"):
        select([prediction(name, (120, 80), [BUS]) for name in names], two_images, LabelRule(precision=0.8))


def test_a_higher_precision_keeps_fewer_boxes_and_none_below_it(two_images: TaggedImages) -> None:
    names = two_images.names
    found = [precise(names[0], [BUS, SECOND, DOG], [0.3, 0.85, 0.95]), precise(names[1], [BUS, SECOND], [0.7, 0.2])]
    kept = [
        [
            score
            for rows in boxes_by_image(select(found, two_images, LabelRule(None, None, precision=p))).values()
            for *_, score in rows
        ]
        for p in (0, 0.3, 0.5, 0.8, 0.9, 1)
    ]
    assert [len(scores) for scores in kept] == [5, 4, 3, 2, 1, 0]
    assert all(min(scores, default=1) >= p - 1e-6 for scores, p in zip(kept, (0, 0.3, 0.5, 0.8, 0.9, 1), strict=True))


def test_for_training_every_object_that_scores_well_has_one_box(two_images: TaggedImages) -> None:
    weak, part, around = ([80, 40, 110, 80], 0, 0.4), ([5, 5, 45, 60], 0, 0.85), ([0, 0, 115, 80], 0, 0.84)
    found = [
        prediction(two_images.names[0], (120, 80), [BUS, part, around, SECOND, weak, ([5, 5, 40, 40], 1, 0.1)]),
        prediction(two_images.names[1], (120, 80), [([0, 0, 50, 80], 0, 0.05)]),
    ]
    labels = select(found, two_images, LabelRule(boxes_per_class=None, for_training=True))
    written = boxes_by_image(labels)
    # neither the part of the bus, nor the frame around both, nor one with less than half of the best probability
    assert [row[0] for row in written[two_images.names[0]]] == [[0, 0, 50, 80], [60, 0, 110, 80], [5, 5, 40, 40]]
    assert len(written[two_images.names[1]]) == 1  # the best box of a tag stays, however weak
    assert summary(labels)["left_out"] == []
    one = select(found, two_images, LabelRule(boxes_per_class=1, for_training=True))
    assert [row[0] for row in boxes_by_image(one)[two_images.names[0]]] == [[0, 0, 50, 80], [5, 5, 40, 40]]


def test_for_training_an_image_with_a_tag_without_box_is_left_out(two_images: TaggedImages) -> None:
    found = [
        prediction(two_images.names[0], (120, 80), [BUS, ([5, 5, 40, 40], 1, 0.1)]),
        prediction(two_images.names[1], (120, 80), [BUS]),
    ]
    labels = select(found, two_images, LabelRule(0.5, None, for_training=True))
    assert list(boxes_by_image(labels)) == [two_images.names[1]]
    assert summary(labels)["left_out"] == [two_images.names[0]]
    assert len(select(found, two_images, LabelRule(0.5, None)).images) == 2
    with pytest.raises(DataError, match="Give one"):
        LabelRule(untagged=True, for_training=True)
