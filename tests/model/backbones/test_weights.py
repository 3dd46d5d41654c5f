"""Pretrained weights from files: what was filled, what is new, and files that do not fit."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.inference.loading import SHIPPED
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import save_checkpoint


@pytest.fixture(scope="module")
def alexnet_state() -> dict[str, torch.Tensor]:
    from torchvision.models import alexnet

    torch.manual_seed(5)
    return alexnet().state_dict()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_torchvision_names_find_their_layers(tmp_path: Path, alexnet_state: dict, suffix: str) -> None:
    file = tmp_path / f"weights{suffix}"
    (torch.save if suffix == ".pth" else save_file)(alexnet_state, file)
    network, report = build_network(Recipe.of(backbone="alexnet", weights=str(file)), 3)
    assert torch.equal(network.backbone.body[0].weight, alexnet_state["features.0.weight"])
    assert torch.equal(network.patch_features.fc7.weight, alexnet_state["classifier.4.weight"])
    assert {"patch_features.fc6", "patch_features.fc7", "backbone.body.10"} <= set(report.filled)
    assert set(report.new) == {"classification.part_filters", "classification.classifier", "discovery.patch_classifier"}
    assert report.unused == ("classifier.6",)
    assert str(report) == f"weights: {file}, 7 layers; new: 2 heads"
    assert report.details()["filled"] == report.filled  # the names go into the run folder


def test_convolutions_alone_leave_the_patch_layers_new(tmp_path: Path, alexnet_state: dict) -> None:
    file = tmp_path / "conv.safetensors"
    save_file({k: v.half() for k, v in alexnet_state.items() if k.startswith("features.")}, file)
    network, report = build_network(Recipe.of(backbone="alexnet", weights=str(file)), 3)
    assert {"patch_features.fc6", "patch_features.fc7"} <= set(report.new)
    assert str(report).endswith("5 layers; new: patch layers, 2 heads")
    assert network.backbone.body[0].weight.dtype == torch.float32


def test_residual_stage_goes_to_the_patches(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    state = resnet50().state_dict()
    torch.save({"state_dict": state}, tmp_path / "r.pth")
    network, report = build_network(Recipe.of(backbone="resnet50-v1", weights=str(tmp_path / "r.pth")), 3)
    # a new norm, folded in, divides by the root of 1 + 1e-5
    torch.testing.assert_close(network.patch_features.stage[2].conv3.weight, state["layer4.2.conv3.weight"])
    assert network.backbone.body.layer2[0].conv1.stride == (2, 2)
    assert report.unused == ("fc",)
    assert not any("num_batches" in name for name in report.new)


def test_near_patches_take_two_residual_stages(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    state = resnet50().state_dict()
    torch.save(state, tmp_path / "r.pth")
    network, report = build_network(Recipe.of(backbone="resnet50-near", weights=str(tmp_path / "r.pth")), 3)
    stage = network.patch_features.stage
    torch.testing.assert_close(stage.layer3[5].conv2.weight, state["layer3.5.conv2.weight"])
    torch.testing.assert_close(stage.layer4[2].conv3.weight, state["layer4.2.conv3.weight"])
    assert not hasattr(network.backbone.body, "layer3")
    assert report.unused == ("fc",)
    assert all(name.startswith(("classification.", "discovery.")) for name in report.new)


def test_shipped_weights_of_the_tiny_network() -> None:
    _, report = build_network(Recipe.of(backbone="tiny", weights="shipped"), 3)
    assert set(report.new) == {"classification.part_filters", "classification.classifier", "discovery.patch_classifier"}
    assert not report.unused


def test_layers_of_the_shipped_model() -> None:
    model, _ = build_network(Recipe.of(backbone="lite0-map", weights="shipped-model"), 3)
    own = load_file(SHIPPED / "weights.safetensors")
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor.half(), own[f"network.backbone.{name}"]), name


@pytest.mark.parametrize(
    ("backbone", "name", "offered"),
    [
        ("alexnet", "shipped", "'imagenet' or a"),
        ("tiny", "shipped-model", "'shipped' or a"),
        ("lite0", "shipped", "a"),  # its layers lie elsewhere than those of lite0-map
    ],
)
def test_weights_that_do_not_come_with_a_backbone(backbone: str, name: str, offered: str) -> None:
    with pytest.raises(
        ModelError, match=f"no weights named '{name}' come with this backbone. Use {offered} local file"
    ):
        build_network(Recipe.of(backbone=backbone, weights=name), 3)


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (None, "none.pth", "there is no such weight file"),
        (b"not weights", "text.pth", "not a readable weight file"),
        (b"not weights", "text.safetensors", "not a readable weight file"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes | None, name: str, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=words):
        build_network(Recipe.of(backbone="tiny", weights=str(tmp_path / name)), 3)


def test_weights_of_another_network(tmp_path: Path, alexnet_state: dict) -> None:
    save_file({"conv.weight": torch.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match=r"none of its 1 tensors .conv\.weight. fits"):
        build_network(Recipe.of(backbone="tiny", weights=str(tmp_path / "x.safetensors")), 3)
    save_file(alexnet_state, tmp_path / "a.safetensors")
    with pytest.raises(ModelError, match=r"features.0.weight is \(64, 3, 11, 11\)"):
        build_network(Recipe.of(backbone="vgg16", weights=str(tmp_path / "a.safetensors")), 3)


def test_unknown_name() -> None:
    with pytest.raises(ModelError, match=r"Did you mean .VGG16_Weights\.IMAGENET1K_V1."):
        build_network(Recipe.of(backbone="vgg16", weights="VGG16_Weights.IMAGENET1K_V2x"), 3)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"features.0.weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(ModelError, match="not a readable weight file"):
        build_network(Recipe.of(backbone="alexnet", weights=str(tmp_path / "evil.pth")), 3)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("backbone", ["tiny", "lite0-map"])
def test_of_a_run_the_layers_below_its_heads_are_taken(backbone: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    run, _ = build_network(Recipe.of(backbone=backbone), 5)
    save_checkpoint(tmp_path / "run.safetensors", 1, run)
    network, report = build_network(Recipe.of(backbone=backbone, weights=str(tmp_path / "run.safetensors")), 3)
    for name, tensor in run.state_dict().items():
        if name.startswith(("backbone.", "patch_features.")):  # norms that were folded before stay so
            assert torch.equal(network.state_dict()[name], tensor), name
    assert report.unused == ()
    assert "discovery.patch_classifier" in report.new


def test_weights_that_cannot_be_fetched_name_the_offline_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.models import ResNet50_Weights

    def no_network(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(ResNet50_Weights, "get_state_dict", no_network)
    with pytest.raises(ModelError, match=r"could not be fetched .*no route to host.*--weights FILE.*--recipe fast"):
        build_network(Recipe.of(backbone="resnet50", weights="imagenet"), 3)


def test_tensors_without_names_are_refused(tmp_path: Path) -> None:
    torch.save({1: torch.ones(2)}, tmp_path / "numbers.pth")
    with pytest.raises(ModelError, match="its tensors have no names"):
        build_network(Recipe.of(backbone="alexnet", weights=str(tmp_path / "numbers.pth")), 3)


def test_a_file_that_unfolds_is_refused(tmp_path: Path, alexnet_state: dict) -> None:
    plain, bomb = tmp_path / "plain.pth", tmp_path / "bomb.pth"
    torch.save({"features.0.weight": torch.zeros(1 << 20)}, plain)
    with zipfile.ZipFile(plain) as before, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            after.writestr(entry.filename, before.read(entry))
    assert bomb.stat().st_size < 10_000
    with pytest.raises(
        ModelError, match=r"bomb\.pth: [\d,]+ bytes that unfold to 4,19\d,\d+, which torch\.save does not write"
    ):
        build_network(Recipe.of(backbone="alexnet", weights=str(bomb)), 3)
