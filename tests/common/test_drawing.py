"""Drawing: what is touched and what is not, at every size; labels inside the image; colours that can be read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from deep_patch_learning.common import drawing
from deep_patch_learning.common.drawing import (
    PALETTE,
    RIGHT,
    TRUE,
    WRONG,
    class_colour,
    draw_boxes,
    draw_verdict,
    text_colour,
)
from deep_patch_learning.common.errors import DplError


def grey(width, height):
    return np.full((height, width, 3), 128, np.uint8)


def has(image, colour):
    return (np.asarray(image) == colour).all(axis=2)


@pytest.mark.parametrize("side", [40, 160, 500, 2000])
def test_the_line_lies_on_the_boxs_own_outermost_pixels(side):
    low, high = side // 4, 3 * side // 4
    mask = has(draw_boxes(grey(side, side), np.array([[low, low, high, high]]), colours=RIGHT), RIGHT)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    assert (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1) == (low, high, low, high)
    assert not mask[side // 2 - 3 : side // 2 + 3, side // 2 - 3 : side // 2 + 3].any()  # hollow


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.lists(st.tuples(*[st.floats(-50, 350)] * 4, st.text(max_size=30)), max_size=5),
    st.booleans(),
)
def test_any_box_and_label_on_any_size(width, height, rows, dashed):
    image = grey(width, height)
    drawn = draw_boxes(image, np.array([row[:4] for row in rows]), [row[4] for row in rows], dashed=dashed)
    assert drawn.size == (width, height)
    assert (image == 128).all()  # the caller's image is not touched


@pytest.mark.parametrize(
    "box", [(0, 0, 30, 30), (130, 0, 160, 20), (0, 100, 20, 120), (150, 110, 160, 120), (0, 0, 160, 120)]
)
def test_labels_stay_inside_the_image_and_apart(box, monkeypatch):
    chips = []
    place = drawing._chip
    monkeypatch.setattr(drawing, "_chip", lambda *args: chips.append(place(*args)) or chips[-1])
    draw_boxes(grey(160, 120), np.array([box, box]), ["motorbike 99%", "dog 51%"])
    for x1, y1, x2, y2 in (chip.corners for chip in chips):
        assert 0 <= x1 < x2 < 160
        assert 0 <= y1 < y2 < 120
    assert drawing._shared(chips[0].corners, chips[1].corners) == 0


def test_a_label_too_long_for_the_image_is_cut():
    pen = drawing.Pen.for_size(100, 80)
    draw = drawing.ImageDraw.Draw(Image.new("RGB", (100, 80)))
    chip = drawing._chip(draw, "a very long name of a class indeed", (0, 0, 50, 50), (100, 80), pen, [])
    assert chip.text.endswith("…")
    assert chip.corners[2] < 100


def test_the_first_box_is_on_top():
    box = np.array([[10, 10, 90, 90]] * 2)
    drawn = draw_boxes(grey(100, 100), box, colours=[RIGHT, WRONG])
    assert has(drawn, RIGHT).any()
    assert not has(drawn, WRONG).any()


def test_verdict_shows_right_wrong_and_true():
    boxes = np.array([[5, 5, 45, 45], [60, 60, 90, 90]])
    drawn = draw_verdict(grey(100, 100), boxes, [True, False], true_boxes=np.array([[20, 20, 70, 70]]))
    assert has(drawn, RIGHT)[5, 20]
    assert has(drawn, WRONG)[60, 75]
    top = has(drawn, TRUE)[20, 47:59]
    assert top.any()
    assert not top.all()  # dashed


def test_class_colours_are_stable_and_distinct():
    colours = [class_colour(index) for index in range(3 * len(PALETTE))]
    assert len(set(colours)) == len(colours)
    assert colours[: len(PALETTE)] == list(PALETTE)


@pytest.mark.parametrize("background", [*(class_colour(index) for index in range(36)), RIGHT, WRONG, TRUE])
def test_text_on_a_chip_can_be_read(background):
    def luminance(colour):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    light, dark = sorted([luminance(background), luminance(text_colour(background))], reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG AA


def test_right_and_wrong_differ_in_lightness_too():
    grey_of = [float(np.dot(colour, [0.299, 0.587, 0.114])) for colour in (RIGHT, WRONG)]
    assert grey_of[0] - grey_of[1] > 40


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_boxes(np.zeros((4, 4)), []), r"\(4, 4\) float64; wanted \(H, W, 3\) uint8"),
        (lambda: draw_boxes(grey(4, 4), [[0, 0, 1, 1]], []), "1 boxes and 0 labels"),
        (lambda: draw_boxes(grey(4, 4), [[0, 0, 1, 1]], None, [RIGHT, WRONG]), "1 boxes and 2 colours"),
    ],
)
def test_errors(call, words):
    with pytest.raises(DplError, match=words):
        call()
