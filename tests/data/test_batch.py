"""Scales and flips move patches with the image, there and back; batches hold every view whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import flip as flip_boxes
from deep_patch_learning.data.batch import collate, lay_out, make_view, render, scaled_size, shape_of

SIDES = st.integers(20, 120)


def original_boxes(
    patches: torch.Tensor, view_size: tuple[int, int], size: tuple[int, int], flip: bool
) -> torch.Tensor:
    """Return patches of a view as boxes of the original image: the inverse of `make_view`. Sizes are (height, width)."""
    boxes = flip_boxes(patches, view_size[1]) if flip else patches
    return boxes * boxes.new_tensor([size[1] / view_size[1], size[0] / view_size[0]] * 2)


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, st.integers(32, 200), st.booleans(), st.integers(0, 1000))
def test_there_and_back(height: int, width: int, long_side: int, flip: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.integers(0, width + 1, (5, 2)), axis=1), np.sort(rng.integers(0, height + 1, (5, 2)), axis=1)
    boxes = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).astype(np.uint16)
    view = make_view(np.zeros((height, width, 3), np.uint8), boxes, long_side, flip)
    size = tuple(view.pixels.shape[1:])
    assert max(size) == long_side
    assert view.patches.min() >= -1e-4
    assert (view.patches[:, 2] <= size[1] + 1e-3).all()
    back = original_boxes(view.patches, size, (height, width), flip)
    np.testing.assert_allclose(back.numpy(), boxes, atol=1e-2)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("long_side", [80, 160, 240])
def test_a_bright_patch_stays_under_its_box(long_side: int, flip: bool) -> None:
    image = np.zeros((120, 160, 3), np.uint8)
    image[24:72, 16:56] = 255
    view = make_view(image, np.array([[16, 24, 56, 72]]), long_side, flip)
    x1, y1, x2, y2 = view.patches[0].round().int().tolist()
    inside = view.pixels[:, y1:y2, x1:x2]
    assert inside[:, 1:-1, 1:-1].min() > 250  # away from the blurred edge
    outside = view.pixels.clone()
    outside[:, max(y1 - 2, 0) : y2 + 2, max(x1 - 2, 0) : x2 + 2] = 0
    assert outside.max() == 0


def test_flip_twice_is_the_image_itself() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    boxes = np.array([[3, 4, 20, 29]])
    once = make_view(image, boxes, 40, flip=True)
    again = make_view(once.pixels.permute(1, 2, 0).byte().numpy(), once.patches.numpy(), 40, flip=True)
    assert np.array_equal(again.pixels.permute(1, 2, 0).numpy(), image)
    assert again.patches.tolist() == boxes.tolist()


def test_the_native_size_is_not_resampled() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    assert np.array_equal(make_view(image, np.zeros((0, 4)), 40).pixels.permute(1, 2, 0).numpy(), image)


@pytest.mark.parametrize(
    ("size", "expected"), [((375, 500), (360, 480)), ((500, 333), (480, 320)), ((1, 5000), (1, 480))]
)
def test_the_longest_side_is_scaled(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert scaled_size(*size, 480) == expected


def test_a_batch_holds_every_view_whole() -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*size, 3), np.uint8) for size in ((35, 70), (70, 60), (70, 70))]
    views = [make_view(image, np.full((n, 4), n), 70) for n, image in enumerate(images)]
    batch = collate(views)
    assert batch.images.shape == (3, 3, 70, 70)
    assert batch.padded
    assert batch.patch_image.tolist() == [1, 2, 2]
    assert batch.patches[:, 0].tolist() == [1, 2, 2]
    for i, view in enumerate(views):
        height, width = batch.sizes[i].tolist()
        assert torch.equal(batch.images[i, :, :height, :width], view.pixels)
        assert batch.images[i, :, height:].abs().sum() == batch.images[i, :, :, width:].abs().sum() == 0
    assert not collate([views[2]]).padded


def test_a_small_image_is_padded_to_what_the_backbones_need() -> None:
    batch = collate([make_view(np.full((2, 32, 3), 7, np.uint8), np.zeros((1, 4)), 32)])
    assert batch.images.shape == (1, 3, 64, 64)
    assert batch.padded
    assert batch.sizes.tolist() == [[2, 32]]


@pytest.mark.parametrize("flips", [(False, False), (True, False)])
@pytest.mark.parametrize("shapes", [0, 48])
def test_a_rendered_layout_equals_views_put_together(flips: tuple[bool, bool], shapes: int) -> None:
    random = np.random.default_rng(3)
    images = [random.integers(0, 256, size, np.uint8) for size in ((60, 80, 3), (90, 120, 3))]
    patches = [np.array([[0, 0, 40, 30], [5, 6, 70, 50]]), np.array([[10, 20, 100, 80]])]
    layout = lay_out([image.shape[:2] for image in images], patches, 96, flips, shapes)
    batch = render(layout, [torch.from_numpy(image) for image in images])
    expected = collate([make_view(i, p, 96, f) for i, p, f in zip(images, patches, flips, strict=True)])
    for name in ("images", "sizes", "patches", "patch_image"):
        torch.testing.assert_close(getattr(batch, name), getattr(expected, name))
    assert batch.counts == (2, 1)
    assert batch.padded == expected.padded


@pytest.mark.parametrize(
    ("size", "rounded"),
    [
        ((375, 500), (360, 480)),
        ((333, 500), (320, 480)),
        ((334, 500), (320, 480)),
        ((500, 375), (480, 360)),
        ((500, 500), (480, 480)),
        ((499, 500), (480, 480)),
        ((500, 499), (480, 480)),
        ((281, 500), (270, 480)),
        ((3, 500), (10, 480)),
    ],
)
def test_images_of_nearly_one_shape_become_of_one_size(size: tuple[int, int], rounded: tuple[int, int]) -> None:
    assert scaled_size(*size, 480, shapes=48) == rounded


def test_images_of_one_shape_are_of_one_size_at_every_scale() -> None:
    random = np.random.default_rng(0)
    by_shape: dict[tuple, set] = {}
    for height, width in random.integers(100, 600, (400, 2)).tolist():
        found = tuple(scaled_size(height, width, scale, 24) for scale in (160, 480, 688))
        by_shape.setdefault(shape_of(height, width, 24), set()).add(found)
        assert abs(found[1][0] / found[1][1] - height / width) < 0.06 * max(height / width, 1) ** 2
    assert all(len(sizes) == 1 for sizes in by_shape.values())
