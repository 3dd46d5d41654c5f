"""Nothing is lost and nothing done twice: the server is killed, pages are closed, people work on the same images."""

import contextlib
import random
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from deep_patch_learning.review import actions, work


def drawn_in(store: Path) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(store)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return file.execute("SELECT image, x1, y1, x2, y2 FROM boxes WHERE status = 'drawn' ORDER BY id").fetchall()


class Stubborn:
    """A client that sends each action until it is acknowledged, as the page does."""

    def __init__(self, server: Any, image: int) -> None:
        self.server, self.image, self.client = server, image, server.client()
        self.acknowledged: list[tuple] = []
        self.failures = 0
        self.stop = threading.Event()

    def run(self) -> None:
        version, number = 0, 0
        while not self.stop.is_set():
            corners = (number % 100, number // 100, number % 100 + 20, number // 100 + 30)
            action = {"id": uuid.uuid4().hex, "kind": "draw", "seen": {str(self.image): version}, "image": self.image}
            action |= {"index": 0, "corners": corners}
            while True:
                try:
                    answer = self.client.post("/api/actions", json=action)
                    break
                except httpx.TransportError:
                    self.failures += 1
                    time.sleep(0.02)
            assert answer.status_code == 200, answer.text
            version = answer.json()["versions"][str(self.image)]
            self.acknowledged.append((self.image, *map(float, corners)))
            number += 1


def test_a_server_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice(process, labels) -> None:
    chance = random.Random(3)
    people = [Stubborn(process, image) for image in range(1, 5)]
    threads = [threading.Thread(target=one.run) for one in people]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(chance.uniform(0.2, 0.8))
        process.kill()
        process.start()
    time.sleep(0.3)
    for one in people:
        one.stop.set()
    for thread in threads:
        thread.join()
    acknowledged = sorted(box for one in people for box in one.acknowledged)
    assert len(acknowledged) > 20
    assert sum(one.failures for one in people) > 0  # it was away
    assert sorted(drawn_in(labels.with_name("photos.review.sqlite"))) == acknowledged


def test_ctrl_c_ends_it_in_a_line(process, labels) -> None:
    said = process.interrupt()
    assert process.process.returncode in (0, 130)
    assert "Traceback" not in said
    assert not labels.with_name("photos.review.sqlite-wal").exists()  # folded into the store


def statuses(store: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(store)) as file:
        return [row[0] for row in file.execute("SELECT status FROM boxes WHERE status != 'open'")]


def test_what_is_done_while_the_server_is_away_is_sent_when_it_is_back(person, process, labels) -> None:
    """Also when the tab is closed meanwhile and another one is opened."""
    store = labels.with_name("photos.review.sqlite")
    one = person(process, expected=("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"))
    count = one.page.locator("#tiles .tile").count()
    process.kill()
    one.press("x", "Enter")
    one.until("document.getElementById('saved').dataset.state === 'away'")
    assert "not saved" in one.page.locator("#saved").text_content()
    assert statuses(store) == []
    one.page.close()
    process.start()
    one.page = one.tab()
    one.still()
    assert sorted(statuses(store)) == ["right"] * (count - 1) + ["wrong"]


def test_two_tabs_and_two_people_share_the_work(person, serve, labels) -> None:
    review = serve(labels)
    anna, bert = person(review), person(review)
    second = anna.tab()
    boxes = [
        page.eval_on_selector_all("#tiles .tile", "all => all.map((one) => Number(one.dataset.box))")
        for page in (anna.page, second, bert.page)
    ]
    assert len(set().union(*map(set, boxes))) == sum(map(len, boxes))
    for page in (anna.page, second, bert.page):
        page.bring_to_front()
        page.keyboard.press("Enter")
    for one, page in ((anna, anna.page), (anna, second), (bert, bert.page)):
        one.still(page)
    assert len(statuses(review.store)) == sum(map(len, boxes))


def leases(store: Path) -> dict[int, str]:
    with contextlib.closing(sqlite3.connect(store)) as file:
        return dict(file.execute("SELECT image, reviewer FROM leases"))


def test_what_the_page_loads_ahead_stays_its_own(person, serve, labels, monkeypatch) -> None:
    """The screen and the image after the one that is shown are lent already: the sign of life must name them too."""
    monkeypatch.setattr(work, "GRACE_SECONDS", 0.0)
    review = serve(labels)
    anna = person(review)
    shown = anna.page.evaluate("document.querySelectorAll('#tiles .tile').length")
    anna.until("document.getElementById('tiles').ariaBusy === 'false'")
    wait_until(lambda: len(leases(review.store)) == 30)  # all of this small set: the second screen shows the rest
    assert shown < 30
    anna.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    anna.page.wait_for_timeout(500)
    assert len(leases(review.store)) == 30
    bert = person(review)
    assert bert.page.locator("#tiles .tile").count() == 0


def test_the_next_image_stays_ones_own_until_it_is_shown(person, serve, labels, monkeypatch) -> None:
    monkeypatch.setattr(work, "GRACE_SECONDS", 0.0)
    review = serve(labels)
    anna = person(review)
    anna.page.evaluate("location.hash = '#/image/5'")
    anna.until("document.getElementById('name').textContent === 'images/004.jpg'")
    anna.still()
    anna.press("g")
    anna.still()
    anna.press("e")
    anna.until("!document.getElementById('image').hidden")
    anna.still()
    before = leases(review.store)
    anna.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    anna.page.wait_for_timeout(500)
    assert leases(review.store).keys() >= before.keys()


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_five_people_at_once_never_have_an_image_in_common(serve, labels) -> None:
    """Each asks for screens and single images, judges some, and gives signs of life, all at the same time."""
    review = serve(labels)
    shared: list[int] = []
    holding: dict[int, int] = {}
    lock = threading.Lock()

    def take(person: int, images: set[int]) -> None:
        with lock:
            shared.extend(image for image in images if holding.setdefault(image, person) != person)

    def work_on(person: int) -> None:
        chance = random.Random(person)
        with contextlib.closing(review.client()) as client:
            tab = {"tab": f"tab-of-person-{person}"}
            for _ in range(6):
                mode = chance.choice(["sample", "useful"])
                boxes = client.post("/api/screen", json={**tab, "mode": mode, "size": 2}).json()["boxes"]
                found = client.post("/api/next", json={**tab, "mode": mode}).json()["image"]
                images = {box["image"] for box in boxes} | ({found["id"]} if found else set())
                take(person, images)
                seen = {str(box["image"]): box["version"] for box in boxes}
                judge = {"id": uuid.uuid4().hex, "kind": "judge", "seen": seen}
                if boxes:
                    judge["boxes"] = {str(box["id"]): "right" for box in boxes}
                    assert client.post("/api/actions", json=judge).status_code == 200
                client.post("/api/pulse", json={**tab, "holds": sorted(images)})

    threads = [threading.Thread(target=work_on, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared == []
    assert len(set(holding.values())) == 5


def test_a_laptop_that_slept_is_told_what_others_did_and_loses_nothing(person, serve, labels, monkeypatch) -> None:
    review = serve(labels)
    anna = person(review, expected=("409",))
    mine = anna.page.eval_on_selector_all("#tiles .tile", "all => all.map((one) => Number(one.dataset.box))")
    later = time.time() + work.LEASE_SECONDS + 1
    monkeypatch.setattr(work.time, "time", lambda: later)  # anna's page says nothing meanwhile
    with contextlib.closing(review.client()) as bert:
        boxes = bert.post("/api/screen", json={"tab": "tab-of-bert", "mode": "sample", "size": 2}).json()["boxes"]
        theirs = {box["id"] for box in boxes}
        assert theirs <= set(mine)  # the leases have ended
        judge = {"id": uuid.uuid4().hex, "kind": "judge", "boxes": dict.fromkeys(map(str, theirs), "wrong")}
        judge["seen"] = {str(box["image"]): box["version"] for box in boxes}
        assert bert.post("/api/actions", json=judge).status_code == 200
        images = {box["image"] for box in boxes}
    anna.press("Enter")
    anna.still()
    assert "changed" in anna.page.locator("#toast").text_content()
    with contextlib.closing(sqlite3.connect(review.store)) as file:
        found = dict(file.execute("SELECT id, status FROM boxes WHERE status != 'open'"))
        own = {row[0] for row in file.execute("SELECT id, image FROM boxes") if row[1] not in images}
    assert found == dict.fromkeys(theirs, "wrong") | {box: "right" for box in mine if box in own}


def test_a_conflict_is_shown_and_nothing_is_overwritten(person, serve, labels) -> None:
    review = serve(labels)
    anna, bert = person(review, expected=("409",)), person(review)
    for one in (anna, bert):
        one.page.evaluate("location.hash = '#/image/5'")
        one.until("document.getElementById('name').textContent === 'images/004.jpg'")
        one.still()
    assert "has this image open" in bert.page.locator("#held").text_content()
    bert.press("x")
    bert.still()
    anna.press("a")
    anna.still()
    assert "changed this image meanwhile" in anna.page.locator("#toast").text_content()
    assert anna.page.locator("#boxes li[data-status=wrong]").count() == 1
    assert statuses(review.store) == ["wrong"]


def boxes_on(page: Any) -> list[int]:
    return page.eval_on_selector_all("#tiles .tile", "all => all.map((one) => Number(one.dataset.box))")


def image_of(store: Path, box: int) -> int:
    with contextlib.closing(sqlite3.connect(store)) as file:
        return file.execute("SELECT image FROM boxes WHERE id = ?", (box,)).fetchone()[0]


def judge_by_another(review: Any, box: int) -> None:
    image = image_of(review.store, box)
    with contextlib.closing(review.client()) as client:
        action = {"id": uuid.uuid4().hex, "kind": "judge", "seen": {str(image): 0}, "boxes": {str(box): "wrong"}}
        assert client.post("/api/actions", json=action).status_code == 200


def test_of_what_a_closed_tab_left_only_what_somebody_changed_is_not_done_and_it_is_said(person, serve, labels) -> None:
    review = serve(labels)
    one = person(review, expected=("409", "ERR_FAILED"))
    boxes = boxes_on(one.page)
    one.page.route("**/api/actions", lambda route: route.abort())
    one.press("Enter")
    one.until("document.getElementById('saved').dataset.state === 'away'")
    one.page.close()
    judge_by_another(review, boxes[0])
    one.page = one.tab()
    assert "changed 1 of these images meanwhile" in one.page.locator("#toast").text_content()
    image = image_of(review.store, boxes[0])
    own = [box for box in boxes if image_of(review.store, box) != image]
    assert sorted(statuses(review.store)) == ["right"] * len(own) + ["wrong"]


def test_an_action_of_a_closed_tab_that_cannot_be_done_is_said(person, serve, labels) -> None:
    review = serve(labels)
    one = person(review, expected=("409", "ERR_FAILED"))
    one.press("e")
    one.until("!document.getElementById('image').hidden")
    one.still()
    box = one.page.evaluate("Number(document.querySelector('#boxes .take').dataset.box)")
    one.page.route("**/api/actions", lambda route: route.abort())
    one.press("a")
    one.until("document.getElementById('saved').dataset.state === 'away'")
    one.page.close()
    judge_by_another(review, box)
    one.page = one.tab()
    assert "in a tab that is closed" in one.page.locator("#toast").text_content()
    assert statuses(review.store) == ["wrong"]


def test_a_duplicated_tab_is_another_tab(person, serve, labels) -> None:
    """It copies the storage of the session."""
    one = person(serve(labels))
    with one.context.expect_page() as opened:
        one.page.evaluate("void window.open(location.href)")
    twin = opened.value
    one.ready(twin)
    assert boxes_on(one.page)
    assert not {*boxes_on(one.page)} & {*boxes_on(twin)}


def test_a_box_that_was_moved_just_before_the_tab_was_closed(person, serve, labels) -> None:
    review = serve(labels)
    one = person(review)
    one.page.evaluate("location.hash = '#/image/2'")
    one.until("document.getElementById('name').textContent === 'images/001.jpg'")
    one.still()
    one.press("ArrowRight", "ArrowRight")
    one.page.goto("about:blank")
    wait_until(lambda: statuses(review.store) == ["corrected"])


def test_a_server_that_cannot_write_says_why_and_gets_everything_later(person, serve, labels) -> None:
    review = serve(labels)
    one = person(review, expected=("503",))
    count = len(boxes_on(one.page))
    full = {"error": "the store cannot be read or written: database or disk is full"}
    one.page.route("**/api/actions", lambda route: route.fulfill(status=503, json=full))
    one.press("Enter")
    one.until("document.getElementById('saved').textContent.includes('disk is full')")
    one.page.unroute("**/api/actions")
    one.still()
    assert statuses(review.store) == ["right"] * count


def test_an_action_at_which_the_server_fails_does_not_hold_up_the_others(person, serve, labels, monkeypatch) -> None:
    review = serve(labels)
    one = person(review, expected=("500",))
    first = boxes_on(one.page)
    apply = actions.apply

    def fail(store: Any, action: Any, reviewer: str) -> Any:
        if first[0] in action.boxes:
            raise KeyError("mistake")
        return apply(store, action, reviewer)

    monkeypatch.setattr(actions, "apply", fail)
    one.press("Enter")
    one.until("document.getElementById('saved').textContent.includes('the server made a mistake')")
    one.until("document.querySelectorAll('#tiles .tile').length > 0")
    second = boxes_on(one.page)
    one.press("Enter")
    one.still()
    assert "Not done" in one.page.locator("#toast").text_content()
    assert len(statuses(review.store)) == len(set(second) - set(first)) > 0


def test_a_page_of_another_review_changes_nothing(serve, labels, tmp_path) -> None:
    review = serve(labels)
    client = review.client()
    action = {"id": "action-00001", "kind": "judge", "seen": {"1": 0}, "boxes": {"1": "right"}}
    answer = client.post("/api/actions", json=action, headers={"x-review": "0" * 32})
    assert answer.status_code == 412
    assert "another review is served here" in answer.json()["error"]
    assert statuses(review.store) == []
    client.close()
