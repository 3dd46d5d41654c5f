"""Decoded images: the pixels of the files, sizes without decoding, a bound on what is held."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data import store as store_module
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import image_size, read_image
from deep_patch_learning.data.store import ImageStore


@pytest.fixture
def images(tmp_path: Path) -> TaggedImages:
    random = np.random.default_rng(0)
    paths = []
    for number, size in enumerate([(20, 30, 3), (30, 20, 3), (25, 25, 3)]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(random.integers(0, 256, size, np.uint8)).save(paths[-1])
    return TaggedImages(("a",), tuple("xyz"), tuple(paths), np.ones((3, 1), np.int8))


def test_an_image_is_what_the_file_holds(images: TaggedImages) -> None:
    store = ImageStore(images)
    store.fill()
    assert store.place == "host"
    for index in (0, 1, 2, 1):
        assert torch.equal(store[index], torch.from_numpy(images.read(index)))
    assert store.sizes == [(20, 30), (30, 20), (25, 25)]


def test_no_more_is_held_than_asked_for(images: TaggedImages) -> None:
    store = ImageStore(images, limit=2_000)
    first = store[0]
    assert store[0] is first  # 1,800 bytes
    assert store[1] is not store[1]
    assert torch.equal(store[1], torch.from_numpy(images.read(1)))


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [(100_000, 3, 2 * 1_800), (100_000, 2, 1_800), (100_000, 9, 2 * 1_800), (4_000, 3, 2_200), (1_800, 3, 0)],
)
def test_the_growth_to_come_is_that_of_images_not_yet_used(
    images: TaggedImages, limit: int, used: int, expected: int
) -> None:
    store = ImageStore(images, limit=limit)
    assert store.expected_growth(used) == 0  # nothing is known of their size
    store[0]
    assert store.expected_growth(used) == expected


def test_nothing_grows_once_all_images_are_held(images: TaggedImages) -> None:
    store = ImageStore(images)
    for index in range(3):
        store[index]
    assert store.expected_growth(3) == 0


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif"])
def test_sizes_are_those_of_upright_images(tmp_path: Path, orientation: int, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned{suffix}"
    Image.new("RGB", (30, 20)).save(path, exif=exif)
    assert image_size(path) == read_image(path).shape[:2]


def test_the_size_of_a_broken_image_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.jpg"
    path.write_bytes(b"no image")
    with pytest.raises(DataError, match="not an image that can be read"):
        image_size(path)


def test_each_limit_on_memory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {resource.RLIMIT_AS: resource.RLIM_INFINITY, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "getpagesize", lambda: 4096)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "statm").write_text("100 50 20 5 0 30 0\n")
    assert store_module._allowed(tmp_path) == []
    limits[resource.RLIMIT_AS] = 1_000_000
    assert store_module._allowed(tmp_path) == [1_000_000 - 100 * 4096]
    limits[resource.RLIMIT_DATA] = 500_000
    assert store_module._allowed(tmp_path) == [1_000_000 - 100 * 4096, 500_000 - 30 * 4096]


GROUP_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@pytest.mark.parametrize("version", [1, 2])
def test_the_groups_around_a_process_count_without_the_cache_of_files(tmp_path: Path, version: int) -> None:
    def group(path: Path, most: str, used: int, cached: int) -> None:
        limit, held, cache = GROUP_FILES[version]
        path.mkdir(parents=True, exist_ok=True)
        (path / limit).write_text(f"{most}\n")
        (path / held).write_text(f"{used}\n")
        (path / "memory.stat").write_text(f"anon 7\n{cache} {cached}\nfile 9\n")

    (tmp_path / "proc" / "self").mkdir(parents=True)
    own = "0::/job/step\n" if version == 2 else "4:cpu,memory:/job/step\n3:cpuset:/elsewhere\n0::/\n"
    (tmp_path / "proc" / "self" / "cgroup").write_text(own)
    top = tmp_path / "sys" / "fs" / "cgroup" / ("" if version == 2 else "memory")
    group(top / "job" / "step", "max" if version == 2 else str(1 << 62), 900, 0)
    group(top / "job", "5000", 4500, 4000)
    group(top / "other", "10", 9, 0)
    least = min(one for one in store_module._allowed(tmp_path) if one < 1 << 60)
    assert least == 5000 - (4500 - 4000)
