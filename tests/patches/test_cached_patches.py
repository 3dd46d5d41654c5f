"""The patches of many images, of which memory holds one image's at a time."""

import pickle
import tracemalloc
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.patches import CachedPatches, PatchCache

IMAGES, MOST = 60, 4000


class Many:
    """A generator of some thousand boxes, whose number follows from the image's first pixel."""

    name: ClassVar[str] = "many"

    def key(self):
        return "many"

    def __call__(self, image):
        return np.arange(4 * (MOST - int(image[0, 0, 0])), dtype=np.uint16).reshape(-1, 4)


@pytest.fixture
def paths(tmp_path):
    made = []
    for number in range(IMAGES):
        made.append(tmp_path / f"{number}.png")
        Image.fromarray(np.full((8, 9, 3), number, np.uint8)).save(made[-1])
    return made


@pytest.fixture
def cache(tmp_path, paths):
    cache = PatchCache(tmp_path / "cache", Many())
    cache.fill(paths)
    return cache


def test_it_is_the_list_of_patches(cache, paths):
    patches = CachedPatches(cache, paths)
    assert len(patches) == IMAGES
    for found, path in zip(patches, paths, strict=True):
        np.testing.assert_array_equal(found, cache.patches_of(path))
    np.testing.assert_array_equal(patches[-1], patches[IMAGES - 1])
    assert patches[0].dtype == np.uint16
    with pytest.raises(IndexError):
        patches[IMAGES]
    assert patches.counts().tolist() == [MOST - number for number in range(IMAGES)]


def test_a_part_of_it_is_such_a_sequence_too(cache, paths):
    patches = CachedPatches(cache, [str(path) for path in paths])
    assert [len(each) for each in patches[10:40:10]] == [MOST - 10, MOST - 20, MOST - 30]
    some = patches.subset([7, 3])
    assert isinstance(some, CachedPatches)
    assert some.paths == [paths[7], paths[3]]
    assert some.counts().tolist() == [MOST - 7, MOST - 3]
    assert len(CachedPatches(cache, [])) == len(patches[5:5].counts()) == 0


def test_memory_does_not_hold_the_patches(cache, paths):
    patches = CachedPatches(cache, paths)
    total = int(patches.counts().sum()) * 8
    tracemalloc.start()
    try:
        for _ in range(2):
            for each in patches:
                assert len(each)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < total / 8


def test_it_can_be_sent_to_another_process(cache, paths):
    sent = pickle.loads(pickle.dumps(CachedPatches(cache, paths)))
    np.testing.assert_array_equal(sent[4], cache.patches_of(paths[4]))


def test_patches_that_are_gone_are_made_again(cache, paths):
    patches = CachedPatches(cache, paths)
    before = patches[2]
    cache.close()
    for shard in cache.folder.glob("*.patches"):
        shard.unlink()
    np.testing.assert_array_equal(patches[2], before)
    assert patches.counts()[3] == MOST - 3


def test_the_patches_of_a_changed_image_are_never_kept_under_its_old_content(cache, paths):
    patches, old = CachedPatches(cache, paths), paths[0].read_bytes()
    assert len(patches[0]) == MOST
    cache.close()
    for shard in cache.folder.glob("*.patches"):
        shard.unlink()
    paths[0].write_bytes(paths[9].read_bytes())
    assert len(patches[0]) == MOST - 9
    paths[0].write_bytes(old)
    assert len(PatchCache(cache.folder.parent, Many()).patches_of(paths[0])) == MOST


def test_a_missing_image_is_named(cache, paths):
    patches = CachedPatches(cache, paths)
    paths[1].unlink()
    with pytest.raises(DataError, match=r"1\.png"):
        patches[1]
