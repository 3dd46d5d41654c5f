"""EfficientNet-Lite0: padding as in TensorFlow, weights under the names of their package, folded norms."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.model.backbones.lite import SameConv, channels_first
from deep_patch_learning.model.backbones.registry import trunk
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe


@pytest.mark.parametrize("size", [5, 6, 7, 8, 13])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (1, 1)])
def test_padding_is_tensorflows(size: int, kernel: int, stride: int) -> None:
    torch.manual_seed(size)
    layer = SameConv(1, 1, kernel, stride, bias=False)
    maps = torch.randn(1, 1, size, size + 1)
    layer.requires_grad_(False)
    found = layer(maps)[0, 0]
    rows, columns = -(-size // stride), -(-(size + 1) // stride)
    assert found.shape == (rows, columns)
    before = [max((out - 1) * stride + kernel - length, 0) // 2 for out, length in ((rows, size), (columns, size + 1))]
    for row in range(rows):
        for column in range(columns):
            total = 0.0
            for y in range(kernel):
                for x in range(kernel):
                    at = row * stride - before[0] + y, column * stride - before[1] + x
                    if 0 <= at[0] < size and 0 <= at[1] < size + 1:
                        total += float(layer.weight[0, 0, y, x] * maps[0, 0, at[0], at[1]])
            assert float(found[row, column]) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "stride", "groups", "dilation"), [(1, 1, 1, 1), (3, 2, 1, 1), (5, 1, 8, 2), (3, 1, 8, 1)]
)
def test_a_prediction_convolves_as_training_does(
    threads: int, kernel: int, stride: int, groups: int, dilation: int
) -> None:
    torch.manual_seed(kernel)
    before = torch.get_num_threads()
    layer = SameConv(8, 16, kernel, stride, groups=groups, dilation=dilation)
    maps = torch.randn(2, 8, 13, 17)
    try:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            found = layer(maps)
        expected = layer(maps)
    finally:
        torch.set_num_threads(before)
    assert expected.requires_grad
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-5)


def package_weights(name: str = "lite0") -> dict[str, torch.Tensor]:
    """Return random weights under the package's names, for every layer that the network has before its norms are folded."""
    parts = trunk(name)
    module = torch.nn.Module()
    module.backbone, module.patch_features = parts.backbone, parts.patch_features
    back = {ours: theirs for theirs, ours in parts.layer_names.items()}
    torch.manual_seed(0)
    made = {}
    for name, tensor in module.state_dict().items():
        ours = next(prefix for prefix in back if name.startswith(prefix))
        value = torch.rand_like(tensor) + 0.5 if tensor.is_floating_point() else tensor
        made[back[ours] + name.removeprefix(ours)] = value * (0.05 if tensor.ndim == 4 else 1)
    return made | {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}


@pytest.mark.parametrize("name", ["lite0", "lite0-map"])
def test_the_packages_weights_fill_every_layer(name: str, tmp_path: Path) -> None:
    weights = package_weights()
    assert weights.keys() == package_weights(name).keys()
    assert {"_conv_stem.weight", "_blocks.0._bn1.running_mean", "_blocks.15._project_conv.weight"} <= weights.keys()
    save_file(weights, tmp_path / "lite0.safetensors")
    network, report = build_network(Recipe.of(backbone=name, weights=str(tmp_path / "lite0.safetensors")), 3)
    assert report is not None
    assert all(name.startswith(("classification", "discovery")) for name in report.new)
    assert report.unused == ("_fc",)
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in network.modules())
    scale = weights["_bn0.weight"] / (weights["_bn0.running_var"] + 1e-3).sqrt()
    expected = weights["_conv_stem.weight"] * scale[:, None, None, None]
    torch.testing.assert_close(network.backbone.body.stem[0].weight.detach(), expected)


def test_maps_are_of_stride_16_and_patches_have_1280_features() -> None:
    network = build_network(Recipe.of(backbone="lite0"), 3)[0].eval()
    with torch.no_grad():
        maps = network.backbone(torch.rand(1, 3, 96, 130) * 255)
        assert maps.shape == (1, 112, 6, 9)
        assert network.patch_features(torch.rand(2, 112, 7, 7)).shape == (2, 1280)


def test_all_of_it_on_the_map() -> None:
    """Every fourth cell of the fine map is what the coarse map has there, away from the border: kernels see the same pixels."""
    torch.manual_seed(0)
    fine = build_network(Recipe.of(backbone="lite0-map", heads=ALL_HEADS, refinement_width=8, refinement_cells=3), 3)[
        0
    ].eval()
    cells = torch.rand(2, 1280, 3, 3)
    patches, placed = fine.patch_features.in_cells(cells, 3)
    torch.testing.assert_close(patches, cells.mean(dim=(2, 3)))
    torch.testing.assert_close(
        placed.view(2, 1280, 3, 3), cells
    )  # channel, row, column: as weights that are shipped read it
    torch.testing.assert_close(fine.patch_features.in_cells(cells, 1)[1], patches)
    coarse = build_network(Recipe.of(backbone="lite0"), 3)[0].eval()
    state = {
        name.replace("patch_features.stage.", "backbone.body."): tensor for name, tensor in coarse.state_dict().items()
    }
    fine.load_state_dict(state, strict=False)
    images = torch.rand(1, 3, 992, 992) * 255
    with torch.no_grad():
        maps = fine.backbone(images)  # (1, 1280, 62, 62)
        known = coarse.patch_features.stage(coarse.backbone(images))[0, :, 12:-12, 12:-12]  # (1280, 7, 7) of 31 x 31
    assert maps.shape[2:] == (62, 62)
    # TensorFlow pads the odd row last, so that the first kernel of the stride is centred on the second cell
    right, wrong = (maps[0, :, offset::2, offset::2][:, 12:-12, 12:-12] for offset in (1, 0))
    off = (wrong - known).abs().mean()
    assert off > 0
    assert (right - known).abs().max() < 0.01 * off


def test_other_weights_are_refused(tmp_path: Path) -> None:
    save_file({"features.0.weight": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="fits the backbone"):
        build_network(Recipe.of(backbone="lite0", weights=str(tmp_path / "other.safetensors")), 3)


@pytest.mark.voc
@pytest.mark.skipif(
    not {"DPL_VOC", "DPL_WEIGHTS"} <= os.environ.keys(), reason="set DPL_VOC and DPL_WEIGHTS to run on real photos"
)
def test_real_weights_know_a_dog() -> None:
    """A VOC photo of a dog that fills it; ImageNet's breeds are the classes 151 to 268."""
    from deep_patch_learning.data.batch import make_view
    from deep_patch_learning.data.images import read_image

    file = Path(os.environ["DPL_WEIGHTS"]) / "efficientnet_lite0_imagenet.safetensors"
    network = build_network(Recipe.of(backbone="lite0", weights=str(file)), 3)[0].eval()
    import numpy as np

    image = read_image(Path(os.environ["DPL_VOC"]) / "JPEGImages" / "000036.jpg")
    pixels = make_view(image, np.zeros((0, 4)), 320).pixels[None]
    weights = load_file(file)
    with torch.no_grad():
        features = network.patch_features(network.backbone(pixels))
    best = (features @ weights["_fc.weight"].float().T + weights["_fc.bias"].float()).argmax().item()
    assert 151 <= best <= 268


def test_kernels_that_lie_channel_by_channel() -> None:
    kernels = torch.rand(8, 1, 3, 3).to(memory_format=torch.channels_last)
    assert kernels.stride() == (9, 1, 3, 1)  # which cuDNN takes for its own layout
    assert channels_first(kernels).stride() == (9, 9, 3, 1)
    assert torch.equal(channels_first(kernels), kernels)
    maps = torch.rand(2, 8, 6, 5).to(memory_format=torch.channels_last)
    assert channels_first(maps).is_contiguous()
    assert torch.equal(channels_first(maps), maps)
