"""Distilling: what learns and what does not, kill and resume, weights that a network loads."""

import dataclasses
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_teacher import SmallTeacher
from torch import Tensor

from deep_patch_learning.cli.app import app
from deep_patch_learning.common.errors import ModelError, RunError, SettingError
from deep_patch_learning.data.batch import collate, make_view
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.model import backbones
from deep_patch_learning.model.patch_features import FullyConnected
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.presets import modern
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.distillation import Distilling, DistilTrainer, NormedLayers, distil_terms, distilling
from deep_patch_learning.training.patch_layers import (
    PatchLayers,
    before_training,
    distil_patch_layers,
    plan,
    without_tags,
)
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.teacher import Taught, teach

SHIPPED = Path(backbones.__file__).with_name("tiny.safetensors")


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny network's convolutions alone, as other networks' weights sometimes come."""
    path = tmp_path_factory.mktemp("weights") / "convolutions.safetensors"
    save_file({name: tensor for name, tensor in load_file(SHIPPED).items() if name.startswith("backbone.")}, path)
    return path


@pytest.fixture
def layers(convolutions: Path, tmp_path: Path) -> PatchLayers:
    recipe = distilling("tiny", steps=8).replace(
        weights=str(convolutions), batch_images=4, images_per_micro_batch=2, patches_per_sample=16, scales=(96, 128)
    )
    return PatchLayers(recipe, Distilling(crop=32), tmp_path / "run")


def distilled(prepared: Prepared, layers: PatchLayers) -> dict[str, Tensor]:
    path = distil_patch_layers(prepared, layers, device="cpu", teacher=SmallTeacher())
    assert path == layers.weights
    return load_file(layers.weights)


def test_the_teacher_gets_no_gradient_and_stays_as_it_is(small_prepared: Prepared, layers: PatchLayers) -> None:
    teacher = SmallTeacher()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    distil_patch_layers(small_prepared, layers, device="cpu", teacher=teacher)
    assert not teacher.training
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in teacher.state_dict().items())


def test_many_crops_pass_the_teacher_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(2).integers(0, 256, (70, 80, 3), dtype=np.uint8)
    batch = collate([make_view(image, np.array([[x, 2, x + 20, 60] for x in range(0, 60, 5)]), 80)])
    whole = teach(SmallTeacher().eval(), batch, 32)
    monkeypatch.setattr("deep_patch_learning.training.teacher.CROPS_AT_ONCE", 5)
    for once, parts in zip(whole, teach(SmallTeacher().eval(), batch, 32), strict=True):
        torch.testing.assert_close(once, parts)


def test_terms_are_zero_for_a_perfect_student_and_grow_with_the_distance() -> None:
    teacher = Taught(torch.randn(6, 10), torch.rand(6, 12))
    for temperature in (1.0, 2.0):
        perfect = distil_terms(
            Taught(teacher.logits + 3, teacher.features * 2), teacher, Distilling(temperature=temperature)
        )
        assert all(abs(term.item()) < 1e-5 for term in perfect.values())
        wrong = distil_terms(Taught(-teacher.logits, -teacher.features), teacher, Distilling(temperature=temperature))
        assert wrong["teacher_classes"] > 0.5
        assert wrong["teacher_features"].item() == pytest.approx(2)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_plain_layers_do_what_the_normed_ones_did(batch_norm: bool) -> None:
    torch.manual_seed(0)
    plain = FullyConnected(3 * 4, 8, 6)
    normed = NormedLayers(FullyConnected(3 * 4, 8, 6), batch_norm=batch_norm)
    for _ in range(20):
        normed(torch.rand(32, 3, 2, 2) * 5 + 1)
    plain.load_state_dict(normed.plain())
    assert normed.training
    pooled = torch.rand(7, 3, 2, 2) * 5
    torch.testing.assert_close(plain.eval()(pooled), normed.eval()(pooled))


def test_training_brings_the_student_to_the_teacher(small_prepared: Prepared, layers: PatchLayers) -> None:
    recipe = layers.recipe.replace(steps=60, scales=(96,), images_per_micro_batch=4)
    layers = PatchLayers(recipe, layers.settings, layers.folder)
    distilled(small_prepared, layers)
    log = RunFolder(layers.folder).read_log()
    assert {"teacher_classes", "teacher_features"} <= log[0].keys()
    assert log[-1]["teacher_classes"] < 0.6 * log[0]["teacher_classes"]
    assert log[-1]["teacher_features"] < 0.6 * log[0]["teacher_features"]
    figures = json.loads(layers.figures.read_text())
    assert figures["agreement"] > 50
    assert figures["cosine"] > 0.8
    assert figures["patches"] == 60 * 4 * 16


def test_a_network_loads_the_weights_and_its_patch_layers_are_filled(
    small_prepared: Prepared, layers: PatchLayers, convolutions: Path
) -> None:
    tensors = distilled(small_prepared, layers)
    network, filled = build_network(Recipe.of(backbone="tiny", weights=str(layers.weights)), 5)
    assert filled is not None
    assert {"patch_features.fc6", "patch_features.fc7", "backbone.body.0"} <= set(filled.filled)
    assert not filled.unused
    assert {name.split(".")[0] for name in filled.new} == {"classification", "discovery"}
    own = network.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in tensors.items())
    # the recipe leaves the convolutions as they are
    before = load_file(convolutions)
    assert all(torch.equal(tensors[name], tensor) for name, tensor in before.items())


def test_the_exported_layers_are_the_students(small_prepared: Prepared, layers: PatchLayers) -> None:
    """Patch features of the loaded network equal those that the student's heads read."""
    distilled(small_prepared, layers)
    trainer = DistilTrainer(
        layers.recipe,
        dataclasses.replace(small_prepared, images=without_tags(small_prepared.images)),
        RunFolder(layers.folder),
        SmallTeacher(),
        layers.settings,
        TrainingOptions(device="cpu"),
    )
    trainer.resume()
    student = trainer.bare.eval()
    network = build_network(Recipe.of(backbone="tiny", weights=str(layers.weights)), 5)[0].eval()
    pooled = torch.rand(9, 48, 6, 6)
    torch.testing.assert_close(network.patch_features(pooled), student.patch_features(pooled))


def test_convolutions_learn_slowly_where_they_are_not_frozen(
    small_prepared: Prepared, layers: PatchLayers, convolutions: Path
) -> None:
    moved = {}
    for factor in (0.01, 1.0):
        settings = Distilling(crop=32, backbone_learning_rate=factor)
        folder = layers.folder.with_name(f"factor-{factor}")
        made = distilled(small_prepared, PatchLayers(layers.recipe.replace(freeze_backbone=False), settings, folder))
        before = load_file(convolutions)["backbone.body.0.weight"]
        moved[factor] = (made["backbone.body.0.weight"] - before).abs().mean().item()
    assert 0 < moved[0.01] < 0.1 * moved[1.0]


def test_tags_are_not_read(small_prepared: Prepared, layers: PatchLayers) -> None:
    images = small_prepared.images
    shuffled = TaggedImages(
        images.classes[::-1], images.names, images.paths, np.ascontiguousarray(1 - images.labels[::-1])
    )
    first = distilled(small_prepared, layers)
    other = PatchLayers(layers.recipe, layers.settings, layers.folder.with_name("other"))
    second = distilled(Prepared(shuffled, small_prepared.patches, []), other)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert RunFolder(layers.folder).describe()["classes"] == []


def test_stopped_and_resumed_equals_never_stopped(small_prepared: Prepared, layers: PatchLayers) -> None:
    whole = distilled(small_prepared, PatchLayers(layers.recipe, layers.settings, layers.folder.with_name("whole")))

    class Stopping(SmallTeacher):
        def forward(self, crops: Tensor) -> Taught:
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C at the first step
            return super().forward(crops)

    assert distil_patch_layers(small_prepared, layers, device="cpu", teacher=Stopping()) is None
    assert not layers.figures.exists()
    assert read_checkpoint(RunFolder(layers.folder).checkpoint)[0] == 1
    resumed = distilled(small_prepared, layers)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_killed_before_the_weights_are_written(
    small_prepared: Prepared, layers: PatchLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("deep_patch_learning.training.patch_layers._write", killed)
        with pytest.raises(KeyboardInterrupt):
            distil_patch_layers(small_prepared, layers, device="cpu", teacher=SmallTeacher())
    assert not layers.figures.exists()
    assert set(distilled(small_prepared, layers)) >= {"patch_features.fc6.weight", "backbone.body.0.weight"}


def test_what_is_finished_is_left_as_it_is(small_prepared: Prepared, layers: PatchLayers) -> None:
    distilled(small_prepared, layers)
    before = layers.weights.stat().st_mtime_ns
    assert distil_patch_layers(small_prepared, layers, device="cpu") == layers.weights  # no teacher is read
    assert layers.weights.stat().st_mtime_ns == before
    changed = PatchLayers(layers.recipe, Distilling(crop=64), layers.folder)
    with pytest.raises(RunError, match="crop was 32, now 64"):
        changed.check()


def test_weights_that_need_no_distilling_and_weights_that_are_missing(
    small_prepared: Prepared, layers: PatchLayers
) -> None:
    full = PatchLayers(layers.recipe.replace(weights="shipped"), layers.settings, layers.folder)
    with pytest.raises(ModelError, match="fills the patch layers of tiny already"):
        distil_patch_layers(small_prepared, full, device="cpu", teacher=SmallTeacher())
    none = PatchLayers(layers.recipe.replace(weights=""), layers.settings, layers.folder)
    with pytest.raises(ModelError, match="Give them with --weights"):
        distil_patch_layers(small_prepared, none, device="cpu", teacher=SmallTeacher())
    assert not layers.folder.exists()


def test_the_command_line_becomes_a_plan(tmp_path: Path) -> None:
    changes = [
        "crop=96",
        "batch_norm=false",
        "temperature=2",
        "learning_rate=2e-3",
        "scales=96,128",
        "freeze_backbone=false",
    ]
    made = plan(tmp_path, "alexnet", 7, changes, {"weights": "convs.pth", "steps": 50}, {"teacher": "t.pth"})
    assert made.settings == Distilling("t.pth", crop=96, temperature=2.0, batch_norm=False)
    assert made.recipe == distilling("alexnet", 50).replace(
        weights="convs.pth", learning_rate=2e-3, scales=(96, 128), freeze_backbone=False, seed=7
    )
    assert Recipe.from_toml(made.recipe.to_toml()) == made.recipe
    for change, words in (("crp=9", "no setting 'crp'"), ("crop=big", "should be like 160"), ("dropout=1", "below 1")):
        with pytest.raises(SettingError, match=words):
            plan(tmp_path, "alexnet", 0, [change], {}, {})


def test_options_before_a_training(tmp_path: Path) -> None:
    recipe = modern("vgg16").replace(seed=4, min_patch_side=12)
    made = before_training("distil", recipe, tmp_path / "voc", 30, None, "resnet50")
    assert made is not None
    assert made.folder == tmp_path / "voc-patch-layers"
    assert (made.recipe.machine.seed, made.recipe.data.min_patch_side, made.recipe.optimiser.steps) == (4, 12, 30)
    assert before_training(None, recipe, tmp_path / "voc", None, None, "resnet50") is None
    with pytest.raises(SettingError, match="belong to --patch-layers"):
        before_training(None, recipe, tmp_path / "voc", None, "t.pth", "resnet50")
    with pytest.raises(SettingError, match="Did you mean 'distil'"):
        before_training("distill", recipe, tmp_path / "voc", None, None, "resnet50")


def test_train_distils_first_and_repeats_without_doing_it_again(
    small_world: Path,
    convolutions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    from typer.testing import CliRunner

    monkeypatch.setattr("deep_patch_learning.training.patch_layers.read_teacher", lambda *_: SmallTeacher())
    monkeypatch.setattr(
        "deep_patch_learning.training.patch_layers.distilling",
        lambda backbone, steps: distilling(backbone, steps).replace(
            batch_images=4, images_per_micro_batch=4, scales=(96,)
        ),
    )
    out = tmp_path / "run"
    command = ["train", str(small_world), "--split", "train", "--out", str(out), "--recipe", "world", "--steps", "2"]
    command += ["--weights", str(convolutions), "--patch-layers", "distil", "--teacher", "t", "--distil-steps", "2"]
    for _ in range(2):
        found = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
        assert found.exit_code == 0
        assert json.loads(found.stdout.splitlines()[-1])["steps"] == 2
    layers = tmp_path / "run-patch-layers"
    assert Recipe.load(RunFolder(out).config).model.weights == str(layers / "weights.safetensors")
    assert len(RunFolder(layers).read_log()) == 1
    distil = ["distil", str(small_world), "--split", "train", "--out", str(tmp_path / "own"), "--backbone", "tiny"]
    distil += ["--weights", str(convolutions), "--steps", "1", "--set", "batch_images=2", "--set", "scales=96"]
    found = CliRunner().invoke(app, [*distil, "--set", "crop=32", "--json"], catch_exceptions=False)
    assert found.exit_code == 0
    figures = json.loads(found.stdout.splitlines()[-1])
    assert Path(figures["weights"]).is_file()
    assert figures["steps"] == 1
    assert 0 <= figures["agreement"] <= 100


def test_writing_goes_to_the_trainer(small_prepared: Prepared, layers: PatchLayers) -> None:
    distil_patch_layers(
        small_prepared, layers, device="cpu", teacher=SmallTeacher(), options=TrainingOptions(log_steps=1)
    )
    assert [entry["step"] for entry in RunFolder(layers.folder).read_log()] == list(range(1, 9))
