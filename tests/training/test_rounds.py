"""First networks and self-training rounds as one run: stages, seeds, kill and resume, forecast, a round that is undone."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.world import make_world
from deep_patch_learning.inference.loading import load
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import best, paper, refined_world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.recipe.settings import RoundSettings
from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes, source_of
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.runs.stages import Stages, read_record
from deep_patch_learning.training import fit, rounds
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.rounds import (
    Passes,
    RoundsInput,
    check_rounds,
    of_length,
    passes_of,
    samples_after,
    stages_of,
    train_rounds,
)
from deep_patch_learning.training.self_training import PseudoBoxSource

EACH_STEP = TrainingOptions(log_steps=1, checkpoint_seconds=0)
NAMES = ["first-1", "first-2", "round-1", "round-2"]


def same_weights(first: Path, second: Path) -> bool:
    a, b = (read_checkpoint(path / "weights.safetensors")[1] for path in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def moments(folder: Path) -> dict[Path, int]:
    """Return when each file below a folder was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.fixture(scope="module")
def chain_recipe(small_recipe: Recipe) -> Recipe:
    return small_recipe.replace(
        heads=ALL_HEADS, refinement_width=16, seeds="vote", regression=True, steps=3, warmup_steps=1
    ).replace(rounds=2, first_networks=2, stop_rounds=False, round_steps=6, round_boxes=2, seed=4)


@pytest.fixture(scope="module")
def given(small_prepared: Prepared) -> RoundsInput:
    return RoundsInput(small_prepared, device="cpu", writing=EACH_STEP)


@pytest.fixture(scope="module")
def whole(given: RoundsInput, chain_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all trainings, done without a stop."""
    out = tmp_path_factory.mktemp("rounds") / "run"
    assert train_rounds(given, chain_recipe, out) is not None
    return out


# The plan


def test_the_stages_of_a_recipe(chain_recipe: Recipe) -> None:
    planned = stages_of(chain_recipe)
    assert [stage.name for stage in planned] == NAMES
    assert [stage.title for stage in planned] == [
        "first network 1 of 2",
        "first network 2 of 2",
        "round 1 of 2",
        "round 2 of 2",
    ]
    assert [stage.teachers for stage in planned] == [(), (), ("first-1", "first-2"), ("round-1",)]
    assert stages_of(chain_recipe.replace(round_teachers="all"))[-1].teachers == ("round-1", "first-1", "first-2")
    assert all(stage.recipe.rounds == RoundSettings() for stage in planned)  # each is an ordinary training
    assert [stage.recipe.refinement.seeds for stage in planned] == ["vote", "vote", "pseudo-boxes", "pseudo-boxes"]
    assert [stage.recipe.refinement.seeds_per_class for stage in planned[2:]] == [2, 2]
    assert [stage.recipe.optimiser.steps for stage in planned] == [3, 3, 6, 6]
    assert [stage.samples for stage in planned] == [12, 12, 24, 24]
    for stage in planned[:2]:
        alone = replace(chain_recipe, rounds=RoundSettings()).replace(seed=stage.recipe.machine.seed)
        assert stage.recipe == alone


def test_no_two_trainings_share_a_seed_whatever_the_seed_of_the_run(chain_recipe: Recipe) -> None:
    many = chain_recipe.replace(first_networks=5, rounds=5)
    seeds = [stage.recipe.machine.seed for seed in range(200) for stage in stages_of(many.replace(seed=seed))]
    assert len(set(seeds)) == len(seeds) == 2_000
    # a longer plan has the trainings of the shorter one
    assert {one.recipe.machine.seed for one in stages_of(chain_recipe)} < {
        one.recipe.machine.seed for one in stages_of(chain_recipe.replace(first_networks=3, rounds=4))
    }


def test_another_length_keeps_the_shares_of_its_parts() -> None:
    twice = of_length(paper("vgg16"), 80_000).optimiser
    assert (twice.steps, twice.head_first_steps, twice.drops) == (80_000, 10_000, (60_000,))
    assert of_length(refined_world(steps=700), 700) == refined_world(steps=700)
    assert of_length(best(steps=1_000), 500).optimiser.warmup_steps == best(steps=1_000).optimiser.warmup_steps // 2


def test_all_that_follows_counts_in_the_forecast(chain_recipe: Recipe) -> None:
    """Rounds have 24 samples each; both first networks find boxes on 30 images, then round 1 alone, at two scales."""
    planned, passes = stages_of(chain_recipe), Passes(30, 10, 1.5)
    assert [samples_after(planned, place, chain_recipe, passes) for place in range(4)] == [
        12 + 24 + 24 + 1.5 * 3 * 30 * 2,
        24 + 24 + 1.5 * 3 * 30 * 2,
        24 + 1.5 * 30 * 2,
        0,
    ]
    one_scale = chain_recipe.replace(box_scales=(96,))
    assert samples_after(planned, 2, one_scale, passes) == 24 + 1.5 * 30
    mirrored = chain_recipe.replace(test_flips=True)
    assert samples_after(planned, 2, mirrored, passes) == 24 + 1.5 * 30 * 2 * 2
    judged = chain_recipe.replace(stop_rounds=True)  # ten images in two views at two scales
    assert samples_after(planned, 1, judged, passes) == 24 + 24 + 1.5 * (3 * 30 * 2 + 4 * 10 * 2 * 2)
    assert samples_after(planned, 3, judged, passes) == 1.5 * (1 * 10 * 2 * 2)


def test_an_image_costs_more_than_a_sample_where_a_sample_has_some_of_its_patches(
    small_prepared: Prepared, chain_recipe: Recipe
) -> None:
    patches = np.mean([len(own) for own in small_prepared.patches])
    assert patches > 16 == chain_recipe.data.patches_per_sample
    assert passes_of(small_prepared, 5, chain_recipe) == Passes(24, 5, pytest.approx(patches / 16))
    assert passes_of(small_prepared, 5, chain_recipe.replace(patches_per_sample=0)).cost == 1
    assert passes_of(small_prepared, 5, chain_recipe.replace(patches_per_sample=10_000)).cost == 1


def test_one_line_forecasts_everything(
    given: RoundsInput,
    chain_recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    ticks = iter(range(0, 10_000, 70))
    monkeypatch.setattr(fit, "clock_of", lambda device: lambda: float(next(ticks)))  # 10 seconds a step
    recipe = chain_recipe.replace(first_networks=1, rounds=1, steps=12, round_steps=12, patches_per_sample=0)
    train_rounds(given, recipe, tmp_path / "run")
    said = " ".join(capsys.readouterr().err.split())
    # two steps are left, twelve follow, and 24 images at two scales are twelve steps of four
    assert "all 2 trainings: about 4 minutes to go" in said
    assert said.count("to go, ") == 1
    assert f"first network 1 of 1: {tmp_path}/run/stages/first-1" in said
    assert f"round 1 of 1: {tmp_path}/run " in said


# What comes out


def test_every_stage_is_a_run_and_the_last_is_the_run(
    whole: Path, chain_recipe: Recipe, given: RoundsInput, small_world: Path
) -> None:
    planned = {stage.name: stage for stage in stages_of(chain_recipe)}
    folders = [*(whole / "stages" / name for name in NAMES[:3]), whole]
    for name, folder in zip(NAMES, folders, strict=True):
        run = RunFolder(folder)
        run.must_be_finished()
        assert Recipe.load(run.config) == planned[name].recipe
        assert run.read_log()[-1]["step"] == planned[name].recipe.total_steps
    assert sorted(path.name for path in (whole / "stages").iterdir() if path.is_dir()) == NAMES[:3]
    assert RunFolder(whole).begun_with() == chain_recipe
    sources = [source_of(folder / "pseudo_boxes.jsonl")["boxes_from"] for folder in folders[2:]]
    assert sources == [[str((whole / "stages" / name).resolve()) for name in one] for one in (NAMES[:2], NAMES[2:3])]
    assert not list(whole.parent.glob("*pseudo-boxes*"))
    assert not same_weights(folders[0], folders[1])
    record = read_record(RunFolder(whole))
    assert record is not None
    assert (record.network, record.judgements) == ("round-2", ())
    assert record.samples_in_all == sum(RunFolder(folder).read_log()[-1]["samples"] for folder in folders) == 72
    assert json.loads((whole / "run.json").read_text())["samples_in_all"] == 72
    model = load(whole, "cpu")
    image = read_tags(small_world, "test").read(0)
    assert model.predict(image).best_boxes is not None


def test_a_finished_run_is_left_as_it_is(
    whole: Path, given: RoundsInput, chain_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = moments(whole)
    monkeypatch.setattr(rounds, "train_prepared", lambda *_, **__: pytest.fail("trained again"))
    monkeypatch.setattr(rounds, "find_pseudo_boxes", lambda *_, **__: pytest.fail("found boxes again"))
    again = train_rounds(given, chain_recipe, whole)
    assert again == read_record(RunFolder(whole))
    assert moments(whole) == before


def test_other_settings_or_images_are_refused(
    whole: Path, given: RoundsInput, chain_recipe: Recipe, small_world: Path
) -> None:
    before = moments(whole)
    with pytest.raises(RunError, match="rounds was 2, now 3"):
        train_rounds(given, chain_recipe.replace(rounds=3), whole)
    with pytest.raises(RunError, match="rounds was 2, now 0"):  # nor is it mistaken for a run of its last training
        RunFolder(whole).check(stages_of(chain_recipe)[-1].recipe)
    fewer = Prepared(
        given.prepared.images.subset(range(20)), [given.prepared.patches[index] for index in range(20)], []
    )
    with pytest.raises(RunError, match="first-1: was trained on other images"):
        train_rounds(replace(given, prepared=fewer), chain_recipe, whole)
    with pytest.raises(RunError, match="it held out no images"):
        train_rounds(replace(given, held_out=fewer), chain_recipe, whole)
    assert moments(whole) == before


def test_folders_that_are_not_free(small_run: Path, given: RoundsInput, chain_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="rounds was 0, now 2"):
        train_rounds(given, chain_recipe, small_run)
    assert not (small_run / "stages").exists()
    (tmp_path / "photos" / "stages").mkdir(parents=True)
    (tmp_path / "photos" / "stages" / "a.jpg").touch()
    with pytest.raises(RunError, match="holds other files"):
        train_rounds(given, chain_recipe, tmp_path / "photos")
    assert [path.name for path in (tmp_path / "photos").rglob("*")] == ["stages", "a.jpg"]
    held = Stages(RunFolder(tmp_path / "held"), "round-2")
    with held.locked(), pytest.raises(RunError, match="another process is training there"):
        train_rounds(given, chain_recipe, tmp_path / "held")


@pytest.mark.parametrize(("devices", "world_size"), [(2, "1"), (1, "4")])
def test_several_devices_are_refused(
    devices: int, world_size: str, chain_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world_size)
    with pytest.raises(SettingError, match="train on one device, not on"):
        check_rounds(chain_recipe, devices)
    check_rounds(chain_recipe.replace(rounds=0, first_networks=1), devices)


# Kill and resume

KILLED = """
import sys
from pathlib import Path
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.rounds import RoundsInput, train_rounds
listing, config, patches, out = map(Path, sys.argv[1:])
recipe = Recipe.load(config)
prepared = prepare(read_tags(listing, "train"), recipe_patches(recipe), patches)
given = RoundsInput(prepared, device="cpu", writing=TrainingOptions(log_steps=1, checkpoint_seconds=0))
sys.exit(130 if train_rounds(given, recipe, out) is None else 0)
"""


def test_killed_in_every_stage_resumes_to_the_same_weights(
    small_world: Path, chain_recipe: Recipe, whole: Path, tmp_path: Path
) -> None:
    """Real processes: each training is killed after a step of its own, the second by Ctrl-C."""
    (tmp_path / "config.toml").write_text(chain_recipe.to_toml())
    out = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, small_world, tmp_path / "config.toml", tmp_path / "patches", out]
    found: dict[str, int] = {}
    for name in NAMES:
        folder = out if name == "round-2" else out / "stages" / name
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while process.poll() is None and not RunFolder(folder).read_log():
            time.sleep(0.005)
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert not (folder / "weights.safetensors").exists()  # it is in the middle of this one
        process.send_signal(signal.SIGINT if name == "first-2" else signal.SIGKILL)
        assert process.wait() == (130 if name == "first-2" else -signal.SIGKILL)
        boxes = folder / "pseudo_boxes.jsonl"
        if name.startswith("round"):
            found[str(boxes)] = boxes.stat().st_mtime_ns
    subprocess.run(command, check=True, capture_output=True)
    for name in NAMES[:3]:
        assert same_weights(whole / "stages" / name, out / "stages" / name), name
    assert same_weights(whole, out)
    assert {path: Path(path).stat().st_mtime_ns for path in found} == found  # no pass was made twice
    assert read_record(RunFolder(out)) == read_record(RunFolder(whole))


def test_a_run_that_was_moved_goes_on(whole: Path, given: RoundsInput, chain_recipe: Recipe, tmp_path: Path) -> None:
    """The last training has its pseudo boxes; that they came from folders elsewhere does not matter."""
    out = tmp_path / "moved"
    shutil.copytree(whole, out)
    (out / "weights.safetensors").unlink()
    (out / "checkpoint.safetensors").unlink()
    assert train_rounds(given, chain_recipe, out) is not None
    assert same_weights(whole, out)


# Rounds that decide for themselves


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> RoundsInput:
    """Images enough to learn from."""
    folder = tmp_path_factory.mktemp("taught")
    listing = make_world(folder, train=60, test=1, seed=6)
    return RoundsInput(prepare(read_tags(listing, "train"), recipe_patches(JUDGED), folder / "patches"), device="cpu")


JUDGED = refined_world(steps=100).replace(scales=(96,), rounds=2, round_steps=35)


@pytest.fixture(scope="module")
def first_network(taught: RoundsInput, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose first network is trained, and no round."""
    out = tmp_path_factory.mktemp("first") / "run"
    stages = Stages(RunFolder(out), "round-2")
    with stages.locked():
        stages.begin(JUDGED)
    first = stages_of(JUDGED)[0]
    train_prepared(taught.prepared, first.recipe, stages.folder(first.name).folder, device="cpu")
    return out


def garbage(prepared: Prepared) -> list[PseudoBoxes]:
    """Return a random patch for each tag."""
    random = np.random.default_rng(0)
    found = []
    for patches, row in zip(prepared.patches, prepared.images.labels, strict=True):
        classes = np.flatnonzero(row == 1)
        drawn = random.integers(len(patches), size=len(classes))
        found.append(PseudoBoxes(patches[drawn].astype(np.float32), classes))
    return found


@pytest.mark.parametrize(("spoiled", "before"), [("round-1", "first-1"), ("round-2", "round-1")])
def test_a_round_on_garbage_is_undone(
    spoiled: str,
    before: str,
    taught: RoundsInput,
    first_network: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    out = tmp_path / "run"
    shutil.copytree(first_network, out)
    own = rounds.find_pseudo_boxes

    def found(prepared: Prepared, recipe: Recipe, folder: Path, source: PseudoBoxSource) -> object:
        spoil = folder == (out if spoiled == "round-2" else out / "stages" / spoiled)
        return garbage(prepared) if spoil else own(prepared, recipe, folder, source)

    monkeypatch.setattr(rounds, "find_pseudo_boxes", found)
    record = train_rounds(taught, JUDGED, out)
    assert record is not None
    assert record.network == before
    assert [one["worse"] for one in record.judgements] == ([True] if spoiled == "round-1" else [False, True])
    last = record.judgements[-1]
    assert (last["round"], last["before"], last["images"]) == (spoiled, before, "60 training images")
    said = " ".join(capsys.readouterr().err.split())
    figures = re.findall(r"agreement of boxes ([\d.]+) before, ([\d.]+) after", said)[-1]
    assert [float(figure) for figure in figures] == pytest.approx(
        [last["agreement"]["before"], last["agreement"]["after"]], abs=0.051
    )
    assert f"that is worse, so the network of {before} is kept" in said
    # the run is an ordinary one, with the earlier network
    run, kept = RunFolder(out), RunFolder(out / "stages" / before)
    run.must_be_finished()
    assert run.begun_with() == JUDGED
    there = [file.name for file in run.files if file.exists()]
    assert there == [file.name for file in kept.files if file.exists()]
    assert all((out / name).read_bytes() == (kept.folder / name).read_bytes() for name in there)
    assert load(out, "cpu").classes == taught.prepared.images.classes
    # the spoiled round is there to look at, and nothing is done again
    assert (out / "stages" / spoiled / "weights.safetensors").exists()
    written = moments(out)
    monkeypatch.setattr(rounds, "train_prepared", lambda *_, **__: pytest.fail("trained again"))
    assert train_rounds(taught, JUDGED, out) == record
    assert moments(out) == written
