"""Shards of a data set, as the tests want them."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.data.dataset import PRESENT, TaggedImages


def write_tar(path: Path, images: TaggedImages, rows: range) -> None:
    with tarfile.open(path, "w") as tar:
        for index in rows:
            tags = ";".join(np.array(images.classes)[images.labels[index] == PRESENT])
            for suffix, content in ((".jpg", images.paths[index].read_bytes()), (".txt", tags.encode())):
                member = tarfile.TarInfo(f"{index:06d}{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def write_table(path: Path, images: TaggedImages, rows: range) -> None:
    pyarrow, table = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    tags = [[str(name) for name in np.array(images.classes)[images.labels[index] == PRESENT]] for index in rows]
    columns = {
        "image": [images.paths[index].read_bytes() for index in rows],
        "name": [images.names[index] for index in rows],
        "tags": tags,
    }
    table.write_table(pyarrow.table(columns), path, row_group_size=5)
