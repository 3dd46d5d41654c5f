"""`dpl label --reviewed` and `dpl report` with a store: people's boxes, and how many boxes are right."""

import json
from pathlib import Path

import numpy as np
import pytest
from reviews import write_store
from typer.testing import CliRunner

from deep_patch_learning.cli.app import app
from deep_patch_learning.commands.label import label
from deep_patch_learning.commands.report import report
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.runs.folder import RunFolder

BOX, SMALL, FAR = [10.0, 10.0, 60.0, 60.0], [12.0, 10.0, 60.0, 62.0], [60.0, 60.0, 90.0, 79.0]


@pytest.fixture
def store(small_world: Path, tmp_path: Path) -> Path:
    """A store about the small world's test images: three boxes right, one wrong, one not judged."""
    images = read_tags(small_world, "test")
    tags = [images.classes[int(np.flatnonzero(labels == PRESENT)[0])] for labels in images.labels]
    absent = images.classes[int(np.flatnonzero(images.labels[1] == ABSENT)[0])]
    rest = [images.classes[index] for index in np.flatnonzero(images.labels[1] == PRESENT)[1:]]  # have no box
    boxes = {
        images.names[0]: [("right", tags[0], BOX, None)],
        images.names[1]: [("drawn", absent, BOX, None), ("corrected", tags[1], SMALL, BOX)],
        images.names[2]: [("wrong", tags[2], FAR, None)],
        images.names[3]: [("right", tags[3], BOX, None)],
        images.names[4]: [("open", tags[4], FAR, None)],
    }
    return write_store(
        tmp_path / "review.sqlite",
        images.classes,
        boxes,
        {images.names[1]: {absent: (0, 1)} | dict.fromkeys(rest, (1, 0))},
        done=[images.names[1]],
        sample=5,
    )


def written(folder: Path) -> dict[str, list[tuple[list[float], float]]]:
    """Return the boxes and scores of a COCO file that was written, by the end of the image's name."""
    content = json.loads((folder / "annotations" / "instances_test.json").read_text())
    names = {one["id"]: Path(one["file_name"]).name for one in content["images"]}
    found: dict[str, list[tuple[list[float], float]]] = {name: [] for name in names.values()}
    for one in content["annotations"]:
        x, y, wide, high = one["bbox"]
        found[names[one["image_id"]]].append(([x, y, x + wide, y + high], one["score"]))
    return found


def test_boxes_of_people_go_before_those_found(small_world: Path, small_run: Path, store: Path, tmp_path: Path) -> None:
    asked = {"split": "test", "device": "cpu", "min_score": 0.0}
    label(small_world, small_run, out=tmp_path / "found", **asked)  # type: ignore[arg-type]
    counts = label(small_world, small_run, out=tmp_path / "people", reviewed=store, **asked)  # type: ignore[arg-type]
    before, after = written(tmp_path / "found"), written(tmp_path / "people")
    names = [Path(path).name for path in read_tags(small_world, "test").paths]
    assert (BOX, 1.0) in after[names[0]]
    assert len(after[names[0]]) == len(before[names[0]])  # in place of the one that was found
    assert sorted(after[names[1]]) == sorted([(BOX, 1.0), (SMALL, 1.0)])  # it is done, and has a tag more
    assert after[names[4]] == before[names[4]]  # nobody said anything
    assert counts["by_people"] == 4


def test_a_rejected_box_is_not_written(small_world: Path, small_run: Path, tmp_path: Path) -> None:
    images = read_tags(small_world, "test")
    name, tag = images.names[0], images.classes[int(np.flatnonzero(images.labels[0] == PRESENT)[0])]
    asked = {"split": "test", "device": "cpu", "min_score": 0.0}
    label(small_world, small_run, out=tmp_path / "found", **asked)  # type: ignore[arg-type]
    before = written(tmp_path / "found")[Path(images.paths[0]).name]
    boxes = [("wrong", tag, box, None) for box, _ in before]
    store = write_store(tmp_path / "store.sqlite", images.classes, {name: boxes})
    label(small_world, small_run, out=tmp_path / "rest", reviewed=store, **asked)  # type: ignore[arg-type]
    assert len(written(tmp_path / "rest")[Path(images.paths[0]).name]) == len(before) - 1


def test_the_command_line_says_how_many_boxes_are_of_people(
    small_world: Path, small_run: Path, store: Path, tmp_path: Path
) -> None:
    words = [
        "label",
        small_world,
        "--model",
        small_run,
        "--split",
        "test",
        "--out",
        tmp_path / "out",
        "--reviewed",
        store,
    ]
    found = CliRunner().invoke(app, [*map(str, words), "--device", "cpu", "--min-score", "0"])
    assert found.exit_code == 0
    assert "4 of the" in found.stdout
    assert "boxes are those of people who reviewed them" in found.stdout


def test_a_store_about_other_images_is_refused(small_world: Path, small_run: Path, store: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of its reviewed images is among these"):
        label(small_world, small_run, out=tmp_path / "out", split="train", reviewed=store, device="cpu")
    assert not (tmp_path / "out").exists()


def test_the_report_shows_how_many_boxes_are_right(
    small_world: Path, small_run: Path, store: Path, tmp_path: Path
) -> None:
    asked = {"data": small_world, "split": "test", "device": "cpu", "limit": 2}
    plain = report(small_run, out=tmp_path / "plain.html", **asked).read_text()  # type: ignore[arg-type]
    page = report(small_run, out=tmp_path / "page.html", reviewed=store, **asked).read_text()  # type: ignore[arg-type]
    assert "How many boxes are right" not in plain
    assert "How many boxes are right" in page
    # three of the four judged ones are right: the one that was corrected by a little too
    assert '<div class="value">75.0</div>' in page
    assert "with 95 % confidence, from 4 of 5 boxes that people judged" in page


def test_the_store_of_the_run_is_found_and_a_taught_run_says_so(
    small_world: Path, small_run: Path, store: Path, tmp_path: Path
) -> None:
    asked = {"data": small_world, "split": "test", "device": "cpu", "limit": 2}
    run = RunFolder(tmp_path / "run")
    run.folder.mkdir()
    for file in small_run.iterdir():
        if file.is_file():
            (run.folder / file.name).write_bytes(file.read_bytes())
    assert "trained on tags alone, without boxes" in report(run.folder, **asked).read_text()  # type: ignore[arg-type]
    run.review.write_bytes(store.read_bytes())
    run.reviewed.write_text('{"image": "a"}\n{"image": "b"}\n')
    page = report(run.folder, **asked).read_text()  # type: ignore[arg-type]
    assert "How many boxes are right" in page
    assert "trained on tags, and on the boxes of 2 images that people reviewed" in page
