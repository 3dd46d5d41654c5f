"""The page in a real browser: no error, every image loads, the choice of a class and of light or dark works."""

from itertools import pairwise

import numpy as np
import pytest

from deep_patch_learning.report.build import build_report
from deep_patch_learning.report.page import write_report

SHOWN = """(() => {
  const seen = (where) => [...document.querySelectorAll(where)].filter((one) => one.checkVisibility());
  return {
    tags: seen("#doubts .card").map((one) => one.dataset.classes),
    rows: seen("#classes .panel:not(details .panel) tbody tr").length,
    open: seen("#images details .card").length,
    sample: seen("#sample .card").map((one) => one.dataset.classes),
    none: seen(".none").length,
  };
})()"""
CHOOSE = """((value) => {
  const choice = document.getElementById("class");
  choice.value = value;
  choice.dispatchEvent(new Event("change"));
})"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def page(hand, run, model, ready, tmp_path):
    """Images tagged in turn, of which the network thinks that all show the first class and none the second."""
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.images.names]
    truth = [hand.truth(number % 2) for number in range(8)]
    report = build_report(run, model, ready, predictions, {"mAP": 50.0, "CorLoc": 40.0}, truth)
    return write_report(tmp_path / "report.html", report)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_loads_whole_and_fits(browser, page, width):
    browser.open(page, width)
    images = browser.run("[...document.images].map((one) => one.complete && one.naturalWidth > 0)")
    assert len(images) > 40
    assert all(images)
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert browser.complaints() == []


def test_a_class_can_be_chosen(browser, page):
    browser.open(page, 1280)
    before = browser.run(SHOWN)
    # four are tagged with the second class and surely do not show it, four show the first and are not tagged
    assert before["tags"] == ["1"] * 4 + ["0"] * 4
    assert (before["rows"], before["none"]) == (2, 0)
    assert before["open"] == 4 + 8  # of the first class, which is open
    browser.run(f"{CHOOSE}('1')")
    chosen = browser.run(SHOWN)
    assert chosen["tags"] == ["1"] * 4
    assert chosen["rows"] == 1
    assert chosen["open"] == 4 + 8
    assert set(chosen["sample"]) == {"1"}
    assert chosen["none"] >= 1  # no likely missing tag is of this class, and that is said
    browser.run(f"{CHOOSE}('')")
    assert browser.run(SHOWN) == before | {"open": 2 * (4 + 8)}  # what was opened stays open
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, page, scheme):
    browser.open(page, 1280, scheme)
    first = browser.run(BACKGROUND)
    pressed = browser.run("document.getElementById('theme').ariaPressed")
    assert (sum(map(int, first[4:-1].split(","))) < 200) == (scheme == "dark")
    assert pressed == str(scheme == "dark").lower()
    browser.run("document.getElementById('theme').click()")
    second = browser.run(BACKGROUND)
    assert second != first
    assert browser.run("document.getElementById('theme').ariaPressed") != pressed
    browser.run("document.getElementById('theme').click()")
    assert browser.run(BACKGROUND) == first
    browser.open(page, 1280, "dark" if scheme == "light" else "light")
    assert browser.run(BACKGROUND) == second  # the button gives what the system's choice gives


def test_on_paper_it_is_light_and_has_no_controls(browser, page):
    browser.open(page, 1000, "dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('.toolbar')).display") == "none"


def test_boxes_lie_where_they_were_found(browser, page, hand):
    browser.open(page, 1280)
    share = browser.run("""(() => {
      const image = document.querySelector("#doubts .shot"), box = image.querySelector(".box.right");
      const a = image.getBoundingClientRect(), b = box.getBoundingClientRect();
      return [(b.left - a.left) / a.width, (b.top - a.top) / a.height, (b.right - a.left) / a.width,
        (b.bottom - a.top) / a.height];
    })()""")
    np.testing.assert_allclose(share, hand.true_box / [80, 60, 80, 60], atol=0.01)


def test_everything_can_be_reached_by_keyboard_and_told_without_seeing(browser, page):
    browser.open(page, 1280)
    assert browser.run("[...document.images].every((one) => one.alt.trim() !== '')")
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3,h4')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert browser.run("document.querySelector('label[for=class]').control.id") == "class"
    assert browser.run(
        "[...document.querySelectorAll('select, button, summary, nav a')].every((o) => o.tabIndex === 0)"
    )


CONTRAST = """(() => {
  const light = (colour) => {
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.match(/[0-9.]+/g).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour.startsWith("rgb(")) return colour;
    }
  };
  const poor = [];
  const texts = "h1,h2,h3,h4,p,th,td,dt,dd,a,button,label,select,summary,strong," +
    ".small,.file,.said,.iou,.mark,.name,.value,.note,.what,.where,.count";
  for (const one of document.querySelectorAll(texts)) {
    if (!one.getClientRects().length || one.closest(".skip")) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(back(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push([one.className || one.tagName, (a + 0.05) / (b + 0.05)]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(browser, page, scheme):
    browser.open(page, 1280, scheme)
    assert browser.run(CONTRAST) == []  # WCAG AA: 4.5 to 1
