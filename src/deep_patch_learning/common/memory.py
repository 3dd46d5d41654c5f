"""Memory that is kept between steps instead of being given back to the kernel and taken again.

The large tensors of a training step or of an image live for some milliseconds. glibc maps each of them anew and gives it
back afterwards, and the kernel clears every page again: as much system time as user time on two cores. Kept blocks cost no
such time, but more memory: 4.8 GiB after 40 steps instead of about 3. That excess goes away when oneDNN keeps fewer
operations than its usual 1,024; probably its small blocks, new ones for every size of image, lie between the large ones.
Hence training keeps fewer.
`benchmarks/memory_allocator.py` measures both.

Only glibc on Linux is asked. Elsewhere, and where the user has set the allocator, nothing changes. In glibc only the heap of
the main thread can hold blocks above 64 MiB: run the network there, and let other threads read and search.
"""

import ctypes
import os
import sys

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


def _ours_to_set() -> bool:
    if sys.platform != "linux" or os.environ.get(SWITCH) == "0":
        return False
    chosen = any(name in os.environ for name in CHOSEN_BY_USER)
    return not chosen and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", "")
