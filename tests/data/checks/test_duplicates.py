"""The hashes: what a copy goes through leaves them near, other images are far, and blocks find what pairs would."""

import io
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from deep_patch_learning.data.checks import duplicates
from deep_patch_learning.data.checks.duplicates import Fingerprint, distance, fingerprint, groups, near_pairs
from deep_patch_learning.data.images import read_image

SEEDS = st.integers(0, 10_000)


def photo(seed: int, height: int = 150, width: int = 200) -> np.ndarray:
    """Return a made photo: soft coloured regions with some texture."""
    rng = np.random.default_rng(seed)
    soft = cv2.resize(rng.uniform(20, 200, (9, 12, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    return (soft + rng.normal(0, 6, soft.shape)).clip(0, 255).astype(np.uint8)


def are_near(one: np.ndarray, other: np.ndarray) -> bool:
    return near_pairs([fingerprint(one), fingerprint(other)]).tolist() == [[0, 1]]


def as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    held = io.BytesIO()
    image.save(held, "JPEG", quality=quality)
    return Image.open(held).convert("RGB")


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "darker": lambda image: ImageEnhance.Brightness(image).enhance(0.7),
    "flatter": lambda image: ImageEnhance.Contrast(image).enhance(0.7),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "smaller": lambda image: image.resize((image.width // 2, image.height // 2)),
    "larger": lambda image: image.resize((image.width * 4 // 3, image.height * 4 // 3)),
    "squeezed": lambda image: image.resize((image.width, image.height * 9 // 10)),
    "compressed": lambda image: as_jpeg(image, 30),
}


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_a_copy_stays_near(change: str, seed: int) -> None:
    image = photo(seed)
    copy = np.asarray(CHANGES[change](Image.fromarray(image)))
    assert sum(distance(fingerprint(image), fingerprint(copy))) <= 18
    assert are_near(image, copy)


@settings(max_examples=50, deadline=None)
@given(one=SEEDS, other=SEEDS)
def test_other_images_are_far(one: int, other: int) -> None:
    if one != other:
        assert min(distance(fingerprint(photo(one)), fingerprint(photo(other)))) > 10
        assert not are_near(photo(one), photo(other))


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (400, 2), (7, 7)])
def test_any_size_has_a_fingerprint(shape: tuple[int, int]) -> None:
    made = fingerprint(photo(0)[: shape[0], : shape[1]] if max(shape) < 150 else photo(0, *shape))
    assert made.bits.shape == (128,)
    assert set(np.unique(made.bits)) <= {-1, 1}


def test_plain_images_are_near_to_none() -> None:
    white, black = np.full((40, 40, 3), 255, np.uint8), np.zeros((40, 40, 3), np.uint8)
    assert fingerprint(white).flat
    assert len(near_pairs([fingerprint(white), fingerprint(white), fingerprint(black)])) == 0
    assert len(near_pairs([])) == 0
    assert len(near_pairs([None, fingerprint(photo(0)), None])) == 0


def test_blocks_find_what_single_pairs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_BLOCK", 7)
    prints: list[Fingerprint | None] = [fingerprint(photo(seed % 13)) for seed in range(30)]
    prints[4] = None
    wanted = {(i, j) for i in range(30) for j in range(i + 1, 30) if i % 13 == j % 13 and 4 not in (i, j)}
    assert set(map(tuple, near_pairs(prints).tolist())) == wanted


def test_a_film_gives_one_group_and_few_pairs() -> None:
    prints = [fingerprint(photo(0))] * 400
    pairs = near_pairs(prints)
    assert len(pairs) <= 400 * 64
    assert groups(400, pairs) == [list(range(400))]
    assert {j for i, j in pairs.tolist() if i < 300 <= j} == set(
        range(300, 400)
    )  # each of the last is joined to the first


def test_copies_are_found_among_many_images_of_one_background() -> None:
    def scene(seed: int) -> np.ndarray:  # what a fixed camera sees: much of it is the same in all
        return (0.7 * photo(0) + 0.3 * photo(1 + seed)).astype(np.uint8)

    prints = [fingerprint(scene(seed)) for seed in [*range(300), *range(20)]]
    candidates = sum(distance(prints[0], one)[0] + distance(prints[0], one)[1] <= 28 for one in prints)
    assert candidates > 100  # by their bits many are near that are not
    pairs = set(map(tuple, near_pairs(prints).tolist()))
    assert {(seed, 300 + seed) for seed in range(20)} <= pairs
    assert len(pairs) < 2000


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [([], []), ([(0, 1)], [[0, 1]]), ([(3, 4), (1, 3)], [[1, 3, 4]]), ([(0, 2), (1, 4), (2, 0)], [[0, 2], [1, 4]])],
)
def test_groups(pairs: list[tuple[int, int]], wanted: list[list[int]]) -> None:
    assert groups(5, np.array(pairs, np.int64).reshape(-1, 2)) == wanted


@pytest.mark.voc
def test_on_real_photos_copies_are_found_and_nothing_else(real_voc: Path, tmp_path: Path) -> None:
    files = sorted((real_voc / "JPEGImages").glob("*.jpg"))[::60]
    prints: list[Fingerprint | None] = [fingerprint(read_image(file)) for file in files]
    assert len(near_pairs(prints)) == 0
    for file in files:
        small = Image.open(file)
        small.resize((small.width * 2 // 3, small.height * 2 // 3)).save(tmp_path / file.name, quality=50)
    copies: list[Fingerprint | None] = [fingerprint(read_image(tmp_path / file.name)) for file in files]
    found = near_pairs(prints + copies).tolist()
    flat = sum(one.flat for one in prints if one is not None)
    assert found == [[i, i + len(files)] for i, _ in found]
    assert len(found) >= len(files) - flat - 1
