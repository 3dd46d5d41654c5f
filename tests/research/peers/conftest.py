"""Batches of different sizes, and the parts of a small network that peers are made of."""

from collections.abc import Iterator

import pytest
import torch

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe

SIZES = [(190, 250), (256, 180), (190, 250)]
PATCHES = [
    [[0, 0, 250, 190], [30, 40, 200, 190], [100.5, 10.25, 250, 120]],
    [[0, 0, 180, 256], [3, 140, 180, 256]],
    [[17, 5, 93, 160]],
]


def make_batch(keep: list[int]) -> Batch:
    """Return some of three views as a batch, padded where they differ in size."""
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(3, *size, generator=generator) * 255 for size in SIZES]
    height, width = (max(SIZES[i][axis] for i in keep) for axis in (0, 1))
    images = torch.zeros(len(keep), 3, height, width)
    for place, i in enumerate(keep):
        images[place, :, : SIZES[i][0], : SIZES[i][1]] = views[i]
    patches = torch.tensor([patch for i in keep for patch in PATCHES[i]])
    index = torch.tensor([place for place, i in enumerate(keep) for _ in PATCHES[i]])
    return Batch(
        images, torch.tensor([SIZES[i] for i in keep]), patches, index, padded=len({SIZES[i] for i in keep}) > 1
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def batch() -> Batch:
    """Three images, padded."""
    return make_batch([0, 1, 2])


@pytest.fixture
def alone() -> list[Batch]:
    """The same three, each alone."""
    return [make_batch([i]) for i in range(3)]


@pytest.fixture
def parts() -> DeepPatchNet:
    """A tiny network to take the backbone and patch layers from."""
    torch.manual_seed(0)
    return build_network(Recipe.of(backbone="tiny", heads=("discovery",), weights="shipped"), 5)[0].eval()
