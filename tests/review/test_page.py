"""The page in a real browser, used as people use it: the store must hold exactly what was done, and the browser not complain."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

FACES = "#tiles .face"


def shown(page: Any) -> list[int]:
    return page.eval_on_selector_all("#tiles .tile", "tiles => tiles.map((tile) => Number(tile.dataset.box))")


def judged(store: Path) -> dict[int, str]:
    return {row[0]: row[4] for row in boxes_in(store, "status != 'open'")}


def boxes_in(store: Path, where: str = "1") -> list[tuple]:
    """Return (box, image, class, corners, status) of a store."""
    with contextlib.closing(sqlite3.connect(store)) as file:
        query = f"SELECT id, image, class, x1, y1, x2, y2, status FROM boxes WHERE {where} ORDER BY id"
        return [(*row[:3], row[3:7], row[7]) for row in file.execute(query)]


def tags_in(store: Path, image: int) -> dict[int, int]:
    with contextlib.closing(sqlite3.connect(store)) as file:
        return dict(file.execute("SELECT class, state FROM tags WHERE image = ?", (image,)))


@pytest.fixture
def review(serve, labels):
    return serve(labels)


def open_image(one: Any, number: int) -> None:
    one.page.evaluate(f"location.hash = '#/image/{number}'")
    one.until(f"document.getElementById('name').textContent === 'images/{number - 1:03}.jpg'")
    one.until("document.getElementById('photo').naturalWidth > 0")
    one.still()


def on_screen(one: Any, x: float, y: float) -> tuple[float, float]:
    """Return where a point of the image is in the window."""
    area = one.page.locator("#photo").bounding_box()
    return area["x"] + x * area["width"] / 160, area["y"] + y * area["height"] / 120


def drag(one: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    mouse = one.page.mouse
    mouse.move(*on_screen(one, *start))
    mouse.down()
    for share in (0.3, 0.7, 1.0):
        x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
        mouse.move(*on_screen(one, x, y))
    mouse.up()


def test_a_screen_is_accepted_and_what_was_clicked_is_wrong(person, review) -> None:
    one = person(review)
    first = shown(one.page)
    assert len(first) >= 12
    one.page.locator(FACES).nth(3).click()
    one.page.locator(FACES).nth(5).click()
    one.page.locator(FACES).nth(5).click()  # and back
    one.page.locator(FACES).nth(7).focus()
    one.page.locator("#skip-screen").click()
    one.page.locator("#accept").click()
    one.still()
    wanted = dict.fromkeys(first, "right") | {first[3]: "wrong"}
    del wanted[first[7]]
    assert judged(review.store) == wanted
    assert not set(shown(one.page)) & set(wanted)
    assert one.page.locator("#saved").text_content() == "Saved"
    one.until("document.getElementById('count').textContent.startsWith('20 of 40')")
    one.page.locator("#undo").click()
    one.still()
    assert judged(review.store) == {}
    one.page.locator("#redo").click()
    one.still()
    assert judged(review.store) == wanted


def test_the_grid_with_the_keyboard_alone(person, review) -> None:
    one = person(review)
    first = shown(one.page)
    one.press("ArrowRight", "x", "ArrowRight", " ", "ArrowDown", "l", "Enter")
    one.still()
    wanted = dict.fromkeys(first, "right")
    (left,) = set(first) - set(judged(review.store))
    assert left not in first[:3]
    del wanted[left]
    assert judged(review.store) == wanted | {first[1]: "wrong", first[2]: "wrong"}
    one.press("Enter")
    one.still()
    assert len(judged(review.store)) == 39
    assert shown(one.page) == [left]  # it comes again when no other is left
    one.press("u")
    one.still()
    one.press("Control+Shift+Z")
    one.still()
    assert len(judged(review.store)) == 39


def test_all_boxes_are_judged_and_the_share_is_known(person, review) -> None:
    one = person(review)
    one.page.locator(FACES).nth(0).click()
    for _ in range(5):
        if one.page.locator("#nothing").is_visible():
            break
        one.press("Enter")
        one.still()
    one.until("document.getElementById('nothing').textContent.includes('All boxes are judged')")
    one.until("document.getElementById('estimate').textContent.includes('98 %')")
    assert sorted(judged(review.store).values()) == ["right"] * 39 + ["wrong"]


BOX_PLACES = "SELECT boxes.id, place FROM boxes JOIN images ON images.id = image"


def test_the_share_is_that_of_the_random_sample_alone(person, review) -> None:
    one = person(review)
    first = shown(one.page)
    one.press("l", "Enter")  # accepts the others; the next screen is loaded ahead
    one.still()
    one.press("m")
    one.still()
    worst = shown(one.page)
    one.press(*["x", "ArrowRight"] * 4, "Enter")
    one.still()
    with contextlib.closing(review.client()) as client:
        right = client.get("/api/state").json()["right"]
    assert len(judged(review.store)) == len(first) - 1 + len(worst)
    outside = set(worst) - set(first)
    assert right["judged"] + right["left_open"] <= len(first) + len(outside)
    with contextlib.closing(sqlite3.connect(review.store)) as file:
        (reach,) = {*json.loads(file.execute("SELECT value FROM meta WHERE key = 'sample'").fetchone()[0]).values()}
        places = [place for box, place in file.execute(BOX_PLACES) if box in first]
        (left,) = json.loads(file.execute("SELECT value FROM meta WHERE key = 'left_open'").fetchone()[0])
    assert reach == max(places) + 1
    assert left == first[0]


def test_one_class_most_useful_first(person, review) -> None:
    one = person(review)
    one.page.locator("#class").select_option("1")
    one.page.locator("#mode-useful").click()
    one.still()
    boxes = {row[0]: row for row in boxes_in(review.store)}
    first = shown(one.page)
    assert {boxes[number][2] for number in first} == {1}
    assert [boxes[number][1] for number in first] == sorted((boxes[number][1] for number in first), reverse=True)
    assert "Most useful first" in one.page.locator("#explain").text_content()
    one.page.reload()
    one.ready()
    assert shown(one.page) == first  # class and mode are kept
    one.press("m", "[")
    one.still()
    assert {boxes[number][2] for number in shown(one.page)} == {0}
    assert "drawn by chance" in one.page.locator("#explain").text_content()


def test_an_image_with_the_mouse(person, review) -> None:
    """Draw, resize, move, change the class, add and remove tags, judge, and undo all of it."""
    one = person(review)
    before = boxes_in(review.store), tags_in(review.store, 2)
    open_image(one, 2)
    (cat,) = boxes_in(review.store, "image = 2")
    # draw
    one.page.locator("#draw").click()
    drag(one, (100, 20), (140, 70))
    one.page.wait_for_selector("#boxes li[data-status=drawn]")
    one.still()
    (drawn,) = boxes_in(review.store, "status = 'drawn'")
    assert drawn[1:3] == (2, 0)
    assert drawn[3] == pytest.approx((100, 20, 140, 70), abs=1)
    # resize by its corner: it is selected
    drag(one, (140, 70), (150, 90))
    one.still()
    one.page.wait_for_timeout(1200)
    one.still()
    (resized,) = boxes_in(review.store, "status = 'drawn'")
    assert resized[3] == pytest.approx((100, 20, 150, 90), abs=1)
    # move the cat
    one.page.locator(f"#boxes [data-box='{cat[0]}']").click()
    middle = (cat[3][0] + cat[3][2]) / 2, (cat[3][1] + cat[3][3]) / 2
    drag(one, middle, (middle[0] + 6, middle[1] + 4))
    one.page.wait_for_selector("#boxes li[data-status=corrected]")
    one.still()
    (moved,) = boxes_in(review.store, "status = 'corrected'")
    assert moved[3] == pytest.approx([a + b for a, b in zip(cat[3], (6, 4, 6, 4), strict=True)], abs=1)
    # change its class
    one.page.locator("#boxes li[data-status=corrected] button[title='Change the class']").click()
    one.page.locator("#choices button", has_text="dog").click()
    one.still()
    assert boxes_in(review.store, "status = 'corrected'")[0][2] == 1
    assert tags_in(review.store, 2) == {0: 1, 1: 1}  # what has a box is there
    # take a tag away, with its box
    one.page.locator("#tags li", has_text="cat").locator("button").click()
    one.still()
    assert tags_in(review.store, 2) == {0: 0, 1: 1}
    assert boxes_in(review.store, "status = 'drawn'") == []
    one.page.locator("#tags li", has_text="cat").locator("button").click()
    one.still()
    assert tags_in(review.store, 2) == {0: 1, 1: 1}
    for _ in range(6):
        one.page.locator("#undo").click()
        one.still()
    assert (boxes_in(review.store), tags_in(review.store, 2)) == before
    one.until("document.getElementById('undo').disabled")


def test_an_image_with_the_keyboard_alone(person, review) -> None:
    one = person(review, expected=("422",))
    open_image(one, 1)
    cat, dog = boxes_in(review.store, "image = 1")
    one.press("a")
    one.still()
    assert judged(review.store) == {cat[0]: "right"}
    one.press("x")  # the next one that nobody judged is selected
    one.still()
    assert judged(review.store) == {cat[0]: "right", dog[0]: "wrong"}
    one.press("d", "d")  # a box in the middle
    one.page.locator("#filter").fill("do")
    one.press("Enter")
    one.still()
    (drawn,) = boxes_in(review.store, "status = 'drawn'")
    assert drawn[1:3] == (1, 1)
    one.press("ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowRight", "Shift+ArrowUp")
    one.page.wait_for_timeout(600)
    one.still()
    (after,) = boxes_in(review.store, "status = 'drawn'")
    assert [b - a for a, b in zip(drawn[3], after[3], strict=True)] == [2, 1, 3, 0]
    one.press("c")
    one.page.locator("#filter").fill("cat")
    one.press("Enter")
    one.still()
    assert boxes_in(review.store, "status = 'drawn'")[0][2] == 0
    one.press("+", "0", "Delete")
    one.still()
    assert boxes_in(review.store, "status = 'drawn'") == []
    one.press("Enter")  # the dog has a tag and no box
    one.still()
    assert "Draw a box for 'dog', or take the tag away" in one.page.locator("#toast").text_content()
    assert one.page.locator("#name").text_content() == "images/000.jpg"
    one.press("w")
    one.page.locator("#filter").fill("dog")
    one.press("Enter")
    one.still()
    one.press("j", "k", "Escape", "Enter")  # done, and the next image
    one.until("document.getElementById('name').textContent !== 'images/000.jpg'")
    one.still()
    with contextlib.closing(sqlite3.connect(review.store)) as file:
        assert file.execute("SELECT id FROM images WHERE done = 1").fetchall() == [(1,)]
    one.press("p")
    one.until("document.getElementById('name').textContent === 'images/000.jpg'")
    assert "is done" in one.page.locator("#image-why").text_content()
    one.press("n")
    one.still()
    one.press("g")
    one.page.wait_for_selector(FACES)
    one.press("?")
    help_text = one.page.locator("#help").inner_text()
    assert "accept the screen" in help_text
    one.press("Escape")


def test_a_judged_box_is_set_open_again_and_says_why_its_image_is_shown(person, review) -> None:
    one = person(review)
    one.press("m")
    open_image(one, 1)
    assert "the lowest score of its boxes is 0.79, of 'dog'" in one.page.locator("#image-why").text_content()
    one.press("a", "k")
    one.still()
    assert len(judged(review.store)) == 1
    one.press("l")
    one.still()
    assert judged(review.store) == {}


def test_the_share_of_each_class_is_shown(person, review) -> None:
    one = person(review)
    one.page.locator("#shares summary").click()
    rows = one.page.locator("#shares-rows tr")
    assert rows.all_inner_texts()[1].split("\t")[:2] == ["dog", "not known yet"]
    one.page.locator(FACES).first.focus()
    for _ in range(3):
        one.press("Enter")
        one.still()
    one.until("document.getElementById('shares-rows').textContent.includes('dog100 %100–100 %')")


def test_a_reload_keeps_place_and_work(person, review) -> None:
    one = person(review)
    open_image(one, 7)
    one.press("a")
    one.still()
    one.page.reload()
    one.ready()
    assert one.page.locator("#name").text_content() == "images/006.jpg"
    assert one.page.locator("#boxes li[data-status=right]").count() == 1
    one.press("u")
    one.still()
    assert judged(review.store) == {}


def test_with_a_finger_on_a_phone(person, review) -> None:
    one = person(review, viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True, device_scale_factor=2)
    page = one.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    first = shown(page)
    page.locator(FACES).nth(1).tap()
    page.locator("#accept").tap()
    one.still()
    assert judged(review.store) == dict.fromkeys(first, "right") | {first[1]: "wrong"}
    page.locator("#to-image").tap()
    page.wait_for_selector("#boxes li")
    one.still()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#draw").tap()
    touch = one.context.new_cdp_session(page)
    area = page.locator("#photo").bounding_box()
    ends = [(area["x"] + share * area["width"], area["y"] + share * area["height"]) for share in (0.05, 0.2, 0.3)]
    for kind, (x, y) in zip(("touchStart", "touchMove", "touchMove"), ends, strict=True):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    one.until("document.querySelector('#boxes li[data-status=drawn]') || document.getElementById('choose').open")
    if page.locator("#choose").is_visible():
        page.locator("#choices button").first.tap()
    page.wait_for_selector("#boxes li[data-status=drawn]")
    one.still()
    (drawn,) = boxes_in(review.store, "status = 'drawn'")
    assert drawn[3] == pytest.approx((8, 6, 48, 36), abs=2)
    small = page.eval_on_selector_all(
        ".bar button, #tags button, #boxes button",
        "all => all.filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 29).length",
    )
    assert small == 0


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(person, review, scheme: str) -> None:
    one = person(review, color_scheme=scheme)
    first = one.page.evaluate(BACKGROUND)
    assert (sum(map(int, first[4:-1].split(","))) < 200) == (scheme == "dark")
    one.page.locator("#theme").click()
    second = one.page.evaluate(BACKGROUND)
    assert second != first
    one.page.reload()
    one.ready()
    assert one.page.evaluate(BACKGROUND) == second
    assert one.page.evaluate(CONTRAST) == []
    one.page.locator("#theme").click()
    assert one.page.evaluate(CONTRAST) == []


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
  const texts = "h1,h2,h3,p,button,select,label,.saved,.caption b,.caption span,.share,kbd,#count";
  for (const one of document.querySelectorAll(texts)) {
    if (!one.checkVisibility() || one.disabled || one.matches(".open") || !one.textContent.trim()) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(back(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push([one.className || one.id || one.tagName, (a + 0.05) / (b + 0.05)]);
  }
  return poor;
})()"""


def test_everything_has_a_name_for_a_screen_reader(person, review) -> None:
    one = person(review)
    nameless = """[...document.querySelectorAll('button, select, input, [role=group], dialog, section')]
        .filter((one) => one.checkVisibility() && !(one.ariaLabel || one.labels?.length || one.textContent.trim()
            || one.getAttribute('aria-labelledby'))).map((one) => one.outerHTML)"""
    assert one.page.evaluate(nameless) == []
    labels = one.page.eval_on_selector_all(FACES, "all => all.map((one) => one.ariaLabel)")
    assert labels[0] == "cat, box 1: right"
    one.press("x")
    assert one.page.locator(FACES).first.get_attribute("aria-label") == "cat, box 1: wrong"
    assert one.page.locator(FACES).first.get_attribute("aria-pressed") == "true"
    one.press("e")
    one.page.wait_for_selector("#boxes li")
    one.still()
    assert one.page.evaluate(nameless) == []
    assert one.page.locator("#photo").get_attribute("alt").startswith("images/")


RED = """((place) => {
  const image = document.querySelector(place), canvas = document.createElement("canvas").getContext("2d");
  canvas.drawImage(image, 0, 0);
  return canvas.getImageData(image.naturalWidth / 2, image.naturalHeight / 2, 1, 1).data[0];
})"""


def test_images_of_another_review_on_the_same_port_are_not_shown(person, serve, labels, others) -> None:
    for number, colour in ((1, "red"), (2, "black")):
        for folder, wanted in ((labels.parent, colour), (others.parent, "red" if colour == "black" else "black")):
            Image.new("RGB", (160, 120), wanted).save(folder / f"images/{number - 1:03}.jpg")
    first = serve(labels)
    one = person(first)

    def seen() -> list[int]:
        found = []
        for number in (1, 2):
            open_image(one, number)
            found.append(one.page.evaluate(f"{RED}('#photo')"))
        return found

    assert seen() == pytest.approx([254, 0], abs=5)
    first.stop()
    one.page.close()
    one.review = serve(others, port=first.port)
    one.page = one.tab()
    assert seen() == pytest.approx([0, 254], abs=5)


EVIL = "<img src=x onerror=\"document.title='pwned'\">"


def test_script_in_names_stays_text_on_the_page(person, serve, labels) -> None:
    content = json.loads(labels.read_text())
    content["categories"][0]["name"] = EVIL
    name = "images/<script>document.title=1<·script>.jpg"
    (labels.parent / "images" / "000.jpg").rename(labels.parent / name)
    content["images"][0]["file_name"] = name
    labels.write_text(json.dumps(content))
    one = person(serve(labels))
    assert EVIL in one.page.locator("#class").inner_text()
    one.page.evaluate("location.hash = '#/image/1'")
    one.until(f"document.getElementById('name').textContent === {json.dumps(name)}")
    one.press("c")
    assert one.page.locator("#choices button").first.inner_text() == EVIL
    one.press("Escape")
    assert one.page.title().endswith("dpl review")
    assert one.page.locator("main script, main img[src=x], #choose img").count() == 0
