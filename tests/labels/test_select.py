"""Which boxes are written: tags respected, unknown left out, weak ones abstained from; true of any prediction."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import ABSENT, PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.select import Choice, LabelSet, select, summary

from .conftest import CLASSES, prediction


def told(labels: LabelSet) -> dict[str, list]:
    return {
        p.name: [
            (box, index, round(score, 6))
            for box, index, score in zip(p.boxes.tolist(), p.classes.tolist(), p.scores.tolist(), strict=True)
        ]
        for p in labels.images
    }


def test_tags_are_respected_and_unknown_left_out(odd: tuple, written: dict) -> None:
    images, predictions = odd
    assert told(select(predictions, images, Choice(boxes_per_class=None))) == written


def test_a_tag_whose_best_box_is_weak_is_abstained_from_and_counted(odd: tuple) -> None:
    images, predictions = odd
    counts = summary(select(predictions, images, Choice(boxes_per_class=None)))
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
    counts = summary(select(predictions, images, Choice(min_score - 1e-6 if 0 < min_score < 1 else min_score, None)))
    assert counts["boxes"] == boxes


def test_the_best_box_alone_unless_more_are_asked_for(odd: tuple, written: dict) -> None:
    images, predictions = odd
    found = told(select(predictions, images))
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
    both = summary(select([prediction(images.names[0], (120, 80), found)], one, Choice(boxes_per_class=2)))
    assert (both["parts"], both["boxes"]) == (1, 3)  # the whole bus is no part


def test_untagged_adds_confident_others_but_never_unknown_ones(odd: tuple) -> None:
    images, predictions = odd
    found = told(select(predictions, images, Choice(0.5, untagged=True)))
    assert ([1, 1, 5, 5], 1, 0.99) in found["beach/001.jpg"]
    assert found["empty.jpg"] == [([0, 0, 20, 10], 0, 0.95)]
    assert all(index != 2 for _, index, _ in found["beach_001.jpg"])
    # the image as a whole says 0.5 of every class: a higher minimum leaves the untagged ones out
    assert told(select(predictions, images, Choice(0.6, untagged=True)))["empty.jpg"] == []


def test_pairs_must_match(odd: tuple) -> None:
    images, predictions = odd
    with pytest.raises(DataError, match="4 predictions for 5 images"):
        select(predictions[:4], images)
    with pytest.raises(DataError, match=r"'empty.jpg' stands where 'beach/001.jpg' is"):
        select(predictions[::-1], images)
    other = [prediction("a.jpg", (9, 9), [], ("x", "y", "z"))]
    with pytest.raises(DataError, match="the model's classes are"):
        select(other, TaggedImages(CLASSES, ("a.jpg",), images.paths[:1], images.labels[:1]))


@pytest.mark.parametrize("choice", [{"min_score": 1.5}, {"min_score": -0.1}, {"boxes_per_class": 0}])
def test_a_choice_that_makes_no_sense(choice: dict) -> None:
    with pytest.raises(DataError, match="wanted"):
        Choice(**choice)


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
    labels = select(predictions, images, Choice(min_score, most, untagged))
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
    found = select(asked, images, Choice(None, None))
    everything = select(predictions, images, Choice(0.0, None))
    assert sum(len(one.boxes) for one in found.images) < sum(len(one.boxes) for one in everything.images)
    for some, every in zip(found.images, everything.images, strict=True):
        kept = every.scores >= own[every.classes]
        np.testing.assert_array_equal(some.boxes, every.boxes[kept])
    plain = select(predictions, images, Choice(None, None))
    half = select(predictions, images, Choice(0.5, None))
    assert [one.boxes.tolist() for one in plain.images] == [one.boxes.tolist() for one in half.images]
