"""Training on shards, whose images are read where they lie, gives the weights of training on files."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from shard_writing import write_table, write_tar

from deep_patch_learning.commands.check import check
from deep_patch_learning.commands.label import label
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import Kind, read_tags, recognise
from deep_patch_learning.data.store import AT_HAND, ImageStore
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.training.fit import train_prepared


@pytest.fixture(params=["tar", "parquet"])
def folder(request: pytest.FixtureRequest, small_world: Path, tmp_path: Path) -> Path:
    images, folder = read_tags(small_world, "train"), tmp_path / "shards"
    folder.mkdir()
    write = write_tar if request.param == "tar" else write_table
    for number in range(2):
        write(folder / f"{number}.{request.param}", images, range(12 * number, 12 * number + 12))
    return folder


def test_the_same_weights_as_from_files(
    folder: Path, small_world: Path, small_recipe: Recipe, small_run: Path, tmp_path: Path
) -> None:
    images, files = read_tags(folder), read_tags(small_world, "train")
    assert recognise(folder)[0] is Kind.SHARDS
    assert images.classes == files.classes
    np.testing.assert_array_equal(images.labels, files.labels)
    np.testing.assert_array_equal(images.read(17), files.read(17))
    prepared = prepare(images, recipe_patches(small_recipe), tmp_path / "patches")
    train_prepared(prepared, small_recipe, tmp_path / "run", device="cpu")
    ours, theirs = (read_checkpoint(run / "weights.safetensors")[1] for run in (tmp_path / "run", small_run))
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def test_shards_are_checked_and_labelled_like_files(folder: Path, small_run: Path, tmp_path: Path) -> None:
    report = check(folder)
    assert report.opened == report.images == 24
    assert not [finding for finding in report.findings if finding.kind == "unreadable"]
    assert label(folder, small_run, out=tmp_path / "labels", format="parquet", device="cpu")["images"] == 24
    with pytest.raises(DataError, match=r"lies in a shard, .* Use --format parquet"):
        label(folder, small_run, out=tmp_path / "coco", format="coco", device="cpu")
    assert not (tmp_path / "coco").exists()


def test_a_cut_shard_is_named_before_training(folder: Path) -> None:
    shard = sorted(folder.iterdir())[1]
    shard.write_bytes(shard.read_bytes()[:-3000])
    with pytest.raises(DataError, match=rf"{shard.name}: the shard is cut off or .*Copy it again"):
        read_tags(folder)


MEMORY = """
import resource, sys
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.store import ImageStore
images = read_tags(sys.argv[1])
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]) << 20, -1))
print(ImageStore(images)._limit)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on data that Linux enforces")
def test_fewer_images_are_kept_where_a_process_may_have_less(small_world: Path) -> None:
    def kept(*limit: str, **environment: str) -> int:
        command = [sys.executable, "-c", MEMORY, str(small_world), *limit]
        return int(subprocess.check_output(command, env=os.environ | environment, text=True))

    assert kept("2000") < 0.4 * (2000 << 20)
    assert kept("2000", LOCAL_WORLD_SIZE="4") < 0.1 * (2000 << 20)
    assert kept() <= AT_HAND


def test_images_beyond_the_limit_are_decoded_again_and_not_kept(small_world: Path) -> None:
    images = read_tags(small_world, "train")
    store = ImageStore(images, limit=3 * images.read(0).nbytes)
    for index in range(len(images)):
        np.testing.assert_array_equal(store[index].numpy(), images.read(index))
    assert len(store._images) <= 3
