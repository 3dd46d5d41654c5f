"""The curve: every log gives finite coordinates inside the drawing; bars hold what they are given."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.report.charts import MOST_POINTS, bar, loss_curve, ticks

number = st.floats(0, 1e6) | st.just(math.nan) | st.just(math.inf) | st.none()
entry = st.fixed_dictionaries(
    {"step": st.integers(1, 10**6)}, optional={"loss": number, "classification": number, "discovery": number}
)


def numbers_in(svg):
    root = ElementTree.fromstring(str(svg))
    for element in root.iter():
        for key, value in element.attrib.items():
            if key in {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points", "width", "height"}:
                yield from (float(part) for part in re.split("[ ,]", value) if part)


@settings(max_examples=60, deadline=None)
@given(st.lists(entry, max_size=200))
def test_any_log_is_drawn_inside_the_frame(log):
    svg = loss_curve(log, 400, 300)
    values = list(numbers_in(svg)) if svg else []
    assert all(-1 <= value <= 401 for value in values)  # false for nan
    drawable = [e for e in log if any(e.get(k) is not None and math.isfinite(e[k]) for k in ("loss",))]
    assert bool(svg) or not drawable


def test_no_curve_without_entries():
    assert loss_curve([]) == ""
    assert loss_curve([{"step": 3}]) == ""
    assert loss_curve([{"step": 3, "loss": math.nan}]) == ""


def test_one_entry_is_a_dot():
    svg = loss_curve([{"step": 10, "loss": 0.5, "classification": 0.2, "discovery": 0.3}])
    assert svg.count("<circle") == 3
    assert "step 10 · total 0.500 · classification 0.200 · discovery 0.300" in re.sub("</?tspan[^>]*>", "", svg)


def test_one_head_has_one_line():
    svg = loss_curve([{"step": s, "loss": 1 / s, "discovery": 1 / s} for s in (1, 2, 3)])
    assert svg.count("<polyline") == 1
    assert ">discovery<" in svg
    assert ">total<" not in svg


TERMS = ("classification", "discovery", "two_stream", "refinement", "boxes")


@pytest.mark.parametrize("width", [880, 370])
def test_each_term_has_a_line_and_a_name_that_stays_inside(width):
    log = [{"step": s, "loss": 5.0, **dict.fromkeys(TERMS, 1.0), "learning_rate": 9.0, "seconds": s} for s in (1, 2)]
    svg = loss_curve(log, width, 300)
    assert svg.count("<polyline") == 1 + len(TERMS)
    for name in TERMS:
        assert f'<polyline class="line {name}"' in svg
        assert f">{name.replace('_', ' ')}<" in svg
    assert "learning" not in svg
    assert "seconds" not in svg
    keys = re.findall('<text class="key" x="([0-9]+)" y="([0-9]+)">([a-z ]+)</text>', svg)
    assert [name for _, _, name in keys] == ["total", *(name.replace("_", " ") for name in TERMS)]
    assert len({(x, y) for x, y, _ in keys}) == len(keys)
    assert all(int(x) + 6 * len(name) <= width for x, _, name in keys)


def test_a_term_of_another_name_is_drawn_and_escaped():
    svg = loss_curve([{"step": s, "loss": 2.0, "a<b": 1.0, "discovery": 1.0} for s in (1, 2)])
    assert svg.count('<polyline class="line other"') == 1
    assert ">a&lt;b<" in svg


def test_a_long_log_is_averaged_over_neighbours():
    svg = loss_curve([{"step": s, "loss": 1.0 + s % 2} for s in range(1, 1201)])
    points = re.search('points="([^"]*)"', svg).group(1).split()
    assert len(points) <= MOST_POINTS
    assert len({point.split(",")[1] for point in points}) == 1  # means of 1 and 2 alike


def test_a_higher_loss_lies_higher_and_a_later_step_further_right():
    svg = loss_curve([{"step": 10, "loss": 2.0}, {"step": 20, "loss": 1.0}])
    (x1, y1), (x2, y2) = (map(float, p.split(",")) for p in re.search('points="([^"]*)"', svg).group(1).split())
    assert x1 < x2
    assert y1 < y2  # SVG counts from the top


@pytest.mark.parametrize("highest", [1e-9, 0.013, 0.7, 1.0, 2.5, 9.99, 250, 40_000, 1e12])
def test_ticks_are_round_and_reach_the_highest(highest):
    found = ticks(highest, 4)
    assert found[0] == 0
    assert found[-1] >= highest * (1 - 1e-9)
    assert 2 <= len(found) <= 7
    assert float(f"{found[1]:.2g}") == pytest.approx(found[1])


@pytest.mark.parametrize("highest", [0, -1, math.nan, math.inf])
def test_ticks_of_nothing(highest):
    assert ticks(highest, 4) == [0.0, 1.0]


@pytest.mark.parametrize(("value", "width"), [(0, "0.0"), (37.54, "37.5"), (100, "100.0"), (130, "100.0"), (-3, "0.0")])
def test_a_bar_is_as_long_as_its_value(value, width):
    assert f"width:{width}%" in bar(value, "what")


@pytest.mark.parametrize("value", [None, math.nan])
def test_no_bar_for_nothing(value):
    assert bar(value, "where") == ""
