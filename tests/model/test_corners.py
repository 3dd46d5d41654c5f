"""Corners of patches in the SPP layer: half-open, or inclusive as in the authors' program, in every kernel."""

import numpy as np
import pytest
import torch
import torchvision

from deep_patch_learning.data.batch import collate, lay_out, make_view, render
from deep_patch_learning.model import pooling
from deep_patch_learning.model.pooling import SpatialPyramidPooling, inclusive_corners
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.presets import RECIPES
from deep_patch_learning.recipe.recipe import Recipe


@pytest.mark.parametrize("name", RECIPES)
def test_the_paper_pools_inclusive_corners_and_others_do_not(name: str) -> None:
    wanted = "inclusive" if name == "paper" else "half-open"
    assert RECIPES[name]().model.corners == wanted
    assert Recipe.from_toml('name = "paper"\n[model]\nbackbone = "vgg16"\n').model.corners == "half-open"  # an old run
    network, _ = build_network(Recipe.of(backbone="tiny", corners=wanted), 2)
    assert network.pool.inclusive == (name == "paper")


@pytest.mark.parametrize("kernel", ["loops", "torchvision"])
def test_the_last_pixel_of_the_original_image_counts(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "HAS_NUMBA", kernel == "loops")
    generator = np.random.default_rng(0)
    first = generator.integers(0, 250, (60, 2))
    boxes = np.concatenate((first, first + generator.integers(1, 120, (60, 2))), axis=1)  # of an image of 370 x 370
    layout = lay_out([(370, 370)], [boxes], 1200)
    maps = torch.rand(1, 3, 76, 76, dtype=torch.float64)
    pixels = torch.tensor(layout.pixels)
    found = SpatialPyramidPooling(6, 16, inclusive=True)(maps, layout.patches, layout.patch_image, pixels)
    # the program scales the corners of first and last pixels
    corners = torch.from_numpy(np.concatenate((boxes[:, :2], boxes[:, 2:] - 1), axis=1)) * (1200 / 370)
    rois = torch.cat((torch.zeros(60, 1), corners), dim=1).double()
    assert torch.equal(found, torchvision.ops.roi_pool(maps, rois, 6, 1 / 16))
    half_open = SpatialPyramidPooling(6, 16)(maps, layout.patches, layout.patch_image, pixels)
    assert not torch.equal(found, half_open)


def test_mirrored_patches_end_at_their_last_pixel_too() -> None:
    boxes = np.array([[10, 20, 51, 60]])
    layout = lay_out([(100, 200)], [boxes], 400, [True])
    found = inclusive_corners(layout.patches, layout.patch_image, torch.tensor(layout.pixels))
    # mirrored, pixel x lies at 199 - x: pixels 10 to 50 become 149 to 189
    assert found.tolist() == [[149 * 2, 20 * 2, 189 * 2, 59 * 2]]


def test_every_way_to_a_batch_says_how_large_a_pixel_is() -> None:
    image = np.zeros((60, 97, 3), np.uint8)
    boxes = np.array([[3, 4, 50, 60]])
    rendered = render(lay_out([(60, 97)], [boxes], 480), [image])
    viewed = collate([make_view(image, boxes, 480)])
    assert torch.equal(rendered.pixels, viewed.pixels)
    assert rendered.pixels[0].tolist() == pytest.approx([297 / 60, 480 / 97])


@pytest.mark.parametrize("corners", ["inclusive", "half-open"])
def test_the_network_pools_with_the_batchs_pixels(corners: str) -> None:
    torch.manual_seed(0)
    network = build_network(Recipe.of(backbone="tiny", corners=corners), 2)[0].eval()
    image = np.random.default_rng(0).integers(0, 256, (60, 97, 3), np.uint8)
    boxes = np.array([[0, 0, 97, 60], [3, 4, 50, 49], [40, 10, 90, 41]])
    batch = collate([make_view(image, boxes, 480)])
    as_program = batch._replace(patches=inclusive_corners(batch.patches, batch.patch_image, batch.pixels))
    half_open = build_network(Recipe.of(backbone="tiny"), 2)[0].eval()
    half_open.load_state_dict(network.state_dict())
    with torch.no_grad():
        found = network(batch).patches
        assert torch.equal(found, half_open(as_program).patches) == (corners == "inclusive")
        assert torch.equal(found, half_open(batch).patches) == (corners == "half-open")
