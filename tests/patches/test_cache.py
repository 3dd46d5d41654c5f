"""The cache keeps what was made, whatever happens to the processes that fill it."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.patches.cache import PatchCache, default_folder
from deep_patch_learning.patches.selective_search.search import SelectiveSearch
from deep_patch_learning.patches.sliding_window import SlidingWindow


@dataclass
class Counting:
    """A generator that counts its calls; its boxes follow from the picture's first pixel."""

    setting: str = "a"
    calls: list[int] = field(default_factory=list)
    name: ClassVar[str] = "counting"

    def key(self):
        return f"counting {self.setting}"

    def __call__(self, image):
        self.calls.append(1)
        count = 1 + int(image[0, 0, 0]) % 5
        return np.array([[0, 0, 1 + i, 1 + int(image[0, 0, 1]) % 7] for i in range(count)], np.uint16)

    def made(self):
        """Calls for pictures, without the one that warms up."""
        return max(0, len(self.calls) - 1)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    paths = []
    for number in range(12):
        paths.append(folder / f"{number}.png")
        Image.fromarray(np.full((8, 9, 3), (number, 3 * number, 5), np.uint8)).save(paths[-1])
    return paths


def shards(folder):
    return sorted(folder.rglob("*.patches"))


def test_a_picture_is_made_once(tmp_path, pictures):
    make = Counting()
    cache = PatchCache(tmp_path / "cache", make)
    first = cache.patches_of(pictures[4])
    np.testing.assert_array_equal(cache.patches_of(pictures[4]), first)
    again = PatchCache(tmp_path / "cache", make)
    np.testing.assert_array_equal(again.patches_of(str(pictures[4])), first)
    assert make.made() == 1
    assert first.dtype == np.uint16
    assert pictures[4] in again
    assert pictures[5] not in again


def test_content_and_settings_are_the_key(tmp_path, pictures):
    make, other = Counting("a"), Counting("b")
    PatchCache(tmp_path / "cache", make).patches_of(pictures[0])
    PatchCache(tmp_path / "cache", other).patches_of(pictures[0])
    assert (make.made(), other.made()) == (1, 1)
    make = Counting("a")
    cache = PatchCache(tmp_path / "cache", make)
    renamed = pictures[0].rename(pictures[0].with_name("renamed.png"))
    before = cache.patches_of(renamed)
    assert make.made() == 0
    Image.fromarray(np.full((8, 9, 3), 77, np.uint8)).save(renamed)
    assert len(cache.patches_of(renamed)) != len(before)
    assert make.made() == 1


@pytest.mark.parametrize("workers", [1, 4, None])
def test_filling_reports_what_it_did(tmp_path, pictures, workers):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    missing = tmp_path / "missing.jpg"
    cache = PatchCache(tmp_path / "cache", Counting())
    cache.patches_of(pictures[0])
    seen = []
    report = cache.fill([*pictures, broken, missing], workers, lambda done, total: seen.append((done, total)))
    assert (report.made, report.found) == (11, 1)
    assert [path for path, _ in sorted(report.broken)] == [broken, missing]
    assert all(str(path) in reason for path, reason in report.broken)
    assert seen == [(done, 14) for done in range(1, 15)]
    assert report.seconds >= 0
    assert PatchCache(tmp_path / "cache", Counting()).fill(pictures).found == 12


def test_a_failing_generator_is_not_hidden(tmp_path, pictures):
    class Failing(Counting):
        def __call__(self, image):
            if image.shape[0] == 8:
                raise ZeroDivisionError("a bug")
            return super().__call__(image)

    with pytest.raises(ZeroDivisionError):
        PatchCache(tmp_path / "cache", Failing()).fill(pictures)


@pytest.mark.parametrize("cut", [1, 3, 5, 30, 41])
def test_a_torn_tail_costs_one_picture(tmp_path, pictures, cut):
    PatchCache(tmp_path / "cache", Counting()).fill(pictures, workers=1)
    (shard,) = shards(tmp_path / "cache")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-cut])
    make = Counting()
    report = PatchCache(tmp_path / "cache", make).fill(pictures)
    assert (report.found, report.made) == (12 - make.made(), make.made())
    assert 1 <= make.made() <= 2  # a cut of 41 bytes may reach into a second, small record
    assert shard.read_bytes() == whole[:-cut]  # nobody appends behind a torn record
    assert PatchCache(tmp_path / "cache", Counting()).fill(pictures).found == 12


def test_a_damaged_record_is_made_again(tmp_path, pictures):
    wanted = [PatchCache(tmp_path / "cache", Counting()).patches_of(path) for path in pictures]
    for shard in shards(tmp_path / "cache"):
        content = bytearray(shard.read_bytes())
        content[-6] ^= 0x10  # in the last box
        shard.write_bytes(content)
    make = Counting()
    cache = PatchCache(tmp_path / "cache", make)
    for path, boxes in zip(pictures, wanted, strict=True):
        np.testing.assert_array_equal(cache.patches_of(path), boxes)
    assert make.made() == 12


def test_a_foreign_file_in_the_folder_is_ignored(tmp_path, pictures):
    cache = PatchCache(tmp_path / "cache", Counting())
    cache.patches_of(pictures[0])
    (cache.folder / "zz.patches").write_bytes(os.urandom(500))
    (cache.folder / "empty.patches").write_bytes(b"")
    assert PatchCache(tmp_path / "cache", Counting()).fill(pictures).made == 11


def test_a_cache_can_be_sent_to_another_process(tmp_path, pictures):
    cache = PatchCache(tmp_path / "cache", SlidingWindow())
    boxes = cache.patches_of(pictures[0])
    sent = pickle.loads(pickle.dumps(cache))
    assert pictures[0] in sent
    np.testing.assert_array_equal(sent.patches_of(pictures[0]), boxes)
    sent.patches_of(pictures[1])
    assert len(shards(tmp_path / "cache")) == 2


def test_threads_share_one_cache(tmp_path, pictures):
    cache = PatchCache(tmp_path / "cache", Counting())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(cache.patches_of, pictures * 5))
    for index, boxes in enumerate(found):
        np.testing.assert_array_equal(boxes, cache.patches_of(pictures[index % 12]))
    assert PatchCache(tmp_path / "cache", Counting()).fill(pictures).found == 12


def test_processes_see_each_others_records(tmp_path, pictures, monkeypatch):
    monkeypatch.setattr("deep_patch_learning.patches.cache.LOOK_AGAIN", 0.0)
    first, second = Counting(), Counting()
    one, two = PatchCache(tmp_path / "cache", first), PatchCache(tmp_path / "cache", second)
    for number, path in enumerate(pictures):
        (one if number % 2 else two).patches_of(path)
        (two if number % 2 else one).patches_of(path)
    assert first.made() + second.made() == 12


FILL = """
import sys, time
from pathlib import Path
from deep_patch_learning.patches import PatchCache
from deep_patch_learning.patches.sliding_window import SlidingWindow
class Slow(SlidingWindow):
    def __call__(self, image):
        time.sleep(0.004)
        return super().__call__(image)
paths = sorted(Path(sys.argv[2]).glob("*.png"), reverse=sys.argv[3] == "back")
cache = PatchCache(Path(sys.argv[1]), Slow())
print("ready", flush=True)
for path in paths:
    cache.patches_of(path)
    print(path.name, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_two_processes_one_killed_lose_nothing(tmp_path, seed):
    folder = tmp_path / "pictures"
    folder.mkdir()
    chance = random.Random(seed)
    for number in range(60):
        Image.fromarray(np.full((70, 100 + number, 3), number, np.uint8)).save(folder / f"{number:03}.png")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", FILL, str(tmp_path / "cache"), str(folder), way], stdout=subprocess.PIPE, text=True
        )
        for way in ("forth", "back")
    ]
    victim, other = processes
    assert victim.stdout is not None
    kept = [victim.stdout.readline().strip() for _ in range(2 + chance.randrange(20))][1:]
    time.sleep(chance.random() * 0.01)
    victim.send_signal(signal.SIGKILL)
    kept += [line for line in victim.stdout.read().split() if line.endswith(".png")]
    victim.wait()
    other.communicate(timeout=60)
    assert other.returncode == 0
    cache = PatchCache(tmp_path / "cache", SlidingWindow())
    assert len(kept) >= 1
    for path in folder.glob("*.png"):  # the survivor went through all of them
        assert path in cache
        np.testing.assert_array_equal(cache.patches_of(path), SlidingWindow()(np.asarray(Image.open(path))))
    records = b"".join(shard.read_bytes() for shard in shards(tmp_path / "cache"))
    assert records.count(b"DPLP") >= 60


def test_a_real_generator_comes_back_the_same(tmp_path):
    path = tmp_path / "noise.png"
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    Image.fromarray(image).save(path)
    cache = PatchCache(tmp_path / "cache", SelectiveSearch())
    np.testing.assert_array_equal(cache.patches_of(path), SelectiveSearch()(image))
    np.testing.assert_array_equal(
        PatchCache(tmp_path / "cache", SelectiveSearch()).patches_of(path), SelectiveSearch()(image)
    )
    assert cache.seconds_of(path) > 0


def test_a_folder_that_cannot_be_written_is_told(tmp_path, pictures):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(DplError, match="DPL_CACHE"):
        PatchCache(tmp_path / "cache", Counting()).patches_of(pictures[0])


def test_a_missing_picture_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jpg"):
        PatchCache(tmp_path, Counting()).patches_of(tmp_path / "nowhere.jpg")


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"DPL_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c/patches"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/deep-patch-learning/patches"),
        ({"HOME": "/h"}, "/h/.cache/deep-patch-learning/patches"),
    ],
)
def test_the_default_folder_follows_the_environment(monkeypatch, variables, wanted):
    for name in ("DPL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(default_folder()) == wanted
