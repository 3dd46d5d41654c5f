"""Expected precision of boxes: views agree or not, in the coordinates of the image; what was fitted, saved and read back."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import flip
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.inference.box_trust import (
    FEATURES,
    BoxTrust,
    TrustingModel,
    Views,
    box_features,
    found_again,
    mirrored_back,
    mirrored_input,
    read_box_trust,
    with_precision,
)
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.prediction import Prediction

CLASSES = ("dog", "sofa")


def found(boxes: list[tuple[tuple[float, float, float, float], int, float]]) -> Prediction:
    """Return a prediction of a 100 x 80 image with (box, class, score) of each box."""
    return Prediction(
        name="a.jpg",
        classes=CLASSES,
        height=80,
        width=100,
        image_scores=np.zeros(2),
        found_boxes=np.array([box for box, _, _ in boxes]).reshape(-1, 4),
        found_classes=np.array([index for _, index, _ in boxes], int),
        found_scores=np.array([score for _, _, score in boxes]),
        best_boxes=np.tile([0, 0, 100, 80], (2, 1)),
    )


DOG, SOFA = ((10, 10, 50, 60), 0, 3.0), ((0, 30, 100, 80), 1, 1.0)
ELSEWHERE = ((60, 10, 100, 60), 0, 3.0)


def test_a_box_is_found_again_in_its_own_class_only() -> None:
    again = found_again(found([DOG, SOFA]), found([((0, 30, 100, 80), 0, 2.0), SOFA]))
    assert again[1] == 1
    assert again[0] < 0.4
    assert found_again(found([DOG]), found([SOFA])).tolist() == [0]
    assert len(found_again(found([]), found([DOG]))) == 0


def test_a_box_that_is_weak_in_the_other_view_counts_less() -> None:
    strong = found_again(found([DOG]), found([DOG]))[0]
    weak = found_again(found([DOG]), found([((10, 10, 50, 60), 0, -3.0), ELSEWHERE]))[0]
    assert (strong, 0 < weak < 0.1) == (1, True)


def test_boxes_that_all_views_share_are_trusted_more() -> None:
    plain = found([DOG])
    trust = read_box_trust()
    same = with_precision(Views(plain, plain, plain), trust).found_precision
    moved = with_precision(Views(plain, found([ELSEWHERE]), found([ELSEWHERE])), trust).found_precision
    assert same is not None
    assert moved is not None
    assert 0 < moved[0] < same[0] - 0.2 < same[0] < 1


def test_the_best_of_each_class_is_no_further_box() -> None:
    plain = found([DOG, SOFA, ((60, 10, 90, 60), 0, 2.0)])
    features = box_features(Views(plain, plain, plain))
    assert features.shape == (3, len(FEATURES))
    assert features[:, FEATURES.index("further")].tolist() == [0, 0, 1]
    assert box_features(Views(found([]), plain, plain)).shape == (0, len(FEATURES))


def test_a_precision_stays_with_its_box() -> None:
    precise = replace(found([DOG, SOFA, ELSEWHERE]), found_precision=[0.9, 0.4, 0.2], threshold=0.0)
    assert [round(box.precision, 2) for box in precise.boxes if box.precision is not None] == [0.9, 0.2, 0.4]
    assert [round(box.precision or 0, 2) for box in precise.filter("sofa").boxes] == [0.4]
    assert "precision=0.90" in repr(precise[0])
    again = Prediction.from_dict(json.loads(json.dumps(precise.as_dict())))
    assert again == precise
    assert again.found_precision is not None
    plain = found([DOG])
    assert plain.filter(min_probability=0).boxes[0].precision is None
    assert "precision" not in plain.filter(min_probability=0).as_dict()["boxes"][0]


@given(st.lists(st.floats(-3, 3), min_size=len(FEATURES), max_size=len(FEATURES)), st.floats(-3, 3))
def test_a_trust_is_read_as_it_was_written(weights: list[float], bias: float) -> None:
    trust = BoxTrust(np.array(weights), bias)
    again = BoxTrust.from_dict(json.loads(json.dumps(trust.as_dict())))
    assert np.array_equal(again.weights, trust.weights)
    assert again.bias == trust.bias


def test_a_trust_of_other_features_is_refused() -> None:
    saved = BoxTrust(np.zeros(len(FEATURES)), 0.0).as_dict()
    with pytest.raises(ValueError, match="wanted"):
        BoxTrust.from_dict({**saved, "weights": {"score": 1.0}})
    with pytest.raises(ValueError, match="wanted"):
        BoxTrust.from_dict({**saved, "format": "other"})


def test_the_fitted_trust_says_what_it_was_fitted_on() -> None:
    from deep_patch_learning.inference.box_trust import FITTED

    about = json.loads(FITTED.read_text())["fitted_on"]
    assert about["boxes"] > 500
    assert len(about["classes"]) == 20
    weights = dict(zip(FEATURES, read_box_trust().weights, strict=True))
    assert weights["mirrored"] > 0
    assert weights["scaled"] > 0


def test_a_trusting_model_predicts_as_before_and_adds_a_precision(small_run: Path, small_world: Path) -> None:
    model = load(small_run, "cpu")
    trusting = TrustingModel.of(model)
    images = [model.read(path) for path in read_tags(small_world, "test").paths[:2]]
    before, after = (list(each.predict_images(images)) for each in (model, trusting))
    for plain, precise in zip(before, after, strict=True):
        assert replace(precise, found_precision=None, found_views=None) == plain
        assert precise.found_precision is not None
        assert len(precise.found_precision) == len(plain.found_boxes)
        assert ((precise.found_precision > 0) & (precise.found_precision < 1)).all()


def test_the_mirrored_view_comes_back_in_the_coordinates_of_the_image(small_run: Path, small_world: Path) -> None:
    model = load(small_run, "cpu")
    trusting = TrustingModel.of(model)
    image = model.read(read_tags(small_world, "test").paths[0])
    twice = mirrored_input(mirrored_input(image))
    assert np.array_equal(twice.image, image.image)
    assert np.array_equal(twice.patches, image.patches)
    views = trusting.views([image], trusting.begin([image]))[0]
    of_mirrored = next(iter(model.predict_images([mirrored_input(image)])))
    assert np.array_equal(views.mirrored.found_boxes, flip(of_mirrored.found_boxes, image.image.shape[1]))
    assert mirrored_back(mirrored_back(of_mirrored)) == of_mirrored
    # of a mirrored image the two views change places
    other = trusting.views([mirrored_input(image)], trusting.begin([mirrored_input(image)]))[0]
    assert np.array_equal(mirrored_back(other.mirrored).found_boxes, views.plain.found_boxes)


def test_where_flips_are_averaged_the_mirrored_view_is_still_another(small_run: Path, small_world: Path) -> None:
    image = load(small_run, "cpu").read(read_tags(small_world, "test").paths[0])
    averaged, single = (TrustingModel.of(load(small_run, "cpu", flips=flips)) for flips in (True, False))
    found, wanted = (each.views([image], each.begin([image]))[0] for each in (averaged, single))
    assert found.mirrored == wanted.mirrored
    assert found.plain != wanted.plain
