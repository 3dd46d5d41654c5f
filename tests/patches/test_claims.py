"""Processes that need the same patches share the work, and survive each other's death."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.patches import PatchCache
from deep_patch_learning.patches.cache_files import claims_in

IMAGES = 24
WARM_UP = (64, 64, 3)  # the shape with which a cache lets its generator compile

# Fills a cache, with one file per search begun and per search ended; the image whose first pixel is `stuck` never ends.
FILL = """
import json, sys, time, uuid
from pathlib import Path
import numpy as np
from deep_patch_learning.patches import PatchCache

log, stuck, seconds = Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])

class Noted:
    name = "noted"
    def key(self):
        return "noted"
    def __call__(self, image):
        if image.shape != (64, 64, 3):
            number = int(image[0, 0, 0])
            (log / f"begun-{number}-{uuid.uuid4().hex}").touch()
            time.sleep(600 if number == stuck else seconds)
            (log / f"ended-{number}-{uuid.uuid4().hex}").touch()
        return np.array([[0, 0, 1, 1 + int(image[0, 0, 0])]], np.uint16)

cache, seen = PatchCache(Path(sys.argv[1]), Noted()), []
print("ready", flush=True)
sys.stdin.readline()
report = cache.fill(sorted(Path(sys.argv[2]).iterdir()), 2, lambda done, total: seen.append([done, total]))
broken = sorted(path.name for path, _ in report.broken)
print(json.dumps({"made": report.made, "found": report.found, "broken": broken, "seen": seen}), flush=True)
"""

TAKE = """
import sys
from pathlib import Path
from deep_patch_learning.patches.cache_files import claims_in
print(claims_in(Path(sys.argv[1])).take(bytes.fromhex(sys.argv[2])))
"""


@dataclass
class Noted:
    """The same generator for this process, whose searches nobody counts."""

    name: ClassVar[str] = "noted"

    def key(self):
        return "noted"

    def __call__(self, image):
        return np.array([[0, 0, 1, 1 + int(image[0, 0, 0])]], np.uint16)


class Fillers:
    """Processes that fill one cache; whatever happens in a test, none outlives it."""

    def __init__(self, folder):
        self.cache, self.images, self.log = (folder / name for name in ("cache", "images", "log"))
        self.images.mkdir()
        self.log.mkdir()
        self.started = []
        for number in range(IMAGES):
            Image.fromarray(np.full((8, 9, 3), number, np.uint8)).save(self.images / f"{number:03}.png")

    def start(self, stuck=-1, seconds=0.02):
        command = [sys.executable, "-c", FILL, self.cache, self.images, self.log, stuck, seconds]
        process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    def go(self, process):
        process.stdin.write("go\n")
        process.stdin.flush()

    def result(self, process):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return json.loads(output)

    def searches(self, what, number=None):
        return list(self.log.glob(f"{what}-{'*' if number is None else number}-*"))

    def wait_for_begun(self, number):
        until = time.monotonic() + 60
        while not self.searches("begun", number):
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.fixture
def fillers(tmp_path):
    made = Fillers(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def test_processes_make_each_image_once(fillers):
    processes = [fillers.start() for _ in range(4)]
    for process in processes:
        fillers.go(process)
    results = [fillers.result(process) for process in processes]
    assert len(fillers.searches("begun")) == len(fillers.searches("ended")) == IMAGES
    assert sum(result["made"] for result in results) == IMAGES
    assert sum(result["made"] > 0 for result in results) > 1
    for result in results:
        assert result["made"] + result["found"] == IMAGES
        assert result["seen"] == [[done, IMAGES] for done in range(1, IMAGES + 1)]


def test_a_broken_image_is_listed_by_every_process(fillers):
    (fillers.images / "zz.png").write_bytes(b"no image")
    processes = [fillers.start() for _ in range(2)]
    for process in processes:
        fillers.go(process)
    results = [fillers.result(process) for process in processes]
    assert [result["broken"] for result in results] == [["zz.png"], ["zz.png"]]
    assert all(result["seen"][-1] == [IMAGES + 1, IMAGES + 1] for result in results)
    assert len(fillers.searches("begun")) == IMAGES


def test_the_images_of_a_killed_process_are_made_by_another(fillers):
    victim, other = fillers.start(stuck=5), fillers.start()
    fillers.go(victim)
    fillers.wait_for_begun(5)
    fillers.go(other)
    while len(PatchCache(fillers.cache, Noted())) < IMAGES - 1:
        time.sleep(0.02)
    time.sleep(0.2)
    assert other.poll() is None  # it waits for the last image
    assert len(fillers.searches("begun", 5)) == 1
    victim.send_signal(signal.SIGKILL)
    result = fillers.result(other)
    assert result["made"] + result["found"] == IMAGES
    assert result["seen"][-1] == [IMAGES, IMAGES]
    assert len(fillers.searches("ended")) == IMAGES  # each search that ended was the only one of its image
    assert len(fillers.searches("begun")) == IMAGES + 1  # the victim's was cut short


def test_a_stopped_process_is_not_waited_for_forever(fillers, monkeypatch):
    monkeypatch.setattr("deep_patch_learning.patches.cache.PATIENCE", 0.3)
    stopped = fillers.start(stuck=0)
    fillers.go(stopped)
    fillers.wait_for_begun(0)
    stopped.send_signal(signal.SIGSTOP)
    cache = PatchCache(fillers.cache, Noted())
    paths = sorted(fillers.images.iterdir())
    assert cache.patches_of(paths[0]).tolist() == [[0, 0, 1, 1]]
    report = cache.fill(paths)
    assert report.made + report.found == IMAGES


def test_a_claim_keeps_other_processes_away_until_its_own_is_gone(tmp_path):
    claims, image, other = claims_in(tmp_path / "claims"), bytes(range(16)), bytes(range(1, 17))

    def elsewhere(wanted):
        output = subprocess.check_output([sys.executable, "-c", TAKE, claims.file, wanted.hex()], text=True)
        return {"True": True, "False": False}[output.strip()]

    assert claims.take(image)
    assert not claims.take(image)
    assert not elsewhere(image)
    assert elsewhere(other)  # and is free again, since that process has ended
    assert claims.take(other)
    claims.release(other)
    assert not elsewhere(image)  # a release frees nothing else
    claims.release(image)
    assert elsewhere(image)
    assert claims_in(tmp_path / "claims") is claims


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_no_claims_of_its_parent(tmp_path):
    claims, image, other = claims_in(tmp_path / "claims"), bytes(16), bytes([9] * 16)
    assert claims.take(image)
    child = os.fork()
    if child == 0:
        # 0 only if the parent's claim holds, and its own can be taken and given back
        right = not claims.take(image) and claims.take(other)
        claims.release(other)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    child = os.fork()
    if child == 0:
        os._exit(0 if not claims.take(image) else 1)  # the first child's end did not free the parent's
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    claims.release(image)


class Slow(Noted):
    """Counts the searches of this process's threads."""

    name: ClassVar[str] = "slow"

    def __init__(self):
        self.searches = 0
        self.lock = threading.Lock()

    def __call__(self, image):
        if image.shape != WARM_UP:
            with self.lock:
                self.searches += 1
            time.sleep(0.02)
        return super().__call__(image)


def test_threads_and_caches_of_one_process_make_each_image_once(fillers):
    make = Slow()
    caches = [PatchCache(fillers.cache, make) for _ in range(2)]
    paths = sorted(fillers.images.iterdir())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda job: caches[job % 2].patches_of(paths[job // 4]), range(4 * 6)))
    assert make.searches == 6
    assert [boxes[0, 3] for boxes in found] == [1 + job // 4 for job in range(24)]


def test_copies_of_one_image_are_searched_once(fillers):
    paths = sorted(fillers.images.iterdir())[:3]
    for number in range(5):
        copy = fillers.images / f"copy{number}.png"
        copy.write_bytes(paths[0].read_bytes())
        paths.append(copy)
    make = Slow()
    report = PatchCache(fillers.cache, make).fill(paths, workers=4)
    assert (make.searches, report.made, report.found) == (3, 3, 5)


def test_a_search_that_fails_gives_its_claim_back(fillers):
    class Failing(Noted):
        def __call__(self, image):
            raise ZeroDivisionError("a bug")

    path = sorted(fillers.images.iterdir())[3]
    with pytest.raises(ZeroDivisionError):
        PatchCache(fillers.cache, Failing()).patches_of(path)
    assert PatchCache(fillers.cache, Noted()).patches_of(path).tolist() == [[0, 0, 1, 4]]


def test_claims_leave_nothing_open(fillers):
    opened = Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("this system does not list open files")
    cache = PatchCache(fillers.cache, Noted())
    cache.fill(fillers.images.iterdir())
    cache.close()
    assert not [file for file in opened.iterdir() if file.exists() and file.resolve() == cache.folder / "claims"]
