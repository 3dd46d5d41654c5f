"""The store as it is written: one transaction per action, applied once, undone and redone; conflicts, leases."""

import json
import sqlite3
import subprocess
import sys
import threading
import uuid
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.reviewed import judged_boxes, read_reviewed
from deep_patch_learning.evaluation.right_boxes import Share, right_boxes
from deep_patch_learning.review import actions, work
from deep_patch_learning.review.changes import ConflictError, MissingError
from deep_patch_learning.review.requests import Change, Draw, Finish, Judge, Next, Pulse, Screen, SetTag
from deep_patch_learning.review.store import FoundBox, FoundImage, ReviewStore, create_store

CLASSES = ("cat", "dog")


def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def store(tmp_path: Path) -> ReviewStore:
    """Ten images of 100 x 80 pixels, each with a cat and every second with a dog."""
    images = []
    for number in range(10):
        boxes = [FoundBox(0, (10, 10, 50, 60), 0.9, 0.8, 0.1 * number)]
        if number % 2:
            boxes.append(FoundBox(1, (40, 20, 90, 70), 0.5, 0.4, 0.05 * number))
        states = (1, number % 2)
        image = FoundImage(f"{number}.jpg", tmp_path / f"{number}.jpg", 100, 80, states, boxes, "", 0.1 * number)
        images.append(image)
    create_store(tmp_path / "review.sqlite", CLASSES, images, {"title": "test"})
    return ReviewStore(tmp_path / "review.sqlite")


def versions(store: ReviewStore) -> dict[int, int]:
    with store.reading() as file:
        return dict(file.execute("SELECT id, version FROM images").fetchall())


def content(store: ReviewStore) -> list[tuple]:
    """Everything that people can change."""
    with store.reading() as file:
        return [
            tuple(map(tuple, file.execute(query)))
            for query in (
                "SELECT * FROM boxes ORDER BY id",
                "SELECT * FROM tags ORDER BY image, class",
                "SELECT id, done FROM images ORDER BY id",
            )
        ]


def act(store: ReviewStore, kind: type, who: str = "anna", **what):
    seen = what.pop("seen", versions(store))
    action = kind(id=what.pop("id", name()), seen=seen, kind=kind.model_fields["kind"].annotation.__args__[0], **what)
    return actions.apply(store, action, who)


EVERYTHING = [
    (Judge, {"boxes": {1: "right", 2: "wrong", 3: "right"}}),
    (Change, {"box": 4, "corners": (12, 11, 55, 61)}),
    (Change, {"box": 5, "index": 1}),
    (Draw, {"image": 1, "index": 1, "corners": (1, 2, 30, 40)}),
    (SetTag, {"image": 3, "index": 1, "present": True}),
    (SetTag, {"image": 2, "index": 1, "present": False}),
    (Finish, {"image": 6}),
    (Judge, {"boxes": {2: "open"}}),
]


def test_every_action_can_be_undone_and_redone_without_limit(store: ReviewStore) -> None:
    states = [content(store)]
    for kind, what in EVERYTHING:
        act(store, kind, **what)
        states.append(content(store))
    assert len({json.dumps(state) for state in states}) == len(states)  # each changed something
    for state in reversed(states[:-1]):
        actions.turn(store, name(), "anna", back=True)
        assert content(store) == state
    with pytest.raises(actions.RefusedError, match="nothing to undo"):
        actions.turn(store, name(), "anna", back=True)
    for state in states[1:]:
        actions.turn(store, name(), "anna", back=False)
        assert content(store) == state
    with pytest.raises(actions.RefusedError, match="nothing to redo"):
        actions.turn(store, name(), "anna", back=False)


def test_a_new_action_after_an_undo_leaves_nothing_to_redo(store: ReviewStore) -> None:
    act(store, Judge, boxes={1: "right"})
    actions.turn(store, name(), "anna", back=True)
    act(store, Judge, boxes={2: "wrong"})
    with pytest.raises(actions.RefusedError, match="nothing to redo"):
        actions.turn(store, name(), "anna", back=False)


def test_redo_passes_over_what_a_later_action_discarded(store: ReviewStore) -> None:
    act(store, Judge, boxes={1: "right"})
    actions.turn(store, name(), "anna", back=True)
    act(store, Judge, boxes={1: "wrong"})
    wrong = content(store)
    actions.turn(store, name(), "anna", back=True)
    actions.turn(store, name(), "anna", back=False)
    assert content(store) == wrong
    with store.reading() as file:
        assert actions.can_turn(file, "anna") == {"undo": True, "redo": False}
    actions.turn(store, name(), "anna", back=True)
    act(store, Judge, "bert", boxes={2: "wrong"})  # somebody else's discards nothing
    act(store, Judge, boxes={1: "open"})  # nor does one that changes nothing
    assert actions.turn(store, name(), "anna", back=False)["of"] == "judge"
    with pytest.raises(actions.RefusedError, match="nothing to redo"):
        actions.turn(store, name(), "anna", back=False)


def test_an_action_that_arrives_twice_is_applied_once(store: ReviewStore) -> None:
    seen = versions(store)
    drawn = {"id": name(), "seen": seen, "image": 1, "index": 0, "corners": (1, 2, 30, 40)}
    first = act(store, Draw, **drawn)
    again = act(store, Draw, **drawn)
    assert first["drawn"] is not None
    assert again["repeated"]
    assert again["number"] == first["number"]
    assert again["versions"] == first["versions"] == {1: 1}
    assert sum(row[0] > 15 for row in content(store)[0]) == 1
    undo = name()
    actions.turn(store, undo, "anna", back=True)
    actions.turn(store, undo, "anna", back=True)
    assert content(store)[0][-1][0] == 15


def test_a_repeated_action_does_not_hide_what_somebody_did_since(store: ReviewStore) -> None:
    """The first acknowledgement was lost: the page that sends again has not seen what came after."""
    judge = {"id": name(), "seen": versions(store), "boxes": {1: "right", 2: "right"}}
    act(store, Judge, **judge)
    act(store, Judge, "bert", boxes={1: "wrong"})
    again = act(store, Judge, **judge)
    assert again["repeated"]
    assert again["versions"] == {2: 1}
    with pytest.raises(ConflictError):
        act(store, Judge, boxes={1: "right"}, seen={1: 0} | again["versions"])


def test_an_image_that_somebody_else_changed_is_a_conflict_and_nothing_of_the_action_is_kept(
    store: ReviewStore,
) -> None:
    seen = versions(store)
    act(store, Judge, "bert", boxes={3: "wrong"})
    before = content(store)
    with pytest.raises(ConflictError) as raised:
        act(store, Judge, boxes={1: "right", 3: "right"}, seen=seen)
    (image,) = raised.value.versions
    assert content(store) == before
    assert work.changed_by(store, raised.value.versions) == {image: "reviewer bert"}
    act(store, Judge, boxes={1: "right"}, seen=seen)


def test_undo_is_of_ones_own_actions_and_never_of_what_somebody_changed_since(store: ReviewStore) -> None:
    act(store, Judge, boxes={1: "right"})
    act(store, Judge, "bert", boxes={2: "wrong"})
    actions.turn(store, name(), "anna", back=True)
    with store.reading() as file:
        assert dict(file.execute("SELECT id, status FROM boxes WHERE id < 3").fetchall()) == {1: "open", 2: "wrong"}
    act(store, Judge, boxes={3: "right"})
    act(store, Judge, "bert", boxes={3: "wrong"})
    before = content(store)
    with pytest.raises(ConflictError, match="cannot be undone"):
        actions.turn(store, name(), "anna", back=True)
    assert content(store) == before


def test_what_was_removed_can_be_brought_back_after_somebody_else_drew(store: ReviewStore) -> None:
    drawn = act(store, Draw, image=1, index=1, corners=(1, 2, 30, 40))["drawn"]
    act(store, Judge, boxes={drawn: "wrong"})  # a box that a person drew goes
    other = act(store, Draw, "bert", image=2, index=1, corners=(5, 6, 30, 40))["drawn"]
    assert other != drawn
    actions.turn(store, name(), "anna", back=True)
    assert {row[0] for row in content(store)[0]} >= {drawn, other}


def test_training_reads_exactly_what_was_done(store: ReviewStore) -> None:
    for kind, what in EVERYTHING:
        act(store, kind, **what)
    found = read_reviewed(store.path, CLASSES)
    assert set(found) == {"0.jpg", "1.jpg", "2.jpg", "3.jpg", "5.jpg"}
    np.testing.assert_allclose(found["0.jpg"].boxes, [[10, 10, 50, 60], [1, 2, 30, 40]])
    assert found["0.jpg"].classes.tolist() == [0, 1]
    assert found["0.jpg"].tags == {1: 1}  # what was drawn is in the image
    assert found["5.jpg"].done
    corrected = found["2.jpg"]
    np.testing.assert_allclose(corrected.boxes, [[12, 11, 55, 61]])
    changed = found["3.jpg"]
    assert (changed.classes.tolist(), changed.rejected_classes.tolist()) == ([1], [0])


def test_an_image_is_not_done_while_a_tag_has_no_box(store: ReviewStore) -> None:
    act(store, Judge, boxes={3: "wrong"})  # the only dog of image 2
    before = content(store)
    with pytest.raises(actions.RefusedError, match="draw a box for 'dog', or take the tag away with W"):
        act(store, Finish, image=2)
    assert content(store) == before
    act(store, Draw, image=2, index=1, corners=(1, 2, 30, 40))
    act(store, Finish, image=2)
    act(store, Judge, boxes={5: "wrong", 6: "wrong"})
    with pytest.raises(actions.RefusedError, match="draw a box for 'cat', 'dog', or take the tags away"):
        act(store, Finish, image=4)
    act(store, SetTag, image=4, index=0, present=False)
    act(store, SetTag, image=4, index=1, present=False)
    act(store, Finish, image=4)


def test_judging_again_takes_the_last_word(store: ReviewStore) -> None:
    act(store, Change, box=1, corners=(12, 11, 55, 61))
    act(store, Judge, boxes={1: "wrong"})
    act(store, Judge, boxes={1: "right"})
    assert content(store)[0][0][3:8] == (12, 11, 55, 61, "corrected")
    act(store, Judge, boxes={1: "open"})
    assert content(store)[0][0][3:8] == (10, 10, 50, 60, "open")
    act(store, Change, box=1, corners=(10, 10, 50, 60))
    assert content(store)[0][0][7] == "right"


def test_boxes_stay_in_the_image_and_have_an_area(store: ReviewStore) -> None:
    drawn = act(store, Draw, image=1, index=0, corners=(-20, 5, 1000, 60))["drawn"]
    row = next(row for row in content(store)[0] if row[0] == drawn)
    assert row[3:7] == (0, 5, 100, 60)
    for corners in [(5, 5, 5, 60), (200, 5, 300, 60), (30, 30, 10, 60)]:
        with pytest.raises(actions.RefusedError, match="at least 1 pixel"):
            act(store, Draw, image=1, index=0, corners=corners)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Judge, {"boxes": {999: "right"}}),
        (Change, {"box": 1, "index": 7}),
        (Draw, {"image": 77, "index": 0, "corners": (1, 2, 30, 40)}),
        (SetTag, {"image": 1, "index": 9, "present": True}),
        (Finish, {"image": 99}),
    ],
)
def test_what_is_not_there_is_said(store: ReviewStore, kind: type, what: dict) -> None:
    before = content(store), versions(store)
    with pytest.raises(MissingError, match="there is no"):
        act(store, kind, **what)
    assert (content(store), versions(store)) == before


def screen(store: ReviewStore, tab: str, who: str = "anna", **asked) -> list[dict]:
    wanted = {"mode": "sample", "size": 4} | asked
    return work.screen(store, Screen(tab=tab, **wanted), who)["boxes"]


def test_two_people_and_two_tabs_never_get_the_same_image(store: ReviewStore) -> None:
    given = [screen(store, tab, who) for tab, who in [("tab-one1", "anna"), ("tab-two2", "anna"), ("tab-one1", "bert")]]
    images = [{box["image"] for box in boxes} for boxes in given]
    assert all(images)
    assert sum(map(len, images)) == len(set.union(*images))
    again = screen(store, "tab-one1", "anna")
    assert [box["id"] for box in again] == [box["id"] for box in given[0]]  # a reload shows one's own


def test_leases_end_when_the_page_lets_go_or_falls_silent(store: ReviewStore, monkeypatch) -> None:
    first = {box["image"] for box in screen(store, "tab-one1", size=120)}
    assert len(first) == 10
    assert screen(store, "tab-two2") == []
    held = sorted(first)[:7]
    work.pulse(store, Pulse(tab="tab-one1", holds=held), "anna")
    assert screen(store, "tab-two2") == []  # the answer that lends the others may be on its way to the page
    soon = work.time.time() + work.GRACE_SECONDS
    monkeypatch.setattr(work.time, "time", lambda: soon)
    work.pulse(store, Pulse(tab="tab-one1", holds=held), "anna")
    assert {box["image"] for box in screen(store, "tab-two2", size=120)} == first - set(held)
    later = soon + work.LEASE_SECONDS + 1
    monkeypatch.setattr(work.time, "time", lambda: later)
    assert len({box["image"] for box in screen(store, "tab-two2", size=120)}) == 10


def test_the_sample_is_random_and_the_rest_is_most_useful_first(store: ReviewStore) -> None:
    useful = screen(store, "tab-one1", mode="useful", index=0, size=120)
    assert [box["image"] for box in useful] == list(range(10, 0, -1))
    sample = [box["image"] for box in screen(store, "tab-one1", index=0, size=120)]
    assert sorted(sample) == list(range(1, 11)) != sample
    assert {box["index"] for box in screen(store, "tab-one1", index=1, size=120)} == {1}


def share(store: ReviewStore) -> Share | None:
    with store.reading() as file:
        return right_boxes(judged_boxes(file, CLASSES)).overall


def judge_all(store: ReviewStore, boxes: list[dict], judgement: str, **how) -> None:
    act(store, Judge, boxes={box["id"]: judgement for box in boxes}, **how)


def test_boxes_that_were_chosen_by_usefulness_do_not_enter_the_estimate(store: ReviewStore) -> None:
    """Also those of a screen of the sample that was loaded and never judged."""
    first = screen(store, "tab-one1")
    judge_all(store, first, "right", mode="sample")
    screen(store, "tab-one1", without=[box["id"] for box in first])  # ahead of what is shown
    worst = screen(store, "tab-one1", mode="useful", size=4)
    judge_all(store, worst, "wrong", mode="useful")
    found = share(store)
    assert found is not None
    assert found.right == found.judged <= 4
    # as the random order comes past them they are part of the sample, as they would have been without the other mode
    for _ in range(4):
        judge_all(store, screen(store, "tab-one1") or first, "right", mode="sample")
    found = share(store)
    assert found is not None
    assert found.judged > 11
    assert (found.low, found.share, found.high) == pytest.approx([11 / 15] * 3)  # all are known


def test_the_sample_ends_where_somebody_else_has_not_judged_yet(store: ReviewStore) -> None:
    screen(store, "tab-one1")
    judge_all(store, screen(store, "tab-two2"), "wrong", mode="sample")
    assert share(store) is None  # anna may yet judge the worst of the first screen in the other mode
    judge_all(store, screen(store, "tab-one1"), "right", mode="sample")
    found = share(store)
    assert found is not None
    assert found.judged > 4


def test_a_box_that_is_left_open_is_counted_both_ways(store: ReviewStore) -> None:
    boxes = screen(store, "tab-one1")
    left = boxes.pop(0)["id"]
    act(store, Judge, boxes={box["id"]: "right" for box in boxes}, left_open=[left], mode="sample")
    act(store, Judge, left_open=[left, 999], mode="sample")
    found = share(store)
    assert found is not None
    assert (found.judged, found.left_open, found.share) == (3, 1, 1.0)
    act(store, Judge, boxes={left: "wrong"})
    found = share(store)
    assert found is not None
    assert (found.right, found.judged, found.left_open) == (3, 4, 0)


def test_an_image_that_is_done_is_part_of_the_sample_of_its_mode(store: ReviewStore) -> None:
    asked = Next(tab="tab-one1", mode="sample")
    first = work.next_image(store, asked, "anna")["image"]
    act(store, Finish, image=first["id"])
    assert share(store) is None
    second = work.next_image(store, asked, "anna")["image"]
    act(store, Finish, image=second["id"], mode="sample")
    found = share(store)
    assert found is not None
    assert found.judged == len(first["boxes"]) + len(second["boxes"])


def test_the_grid_follows_the_order_of_the_images(tmp_path: Path) -> None:
    """It is balanced over the classes: a single box that looks worse does not go before it."""
    images = [
        FoundImage(name, tmp_path / name, 100, 80, (1, 0), [FoundBox(0, (1, 2, 30, 40), usefulness=box)], "", useful)
        for name, box, useful in [("a", 0.9, 0.1), ("b", 0.2, 0.8), ("c", 0.5, 0.5)]
    ]
    create_store(tmp_path / "ordered.sqlite", CLASSES, images, {})
    store = ReviewStore(tmp_path / "ordered.sqlite")
    assert [box["name"] for box in screen(store, "tab-one1", mode="useful")] == ["b", "c", "a"]
    store.close()


def test_next_image_skips_what_is_done_or_held(store: ReviewStore) -> None:
    asked = Next(tab="tab-one1", mode="useful")
    assert work.next_image(store, asked, "anna")["image"]["id"] == 10
    act(store, Finish, image=10)
    assert work.next_image(store, asked, "anna")["image"]["id"] == 9
    assert work.next_image(store, asked, "bert")["image"]["id"] == 8
    assert work.image(store, 9, "bert", "tab-one1")["held_by"] == "reviewer anna"


def test_many_threads_lose_nothing(store: ReviewStore) -> None:
    """Eight people draw at once in images of their own and in one that they share."""
    wanted, refused = [], []

    def draw(who: str, image: int) -> None:
        for number in range(10):
            corners = (number, 1, number + 20, 40)
            for where in (image, 9):
                try:
                    act(store, Draw, who, image=where, index=0, corners=corners)
                    wanted.append(where)
                except ConflictError:
                    refused.append(where)

    threads = [threading.Thread(target=draw, args=(f"person{n}", n)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {9}
    with closing(sqlite3.connect(store.path)) as file:
        drawn = file.execute("SELECT count(*) FROM boxes WHERE status = 'drawn'").fetchone()[0]
        written = file.execute("SELECT count(*) FROM actions").fetchone()[0]
    assert drawn == written == len(wanted) == 160 - len(refused)


def test_a_new_store_takes_nothing_from_the_logs_of_one_that_was_deleted(store: ReviewStore, tmp_path: Path) -> None:
    for kind, what in EVERYTHING:
        act(store, kind, **what)
    logs = {
        path: path.read_bytes() for path in (store.path.with_name(f"review.sqlite-{end}") for end in ("wal", "shm"))
    }
    store.close()
    store.path.unlink()
    for path, log in logs.items():  # as a kill leaves them
        path.write_bytes(log)
    image = FoundImage("new.jpg", tmp_path / "new.jpg", 100, 80, (1, 0), [FoundBox(0, (1, 2, 30, 40))])
    create_store(store.path, CLASSES, [image], {"title": "new"})
    new = ReviewStore(store.path)
    assert (new.about["title"], versions(new), len(content(new)[0])) == ("new", {1: 0}, 1)
    with new.reading() as file:
        assert file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    new.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["review.sqlite"]


def test_a_store_that_was_made_meanwhile_stays(store: ReviewStore, tmp_path: Path) -> None:
    act(store, Judge, boxes={1: "right"})
    before = content(store)
    image = FoundImage("new.jpg", tmp_path / "new.jpg", 100, 80, (1, 0), [FoundBox(0, (1, 2, 30, 40))])
    with pytest.raises(FileExistsError):
        create_store(store.path, CLASSES, [image], {"title": "new"})
    assert content(store) == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("part")]


def test_of_stores_made_at_once_one_stays_and_the_others_are_refused(tmp_path: Path) -> None:
    image = FoundImage("new.jpg", tmp_path / "new.jpg", 100, 80, (1, 0), [FoundBox(0, (1, 2, 30, 40))])
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from deep_patch_learning.review.store import FoundBox, FoundImage, ReviewStore, create_store
image = FoundImage("new.jpg", Path({str(image.path)!r}), 100, 80, (1, 0), [FoundBox(0, (1, 2, 30, 40))])
sys.stdin.readline()
try:
    create_store({str(tmp_path / "one.sqlite")!r}, ("cat", "dog"), [image], {{}})
    made = True
except FileExistsError:
    made = False
store = ReviewStore({str(tmp_path / "one.sqlite")!r})
print(made, store.about["id"])
"""
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    said = [one.communicate(timeout=60)[0].split() for one in started]
    assert sorted(made for made, _ in said) == ["False", "False", "False", "True"]
    assert len({review for _, review in said}) == 1


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such store"):
        ReviewStore(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("no store")
    with pytest.raises(DataError, match="is not a store of `dpl review`"):
        ReviewStore(tmp_path / "text.sqlite")
    with pytest.raises(DataError, match="there are no images to review"):
        create_store(tmp_path / "empty.sqlite", CLASSES, [], {})
    (tmp_path / "file").write_text("")
    image = FoundImage("a", tmp_path / "a", 10, 10, (1, 0))
    with pytest.raises(DataError, match=r"cannot be written .* with --store"):
        create_store(tmp_path / "file" / "in.sqlite", CLASSES, [image], {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "text.sqlite"]
