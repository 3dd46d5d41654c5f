"""The strongest patches are the maxima: against a slow loop, with ties, and for networks without part filters."""

import numpy as np
import pytest

from deep_patch_learning.inference.model import ImageInput
from deep_patch_learning.report.parts import CROP_SIDE, choose_filters, crop, strongest_patches


@pytest.fixture
def images():
    rng = np.random.default_rng(5)
    made = []
    for number in range(7):
        corners = rng.integers(0, 40, (9, 2))
        patches = np.concatenate([corners, corners + rng.integers(8, 24, (9, 2))], axis=1).astype(np.uint16)
        made.append(ImageInput(f"{number}.jpg", rng.integers(0, 256, (64, 64, 3), np.uint8), patches))
    return made


def slowly(model, images, index, count):
    """Return (response, image, box) of one filter's best patch in each image, the best images first."""
    rows = []
    for image in images:
        responses = model.scores([image])[0].parts
        best = None
        for patch, box in enumerate(image.patches):
            if best is None or responses[patch, index] > best[0]:
                best = (responses[patch, index], image.name, tuple(box.tolist()))
        rows.append(best)
    return sorted(rows, key=lambda row: -row[0])[:count]


def test_they_are_the_maxima(hand, images):
    model = hand.model(filters=6)
    found = strongest_patches(model, iter(images), filters=6, per_filter=3)
    assert sorted(one.filter for one in found) == list(range(6))
    for one in found:
        wanted = slowly(model, images, one.filter, 3)
        assert [(patch.image, patch.box) for patch in one.patches] == [(name, box) for _, name, box in wanted]
        np.testing.assert_allclose([patch.response for patch in one.patches], [row[0] for row in wanted], rtol=1e-5)


def test_a_filter_speaks_for_the_class_it_moves_most(hand, images):
    model = hand.model(filters=6)
    maxima = np.array([[row.max() for row in model.scores([p])[0].parts.T] for p in images])
    weights = model.network.classification.classifier.weight[:, :6].detach().numpy()
    for one in strongest_patches(model, images, filters=6):
        moves = weights[:, one.filter] * maxima[:, one.filter].std()
        assert one.speaks_for == hand.classes[int(moves.argmax())]
        assert one.strength == pytest.approx(moves.max(), rel=1e-4)


def test_of_equal_responses_the_earlier_image_wins(hand, images):
    same = [images[0]._replace(name=f"{number}.jpg") for number in range(5)]
    for one in strongest_patches(hand.model(), same, per_filter=3):
        assert [patch.image for patch in one.patches] == ["0.jpg", "1.jpg", "2.jpg"]


def test_fewer_images_than_places(hand, images):
    assert all(len(one.patches) == 2 for one in strongest_patches(hand.model(), images[:2], per_filter=8))
    assert strongest_patches(hand.model(), []) == []


def test_no_classification_head_no_part_filters(hand, images):
    assert strongest_patches(hand.model(heads=("discovery",)), images) == []


def test_each_class_shows_its_strongest_filter_before_any_shows_two():
    moves = np.array([[9.0, 8.0, 0.0, 0.0, -1.0], [0.0, 0.0, 7.0, 1.0, -2.0], [0.0, 0.0, 0.0, 2.0, -3.0]])
    assert choose_filters(moves, 5) == [0, 2, 3, 1, 4]
    assert choose_filters(moves, 2) == [0, 2]


def test_a_crop_is_the_box_and_nothing_else():
    image = np.zeros((40, 60, 3), np.uint8)
    image[10:20, 30:50] = (200, 100, 50)
    cut = crop(image, (30, 10, 50, 20))
    assert cut.size == (CROP_SIDE, CROP_SIDE // 2)
    assert (np.asarray(cut) == (200, 100, 50)).all()
