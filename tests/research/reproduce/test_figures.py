"""The figures: tiles of one size, nothing of a box cut away, green where right and red where wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from deep_patch_learning.common.drawing import RIGHT, WRONG
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.report.images import Find
from deep_patch_learning.report.parts import FilterPatches, StrongPatch
from deep_patch_learning.research.reproduce import figures as images
from deep_patch_learning.research.reproduce import figures as sheet
from deep_patch_learning.research.reproduce.figures import BLUE, DISCOVERY_TILE, EACH, PATTERN_TILE

GREY = np.full((90, 120, 3), 128, np.uint8)


def shows(image: Image.Image, colour: tuple[int, int, int]) -> int:
    """Count the pixels of exactly this colour."""
    return int((np.asarray(image) == colour).all(axis=-1).sum())


@pytest.mark.parametrize("right", [True, False])
def test_a_discovery_is_green_where_right_and_red_where_wrong(right: bool) -> None:
    find = Find("dog", 0, 0.9, np.array([10, 10, 60, 60]), 0.7, right)
    tile = images.discovery_tile(GREY, find, np.array([[12, 12, 64, 64]]))
    assert tile.size == DISCOVERY_TILE
    assert (shows(tile, RIGHT) > 100, shows(tile, WRONG) > 100) == (right, not right)
    assert shows(tile, (255, 255, 255)) > 20  # dashes of the true box


def test_a_pattern_has_a_blue_line() -> None:
    tile = images.pattern_tile(GREY, (30, 20, 70, 50))
    assert tile.size == PATTERN_TILE
    assert shows(tile, BLUE) > 50


SIDES = st.integers(20, 300)


@given(SIDES, SIDES, st.tuples(*[st.floats(0, 1)] * 4), st.sampled_from([DISCOVERY_TILE, PATTERN_TILE]))
def test_a_window_holds_its_boxes_and_has_the_tiles_shape(
    width: int, height: int, corners: tuple[float, ...], tile: tuple[int, int]
) -> None:
    x, y = sorted(corners[:2]), sorted(corners[2:])
    box = np.array([[x[0] * width, y[0] * height, x[1] * width, y[1] * height]])
    left, top, right, bottom = sheet.fitting_window((width, height), box, tile)
    close = 1e-6 * max(width, height)
    assert left <= box[0, 0] + close
    assert top <= box[0, 1] + close
    assert right >= box[0, 2] - close
    assert bottom >= box[0, 3] - close
    assert (right - left) / (bottom - top) == pytest.approx(tile[0] / tile[1])
    image = np.zeros((height, width, 3), np.uint8)
    assert sheet.view(image, (left, top, right, bottom), tile)[0].size == tile


def test_a_sheet_has_its_tiles_in_rows_and_leaves_empty_places_pale() -> None:
    red = Image.new("RGB", (30, 20), (255, 0, 0))
    rows = [sheet.SheetRow("one", "", (red, red, red, None)), sheet.SheetRow("two", "", (red, None, red, red))]
    made = sheet.sheet(rows, [(BLUE, "words")], (30, 20), halves=True)
    assert made.size == sheet.sheet_size(2, 4, (30, 20), halves=True)
    assert shows(made, (255, 0, 0)) == 6 * 30 * 20
    assert shows(made, sheet.EMPTY) == 2 * 30 * 20
    third = sheet.tile_left(2, 4, 30, halves=True)
    assert third - sheet.tile_left(1, 4, 30, halves=True) == 30 + sheet.GAP + sheet.BREAK
    assert made.getpixel((third, sheet.MARGIN)) == (255, 0, 0)
    assert made.getpixel((third - 1, sheet.MARGIN)) == sheet.PAPER


def test_the_discoveries_show_right_ones_left_and_wrong_ones_right(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number}.png" for number in range(8)]
    for name in names:
        Image.fromarray(GREY).save(tmp_path / name)
    paths = tuple(tmp_path / name for name in names)
    tagged = TaggedImages(("bird", "cat"), tuple(names), paths, np.array([[1, 0]] * 8, np.int8))
    box, elsewhere = [20.0, 20.0, 60.0, 60.0], [70.0, 10.0, 110.0, 50.0]
    truth = [TrueBoxes(np.array([box], np.float32), np.array([0]), np.array([False]))] * 8

    def predict(model: object, prepared: Prepared, **_: object) -> list[Prediction]:
        found = []
        for name in prepared.images.names:
            best = np.array([box if names.index(name) < 6 else elsewhere, box])  # six are right, two are wrong
            nothing = np.zeros((0, 4)), np.zeros(0), np.zeros(0)
            found.append(Prediction(name, ("bird", "cat"), 90, 120, np.zeros(2), *nothing, best_boxes=best))
        return found

    monkeypatch.setattr(images, "predict_prepared", predict)
    prepared = Prepared(tagged, [np.zeros((1, 4))] * 8, [])
    made = images.discoveries(None, prepared, truth, ("bird", "cat", "unicorn"))  # type: ignore[arg-type]
    assert made is not None
    width, height = DISCOVERY_TILE
    assert made.size == sheet.sheet_size(1, 2 * EACH, DISCOVERY_TILE, halves=True)  # no image shows a cat
    columns = [sheet.tile_left(column, 2 * EACH, width, halves=True) for column in range(2 * EACH)]
    tiles = [made.crop((left, sheet.MARGIN, left + width, sheet.MARGIN + height)) for left in columns]
    assert [shows(tile, RIGHT) > 100 for tile in tiles] == [True] * 3 + [False] * 3
    assert [shows(tile, WRONG) > 100 for tile in tiles] == [False] * 3 + [True, True, False]
    assert shows(tiles[5], sheet.EMPTY) == width * height
    assert images.discoveries(None, prepared, truth, ("unicorn",)) is None  # type: ignore[arg-type]


def test_the_purest_filter_of_each_class_comes_first() -> None:
    labels = np.array([[1, 0]] * 4 + [[0, 1]] * 4, np.int8)
    names = tuple("abcdefgh")
    tagged = TaggedImages(("bird", "cat"), names, (GREY,) * 8, labels)  # type: ignore[arg-type]

    def row(number: int, speaks_for: str, patches: str) -> FilterPatches:
        shown = tuple(StrongPatch(name, (0, 0, 1, 1), 1.0, None) for name in patches)  # type: ignore[arg-type]
        return FilterPatches(number, speaks_for, 1.0, shown)

    found = [row(1, "bird", "abcd"), row(2, "bird", "abce"), row(3, "cat", "efgd"), row(4, "bird", "efgh")]
    assert [(one.filter, pure) for one, pure in images.purest(found, tagged)] == [(1, 4), (3, 3), (2, 3), (4, 0)]
