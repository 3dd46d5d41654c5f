"""A batch is its images one by one, whatever their sizes; pooling is torchvision's; chunks change nothing."""

import itertools

import pytest
import torch
import torchvision

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import centres, erase
from deep_patch_learning.model.pooling import SpatialPyramidPooling
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe

SIZES = [(190, 250), (256, 180), (190, 250)]
PATCHES = [
    [[0, 0, 250, 190], [30, 40, 200, 190], [100.5, 10.25, 250, 120]],
    [[0, 0, 180, 256], [3, 140, 180, 256]],
    [[17, 5, 93, 160]],
]


def make_batch(keep: list[int], seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    views = [torch.rand(3, *size, generator=generator) * 255 for size in SIZES]
    height, width = (max(SIZES[i][axis] for i in keep) for axis in (0, 1))
    images = torch.zeros(len(keep), 3, height, width)
    for place, i in enumerate(keep):
        images[place, :, : SIZES[i][0], : SIZES[i][1]] = views[i]
    patches = torch.tensor([patch for i in keep for patch in PATCHES[i]])
    index = torch.tensor([place for place, i in enumerate(keep) for _ in PATCHES[i]])
    sizes = torch.tensor([SIZES[i] for i in keep])
    return Batch(images, sizes, patches, index, padded=len(keep) > 1)


@pytest.mark.parametrize(
    "name", ["tiny", "caffenet", "alexnet", "resnet50", "resnet50-v1", "resnet50-near", "timm:efficientnet_lite0"]
)
def test_a_batch_of_different_sizes_equals_its_images_one_by_one(name: str) -> None:
    if name.startswith("timm:"):
        pytest.importorskip("timm", reason="the extra `timm` is not installed")
    torch.manual_seed(0)
    network, _ = build_network(Recipe.of(backbone=name), 5)
    for parameter in network.discovery.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    network.eval()
    with torch.no_grad():
        together = network(make_batch([0, 1, 2]))
        for i in range(3):
            alone = network(make_batch([i]))
            mine = make_batch([0, 1, 2]).patch_image == i
            torch.testing.assert_close(alone.patches, together.patches[mine], rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(alone.classification[0], together.classification[i], rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(alone.discovery[0], together.discovery[i], rtol=1e-3, atol=1e-3)


def test_erased_cells_are_those_whose_centres_lie_in_a_region() -> None:
    maps = torch.rand(2, 3, 5, 7) + 1
    regions = torch.tensor([[[16, 0, 40, 24], [0, 64, 8, 80]], [[0, 0, 7.9, 80], [100, 40, 112, 57]]]).float()
    found = erase(maps, regions, 16)
    for image, y, x in itertools.product(range(2), range(5), range(7)):
        at = torch.tensor([x * 16 + 8, y * 16 + 8])
        gone = any(bool((box[:2] <= at).all() and (at < box[2:]).all()) for box in regions[image])
        expected = torch.zeros(3) if gone else maps[image, :, y, x]
        assert torch.equal(found[image, :, y, x], expected), (image, y, x)


def test_a_patch_sees_nothing_of_what_is_erased() -> None:
    torch.manual_seed(0)
    network = build_network(Recipe.of(backbone="tiny"), 5)[0].eval()
    batch = make_batch([0])
    hidden = batch._replace(erased=torch.tensor([[[0.0, 0, 110, 190]]]))
    with torch.no_grad():
        plain, erased, all_gone = (
            network(one).patches for one in (batch, hidden, batch._replace(erased=torch.tensor([[[0.0, 0, 999, 999]]])))
        )
    assert not torch.equal(plain[0], erased[0])  # half of the first patch is erased
    torch.testing.assert_close(all_gone, all_gone[:1].expand_as(all_gone))  # where all is erased, patches are alike


def test_chunks_change_nothing() -> None:
    torch.manual_seed(0)
    network = build_network(Recipe.of(backbone="tiny"), 5)[0].eval()
    batch = make_batch([0, 1, 2])
    with torch.no_grad():
        whole, chunked = network(batch), network(batch, chunk=2)
    for a, b in zip(whole, chunked, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling_is_torchvisions(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    maps = torch.randn(2, 3, 20, 30, dtype=dtype, requires_grad=True)
    corners = torch.rand(40, 2, dtype=dtype) * torch.tensor([400, 250])
    patches = torch.cat([corners, corners + 1 + torch.rand(40, 2, dtype=dtype) * 150], dim=1)
    image = torch.randint(2, (40,))
    found = SpatialPyramidPooling(7, 16)(maps, patches, image)
    rois = torch.cat([image[:, None].to(dtype), patches], dim=1)
    expected = torchvision.ops.roi_pool(maps, rois, 7, 1 / 16)
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(out.square().sum(), maps)[0] for out in (found, expected)))


def test_pooling_keeps_coordinates_exact_in_half_precision() -> None:
    maps = torch.arange(100.0).view(1, 1, 1, 100).expand(1, 1, 4, 100).contiguous()
    patch = torch.tensor([[1003.0, 0.0, 1003.0, 30.0]])  # bfloat16 would make 1003 into 1004
    pool = SpatialPyramidPooling(1, 16)
    assert pool(maps.bfloat16(), patch, torch.tensor([0])).float().item() == maps[0, 0, 0, 63].bfloat16().item()


def test_centres_are_shares_of_each_images_own_size() -> None:
    found = centres(make_batch([0, 1, 2]))
    x1, y1, x2, y2 = PATCHES[1][1]
    assert found[4].tolist() == pytest.approx([(x1 + x2) / 2 / 180, (y1 + y2) / 2 / 256])
    assert found.min() >= 0
    assert found.max() < 1


@pytest.mark.parametrize("heads", [("classification",), ("discovery",)])
def test_a_head_alone(heads: tuple[str, ...]) -> None:
    scores = build_network(Recipe.of(backbone="tiny", heads=heads), 4)[0].eval()(make_batch([0]))
    assert (scores.classification is None) == ("classification" not in heads)
    assert (scores.discovery is None) == (scores.patches is None) == ("discovery" not in heads)


def test_an_image_without_patches_scores_zero() -> None:
    batch = make_batch([0, 1])
    kept = batch.patch_image == 0
    alone = batch._replace(patches=batch.patches[kept], patch_image=batch.patch_image[kept])
    scores = build_network(Recipe.of(backbone="tiny"), 4)[0].eval()(alone)
    assert scores.discovery[1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backbone": "vgg61"}, "Did you mean 'vgg16'"),
        ({"backbone": "tiny", "heads": ("clasification",)}, "Did you mean 'classification'"),
        ({"backbone": "tiny", "heads": ()}, "no head"),
    ],
)
def test_wrong_names_are_fixed(options: dict, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        build_network(Recipe.of(**options), 3)


def test_the_frozen_norms_of_a_residual_network_are_part_of_its_convolutions() -> None:
    network = build_network(Recipe.of(backbone="resnet50"), 3)[0].train()
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in network.modules())
    assert all(m.bias is not None for m in network.modules() if isinstance(m, torch.nn.Conv2d))
