"""What several tests share: a small drawn world with its patches, and the path of VOC 2007 where there is one."""

import os
from pathlib import Path

import pytest

from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.world import make_world
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import train_prepared


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests' patches out of the user's cache."""
    os.environ["DPL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The listing of a world of 24 training and 8 test images."""
    return make_world(tmp_path_factory.mktemp("world"), train=24, test=8, seed=5)


@pytest.fixture(scope="session")
def small_recipe() -> Recipe:
    """A training of a few seconds."""
    return world(steps=12).replace(
        batch_images=4, images_per_micro_batch=2, patches_per_sample=16, filters=16, scales=(96, 128)
    )


@pytest.fixture(scope="session")
def small_prepared(small_world: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The training images of the small world with their patches."""
    return prepare(read_tags(small_world, "train"), recipe_patches(small_recipe), tmp_path_factory.mktemp("patches"))


@pytest.fixture(scope="session")
def small_run(small_prepared: Prepared, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run on the small world."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    train_prepared(small_prepared, small_recipe, folder, device="cpu")
    return folder


@pytest.fixture(scope="session")
def voc() -> Path:
    """The folder of VOC 2007."""
    if not os.environ.get("DPL_VOC"):
        pytest.skip("needs VOC 2007: set DPL_VOC to the folder that holds JPEGImages")
    return Path(os.environ["DPL_VOC"])
