"""Two Ray nodes as real processes, and small data sets to label with them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from shard_writing import write_table, write_tar

from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.data.readers.read import read_tags

STORE = 80 << 20


@pytest.fixture(scope="session")
def many(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 96 images: those of the small world under other names; one of them is broken, and one is not there."""
    folder = tmp_path_factory.mktemp("many")
    images = read_tags(small_world, "train")
    rows = ["image,tags"]
    for number in range(96):
        index = number % len(images)
        name = f"{number:03d}.jpg"
        shutil.copy(images.paths[index], folder / name)
        tags = ";".join(np.array(images.classes)[images.labels[index] == PRESENT])
        rows.append(f"{name},{tags}")
    (folder / "041.jpg").write_bytes(b"no image at all")
    (folder / "many.csv").write_text("\n".join(rows) + "\n")
    return folder / "many.csv"


@pytest.fixture
def shards(small_world: Path, tmp_path: Path) -> Path:
    """A folder with the small world's training images in three tars."""
    images, folder = read_tags(small_world, "train"), tmp_path / "shards"
    folder.mkdir()
    for number in range(3):
        write_tar(folder / f"{number:03d}.tar", images, range(8 * number, 8 * number + 8))
    return folder


@pytest.fixture
def tables(small_world: Path, tmp_path: Path) -> Path:
    """A folder with the same images in two Parquet tables."""
    images, folder = read_tags(small_world, "train"), tmp_path / "tables"
    folder.mkdir()
    for number in range(2):
        write_table(folder / f"{number}.parquet", images, range(12 * number, 12 * number + 12))
    return folder


@pytest.fixture(scope="module")
def two_nodes(own_cache: None) -> Iterator[object]:
    """Two nodes of one core each; this process is connected to them."""
    ray = pytest.importorskip("ray", reason='needs Ray: pip install "deep-patch-learning[ray]"')
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
