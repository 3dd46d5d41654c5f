"""Distilling: crops against a slow reference, what learns and what does not, kill and resume, weights that a network loads."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from deep_patch_learning import verbs
from deep_patch_learning.cli import app
from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.tags import read_tags
from deep_patch_learning.data.transforms import collate, make_view
from deep_patch_learning.errors import ModelError, RunError
from deep_patch_learning.model.build import build_network
from deep_patch_learning.model.patch_features import FullyConnected
from deep_patch_learning.model.teacher import Taught, patch_crops, read_teacher, teach
from deep_patch_learning.patch_layers import PatchLayers, before_training, distil_patch_layers, plan, without_tags
from deep_patch_learning.training.checkpoint import read_checkpoint
from deep_patch_learning.training.distil import Distilling, DistilTrainer, NormedLayers, distil_terms, distilling
from deep_patch_learning.training.loop import Writing
from deep_patch_learning.training.recipe import Recipe, modern
from deep_patch_learning.training.run import RunFolder

SHIPPED = Path(verbs.__file__).parent / "model" / "tiny.safetensors"


class SmallTeacher(nn.Module):
    """A random classifier of 10 classes, with one batch norm that would change if it were ever trained."""

    classes, width = 10, 12

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(nn.Conv2d(3, 12, 5, 4), nn.BatchNorm2d(12), nn.ReLU())
        self.fc = nn.Linear(12, 10)

    def forward(self, crops: Tensor) -> Taught:
        features = self.body(crops / 64 - 2).mean(dim=(2, 3))
        return Taught(self.fc(features) * 8, features)


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny network's convolutions alone, as other networks' weights sometimes come."""
    path = tmp_path_factory.mktemp("weights") / "convolutions.safetensors"
    save_file({name: tensor for name, tensor in load_file(SHIPPED).items() if name.startswith("backbone.")}, path)
    return path


@pytest.fixture
def layers(convolutions: Path, tmp_path: Path) -> PatchLayers:
    recipe = distilling("tiny", steps=8).replace(
        weights=str(convolutions), batch_images=4, images_per_pass=2, max_patches=16, scales=(96, 128)
    )
    return PatchLayers(recipe, Distilling(crop=32), tmp_path / "run")


def distilled(prepared: verbs.Prepared, layers: PatchLayers) -> dict[str, Tensor]:
    path = distil_patch_layers(prepared, layers, device="cpu", teacher=SmallTeacher())
    assert path == layers.weights
    return load_file(layers.weights)


def reference_crop(image: np.ndarray, patch: np.ndarray, side: int) -> np.ndarray:
    """The crop pixel by pixel: the mean over a grid of points, one per covered pixel, each interpolated from four pixels."""
    height, width = image.shape[:2]
    x1, y1, x2, y2 = patch
    across, down = (max(int(np.ceil(length / side)), 1) for length in (x2 - x1, y2 - y1))

    def point(y: float, x: float) -> np.ndarray:
        y, x = max(y - 0.5, 0), max(x - 0.5, 0)  # pixel 0 is centred at 0.5
        top, left = min(int(y), height - 1), min(int(x), width - 1)
        below, right = min(top + 1, height - 1), min(left + 1, width - 1)
        v, u = min(y - top, 1), min(x - left, 1)
        above = image[top, left] * (1 - u) + image[top, right] * u
        return above * (1 - v) + (image[below, left] * (1 - u) + image[below, right] * u) * v

    crop = np.zeros((side, side, 3))
    for row in range(side):
        for column in range(side):
            points = [
                point(
                    y1 + (row + (i + 0.5) / down) * (y2 - y1) / side,
                    x1 + (column + (j + 0.5) / across) * (x2 - x1) / side,
                )
                for i in range(down)
                for j in range(across)
            ]
            crop[row, column] = np.mean(points, axis=0)
    return crop.transpose(2, 0, 1)


@pytest.mark.parametrize(("scale", "flip"), [(60, False), (60, True), (90, False), (45, True)])
def test_crops_equal_a_slow_reference(scale: int, flip: bool) -> None:
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    patches = np.array([[0, 0, 60, 40], [10, 5, 17, 30], [33, 20, 60, 40], [2, 1, 5, 4]])
    view = make_view(image, patches, scale, flip)
    other = make_view(random.integers(0, 256, (60, 20, 3), dtype=np.uint8), patches[:1] // 3, scale)
    batch = collate([other, view])  # padded; the second image must not see the first
    rois = torch.cat((batch.patch_image[:, None].float(), batch.patches), dim=1)
    crops = patch_crops(batch.images, rois, 12)[len(other.patches) :]
    pixels = view.pixels.permute(1, 2, 0).numpy().astype(np.float64)
    for crop, patch in zip(crops, view.patches.numpy(), strict=True):
        inside = slice(0, 11)  # the last half pixel of a padded picture fades into the padding
        expected = reference_crop(pixels, patch, 12)
        np.testing.assert_allclose(crop.numpy()[:, inside, inside], expected[:, inside, inside], atol=0.01)


def test_a_mirrored_view_gives_mirrored_crops() -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    patches = np.array([[5, 9, 30, 60], [0, 0, 64, 64]])
    crops = []
    for flip in (False, True):
        batch = collate([make_view(image, patches, 64, flip)])
        crops.append(patch_crops(batch.images, torch.cat((torch.zeros(2, 1), batch.patches), dim=1), 16))
    torch.testing.assert_close(crops[0].flip(3), crops[1], atol=1e-3, rtol=0)


def test_a_constant_picture_is_constant_at_every_size() -> None:
    rois = torch.tensor([[0, 0, 0, 96, 96], [0, 3, 4, 5, 6], [0, 0, 50, 96, 52]], dtype=torch.float32)
    assert torch.allclose(patch_crops(torch.full((1, 3, 96, 96), 77.0), rois, 20), torch.tensor(77.0), atol=1e-3)


def test_the_teacher_gets_no_gradient_and_stays_as_it_is(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
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
    monkeypatch.setattr("deep_patch_learning.model.teacher.CROPS_AT_ONCE", 5)
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


def test_training_brings_the_student_to_the_teacher(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
    recipe = layers.recipe.replace(steps=60, scales=(96,), images_per_pass=4)
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
    small_prepared: verbs.Prepared, layers: PatchLayers, convolutions: Path
) -> None:
    tensors = distilled(small_prepared, layers)
    network, filled = build_network("tiny", 5, weights=str(layers.weights))
    assert filled is not None
    assert {"patch_features.fc6", "patch_features.fc7", "backbone.body.0"} <= set(filled.filled)
    assert not filled.unused
    assert {name.split(".")[0] for name in filled.new} == {"classification", "discovery"}
    own = network.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in tensors.items())
    # the recipe leaves the convolutions as they are
    before = load_file(convolutions)
    assert all(torch.equal(tensors[name], tensor) for name, tensor in before.items())


def test_the_exported_layers_are_the_students(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
    """Patch features of the loaded network equal those that the student's heads read."""
    distilled(small_prepared, layers)
    trainer = DistilTrainer(
        layers.recipe,
        without_tags(small_prepared.pictures),
        small_prepared.patches,
        RunFolder(layers.folder),
        SmallTeacher(),
        layers.settings,
        "cpu",
    )
    trainer.resume()
    student = trainer.bare.eval()
    network = build_network("tiny", 5, weights=str(layers.weights))[0].eval()
    pooled = torch.rand(9, 48, 6, 6)
    torch.testing.assert_close(network.patch_features(pooled), student.patch_features(pooled))


def test_convolutions_learn_slowly_where_they_are_not_frozen(
    small_prepared: verbs.Prepared, layers: PatchLayers, convolutions: Path
) -> None:
    moved = {}
    for factor in (0.01, 1.0):
        settings = Distilling(crop=32, backbone_learning_rate=factor)
        folder = layers.folder.with_name(f"factor-{factor}")
        made = distilled(small_prepared, PatchLayers(layers.recipe.replace(freeze_backbone=False), settings, folder))
        before = load_file(convolutions)["backbone.body.0.weight"]
        moved[factor] = (made["backbone.body.0.weight"] - before).abs().mean().item()
    assert 0 < moved[0.01] < 0.1 * moved[1.0]


def test_tags_are_not_read(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
    pictures = small_prepared.pictures
    shuffled = TaggedPictures(
        pictures.classes[::-1], pictures.names, pictures.paths, np.ascontiguousarray(1 - pictures.labels[::-1])
    )
    first = distilled(small_prepared, layers)
    other = PatchLayers(layers.recipe, layers.settings, layers.folder.with_name("other"))
    second = distilled(verbs.Prepared(shuffled, small_prepared.patches, []), other)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert RunFolder(layers.folder).describe()["classes"] == []


def test_stopped_and_resumed_equals_never_stopped(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
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
    small_prepared: verbs.Prepared, layers: PatchLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("deep_patch_learning.patch_layers._write", killed)
        with pytest.raises(KeyboardInterrupt):
            distil_patch_layers(small_prepared, layers, device="cpu", teacher=SmallTeacher())
    assert not layers.figures.exists()
    assert set(distilled(small_prepared, layers)) >= {"patch_features.fc6.weight", "backbone.body.0.weight"}


def test_what_is_finished_is_left_as_it_is(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
    distilled(small_prepared, layers)
    before = layers.weights.stat().st_mtime_ns
    assert distil_patch_layers(small_prepared, layers, device="cpu") == layers.weights  # no teacher is read
    assert layers.weights.stat().st_mtime_ns == before
    changed = PatchLayers(layers.recipe, Distilling(crop=64), layers.folder)
    with pytest.raises(RunError, match="crop was 32, now 64"):
        changed.check()


def test_weights_that_need_no_distilling_and_weights_that_are_missing(
    small_prepared: verbs.Prepared, layers: PatchLayers
) -> None:
    full = PatchLayers(layers.recipe.replace(weights="shipped"), layers.settings, layers.folder)
    with pytest.raises(ModelError, match="fills the patch layers of tiny already"):
        distil_patch_layers(small_prepared, full, device="cpu", teacher=SmallTeacher())
    none = PatchLayers(layers.recipe.replace(weights=""), layers.settings, layers.folder)
    with pytest.raises(ModelError, match="Give them with --weights"):
        distil_patch_layers(small_prepared, none, device="cpu", teacher=SmallTeacher())
    assert not layers.folder.exists()


def test_a_teacher_without_its_last_layer_is_refused(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    state = {name: tensor for name, tensor in resnet50().state_dict().items() if not name.startswith("fc.")}
    save_file(state, tmp_path / "headless.safetensors")
    with pytest.raises(ModelError, match=r"headless.safetensors: lacks fc, .* Give --teacher"):
        read_teacher(str(tmp_path / "headless.safetensors"))
    with pytest.raises(ModelError, match="Did you mean 'resnet50'"):
        read_teacher("imagenet", "resnet5")


def test_the_teacher_is_torchvisions_network(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    torch.manual_seed(0)
    whole = resnet50().eval()
    save_file(whole.state_dict(), tmp_path / "whole.safetensors")
    teacher = read_teacher(str(tmp_path / "whole.safetensors"))
    assert not teacher.train().training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    crops = torch.rand(2, 3, 64, 64) * 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    with torch.no_grad():
        expected = whole((crops / 255 - mean[:, None, None]) / std[:, None, None])
        torch.testing.assert_close(teacher(crops).logits, expected, atol=1e-4, rtol=1e-4)


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
        with pytest.raises(RunError, match=words):
            plan(tmp_path, "alexnet", 0, [change], {}, {})


def test_options_before_a_training(tmp_path: Path) -> None:
    recipe = modern("vgg16").replace(seed=4, min_patch_side=12)
    made = before_training("distil", recipe, tmp_path / "voc", 30, None, "resnet50")
    assert made is not None
    assert made.folder == tmp_path / "voc-patch-layers"
    assert (made.recipe.seed, made.recipe.min_patch_side, made.recipe.steps) == (4, 12, 30)
    assert before_training(None, recipe, tmp_path / "voc", None, None, "resnet50") is None
    with pytest.raises(RunError, match="belong to --patch-layers"):
        before_training(None, recipe, tmp_path / "voc", None, "t.pth", "resnet50")
    with pytest.raises(RunError, match="Did you mean 'distil'"):
        before_training("distill", recipe, tmp_path / "voc", None, None, "resnet50")


def test_train_distils_first_and_repeats_without_doing_it_again(
    small_world: Path,
    convolutions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    from typer.testing import CliRunner

    monkeypatch.setattr("deep_patch_learning.patch_layers.read_teacher", lambda *_: SmallTeacher())
    monkeypatch.setattr(
        "deep_patch_learning.patch_layers.distilling",
        lambda backbone, steps: distilling(backbone, steps).replace(batch_images=4, images_per_pass=4, scales=(96,)),
    )
    out = tmp_path / "run"
    command = ["train", str(small_world), "--split", "train", "--out", str(out), "--recipe", "world", "--steps", "2"]
    command += ["--weights", str(convolutions), "--patch-layers", "distil", "--teacher", "t", "--distil-steps", "2"]
    for _ in range(2):
        found = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
        assert found.exit_code == 0
        assert json.loads(found.stdout.splitlines()[-1])["steps"] == 2
    layers = tmp_path / "run-patch-layers"
    assert Recipe.load(RunFolder(out).config).weights == str(layers / "weights.safetensors")
    assert len(RunFolder(layers).read_log()) == 1
    distil = ["distil", str(small_world), "--split", "train", "--out", str(tmp_path / "own"), "--backbone", "tiny"]
    distil += ["--weights", str(convolutions), "--steps", "1", "--set", "batch_images=2", "--set", "scales=96"]
    found = CliRunner().invoke(app, [*distil, "--set", "crop=32", "--json"], catch_exceptions=False)
    assert found.exit_code == 0
    figures = json.loads(found.stdout.splitlines()[-1])
    assert Path(figures["weights"]).is_file()
    assert figures["steps"] == 1
    assert 0 <= figures["agreement"] <= 100


@pytest.mark.voc
def test_a_real_teacher_knows_a_dog(voc: Path) -> None:
    path = Path(os.environ.get("DPL_WEIGHTS", "")) / "resnet50_imagenet.safetensors"
    if not os.environ.get("DPL_WEIGHTS") or not path.is_file():
        pytest.skip("needs ImageNet weights: set DPL_WEIGHTS to the folder of resnet50_imagenet.safetensors")
    teacher = read_teacher(str(path), "resnet50-v1")
    pictures = read_tags(voc, "val")
    alone = (pictures.labels == 1).sum(axis=1) == 1
    hits = 0
    for index in np.flatnonzero(alone & (pictures.labels[:, pictures.classes.index("dog")] == 1))[:8]:
        image = pictures.read(index)
        batch = collate(
            [make_view(image, np.array([[0, 0, image.shape[1], image.shape[0]]]), 480, flip=index % 2 == 1)]
        )
        hits += 151 <= int(teach(teacher, batch, 160).logits.argmax()) <= 268
    assert hits >= 6


def test_writing_goes_to_the_trainer(small_prepared: verbs.Prepared, layers: PatchLayers) -> None:
    distil_patch_layers(small_prepared, layers, device="cpu", teacher=SmallTeacher(), writing=Writing(log_steps=1))
    assert [entry["step"] for entry in RunFolder(layers.folder).read_log()] == list(range(1, 9))
