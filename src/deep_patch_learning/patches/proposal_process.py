"""Proposal files read in a process of their own: a crash, or memory and time without end, end that process alone.

That process is `python -m deep_patch_learning.patches.proposals FILE RESULT MEMORY SECONDS`.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError, DplError

try:
    import resource
except ImportError:  # not on this system: the process is still apart, but its memory has no limit
    resource = None  # type: ignore[assignment]

READS = "deep_patch_learning.patches.proposals"
MEMORY, MEMORY_PER_BYTE = 3 << 29, 12  # bytes of address space: 1.5 GiB, and so many for each byte of the file
SECONDS, BYTES_PER_SECOND = 12, 1 << 20  # of the processor: so many, and one more for so many bytes of the file
KINDS: dict[str, type[DplError]] = {kind.__name__: kind for kind in (DplError, DataError)}


def parsed_apart(path: Path) -> dict[str, np.ndarray]:
    """Return the boxes of a proposal file, or raise its error, after a process of its own has read it."""
    size = path.stat().st_size
    memory, seconds = MEMORY + MEMORY_PER_BYTE * size, SECONDS + size // BYTES_PER_SECOND
    with tempfile.TemporaryDirectory(prefix="dpl-proposals-") as folder:
        result = Path(folder) / "boxes.npz"
        # -P: the folder in which the user works is not searched for modules
        command = [sys.executable, "-P", "-m", READS, str(path), str(result), str(memory), str(seconds)]
        try:
            done = subprocess.run(
                command,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10 * seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DataError(_too_much(path, f"{10 * seconds} s")) from None
        if done.returncode == 2:
            answer = json.loads(done.stdout)
            raise KINDS[answer["kind"]](answer["said"])
        if done.returncode:
            raise DataError(_died(path, done.returncode, done.stderr, seconds))
        with np.load(result, allow_pickle=False) as content:
            names = json.loads(content["names"].tobytes())
            if not names:
                raise DataError(f"{path}: holds the boxes of no image. Write the file again.")
            return dict(zip(names, np.split(content["boxes"], content["ends"][:-1]), strict=True))


def _environment() -> dict[str, str]:
    """Return the environment of the process: the modules of this one, and one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


def _too_much(path: Path, what: str) -> str:
    return f"{path}: reading it takes more than {what}. Do not trust this file; a good one is read again as .npz."


def _died(path: Path, status: int, errors: bytes, seconds: int) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return _too_much(path, f"{seconds} s")
    if status < 0:
        name = signal.Signals(-status).name
        return f"{path}: is damaged so that the library that reads it crashes ({name}). Download it again."
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {status}"]
    return f"{path}: the process that reads it failed ({last[0]}). Download the file again."


def limit_this_process(memory: int, seconds: int) -> None:
    """Let this process take at most so many bytes of address space and seconds of the processor, and leave no core file."""
    if resource is None:
        return
    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
