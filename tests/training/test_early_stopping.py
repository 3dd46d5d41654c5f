"""Held-out tags: when they are measured, when they end a training, and that a kill changes nothing of it."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.early_stopping import (
    CLEARLY,
    FEWEST,
    MEASUREMENTS,
    PATIENCE,
    SURE,
    HeldOut,
    Measurement,
    TagMeasure,
    clear_fall,
    has_fallen,
    kept_of,
    measured_at,
    measured_images,
    read_measurements,
)
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions

STEPS = 16  # measured after every second of them


class Given:
    """A measure that gives figures known in advance, and remembers the weights that it saw."""

    images = SURE

    def __init__(self, figures: list[float]) -> None:
        self.figures = iter(figures)
        self.seen: list[torch.Tensor] = []

    def __call__(self, network: nn.Module) -> float:
        self.seen.append(network.discovery.patch_classifier.weight.detach().clone())
        return next(self.figures)


@pytest.fixture
def recipe(small_recipe: Recipe) -> Recipe:
    return small_recipe.replace(steps=STEPS)


@pytest.fixture
def held_out(small_world: Path, small_recipe: Recipe, tmp_path: Path) -> Prepared:
    return prepare(read_tags(small_world, "test"), recipe_patches(small_recipe), tmp_path / "patches")


def trainer(prepared: Prepared, recipe: Recipe, folder: Path, measure: Given) -> Trainer:
    run = RunFolder(folder)
    run.begin(recipe, prepared.images, {})
    held = HeldOut(run, recipe.total_steps, measure)
    made = Trainer(recipe, prepared, run, TrainingOptions(log_steps=1, device="cpu"), held_out=held)
    made.resume()
    return made


def kept_weight(folder: Path) -> tuple[int, torch.Tensor]:
    step, tensors, _ = read_checkpoint(folder / "weights.safetensors")
    return step, tensors["network.discovery.patch_classifier.weight"]


@given(st.integers(1, 10**6))
def test_measured_a_few_times_and_at_the_end(steps: int) -> None:
    found = measured_at(steps)
    assert list(found) == sorted(set(found))
    assert found[-1] == steps
    assert found[0] >= 1
    assert len(found) == min(steps, MEASUREMENTS)


@pytest.mark.parametrize(
    ("figures", "ends"),
    [
        ([], False),
        ([50, 48, 48, 48], True),
        ([50, 48, 48], False),  # not for long enough
        ([50, 48.1, 48, 48], False),  # not clearly
        ([50, 10, 49, 10], False),  # not all of them
        ([50, 48, 48, 51], False),  # a new best
        ([10, 50, 40, 30, 20], True),
        ([30, 40, 50, 50, 50, 50], False),  # a pause in the middle is no fall
    ],
)
def test_only_a_clear_fall_that_stays_ends_a_training(figures: list[float], ends: bool) -> None:
    assert (CLEARLY, PATIENCE) == (2.0, 3)
    assert has_fallen([Measurement(step, figure) for step, figure in enumerate(figures)], CLEARLY) is ends


def test_few_images_must_fall_further() -> None:
    assert clear_fall(10 * SURE) == clear_fall(SURE) == CLEARLY
    assert clear_fall(SURE // 4) == 2 * CLEARLY


@pytest.mark.parametrize(
    ("figures", "kept"),
    [
        ([50], 0),
        ([50, 49.5, 49.2], 2),  # not set apart by more than chance: the last
        ([50, 49.5, 49], 1),
        ([50, 40, 49.5], 2),
        ([50, 49.5, 51, 50], 2),
        ([50, 49.5, 49.0, 48.5], 1),  # each is held against the highest, not against the one before
    ],
)
def test_of_good_weights_the_last_are_kept(figures: list[float], kept: int) -> None:
    assert kept_of([Measurement(step, figure) for step, figure in enumerate(figures)], 1.0).step == kept


def test_good_weights_are_kept(small_prepared: Prepared, recipe: Recipe, tmp_path: Path) -> None:
    measure = Given([10, 20, 60, 59, 61, 30, 60, 60])
    made = trainer(small_prepared, recipe, tmp_path / "run", measure)
    assert made.fit()
    assert (made.step, made.ends_early) == (STEPS, False)
    step, weight = kept_weight(tmp_path / "run")
    assert step == 10
    assert torch.equal(weight, measure.seen[4])
    assert not torch.equal(weight, measure.seen[-1])
    assert read_checkpoint(made.run.checkpoint)[0] == STEPS
    assert not made.run.best.exists()


def test_a_fall_ends_the_training_and_the_same_command_has_nothing_left_to_do(
    small_prepared: Prepared, recipe: Recipe, tmp_path: Path
) -> None:
    measure = Given([40, 60, 50, 50, 50])
    made = trainer(small_prepared, recipe, tmp_path / "run", measure)
    assert made.fit()
    assert (made.step, made.finished, made.ends_early) == (10, True, True)
    step, weight = kept_weight(tmp_path / "run")
    assert step == 4
    assert torch.equal(weight, measure.seen[1])
    again = trainer(small_prepared, recipe, tmp_path / "run", Given([]))
    assert again.fit()
    assert (again.step, again.finished) == (10, True)
    assert kept_weight(tmp_path / "run")[0] == 4


class KilledError(Exception):
    pass


@pytest.mark.parametrize("moment", ["in the measurement", "weights kept, measurement not written", "before the end"])
def test_a_kill_around_a_measurement_changes_nothing(
    moment: str, small_prepared: Prepared, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [40, 60, 50, 50, 50]
    whole = trainer(small_prepared, recipe, tmp_path / "whole", Given(figures))
    assert whole.fit()

    def kill(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if moment == "in the measurement":
            killed = trainer(small_prepared, recipe, tmp_path / "run", Given(figures[:1]))  # there is no second figure
            expected: type[BaseException] = StopIteration
            left = figures[1:]
        elif moment == "before the end":
            killed = trainer(small_prepared, recipe, tmp_path / "run", Given(figures))
            patch.setattr(HeldOut, "keep_best", kill)
            expected, left = KilledError, []
        else:
            killed = trainer(small_prepared, recipe, tmp_path / "run", Given(figures))
            patch.setattr("deep_patch_learning.training.early_stopping.write_whole", kill)
            expected, left = KilledError, figures
        with pytest.raises((expected, RuntimeError)):
            killed.fit()
    assert not killed.run.weights.exists()
    assert read_checkpoint(killed.run.checkpoint)[0] == killed.step  # no measurement lies before a resumed training
    resumed = trainer(small_prepared, recipe, tmp_path / "run", Given(left))
    assert resumed.fit()
    assert resumed.step == whole.step
    assert read_measurements(resumed.run) == read_measurements(whole.run)
    (step, weight), (whole_step, whole_weight) = (kept_weight(tmp_path / name) for name in ("run", "whole"))
    assert step == whole_step
    assert torch.equal(weight, whole_weight)


KILLED = """
import sys
from pathlib import Path
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
listing, config, patches, out = map(Path, sys.argv[1:])
recipe = Recipe.load(config)
made = [prepare(read_tags(listing, split), recipe_patches(recipe), patches) for split in ("train", "test")]
train_prepared(made[0], recipe, out, device="cpu", writing=TrainingOptions(1, 0), held_out=made[1])
"""


def test_a_real_process_killed_resumes_to_the_same_weights_and_measurements(
    small_world: Path, small_prepared: Prepared, held_out: Prepared, recipe: Recipe, tmp_path: Path
) -> None:
    whole = train_prepared(small_prepared, recipe, tmp_path / "whole", device="cpu", held_out=held_out)
    (tmp_path / "config.toml").write_text(recipe.to_toml())
    out = RunFolder(tmp_path / "run")
    command = [sys.executable, "-c", KILLED, small_world, tmp_path / "config.toml", tmp_path / "patches", out.folder]
    kills = 0
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        before = len(read_measurements(out))
        while process.poll() is None and len(read_measurements(out)) <= before:
            time.sleep(0.005)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
    assert kills
    subprocess.run(command, check=True, capture_output=True)
    assert read_measurements(out) == read_measurements(whole.run)
    kept, expected = (read_checkpoint(run.weights) for run in (out, whole.run))
    assert kept[0] == expected[0]
    assert all(torch.equal(kept[1][name], tensor) for name, tensor in expected[1].items())


def test_measuring_does_not_change_the_training(
    small_prepared: Prepared, held_out: Prepared, recipe: Recipe, tmp_path: Path
) -> None:
    ends = []
    for name, measured in (("with", held_out), ("without", None)):
        train_prepared(small_prepared, recipe, tmp_path / name, device="cpu", held_out=measured)
        ends.append(read_checkpoint(tmp_path / name / "checkpoint.safetensors")[1])
    assert all(torch.equal(ends[0][name], tensor) for name, tensor in ends[1].items())


def test_the_measure_is_that_of_the_prediction_at_its_scale(
    small_run: Path, held_out: Prepared, small_recipe: Recipe
) -> None:
    import deep_patch_learning as dpl

    recipe = small_recipe.replace(patches_per_sample=0)  # all patches, as in predicting
    model = dpl.load(small_run, "cpu", scales=[min(recipe.data.scales)])
    measured = TagMeasure(held_out.images, held_out.patches, recipe)
    figures = measure_predictions(list(predict_prepared(model, held_out)), held_out.images.labels, None)
    assert measured.images == len(held_out.images)
    assert measured(model.network) == pytest.approx(figures["mAP"])
    model.network.train()
    measured(model.network)
    assert model.network.training


def test_a_measurement_looks_at_few_images_of_many(small_prepared: Prepared) -> None:
    labels = small_prepared.images.labels
    many = labels[[i % len(labels) for i in range(5_000)]]
    recipe = world()
    kept = measured_images(many, recipe)
    samples = recipe.total_steps * recipe.optimiser.batch_images
    assert 0.14 * samples / MEASUREMENTS < len(kept) < 0.2 * samples / MEASUREMENTS
    assert len(measured_images(labels, world(steps=1))) == len(labels) < FEWEST
    rare = many * 0
    rare[7, 0] = 1
    assert len(measured_images(rare, recipe)) in (len(kept), len(rare))  # all, unless the one was drawn
    with pytest.raises(DataError, match="none of the 5000 images held out shows a class"):
        measured_images(many * 0, recipe)


def test_other_images_held_out_do_not_continue_a_run(
    small_prepared: Prepared, held_out: Prepared, small_recipe: Recipe, small_run: Path, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    run.begin(small_recipe, small_prepared.images, {}, held_out.images)
    run.begin(small_recipe, small_prepared.images, {}, held_out.images)
    with pytest.raises(RunError, match="it held out other images"):
        run.begin(small_recipe, small_prepared.images, {}, held_out.images.subset([0, 1]))
    with pytest.raises(RunError, match="it held out images"):
        run.begin(small_recipe, small_prepared.images, {})
    with pytest.raises(RunError, match="it held out no images"):
        RunFolder(small_run).begin(small_recipe, small_prepared.images, {}, held_out.images)


def test_damaged_files_are_named(small_run: Path, tmp_path: Path) -> None:
    shutil.copytree(small_run, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    run.held_out.write_text(json.dumps({"measurements": [{"step": 3}]}))
    with pytest.raises(RunError, match=r"held_out\.json: is damaged"):
        read_measurements(run)
    run.held_out.unlink()
    with pytest.raises(RunError, match=r"best\.safetensors: is gone"):
        HeldOut(run, STEPS, Given([])).keep_best()
