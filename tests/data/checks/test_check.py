"""Each finding from tags, names and splits: there in a set that has the trouble, absent from one that has not. The command."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from checked import DPL, finding, photo, report_on
from PIL import Image

from deep_patch_learning.commands.check import check as check_data
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.checks.findings import Severity
from deep_patch_learning.data.checks.names import edits, is_plural, looks_misspelt
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers.read import read_tags

# --- from tags: images are not opened -------------------------------------------------------------------------------


def tagged(**columns: Sequence[int]) -> TaggedImages:
    """Return images with these labels per class; none of them has a file."""
    labels = np.array(list(columns.values()), np.int8).T
    names = tuple(f"{i}.jpg" for i in range(len(labels)))
    return TaggedImages(tuple(columns), names, tuple(Path("/none") / name for name in names), labels)


def columns(total: int, **ranges: tuple[int, int]) -> TaggedImages:
    """Return `total` images in which each class is present from one index up to another."""
    return tagged(**{name: [int(a <= i < b) for i in range(total)] for name, (a, b) in ranges.items()})


HEALTHY = columns(120, dog=(0, 50), cat=(30, 80), bus=(70, 120))

FROM_TAGS = {
    "too_rare": (columns(120, dog=(0, 60), cat=(60, 116), bus=(116, 120)), Severity.STOPS, "bus (4)"),
    "rare": (columns(120, dog=(0, 60), cat=(60, 105), bus=(105, 120)), Severity.HURTS, "bus (15)"),
    "unknown_only": (
        tagged(dog=[1] * 30 + [0] * 30, cat=[0] * 30 + [1] * 30, bus=[0] * 50 + [-1] * 10),
        Severity.STOPS,
        "bus (unknown in 10)",
    ),
    "never_absent": (columns(100, dog=(0, 100), cat=(0, 50)), Severity.STOPS, "dog (in 100, absent from none)"),
    "nearly_everywhere": (columns(100, dog=(0, 95), cat=(0, 50)), Severity.HURTS, "dog (in 95, absent from 5)"),
    "imbalance": (columns(2000, dog=(0, 1500), cat=(1000, 1030), bus=(1400, 1900)), Severity.HURTS, "cat (30)"),
    "untagged": (columns(150, dog=(0, 50), cat=(50, 100), bus=(80, 120)), Severity.WORTH_KNOWING, "120.jpg"),
    "always_together": (
        columns(100, dog=(0, 50), leash=(2, 51), cat=(40, 100)),
        Severity.HURTS,
        "dog + leash (together in 48, dog without leash in 2, leash without dog in 1)",
    ),
    "never_without": (
        columns(100, car=(0, 40), wheel=(0, 20), cat=(30, 100)),
        Severity.WORTH_KNOWING,
        "wheel + car (together in 20, wheel without car in 0, car without wheel in 20)",
    ),
    "one_tag_each": (columns(90, dog=(0, 30), cat=(30, 60), bus=(60, 90)), Severity.WORTH_KNOWING, ""),
    "same_name": (columns(120, Dog=(0, 50), dog=(30, 80), bus=(70, 120)), Severity.HURTS, "Dog + dog"),
    "misspelt": (
        columns(300, tractor=(0, 200), tracter=(200, 220), bus=(190, 300)),
        Severity.HURTS,
        "tracter + tractor (20 and 200 images)",
    ),
}


def test_a_healthy_set_has_no_finding_but_that_nothing_is_held_out() -> None:
    report = report_on(HEALTHY, limit=0)
    assert report.kinds() == ("nothing_held_out",)
    assert report.verdict == "ready"
    assert report.ready
    dog = report.classes[0]
    assert (dog.name, dog.present, dog.absent, dog.unknown, dog.alone, dog.fills) == ("dog", 50, 70, 0, 30, None)
    assert any("not known: the data has no boxes" in note for note in report.notes)
    assert any("Only 0 of 120 images were opened" in note for note in report.notes)


@pytest.mark.parametrize("kind", FROM_TAGS)
def test_each_finding_from_tags(kind: str) -> None:
    images, severity, example = FROM_TAGS[kind]
    found = finding(report_on(images, limit=0), kind)
    assert found.severity is severity
    assert example in found.examples()
    assert found.fix.endswith(".")
    assert kind not in report_on(HEALTHY, limit=0).kinds()


def test_a_class_in_most_images_does_not_go_with_every_other() -> None:
    images = columns(100, person=(0, 85), dog=(0, 30), cat=(30, 60), bus=(50, 100))
    assert "never_without" not in report_on(images, limit=0).kinds()


def test_unknown_labels_are_neither_together_nor_apart() -> None:
    images = tagged(dog=[1] * 30 + [0] * 30, leash=[1] * 6 + [-1] * 24 + [0] * 30, cat=[0] * 20 + [1] * 40)
    found = finding(report_on(images, limit=0), "always_together")
    assert "together in 6, dog without leash in 0" in found.examples()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("tractor", "tracter", True),
        ("dgo", "dog", True),
        ("potted plant", "poted_plant", True),
        ("helicopter", "helicoptr", True),
        ("cat", "car", False),
        ("boat", "bat", False),
        ("class1", "class2", False),
        ("motorbike", "motorboat", False),
        ("dog", "dog", False),
    ],
)
def test_what_looks_misspelt(one: str, other: str, expected: bool) -> None:
    assert looks_misspelt(one, other) is expected or one == other
    assert looks_misspelt(other, one) is looks_misspelt(one, other)


def test_edits_and_plurals() -> None:
    words = [("", "abc", 3), ("dog", "dgo", 1), ("sofa", "soffa", 1), ("kitten", "sitting", 3), ("ab", "ab", 0)]
    assert [edits(one, other) for one, other, _ in words] == [wanted for *_, wanted in words]
    assert is_plural("dogs", "dog")
    assert is_plural("bus", "Buses")
    assert is_plural("cherry", "cherries")
    assert not is_plural("glass", "gla")
    assert not is_plural("cat", "cattle")


def test_two_common_classes_with_like_names_are_two_classes() -> None:
    assert "misspelt" not in report_on(columns(120, horse=(0, 50), house=(30, 80), bus=(70, 120)), limit=0).kinds()


def test_the_verdict_names_the_worst_only() -> None:
    stopped = report_on(columns(120, dog=(0, 60), cat=(60, 105), bus=(105, 120), fox=(0, 2)), limit=0)
    assert stopped.verdict == "not ready: 1 class has fewer than 5 images"
    assert not stopped.ready
    hurt = report_on(columns(120, dog=(0, 60), cat=(50, 105), bus=(105, 120)), limit=0)
    assert hurt.verdict == "ready, but 1 class has fewer than 20 images"
    severities = [one.severity for one in stopped.findings]
    assert severities == sorted(severities, reverse=True)


# --- the held-out part ------------------------------------------------------------------------------------------------


def test_what_is_held_out() -> None:
    train = columns(200, dog=(0, 90), cat=(60, 150), bus=(140, 200))
    good = columns(100, dog=(0, 40), cat=(30, 70), bus=(60, 100))
    assert report_on(train, {"val": good}, "train", limit=0).kinds() == ()
    poor = columns(40, dog=(0, 38), cat=(37, 40), bus=(0, 0))
    report = report_on(train, {"val": poor}, "train", limit=0)
    assert set(report.kinds()) == {"small_split", "missing_in_split", "few_in_split"}
    assert finding(report, "missing_in_split").examples() == "bus"
    assert finding(report, "few_in_split").examples() == "cat (3)"


def test_a_class_that_is_only_in_the_held_out_part() -> None:
    train = columns(200, dog=(0, 120), cat=(100, 200), bus=(0, 0))
    val = columns(100, dog=(0, 40), cat=(30, 70), bus=(60, 100))
    both = TaggedImages(
        train.classes,
        (*train.names, *(f"val/{name}" for name in val.names)),
        (*train.paths, *(Path("/val") / name for name in val.names)),
        np.concatenate([train.labels, val.labels]),
    )
    assert "too_rare" in report_on(train, {"val": val}, "train", limit=0).kinds()
    report = report_on(both, {"train": train, "val": val}, limit=0)
    assert "too_rare" not in report.kinds()
    assert finding(report, "rare_in_split").examples() == "bus (0 of 40)"


# --- the verb and the command -----------------------------------------------------------------------------------------


def state_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Return every file below the folder with a digest of its bytes and the time it was changed."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(f): (hashlib.sha256(f.read_bytes()).hexdigest(), f.stat().st_mtime_ns) for f in files}


def csv_set(folder: Path, broken: bool = False) -> Path:
    """Return a CSV of 60 images in the splits train and val, two of which are in both."""
    lines = ["image,tags,split"]
    for i in range(60):
        Image.fromarray(photo(i % 58)).save(folder / f"{i}.png")
        lines.append(
            f"{i}.png,{'dog' if i % 2 else 'cat'}{';bus' if i % 3 == 0 else ''},{'val' if i >= 40 else 'train'}"
        )
    if broken:
        (folder / "7.png").write_bytes(b"")
    (folder / "tags.csv").write_text("\n".join(lines) + "\n")
    return folder / "tags.csv"


def test_named_splits_are_compared_by_themselves(tmp_path: Path) -> None:
    data = csv_set(tmp_path)
    for split, against in ((None, None), ("train", None), ("train", "val"), (None, "val")):
        report = check_data(data, split, against)
        leak = finding(report, "leak")
        assert [item.names for item in leak.items] == [("0.png", "58.png"), ("1.png", "59.png")]
        assert report.images == (60 if split is None and against is None else 40)
        assert sorted(report.splits.values()) == [20, 40]


def test_another_data_set_can_be_what_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    Image.fromarray(photo(5)).save(tmp_path / "more" / "x.png")
    (tmp_path / "more" / "tags.csv").write_text("image,tags\nx.png,dog\n")
    report = check_data(csv_set(tmp_path), "train", str(tmp_path / "more" / "tags.csv"))
    assert [item.names for item in finding(report, "leak").items] == [("5.png", "x.png")]


def test_a_split_against_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--against val: this is the split that is checked"):
        check_data(csv_set(tmp_path), "val", "val")


def test_voc_lists_that_hold_others_are_no_split_of_their_own(make: Callable[..., Path], tmp_path: Path) -> None:
    lists = {"train": "1", "val": "2", "trainval": "1\n2"}
    files: dict[str, str] = {f"ImageSets/Main/{name}.txt": ids for name, ids in lists.items()}
    for name, ids in lists.items():
        files[f"ImageSets/Main/dog_{name}.txt"] = "\n".join(f"{one} 1" for one in ids.split())
    make("JPEGImages/1.jpg", "JPEGImages/2.jpg", files=files)
    assert check_data(tmp_path).splits == {"train": 1, "val": 1}
    assert check_data(tmp_path, "val").splits == {"train": 1, "val": 1}
    assert check_data(tmp_path, "trainval").splits == {"trainval": 2}


def test_boxes_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    Image.fromarray(photo(0)).save(tmp_path / "a.png")
    row = {"image": "a.png", "tags": ["dog"], "boxes": [{"tag": "dog", "box": [9, 9, 1, 1]}]}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    report = check_data(tmp_path / "t.jsonl")
    assert "ends before it begins" in finding(report, "boxes_unreadable").title


def test_nothing_is_changed_and_broken_files_do_not_end_it(tmp_path: Path) -> None:
    data = csv_set(tmp_path, broken=True)
    before = state_of(tmp_path)
    found = subprocess.run(
        [*DPL, "check", data, "--workers", "2", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert state_of(tmp_path) == before
    said = json.loads(found.stdout.splitlines()[-1])
    broken = next(one for one in said["findings"] if one["kind"] == "unreadable")
    assert broken["items"] == [
        {"names": ["7.png"], "note": "not an image that can be read: the file is empty (0 bytes)"}
    ]
    assert said["verdict"].startswith("ready, but ")


def test_the_command_on_the_small_world(small_world: Path) -> None:
    before = state_of(small_world.parent)
    command = [*DPL, "check", small_world, "--split", "train", "--against", "test", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    said = json.loads(found.stdout.splitlines()[-1])
    assert found.returncode == (0 if said["ready"] else 1), found.stderr
    assert said == check_data(small_world, "train", "test").as_dict()
    assert said["images"] == said["opened"] == 24
    assert said["splits"] == {"test": 8, "train": 24}
    assert {"small_split"} <= {one["kind"] for one in said["findings"]}
    assert "leak" not in {one["kind"] for one in said["findings"]}
    assert all(0 < one["fills"] < 0.8 for one in said["classes"].values() if one["fills"] is not None)
    for words in ("present", "absent", "unknown", "alone", "tractor", said["verdict"][:20]):
        assert words in found.stdout
    assert state_of(small_world.parent) == before


def test_exit_status_tells_not_ready_from_wrong_input(tmp_path: Path) -> None:
    Image.fromarray(photo(0)).save(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("image,tags\na.png,[red]\n")
    not_ready = subprocess.run([*DPL, "check", tmp_path / "t.csv"], capture_output=True, text=True, check=False)
    assert not_ready.returncode == 1
    assert "[red]" in not_ready.stdout
    assert "not ready: 1 class has fewer than 5 images" in not_ready.stdout
    missing = subprocess.run([*DPL, "check", tmp_path / "u.csv"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr


def test_training_reads_no_box_through_the_check() -> None:
    code = (
        "import sys, deep_patch_learning.training.fit, deep_patch_learning.data.readers.read\n"
        "print([m for m in sys.modules if m.startswith('deep_patch_learning.data.checks.check')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.voc
def test_real_photos_are_ready_and_their_findings_are_true(real_voc: Path) -> None:
    report = check_data(real_voc, "train", "val", limit=1200)
    assert report.verdict == "ready"
    assert report.images == len(read_tags(real_voc, "train"))
    allowed = {"near_copies", "near_copies_disagree", "leak", "turned"}
    assert set(report.kinds()) <= allowed
    assert all(len(one.items) <= 10 for one in report.findings)
    fills = {one.name: one.fills or 0 for one in report.classes}
    assert fills["bottle"] < 0.15 < fills["cat"] < 0.7


def test_a_narrow_terminal_leaves_no_cell_empty(tmp_path: Path) -> None:
    for name in ("a dog", "a cat"):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.fromarray(photo(number)).save(tmp_path / name / f"{name} {number}.png")
    env = {**os.environ, "COLUMNS": "10"}
    done = subprocess.run([*DPL, "check", str(tmp_path)], capture_output=True, text=True, check=False, env=env)
    rows = [line.strip("\u2502").split("\u2502") for line in done.stdout.splitlines() if line.startswith("\u2502")]
    cells = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    assert set(cells) == {"a dog", "a cat"}, done.stdout
    assert all(row == ["3", "3", "0", "3"] for row in cells.values())
