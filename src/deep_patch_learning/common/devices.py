"""This machine: its name, its devices, and how the C library keeps memory."""

import ctypes
import os
import platform
import sys

from deep_patch_learning.common.errors import SettingError, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")


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


def usable_precision(name: str, device: str) -> str:
    """Return the precision that `auto` stands for on a device, or `name` itself."""
    if name != "auto":
        return name
    import torch

    return "bf16-mixed" if device == "cuda" and torch.cuda.is_bf16_supported() else "32-true"


def machine_name(device: str = "cpu") -> str:
    """Return the machine in words: its usable cores and, if not the CPU, the device: `x86_64, 16 cores, NVIDIA H200`."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    name, used = f"{platform.machine()}, {cores} cores", usable_device(device)
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
# Only glibc on Linux is asked. Elsewhere, and where the user has set the allocator, nothing changes. In glibc only the heap of
# the main thread can hold blocks above 64 MiB: run the network there, and let other threads read and search.

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
ALL = 2**31 - 1  # free bytes at the end of the heap above which it shrinks: the largest number that mallopt takes
KEPT_OPERATIONS = (
    64  # 40 steps of training peak at 2.1 to 2.5 GiB with 64, 2.1 with 0, 2.7 to 3.3 with 256, 4.8 with 1,024
)
SWITCH = "DPL_KEEP_MEMORY"  # 0 leaves the allocator as it is
CHOSEN_BY_USER = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_memory(training: bool = False) -> bool:
    """Return whether freed blocks are now kept in this process for the next ones; call it before the first large tensor.

    With `training`, oneDNN keeps fewer operations. It reads this once, before its first operation in the process.
    False means that nothing was changed: another system or C library, a user's own `MALLOC_*` setting, or
    `DPL_KEEP_MEMORY=0`.
    """
    if not _ours_to_set():
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version") or not hasattr(libc, "mallopt"):
        return False
    if training:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KEPT_OPERATIONS))
    # no block has a mapping of its own, and the heap does not shrink
    return all(libc.mallopt(option, value) == 1 for option, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, ALL)))


def give_back_memory() -> None:
    """Give back the pages of freed blocks where `keep_memory` keeps them: images of many sizes leave gaps between blocks."""
    if not _ours_to_set():
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _ours_to_set() -> bool:
    if sys.platform != "linux" or os.environ.get(SWITCH) == "0":
        return False
    chosen = any(name in os.environ for name in CHOSEN_BY_USER)
    return not chosen and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", "")
