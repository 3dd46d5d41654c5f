"""The command `dpl label` on the small world: every format is written, read back, and said."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from deep_patch_learning.cli.app import app
from deep_patch_learning.commands.label import label
from deep_patch_learning.common.errors import DplError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.labels.write import FORMATS


@pytest.fixture
def dpl(small_world: Path, small_run: Path) -> Callable[..., tuple[dict, str]]:
    def run(out: Path, *more: object, split: str = "test") -> tuple[dict, str]:
        arguments = ["label", small_world, "--model", small_run, "--split", split, "--out", out, "--device", "cpu"]
        found = CliRunner().invoke(app, [str(word) for word in (*arguments, *more, "--json")])
        if found.exception:
            raise found.exception
        return json.loads(found.stdout.splitlines()[-1]), found.stdout

    return run


@pytest.mark.parametrize("format", FORMATS)
def test_each_format(dpl: Callable, tmp_path: Path, format: str, small_world: Path) -> None:
    counts, said = dpl(tmp_path / "out", "--format", format, "--min-score", 0, "--boxes-per-class", 2)
    tags = read_tags(small_world, "test")
    assert counts["images"] == 8
    assert counts["abstained"] == 0
    assert counts["boxes"] >= counts["tagged"] == int((tags.labels == 1).sum())
    assert {name: row["tagged"] for name, row in counts["per_class"].items()} == dict(
        zip(tags.classes, (tags.labels == 1).sum(axis=0).tolist(), strict=True)
    )
    assert all(row["boxes"] <= 2 * row["tagged"] for row in counts["per_class"].values())
    assert all((tmp_path / "out" / file).exists() for file in counts["files"])
    assert f"{format} labels in {tmp_path / 'out'}" in said
    assert "abstained" in said
    assert all(name in said for name in tags.classes)


def test_labels_are_a_data_set_again(dpl: Callable, tmp_path: Path, small_world: Path) -> None:
    before = read_tags(small_world, "train")
    counted = [
        dpl(tmp_path / f, "--format", f, "--min-score", 0, "--boxes-per-class", 9, split="train")[0]["boxes"]
        for f in ("coco", "voc")
    ]
    assert counted[0] == counted[1]
    coco = tmp_path / "coco" / "annotations" / "instances_train.json"
    read = [read_tags(coco), read_tags(tmp_path / "voc", "train")]
    for images, place in zip(read, (coco, tmp_path / "voc"), strict=True):
        assert images.classes == before.classes
        assert (images.labels == before.labels).all()
        truth = read_truth(place, images)
        assert truth is not None
        assert sum(len(one.boxes) for one in truth) == counted[0]
    boxes = [
        [one.boxes.tolist() for one in read_truth(place, p) or []]
        for p, place in zip(read, (coco, tmp_path / "voc"), strict=True)
    ]
    assert boxes[0] == boxes[1]  # patches are whole pixels


def test_nothing_sure_is_said_and_still_listed(dpl: Callable, tmp_path: Path) -> None:
    counts, said = dpl(tmp_path / "out", "--format", "yolo", "--min-score", 1)
    assert counts["boxes"] == 0
    assert counts["abstained"] == counts["tagged"] > 0
    assert counts["images_without_boxes"] == 8
    assert "8 of 8 images have no box" in said
    labels = sorted((tmp_path / "out" / "labels").iterdir())
    assert [path.read_text() for path in labels] == [""] * 8


def test_boxes_that_look_like_parts_are_said(dpl: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_patch_learning.labels import select

    for answer in (True, False):
        monkeypatch.setattr(select, "looks_like_a_part", lambda boxes, *_, a=answer: np.full(len(boxes), a))
        counts, said = dpl(tmp_path / str(answer), "--format", "coco", "--min-score", 0)
        assert counts["parts"] == (counts["boxes"] if answer else 0)
        assert (f"{counts['parts']} of {counts['boxes']} boxes look like parts of an object" in said) == answer


def test_untagged_and_limit(dpl: Callable, tmp_path: Path) -> None:
    tagged, _ = dpl(tmp_path / "one", "--min-score", 0, "--limit", 3)
    more, _ = dpl(tmp_path / "two", "--min-score", 0, "--limit", 3, "--untagged")
    assert tagged["images"] == more["images"] == 3
    assert more["boxes"] > tagged["boxes"]


def test_what_can_fail_fails_before_predicting(
    dpl: Callable, tmp_path: Path, small_world: Path, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_patch_learning.commands.label.prepare", lambda *_, **__: pytest.fail("too late"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    with pytest.raises(DplError, match="not empty"):
        dpl(tmp_path / "mine")
    with pytest.raises(DplError, match="Did you mean 'label-studio'"):
        label(small_world, small_run, out=tmp_path / "out", format="labelstudio")
    with pytest.raises(DplError, match=r"--format labelstudio: not known\. Did you mean 'label-studio'"):
        dpl(tmp_path / "out", "--format", "labelstudio")


def test_not_into_the_data_set(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    with pytest.raises(DplError, match="lies in the data set"):
        label(tmp_path / "photos", small_run, out=tmp_path / "photos" / "labels")


def test_a_run_that_only_classifies(small_run: Path, small_world: Path, tmp_path: Path) -> None:
    import shutil

    from deep_patch_learning.recipe.recipe import Recipe

    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    (run / "config.toml").write_text(Recipe.load(run / "config.toml").replace(heads=("classification",)).to_toml())
    with pytest.raises(DplError, match="only classifies and finds no boxes"):
        label(small_world, run, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_only_classifies(small_run: Path, small_world: Path, tmp_path: Path) -> None:
    from deep_patch_learning.inference.loading import load

    model = load(small_run, "cpu")
    model.network.discovery = None
    with pytest.raises(DplError, match="only classifies and finds no boxes"):
        label(small_world, model, out=tmp_path / "out")


def test_a_misspelt_option_is_named(small_run: Path, small_world: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Did you mean 'min_score'"):
        label(small_world, small_run, out=tmp_path / "out", min_scor=0.5)  # type: ignore[call-arg]


def test_a_broken_image_is_named_and_left_out(small_world: Path, small_run: Path, tmp_path: Path) -> None:
    good = small_world.parent / "images" / "500000.jpg"
    (tmp_path / "a.jpg").write_bytes(good.read_bytes())
    (tmp_path / "b.jpg").write_bytes(good.read_bytes()[:100])
    (tmp_path / "tags.csv").write_text("image,tags\na.jpg,bus\nb.jpg,bus\n")
    counts = label(tmp_path / "tags.csv", small_run, out=tmp_path / "out", device="cpu")
    assert counts["images"] == 1
    assert counts["broken"] == [str(tmp_path / "b.jpg")]


def test_stopped_in_the_middle_it_leaves_nothing(
    small_world: Path, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deep_patch_learning.inference.model import Model

    whole, done = Model.finish, []

    def stopped(self: Model, *arguments: object) -> object:
        if done:
            raise KeyboardInterrupt
        done.append(arguments)
        return whole(self, *arguments)

    monkeypatch.setattr(Model, "finish", stopped)
    out = tmp_path / "out"
    arguments = ["label", small_world, "--model", small_run, "--split", "test", "--out", out, "--device", "cpu"]
    found = CliRunner().invoke(app, [str(word) for word in arguments])
    assert found.exit_code not in (0, 2)
    assert f"nothing was written to {out}" in found.output
    assert list(tmp_path.iterdir()) == []


def test_without_a_model_the_shipped_one_labels_and_is_measured(small_world: Path, tmp_path: Path) -> None:
    import deep_patch_learning

    good = small_world.parent / "images" / "500000.jpg"
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(good.read_bytes())
    listing = tmp_path / "tags.csv"
    listing.write_text("image,tags\na.jpg,bus\nb.jpg,car\n")
    for command, options in (("label", ("--min-score", 0, "--out", tmp_path / "out")), ("evaluate", ())):
        found = CliRunner().invoke(
            app, [str(word) for word in (command, listing, *options, "--json", "--device", "cpu")]
        )
        assert found.exit_code == 0, found.output
        figures = json.loads(found.stdout.splitlines()[-1])
        per_class = figures["per_class" if command == "label" else "AP"]
        assert tuple(per_class) == deep_patch_learning.load().classes
        assert figures["images"] == 2
    written = json.loads((tmp_path / "out" / "annotations" / "instances_train.json").read_text())
    assert len(written["annotations"]) == 2


def middle_precision(dpl: Callable, folder: Path) -> float:
    """Return the median expected precision of the best boxes of all tags."""
    counts, _ = dpl(folder, "--precision", 0)
    assert (counts["abstained"], counts["boxes"]) == (0, counts["tagged"])
    found = json.loads((folder / "annotations" / "instances_test.json").read_text())
    return float(np.median([one["score"] for one in found["annotations"]]))


@pytest.mark.parametrize("format", FORMATS)
def test_an_expected_precision_is_asked_for_and_said(dpl: Callable, tmp_path: Path, format: str) -> None:
    least = middle_precision(dpl, tmp_path / "every")
    some, said = dpl(tmp_path / "some", "--format", format, "--precision", least)
    assert 0 < some["abstained"] < some["tagged"]
    assert some["boxes"] == some["tagged"] - some["abstained"]
    assert "expected right" in said
    assert f"{some['abstained']} of {some['tagged']} tags have none that reaches an expected precision of" in said
    assert f"of the {some['boxes']} boxes are expected to be right" in said
    assert all(row["mean_score"] is None or row["mean_score"] >= least for row in some["per_class"].values())
    assert all((tmp_path / "some" / file).exists() for file in some["files"])


def test_for_training_no_tag_is_without_a_box(dpl: Callable, tmp_path: Path, small_world: Path) -> None:
    counts, said = dpl(tmp_path / "all", "--for-training")
    assert "0 of 21 tags have none that reaches a score of 0" in said
    tags = read_tags(small_world, "test")
    assert (counts["abstained"], counts["left_out"], counts["images"]) == (0, [], 8)
    assert counts["boxes"] >= int((tags.labels == 1).sum())
    least = middle_precision(dpl, tmp_path / "every") - 0.02
    sure, said = dpl(tmp_path / "sure", "--for-training", "--precision", least)
    assert 0 < len(sure["left_out"]) == 8 - sure["images"] < 8
    assert f"{len(sure['left_out'])} images are left out" in said
    written = read_tags(tmp_path / "sure" / "annotations" / "instances_test.json")
    assert len(written) == sure["images"]
    assert (written.labels.sum(1) > 0).all()
