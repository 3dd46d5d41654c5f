"""Small data sets on disk, made by each test in its own folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from deep_patch_learning.data.dataset import TaggedImages


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes images and files below `tmp_path` and gives back the path of the last file."""

    def write(*images: str, files: dict[str, str | bytes] | None = None) -> Path:
        for index, name in enumerate(images):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 3), (index * 20 % 256, 100, 50)).save(tmp_path / name)
        last = tmp_path
        for name, content in (files or {}).items():
            last = tmp_path / name
            last.parent.mkdir(parents=True, exist_ok=True)
            last.write_bytes(content if isinstance(content, bytes) else content.encode())
        return last

    return write


@pytest.fixture(scope="session")
def told() -> Callable[[TaggedImages], dict[str, dict[str, str]]]:
    """Return a function giving {name: {class: state}} of what is not absent: the labels as a person would say them."""
    states = {1: "present", -1: "unknown"}

    def tell(images: TaggedImages) -> dict[str, dict[str, str]]:
        return {
            name: {images.classes[c]: states[int(row[c])] for c in range(len(row)) if row[c]}
            for name, row in zip(images.names, images.labels, strict=True)
        }

    return tell


@pytest.fixture(scope="session")
def real_voc() -> Path:
    """Return the real VOC 2007, where the environment says it is."""
    folder = os.environ.get("DPL_VOC")
    if not folder:
        pytest.skip("set DPL_VOC to a VOC2007 folder to run this test")
    return Path(folder)
