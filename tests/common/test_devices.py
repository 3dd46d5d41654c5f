"""Freed blocks are kept for the next ones, unless the user has chosen otherwise."""

import json
import os
import platform
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deep_patch_learning.common import devices
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.patches.cache import default_folder

WORK = """
import json, os, resource, sys
import torch
from deep_patch_learning.common.devices import keep_memory

def work(times):
    for _ in range(times):
        torch.empty(16 * 2**20).fill_(1.0)  # 64 MiB: taken, written and freed

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work(times)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = keep_memory(training=True) if sys.argv[1] == "keep" else None
faults(20)  # the heap grows to its size: up to 8 of the first blocks are new ones
print(json.dumps({"kept": kept, "faults": faults(20), "operations": os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY")}))
"""
NAMES = (*devices.CHOSEN_BY_USER, devices.SWITCH, "GLIBC_TUNABLES", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")


def run(way, **settings):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    output = subprocess.check_output([sys.executable, "-c", WORK, way], env=clean | settings, text=True)
    return json.loads(output)


@glibc
def test_blocks_that_are_kept_cost_no_page_faults():
    before, after = run("leave"), run("keep")
    assert after["kept"]
    assert before["faults"] > 20 * 100  # even if every page were one of 512 KiB
    assert after["faults"] < before["faults"] / 20


@glibc
@pytest.mark.parametrize(
    "settings",
    [
        {"DPL_KEEP_MEMORY": "0"},
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"},
    ],
)
def test_a_users_own_setting_is_left_alone(settings):
    found = run("keep", **settings)
    assert found["kept"] is False
    assert found["operations"] is None
    assert found["faults"] > 20 * 100


@glibc
def test_only_training_keeps_few_operations_and_not_against_the_user(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert run("keep")["operations"] == str(devices.KEPT_OPERATIONS)
    assert run("keep", ONEDNN_PRIMITIVE_CACHE_CAPACITY="512")["operations"] == "512"
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: _Library())
    assert devices.keep_memory()
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_not_asked(monkeypatch, system):
    monkeypatch.setattr(devices.sys, "platform", system)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: pytest.fail("asked"))
    assert not devices.keep_memory()


def test_another_c_library_is_left_alone(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: object())
    assert not devices.keep_memory(training=True)
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ


class _Library:
    """A glibc that takes every setting."""

    gnu_get_libc_version = "2.36"

    def mallopt(self, option, value):
        return 1


GIVE_BACK = """
import json
import numpy as np
from deep_patch_learning.common.devices import give_back_memory, keep_memory

def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4 / 1024  # MiB

keep_memory()
blocks = [np.ones(2**17) for _ in range(200)]  # 1 MiB each
del blocks[::2]  # every second one: gaps that no shrinking of the heap reaches
before = held()
give_back_memory()
print(json.dumps({"before": before, "after": held()}))
"""


@glibc
@pytest.mark.parametrize(("settings", "given"), [({}, True), ({"DPL_KEEP_MEMORY": "0"}, False)])
def test_gaps_between_blocks_are_given_back(settings, given):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    # blocks on the heap, not in mappings of their own, whoever keeps them
    clean |= settings | ({} if given else {"MALLOC_MMAP_MAX_": "0"})
    found = json.loads(subprocess.check_output([sys.executable, "-c", GIVE_BACK], env=clean, text=True))
    assert (found["before"] - found["after"] > 50) == given


MAPPED = """
import sys
import numpy as np
from deep_patch_learning.common.devices import keep_memory, map_large_blocks

def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4 / 1024  # MiB

keep_memory()
if sys.argv[1] == "mapped":
    assert map_large_blocks()
blocks, small = [], []
for number in range(200):
    blocks.append(np.ones(2**17))  # 1 MiB
    small.append(b"x" * 2000)  # stays, behind it
before = held()
blocks.clear()
print(before - held())
"""


@glibc
@pytest.mark.parametrize(("way", "given"), [("kept", False), ("mapped", True)])
def test_large_blocks_that_are_mapped_are_given_back_when_freed(way, given):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    found = float(subprocess.check_output([sys.executable, "-c", MAPPED, way], env=clean, text=True))
    assert (found > 150) == given


def test_without_a_usable_home_the_temporary_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(_: int) -> None:
        raise KeyError("no such user")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("pwd.getpwuid", unknown)
    for home in (None, "/dev/null"):  # a container without a user, and a home that is no folder
        monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
        for name in ("DPL_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        found = default_folder()
        assert found == tmp_path / f"dpl-{os.getuid()}" / "deep-patch-learning" / "patches"
        found.mkdir(parents=True, exist_ok=True)
    assert stat.S_IMODE((tmp_path / f"dpl-{os.getuid()}").stat().st_mode) == 0o700
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home" / ".cache" / "deep-patch-learning" / "patches"
    (tmp_path / f"dpl-{os.getuid()}").rename(tmp_path / "other")
    (tmp_path / f"dpl-{os.getuid()}").symlink_to(tmp_path / "other")  # not a folder of ours
    monkeypatch.setenv("HOME", "/dev/null")
    assert not default_folder().is_relative_to(tmp_path / f"dpl-{os.getuid()}")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_a_home_that_may_not_be_entered_is_none(tmp_path: Path) -> None:
    (tmp_path / "closed" / "home").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    code = (
        "import os, sys, tempfile; from deep_patch_learning.common.devices import user_folder\n"
        "from deep_patch_learning.common.progress import console; console.print('', style='yellow')\n"  # while it may be read
        "os.setuid(65534); os.environ['HOME'] = sys.argv[1]; tempfile.tempdir = sys.argv[2]; print(user_folder())"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    temporary.chmod(0o777)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if name not in ("DPL_CACHE", "XDG_CACHE_HOME")}
    words = [sys.executable, "-c", code, str(tmp_path / "closed" / "home"), str(temporary)]
    done = subprocess.run(words, env=clean, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(temporary / "dpl-65534"), done.stderr


def test_numba_keeps_its_files_where_the_package_may_not_be_written(tmp_path: Path) -> None:
    code = (
        "from deep_patch_learning.common import devices; devices._numba_has_a_folder = lambda: False\n"
        "from deep_patch_learning.patches.selective_search import segmentation\n"
        "from numba import config; print(config.CACHE_DIR)"
    )
    env = {**os.environ, "HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert Path(found.stdout.splitlines()[-1]) == tmp_path / f"dpl-{os.getuid()}" / "numba"
    assert "home folder may not be written to" in " ".join(found.stderr.split())


def test_more_devices_than_there_are_start_nothing() -> None:
    devices.check_device_count(2, "cpu")
    with pytest.raises(SettingError, match="--devices 99999: this machine has cores for"):
        devices.check_device_count(99_999, "cpu")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_name_that_somebody_took_is_not_used(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tmp_path / f"dpl-{os.getuid()}"
    taken.touch() if kind == "file" else taken.symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(devices, "_may_be_written", lambda folder: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = devices.user_folder()
    assert folder.is_dir()
    assert folder.parent == tmp_path
    assert folder != taken


THREADS = """
import sys, threading
from deep_patch_learning.common.devices import keep_memory

keep_memory()
ready, go_on = threading.Barrier(9), threading.Event()

def work():
    held = [bytearray(60_000) for _ in range(50)]
    ready.wait()
    go_on.wait()

for _ in range(8):
    threading.Thread(target=work).start()
ready.wait()
heaps = sum(1 for line in open("/proc/self/maps") if int(line.split("-")[0], 16) % (64 << 20) == 0 and " rw-p " in line)
go_on.set()
print(heaps)
"""


@glibc
@pytest.mark.parametrize(("settings", "most"), [({}, 0), ({"MALLOC_ARENA_MAX": "4"}, 3), ({"DPL_KEEP_MEMORY": "0"}, 8)])
def test_threads_share_one_heap_unless_the_user_says_how_many(settings, most):
    clean = {name: value for name, value in os.environ.items() if name not in (*NAMES, "MALLOC_ARENA_MAX")}
    heaps = int(subprocess.check_output([sys.executable, "-c", THREADS], env=clean | settings, text=True))
    assert heaps == most


COLLECTOR = """
import gc, os, time
from deep_patch_learning.common.devices import collect_garbage_later

collect_garbage_later(0.5)
print(gc.isenabled(), flush=True)
child = os.fork()
if child == 0:  # the timer is not in a forked child
    os._exit(gc.isenabled())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
time.sleep(1)
print(gc.isenabled())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_garbage_is_collected_after_the_start_and_in_forked_children():
    found = subprocess.check_output([sys.executable, "-W", "ignore", "-c", COLLECTOR], text=True)
    assert found.split() == ["False", "1", "True"]
