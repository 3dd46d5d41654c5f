"""AlexNet's maps lie where the SPP layer looks: cell k is centred on pixel 16 k, and no patch ends beyond the last cell."""

from pathlib import Path

import pytest
import torch
from torch import nn

from deep_patch_learning.model.backbone import output_sizes
from deep_patch_learning.model.backbones.registry import trunk
from deep_patch_learning.model.pooling import SpatialPyramidPooling
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_network, save_checkpoint

# cells along a side after conv1, pool1 and pool2; later layers keep them
CELLS = {480: (120, 61, 31), 576: (144, 73, 37), 688: (172, 87, 44), 864: (216, 109, 55), 1200: (300, 151, 76)}
RESIZING = {"caffenet": ("conv1", "pool1", "pool2"), "alexnet": ("0", "2", "5")}


def windows(backbone: str) -> list[tuple[str, nn.Module]]:
    body = trunk(backbone).backbone.body
    return [(name, layer) for name, layer in body.named_children() if isinstance(layer, nn.Conv2d | nn.MaxPool2d)]


def number(value: int | tuple[int, int]) -> int:
    return value if isinstance(value, int) else value[0]


@pytest.mark.parametrize("backbone", RESIZING)
@pytest.mark.parametrize("side", CELLS)
def test_cells_layer_by_layer(backbone: str, side: int) -> None:
    maps, found = torch.zeros(1, 1, side, 48), {}
    for name, layer in windows(backbone):
        if isinstance(layer, nn.Conv2d):
            maps = torch.zeros(1, layer.in_channels, *maps.shape[2:])
        before, maps = maps, layer(maps)
        found[name] = maps.shape[2]
        # padded batches count cells in the same way
        assert output_sizes(layer, torch.tensor([before.shape[2:]])).tolist() == [list(maps.shape[2:])]
    assert tuple(found[name] for name in RESIZING[backbone]) == CELLS[side]
    assert maps.shape[2] == CELLS[side][2]


@pytest.mark.parametrize("backbone", RESIZING)
def test_each_layer_keeps_cell_0_centred_on_pixel_0(backbone: str) -> None:
    centre, stride, centres = 0.0, 1, []
    for _, layer in windows(backbone):
        kernel, step, padding = (number(getattr(layer, key)) for key in ("kernel_size", "stride", "padding"))
        centre += ((kernel - 1) / 2 - padding) * stride
        stride *= step
        centres.append(centre)
    assert centres == [0.0] * 7  # five convolutions and two pools
    assert stride == 16


@pytest.mark.parametrize("backbone", RESIZING)
def test_a_dot_is_seen_by_the_cell_on_it_and_its_surroundings_alike(backbone: str) -> None:
    # a map that answers to brightness alone shows where its cells lie
    body = trunk(backbone).backbone.body.double()
    for layer in body.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.weight, 1 / layer.weight[0].numel())
            nn.init.zeros_(layer.bias)
    image = torch.zeros(1, 3, 480, 480, dtype=torch.float64)
    image[..., 240, 240] = 1000
    answer = body(image)[0, 0]
    assert answer.argmax() == 15 * 31 + 15
    torch.testing.assert_close(answer, answer.flip(0))
    torch.testing.assert_close(answer, answer.flip(1))


@pytest.mark.parametrize("backbone", RESIZING)
def test_no_patch_pools_zeros_at_the_right_and_lower_edge(backbone: str) -> None:
    layers = [layer for _, layer in windows(backbone)]
    pool = SpatialPyramidPooling(6, 16)
    for side in range(32, 1300, 7):
        sizes = torch.tensor([[side, side]])
        for layer in layers:
            sizes = output_sizes(layer, sizes)
        cells = int(sizes[0, 0])
        patch = torch.tensor([[side - 16.0, side - 16.0, side, side]])
        assert bool((pool(torch.ones(1, 1, cells, cells), patch, torch.tensor([0])) == 1).all()), side


@pytest.mark.parametrize("backbone", RESIZING)
def test_weights_of_earlier_versions_fit(backbone: str, tmp_path: Path) -> None:
    network = build_network(Recipe.of(backbone=backbone), 3)[0]
    before = build_network(Recipe.of(backbone=backbone), 3)[0]
    for layer in before.modules():  # padded as a classifier is
        if isinstance(layer, nn.MaxPool2d):
            layer.padding = 0
    before.backbone.body[0].padding = (0, 0) if backbone == "caffenet" else (2, 2)
    save_checkpoint(tmp_path / "weights.safetensors", 7, before)
    step, tensors, _ = read_checkpoint(tmp_path / "weights.safetensors")
    restore_network(network, tensors, tmp_path / "weights.safetensors")
    assert step == 7
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), before.parameters(), strict=True))
