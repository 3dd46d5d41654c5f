"""What a person should look at first, and why."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.select import LabelledImage
from deep_patch_learning.labels.usefulness import ImageUsefulness, Usefulness, review_order, usefulness

CLASSES = ("cat", "dog")
CAT, HEAD, OTHER_CAT = [10, 10, 60, 90], [20, 12, 40, 30], [100, 20, 150, 100]


def found(
    boxes: list[tuple[list[int], float]], precision: float = 0.8, views: tuple[float, float] = (0.9, 0.9)
) -> Prediction:
    """A prediction with these boxes and raw scores of cats, sure of the tag."""
    count = len(boxes)
    return Prediction(
        name="a.jpg",
        classes=CLASSES,
        height=120,
        width=160,
        image_scores=np.array([3.0, -3.0]),
        found_boxes=np.array([box for box, _ in boxes]),
        found_classes=np.zeros(count, int),
        found_scores=np.array([score for _, score in boxes]),
        best_boxes=np.tile([0, 0, 160, 120], (2, 1)),
        found_precision=np.full(count, precision),
        found_views=np.tile(views, (count, 1)),
    )


def labelled(boxes: list[list[int]], tags: tuple[int, int] = (1, 0)) -> LabelledImage:
    count, classes = len(boxes), np.zeros(len(boxes), int)
    array = np.array(boxes, float).reshape(-1, 4)
    return LabelledImage("a.jpg", Path("a.jpg"), 120, 160, array, classes, np.ones(count), np.array(tags), classes > 0)


def one(prediction: Prediction, *others: Prediction) -> Usefulness:
    return usefulness(prediction, labelled([prediction.found_boxes[0].tolist()]), others).boxes[0]


def test_a_box_that_is_likely_right_is_of_little_use() -> None:
    assert one(found([(CAT, 2.0)])).number == pytest.approx(0.2)
    assert one(found([(CAT, 2.0)])).why == "80% likely right"
    assert one(found([(CAT, 2.0)], precision=0.3)).number == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("prediction", "others", "why"),
    [
        (found([(CAT, 2.0)], views=(0.2, 0.9)), [], "in the mirrored image the cat is found elsewhere"),
        (found([(CAT, 2.0)], views=(0.9, 0.1)), [], "at another scale the cat is found elsewhere"),
        (found([(HEAD, 2.0), (CAT, 1.8)]), [], "may be a part"),
        (found([(CAT, 2.0), (OTHER_CAT, 1.8)]), [], "1 more of the class 'cat' may be in the image"),
        (
            replace(found([(CAT, 2.0)]), image_scores=[-3.0, 3.0]),
            [],
            "the tag 'cat' is likely wrong: the model gives it 5%",
        ),
        (found([(CAT, 2.0)]), [found([(OTHER_CAT, 2.0)]), found([(CAT, 2.0)])], "1 of 2 other runs find it elsewhere"),
    ],
)
def test_what_speaks_against_a_box_is_said(prediction: Prediction, others: list[Prediction], why: str) -> None:
    said = one(prediction, *others)
    assert why in said.why
    assert said.number >= one(found([(CAT, 2.0)])).number
    assert why not in one(found([(CAT, 2.0)]), found([(CAT, 2.0)])).why


def test_a_tag_without_a_box_comes_first() -> None:
    image = usefulness(found([(CAT, 2.0)]), labelled([CAT], tags=(1, 1)))
    assert image.why == "no box for the tag 'dog', to which the model gives 5%"
    assert image.number == pytest.approx(1.2)
    assert len(image.boxes) == 1


def test_an_image_without_boxes_and_tags_is_of_no_use() -> None:
    assert usefulness(found([]), labelled([], tags=(0, 0))) == ImageUsefulness(0, "", [])


def test_without_views_it_cannot_be_said() -> None:
    with pytest.raises(DataError, match=r"a\.jpg.*no expected precision"):
        usefulness(replace(found([(CAT, 2.0)]), found_views=None), labelled([CAT]))


def test_the_order_takes_the_most_useful_of_each_class_in_turn() -> None:
    numbers = [0.9, 0.8, 0.7, 0.2, 0.1, 0.0]
    labels = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 0]])
    order = review_order([ImageUsefulness(number, "", []) for number in numbers], labels).tolist()
    assert sorted(order) == [*range(6)]
    assert order[0] == 0
    assert order[-1] == 5  # no tag, nothing to look at
    assert order.index(3) < order.index(2)  # the second class has its turn, though its boxes are likelier right
    assert order.index(3) < order.index(4)


def test_the_order_of_no_images_is_empty() -> None:
    assert review_order([], np.zeros((0, 2))).tolist() == []
