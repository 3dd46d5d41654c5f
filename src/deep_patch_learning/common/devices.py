"""This machine: its name, its devices, and how the C library keeps memory."""

import ctypes
import gc
import os
import platform
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import SettingError, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")
FEW = 4  # processes that may share a core


def usable_device(name: str) -> str:
    """Return `cpu`, `cuda` or `mps` for a name the user gave, after making sure that this machine has it."""
    import torch

    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if has[device])
    if name not in has:
        raise SettingError(f"there is no device '{name}'.{did_you_mean(name, DEVICES)}")
    if not has[name]:
        raise SettingError(f"this machine has no usable {name} device. Leave --device out, or give cpu.")
    return name


def check_device_count(wanted: int, device: str) -> None:
    """Raise `SettingError` where several processes are to train and this machine has not as many devices for them."""
    if wanted == 1:
        return
    device = usable_device(device)
    if device == "cuda":
        import torch

        has, what = torch.cuda.device_count(), "GPUs"
    else:
        has, what = (max(usable_cores(), FEW), "cores") if device == "cpu" else (1, "devices")
    if wanted > has:
        raise SettingError(f"--devices {wanted}: this machine has {what} for {has}. Give at most {has}.")


def usable_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def user_folder() -> Path:
    """Return where files of this user can be kept between commands: below the home folder, else below the temporary one."""
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user whom the system does not know, as in some containers
        home = None
    for folder in [] if home is None else [home / ".cache"]:
        if _may_be_written(folder):
            return folder
    folder = Path(tempfile.gettempdir()) / f"dpl-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    with suppress(FileExistsError):  # a file, or a link that leads nowhere
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or not folder.is_dir() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
        folder = Path(tempfile.mkdtemp(prefix="dpl-"))  # the other is somebody else's
    _say_once(f"the home folder may not be written to: {folder} is used. Set DPL_CACHE to keep patches elsewhere")
    return folder


def _may_be_written(folder: Path) -> bool:
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
    except PermissionError:  # a home folder inside one that may not be entered
        return False
    return os.access(there, os.W_OK | os.X_OK)


@cache
def _say_once(words: str) -> None:
    from deep_patch_learning.common.progress import console

    console.print(words, markup=False, soft_wrap=True, style="yellow")


def compiled(**options: Any) -> Any:
    """Return numba's `njit` with these options, after making sure that there is a folder for what it compiles."""
    if "numba" not in sys.modules and "NUMBA_CACHE_DIR" not in os.environ and not _numba_has_a_folder():
        os.environ["NUMBA_CACHE_DIR"] = str(user_folder() / "numba")
    from numba import njit

    return njit(**options)


def _numba_has_a_folder() -> bool:
    """Whether numba can keep its files beside the package's, as it does first; else the package is read-only."""
    return os.access(Path(__file__).parents[1], os.W_OK)


def usable_precision(name: str, device: str) -> str:
    """Return the precision that `auto` stands for on a device, or `name` itself."""
    if name != "auto":
        return name
    import torch

    return "bf16-mixed" if device == "cuda" and torch.cuda.is_bf16_supported() else "32-true"


def machine_name(device: str = "cpu") -> str:
    """Return the machine in words: its usable cores and, if not the CPU, the device: `x86_64, 16 cores, NVIDIA H200`."""
    name, used = f"{platform.machine()}, {usable_cores()} cores", usable_device(device)
    if used == "cuda":
        import torch

        return f"{name}, {torch.cuda.get_device_name()}"
    return name if used == "cpu" else f"{name}, {used}"


# Memory that is kept between steps instead of being given back to the kernel and taken again.
#
# The large tensors of a training step or of an image live for some milliseconds. glibc maps each of them anew and gives it
# back afterwards, and the kernel clears every page again: as much system time as user time on two cores. Kept blocks cost no
# such time, but more memory: 4.8 GiB after 40 steps instead of about 3. That excess goes away when oneDNN keeps fewer
# operations than its usual 1,024; probably its small blocks, new ones for every size of image, lie between the large ones.
# Hence training keeps fewer. `benchmarks/memory_allocator.py` measures both.
#
# All threads share one heap. glibc gives new threads heaps of their own, up to eight per core, and blocks that are freed in
# one of them are of no use to the next thread: a process that labels with short-lived threads grew by a tenth over 1,000
# images. It costs no time: threads ask for large blocks, and rarely.
#
# Only glibc on Linux is asked. Elsewhere, and where the user has set the allocator, nothing changes.

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -3, -4, -8  # M_TRIM_THRESHOLD and the like of malloc.h
MAPPINGS, LARGE = 65536, 65536  # at most so many mappings, as in glibc; bytes of a block that gets its own
ALL = 2**31 - 1  # free bytes at the end of the heap above which it shrinks: the largest number that mallopt takes
KEPT_OPERATIONS = (
    64  # 40 steps of training peak at 2.1 to 2.5 GiB with 64, 2.1 with 0, 2.7 to 3.3 with 256, 4.8 with 1,024
)
SWITCH = "DPL_KEEP_MEMORY"  # 0 leaves the allocator as it is
# the same, as the environment of a process whose threads start before `keep_memory` is called
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
CHOSEN_BY_USER = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_memory(training: bool = False) -> bool:
    """Return whether freed blocks are now kept in this process for the next ones; call it before the first large tensor.

    With `training`, oneDNN keeps fewer operations. It reads this once, before its first operation in the process.
    False means that nothing was changed: another system or C library, a user's own `MALLOC_*` setting, or
    `DPL_KEEP_MEMORY=0`.
    """
    libc = _glibc()
    if libc is None:
        return False
    if training:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KEPT_OPERATIONS))
    one_heap = {} if "MALLOC_ARENA_MAX" in os.environ else {ARENA_MAX: 1}
    # no block has a mapping of its own, and the heap does not shrink
    return _set(libc, {MMAP_MAX: 0, TRIM_THRESHOLD: ALL} | one_heap)


def map_large_blocks() -> bool:
    """Return whether each large block now has a mapping of its own, until `keep_memory` is called.

    For what decodes many images and keeps a little of each: small blocks that stay between the large ones of decoded images
    leave gaps, and memory grows with the number of images.
    """
    libc = _glibc()
    return libc is not None and _set(libc, {MMAP_MAX: MAPPINGS, MMAP_THRESHOLD: LARGE, TRIM_THRESHOLD: LARGE})


def give_back_memory() -> None:
    """Give back the pages of freed blocks where `keep_memory` keeps them: images of many sizes leave gaps between blocks."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def collect_garbage_later(seconds: float = 3.0) -> None:
    """Let Python's garbage collector begin after the start of a command.

    What imports make stays, and the collector would look at all of it again and again: a sixth of the time of `dpl predict` with
    one image.
    """
    gc.disable()
    beginning = threading.Timer(seconds, gc.enable)
    beginning.daemon = True
    beginning.start()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=gc.enable)  # the timer runs in the parent alone


def _glibc() -> Any:
    """Return the C library if it is glibc and the user has not set its allocator."""
    if not _ours_to_set():
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def _set(libc: Any, options: dict[int, int]) -> bool:
    return all(libc.mallopt(option, value) == 1 for option, value in options.items())


def _ours_to_set() -> bool:
    if sys.platform != "linux" or os.environ.get(SWITCH) == "0":
        return False
    chosen = any(name in os.environ for name in CHOSEN_BY_USER)
    return not chosen and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", "")
