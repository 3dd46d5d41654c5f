"""The folder of several trainings: whose network it has in the end, wherever a kill comes."""

import json
import shutil
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs import stages as stages_module
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.runs.stages import StageRecord, Stages, TrainedStage, read_record

TRAINED = tuple(TrainedStage(name, number, 3, 12) for number, name in enumerate(("first-1", "round-1", "round-2")))


class KilledError(Exception):
    """A kill at some moment."""


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> RunFolder:
    """A run of three finished trainings; a file of each says whose it is."""
    run = RunFolder(tmp_path / "run")
    for name in ("first-1", "round-1", ""):
        folder = run.stages / name if name else run.folder
        shutil.copytree(small_run, folder, dirs_exist_ok=True)
        (folder / "layers.json").write_text(name or "round-2")
    (run.folder / "pseudo_boxes.jsonl").write_text("only round-2 has them here")
    shutil.copyfile(run.config, run.asked)
    run.record.write_text(json.dumps(StageRecord(TRAINED).as_dict()))
    return run


def whose(run: RunFolder) -> str:
    return run.layers.read_text()


def opened(run: RunFolder) -> Stages:
    stages = Stages(run, "round-2")
    stages.begin(Recipe.load(run.asked))
    return stages


def test_the_last_training_stays_where_it_is(run: RunFolder) -> None:
    opened(run).finish("round-2")
    assert whose(run) == "round-2"
    assert not (run.stages / "round-2").exists()
    record = read_record(run)
    assert record is not None
    assert (record.network, record.samples_in_all) == ("round-2", 36)


def test_an_earlier_training_takes_its_place(run: RunFolder) -> None:
    opened(run).finish("first-1")
    assert whose(run) == whose(RunFolder(run.stages / "first-1")) == "first-1"
    assert whose(RunFolder(run.stages / "round-2")) == "round-2"
    assert not run.pseudo_boxes.exists()
    assert RunFolder(run.stages / "round-2").pseudo_boxes.exists()
    stages = opened(run)
    assert stages.folder("round-2").folder == run.stages / "round-2"


def test_a_last_training_that_never_began_is_not_set_aside(run: RunFolder) -> None:
    for file in run.files:
        file.unlink(missing_ok=True)
    stages = Stages(run, "round-2", StageRecord(TRAINED[:2]))
    assert stages.folder("round-2").folder == run.folder
    for _ in range(2):
        stages.finish("first-1")
        assert whose(run) == "first-1"
        assert not (run.stages / "round-2").exists()


def test_killed_at_any_moment_it_is_finished_by_the_next_start(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change of a file is one moment; in between the folder holds a whole run of one training, or none."""
    left = [0]

    def counted(change):  # type: ignore[no-untyped-def]
        def changed(*arguments: object, **options: object) -> object:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            return change(*arguments, **options)

        return changed

    for moment in range(100):
        copy, killed = RunFolder(tmp_path / f"copy-{moment}"), False
        shutil.copytree(run.folder, copy.folder)
        stages = opened(copy)
        with monkeypatch.context() as patched:
            for change in ("replace", "rename", "mkdir"):
                patched.setattr(Path, change, counted(getattr(Path, change)))
            patched.setattr(stages_module.shutil, "copyfile", counted(shutil.copyfile))
            left[0] = moment
            try:
                stages.finish("round-1")
            except KilledError:
                killed = True
        if copy.config.exists():
            assert all((copy.folder / name).exists() for name in ("data.json", "weights.safetensors", "log.jsonl"))
            assert copy.pseudo_boxes.exists() == (whose(copy) == "round-2")
        opened(copy).finish("round-1")
        assert (whose(copy), whose(RunFolder(copy.stages / "round-2"))) == ("round-1", "round-2")
        assert not copy.pseudo_boxes.exists()
        for name in ("weights.safetensors", "checkpoint.safetensors", "config.toml"):
            assert (copy.folder / name).read_bytes() == (copy.stages / "round-1" / name).read_bytes()
        if not killed:
            break
    assert 15 < moment < 99  # so many kills were survived, and at last none came


def test_a_damaged_record_is_named(run: RunFolder) -> None:
    run.record.unlink()
    assert read_record(run) is None
    for content in ("{", "[]", '{"stages": [{"who": 1}], "judgements": [], "network": null}'):
        run.record.write_text(content)
        with pytest.raises(RunError, match=r"run\.json: is damaged"):
            read_record(run)
