"""Crops as the page shows them: the same crop whatever the box's form, for the memory of the image."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.review import pixels
from deep_patch_learning.review.store import FoundBox, FoundImage, ReviewStore, create_store

Corners = tuple[float, float, float, float]


@pytest.fixture
def crop_of(tmp_path: Path) -> Callable[[Image.Image, Corners], np.ndarray]:
    """A function that returns the crop of a box of an image."""

    def crop(image: Image.Image, corners: Corners) -> np.ndarray:
        image.save(tmp_path / "photo.png")
        found = FoundImage("photo.png", tmp_path / "photo.png", *image.size, (1,), [FoundBox(0, corners)])
        create_store(tmp_path / "review.sqlite", ["cat"], [found], {})
        store = ReviewStore(tmp_path / "review.sqlite")
        made = pixels.Pixels(store).crop(1)
        store.close()
        return np.array(Image.open(io.BytesIO(made)), float)

    return crop


@pytest.mark.parametrize(
    ("size", "corners"),
    [
        ((600, 400), (100, 100, 200, 220)),  # the square is inside
        ((600, 400), (560, 0, 600, 30)),  # moved inside
        ((600, 400), (20, 150, 580, 250)),  # beyond above and below
        ((400, 600), (150, 20, 250, 580)),  # left and right
        ((300, 200), (0, 0, 300, 200)),  # on all sides
        ((1200, 60), (10, 5, 1190, 50)),
        ((600, 400), (599.6, 0, 600, 0.4)),  # less than a pixel
    ],
)
def test_a_crop_is_the_square_around_its_box(crop_of: Callable, size: tuple[int, int], corners: Corners) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (size[1] // 20, size[0] // 20, 3), np.uint8)
    image = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
    left, top, right, bottom = map(round, pixels.square(corners, *size))
    whole = Image.new("RGB", (max(right - left, 1), max(bottom - top, 1)), pixels.BEYOND)
    whole.paste(image, (-left, -top))
    wanted = np.array(whole.resize((pixels.CROP_SIDE, pixels.CROP_SIDE), Image.Resampling.BICUBIC), float)
    found = crop_of(image, corners)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).mean() < 3


def test_the_crop_of_a_long_box_takes_no_more_than_its_image(
    crop_of: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    new = Image.new

    def noted(mode: str, size: tuple[int, int], *colour: object) -> Image.Image:
        sizes.append(size[0] * size[1])
        return new(mode, size, *colour)

    image = new("RGB", (4000, 80), (250, 0, 0))
    monkeypatch.setattr(Image, "new", noted)
    found = crop_of(image, (100, 4, 3900, 76))
    assert found[144, 144, 0] > 200
    assert found[100, 144].tolist() == pytest.approx(pixels.BEYOND, abs=3)
    assert max(sizes) <= 4000 * 80
