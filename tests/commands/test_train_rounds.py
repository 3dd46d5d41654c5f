"""`dpl train` with first networks and self-training rounds: one command, one run folder, errors in one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deep_patch_learning.cli.app import app, main
from deep_patch_learning.commands.report import report
from deep_patch_learning.commands.train import Run, train
from deep_patch_learning.data.holdout import read_apart
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.report.build import images_of_run
from deep_patch_learning.runs.folder import RunFolder

SMALL = {"scales": (96,), "batch_images": 4, "images_per_micro_batch": 4, "patches_per_sample": 16, "filters": 16}
ROUNDS = {"recipe": "refined-world", "device": "cpu", "steps": 2, "rounds": 1, "first_networks": 2, "seed": 3, **SMALL}


@pytest.fixture(scope="module")
def trained(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(small_world, tmp_path_factory.mktemp("rounds") / "run", split="train", val=0.25, **ROUNDS)


def test_one_call_gives_one_ordinary_calibrated_run(trained: Run, small_world: Path) -> None:
    run = RunFolder(trained.folder)
    run.must_be_finished()
    assert run.calibration.exists()
    assert trained.figures["samples_in_all"] == 3 * 2 * 4
    assert trained.figures["network"] in {"round-1", "first-1", "first-2"}
    judgement = trained.figures["judgements"][0]
    assert judgement["images"].endswith("held-out images")
    assert {"before", "after", "noise"} == set(judgement["mAP"]) == set(judgement["agreement"])
    assert trained.figures["judgements"] == json.loads(run.record.read_text())["judgements"]
    for stage in ("first-1", "first-2"):
        RunFolder(run.stages / stage).must_be_finished()
    assert trained.load("cpu").calibration is not None


def test_the_report_shows_the_images_that_all_trainings_held_out(trained: Run, small_world: Path) -> None:
    """They were drawn by the seed of the run; the training in the folder has a seed of its own."""
    run = RunFolder(trained.folder)
    seen = images_of_run(run)
    images, held_out = read_apart(small_world, "train", None, 0.25, seed=3)
    assert seen is not None
    assert seen.held_out is not None
    assert held_out is not None
    assert (seen.trained.names, seen.held_out.names) == (images.names, held_out.names)
    assert Recipe.load(run.config).machine.seed != 3
    page = report(trained.folder, device="cpu", limit=2).read_text()
    assert f"network of {trained.figures['network']}, 24 samples in 3 trainings" in page


def test_the_same_command_again_does_nothing(trained: Run, small_world: Path) -> None:
    files = [path for path in trained.folder.rglob("*.*") if path.name not in (".lock", "report.html")]
    written = {path: path.stat().st_mtime_ns for path in files}
    words = [f"--set={key}={value}" for key, value in SMALL.items() if key != "scales"]
    words += ["--scales=96", "--rounds=1", "--set=rounds.first_networks=2", "--steps=2", "--seed=3", "--device=cpu"]
    words += ["--split=train", "--val-share=0.25", "--json"]  # no --recipe: the run was begun with one
    found = CliRunner().invoke(app, ["train", str(small_world), "--out", str(trained.folder), *words])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout.splitlines()[-1]) == trained.figures
    assert {path: path.stat().st_mtime_ns for path in files} == written


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--recipe=world", "--set=rounds=2"], "the pseudo boxes of rounds = 2 are for a refinement to learn from"),
        (["--recipe=best", "--heads=both"], "Use --recipe refined, or --heads all"),
        (["--recipe=refined-world", "--set=rounds=-1"], "rounds = -1; it must be 0 or more"),
        (
            ["--recipe=refined-world", "--set=round_steps=-5", "--set=rounds=1"],
            "round_steps = -5; it must be 0 or more",
        ),
        (["--recipe=refined-world", "--set=rounds=1", "--set=first_networks=0"], "it must be at least 1"),
        (["--recipe=refined-world", "--first-networks=2"], "first_networks = 2 without rounds"),
        (["--recipe=refined-world", "--set=rounds=1", "--set=box_scales=8"], "none may be below 16 pixels"),
        (["--recipe=refined-world", "--set=rounds=1", "--set=round_teachers=lst"], "Did you mean 'last'"),
        (["--recipe=best", "--pseudo-boxes-from=RUN"], "Leave out --pseudo-boxes-from, or use --set rounds=0"),
        (["--recipe=refined-world", "--set=rounds=1", "--devices=2"], "train on one device, not on 2"),
        (["--recipe=refined-world", "--set=rounds=1", "--set=two_stream_tags=true"], "tags need another one"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str],
    line: str,
    small_world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr("deep_patch_learning.commands.train.prepare", lambda *_, **__: pytest.fail("too late"))
    monkeypatch.setattr("deep_patch_learning.commands.train.check_source", lambda _: None)
    command = ["dpl", "train", str(small_world), "--device=cpu", "--out", str(tmp_path / "run"), *words]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert len(said) == 1, said
    assert line in said[0]
    assert not (tmp_path / "run").exists()


def test_another_recipe_for_the_same_folder_is_one_line(
    trained: Run, small_world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    words = ["--recipe=refined-world", "--set=rounds=2", "--split=train", "--val-share=0.25", "--device=cpu"]
    monkeypatch.setattr("sys.argv", ["dpl", "train", str(small_world), "--out", str(trained.folder), *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert len(said) == 1
    assert "holds a run made with other settings" in said[0]
    assert "rounds was 1, now 2" in said[0]
