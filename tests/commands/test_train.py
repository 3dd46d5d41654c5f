"""`dpl.train`: the same run as the command's, a recipe that follows the machine, and errors before any work."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from deep_patch_learning.cli.app import app
from deep_patch_learning.commands.check import check, consequence
from deep_patch_learning.commands.train import Distillation, TrainOptions, train
from deep_patch_learning.common.errors import DataError, DplError, ModelError
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder

TINY = {"backbone": "tiny", "scales": (64,), "limit": 4}


def said(capsys: pytest.CaptureFixture) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_python_and_the_command_line_train_the_same_run(small_world: Path, tmp_path: Path) -> None:
    run = train(small_world, tmp_path / "a", split="train", recipe="world", device="cpu", steps=2, limit=6)
    words = ["--split", "train", "--recipe", "world", "--device", "cpu", "--steps", "2", "--limit", "6"]
    found = CliRunner().invoke(app, ["train", str(small_world), "--out", str(tmp_path / "b"), *words, "--json"])
    assert found.exit_code == 0
    for file in ("config.toml", "data.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in "ab")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (run.folder, run.steps, run.broken, run.finished) == (tmp_path / "a", 2, [], True)
    assert run.figures["loss"] == RunFolder(tmp_path / "a").read_log()[-1]["loss"]
    assert run.load("cpu").classes == tuple(RunFolder(tmp_path / "b").describe()["classes"])


def test_without_a_gpu_the_default_is_the_small_network_of_the_package(
    small_world: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchvision.models.get_weight", lambda *_: pytest.fail("would fetch weights"))
    train(small_world, tmp_path / "r", steps=1, limit=2, device="cpu", scales=(96,))
    line = said(capsys)
    assert "recipe fast: --device cpu; a small network, its weights are in the package" in line
    recipe = Recipe.load(tmp_path / "r" / "config.toml")
    assert (recipe.name, recipe.model.backbone, recipe.model.weights) == ("fast", "lite0-map", "shipped")
    train(small_world, tmp_path / "r", steps=1, limit=2, device="cpu", scales=(96,))
    assert "resumed at step 1 of 1" in said(capsys)


def test_with_a_gpu_the_default_is_the_large_network(
    small_world: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(DataError, match="there is no split"):
        train(small_world, tmp_path / "r", split="nowhere")
    assert "recipe refined: trains ResNet-50 on the GPU (cuda)" in said(capsys)


def test_a_run_that_was_begun_keeps_its_recipe(
    small_world: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    train(small_world, tmp_path / "r", recipe="modern", device="cpu", steps=1, **TINY)
    train(small_world, tmp_path / "r", device="cpu", steps=1, **TINY)
    line = said(capsys)
    assert "resumed at step 1 of 1" in line
    assert "recipe fast" not in line


def test_weights_that_cannot_be_fetched_name_the_offline_choice(
    small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torchvision.models.ResNet50_Weights.get_state_dict", offline)
    with pytest.raises(
        ModelError, match=r"could not be fetched \(no network\).*--recipe fast, whose weights are in the package"
    ):
        train(small_world, tmp_path / "r", recipe="modern", device="cpu", limit=2, scales=(64,))
    assert not (tmp_path / "r").exists()


def test_val_is_a_split_or_a_share(small_world: Path, tmp_path: Path) -> None:
    options = {"recipe": "world", "device": "cpu", "steps": 2}
    by_split = train(small_world, tmp_path / "split", val="test", **options)
    by_share = train(small_world, tmp_path / "share", split="train", val=0.25, **options)
    for run, split, share in ((by_split, "test", None), (by_share, None, 0.25)):
        about = RunFolder(run.folder).describe()
        assert (about["val_split"], about["val_share"]) == (split, share)
        assert run.figures["kept_step"] in (1, 2)
    assert by_split.figures["calibration"]["images"] == 8
    assert by_share.figures["calibration"]["images"] in range(5, 10)


def test_a_recipe_can_be_handed_in(small_world: Path, tmp_path: Path) -> None:
    recipe = world(steps=1).replace(scales=(64,), filters=8)
    train(small_world, tmp_path / "r", recipe=recipe, device="cpu", limit=2, seed=3)
    assert Recipe.load(tmp_path / "r" / "config.toml") == recipe.replace(seed=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stpes": 4}, "Did you mean 'steps'"),
        ({"recipe": "papr"}, "Did you mean 'paper'"),
        ({"backbone": "vgg61"}, "Did you mean 'vgg16'"),
        ({"recipe": "refined-world", "pseudo_boxes_from": "nowhere"}, "nowhere: there is no such run"),
        ({"pseudo_boxes_from": ["r"], "seeds": "vote"}, "Give one of the two"),
    ],
)
def test_what_can_fail_at_once_fails_before_patches(
    options: dict, words: str, small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_patch_learning.commands.train.prepare", lambda *_, **__: pytest.fail("too late"))
    with pytest.raises(DplError, match=words):
        train(small_world, tmp_path / "r", device="cpu", **options)
    assert not (tmp_path / "r").exists()


def test_options_are_not_settings_of_a_recipe() -> None:
    from dataclasses import fields

    assert not {field.name for field in fields(TrainOptions)} & set(Recipe.of().settings())
    assert Distillation() == Distillation("imagenet", "resnet50", None)


def test_check_says_what_training_does_with_data_that_is_not_ready(small_world: Path, tmp_path: Path) -> None:
    """One class has a single image: the check is severe, and training runs."""
    for number in range(8):
        image = small_world.parent / "images" / f"{500_000 + number}.jpg"
        (tmp_path / f"{number}.jpg").write_bytes(image.read_bytes())
    tags = ["bus", "bus;car", "car", "bus", "car", "bus;lamp", "car", "bus;car"]
    listing = tmp_path / "tags.csv"
    listing.write_text("image,tags\n" + "".join(f"{number}.jpg,{tag}\n" for number, tag in enumerate(tags)))
    report = check(listing)
    assert not report.ready
    assert "1 class has fewer than 5 images" in report.verdict
    assert report.findings[0].severity.words == "severe"
    assert consequence(report).startswith("dpl train runs nevertheless")
    found = CliRunner().invoke(app, ["check", str(listing)])
    assert found.exit_code == 1
    assert "stops training" not in found.stdout
    assert consequence(report) in " ".join(found.stdout.split())
    assert train(listing, tmp_path / "run", recipe="world", device="cpu", steps=1).finished


def test_check_says_that_training_stops_where_no_image_can_be_read(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_text("no image")
    listing = tmp_path / "tags.csv"
    listing.write_text("image,tags\n0.jpg,bus\n1.jpg,car\n2.jpg,bus\n")
    assert consequence(check(listing)) == "dpl train stops at once: none of the images can be read."
    with pytest.raises(DataError, match="none of the images can be read"):
        train(listing, tmp_path / "run", recipe="world", device="cpu", steps=1)


def test_more_devices_than_there_are_end_in_one_line(small_world: Path, tmp_path: Path) -> None:
    words = ["train", str(small_world), "--out", str(tmp_path / "run"), "--device", "cpu", "--devices", "99999"]
    command = [sys.executable, "-m", "deep_patch_learning", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("dpl: --devices 99999: this machine has cores for ")
    assert not (tmp_path / "run").exists()
