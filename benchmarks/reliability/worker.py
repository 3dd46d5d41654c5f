"""The process that reads fuzzed inputs, one after another: a crash or a hang ends it alone, and it says what it saw.

python worker.py reads lines `KIND PATH` from standard input and answers each with a line of JSON: `error` is empty, `clean` for
what the command line says in one line, or `fault`; `said` is the message, `peak` the most memory in bytes since the line before,
`writes` the paths that were written to, and `started` the programs that were started.
"""

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
}


class Watch:
    """Which files this process changes, and which programs and connections it starts, by Python's audit events."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.started: list[str] = []
        sys.addaudithook(self._event)

    def _event(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(details[0], str | bytes):
            mode, flags = details[1], details[2]
            if flags & WRITES or (isinstance(mode, str) and set(mode) & set("wax+")):
                self.writes.append(os.path.abspath(os.fsdecode(details[0])))  # noqa: PTH100 - no import inside a hook
        elif event in CHANGES and not (event in ("os.remove", "os.rmdir") and details[1] != -1):  # rmtree said it
            self.writes.append(os.path.abspath(os.fsdecode(details[-1 if event == "os.rename" else 0])))  # noqa: PTH100
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"):
            self.started.append(f"{event} {details!r:.200}")


def peak() -> int:
    """Return the most memory of this process, in bytes, since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def forget_peak() -> None:
    """Begin to count the most memory anew."""
    Path("/proc/self/clear_refs").write_text("5")


def answer(kind: str, path: Path, watch: Watch) -> dict[str, Any]:
    """Return what came of reading one input."""
    from targets import CLEAN, TARGETS

    from deep_patch_learning.common.errors import in_one_line

    watch.writes.clear()
    watch.started.clear()
    error, said = "", ""
    try:
        TARGETS[kind](path)
    except CLEAN as found:
        said = in_one_line(found) or traceback.format_exc()[-3000:]
        error = "clean"
    except BaseException:
        error, said = "fault", traceback.format_exc()[-3000:]
    most = peak()
    found = {
        "error": error,
        "said": said,
        "peak": most,
        "writes": sorted(set(watch.writes)),
        "started": watch.started[:5],
    }
    forget_peak()
    return found


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")  # our own: what libraries print goes elsewhere
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    import torch

    import deep_patch_learning.inference.loading  # noqa: F401 - first, so that memory is that of the inputs

    torch.set_num_threads(1)
    watch = Watch()
    forget_peak()
    for line in sys.stdin:
        kind, _, path = line.rstrip("\n").partition(" ")
        print(json.dumps(answer(kind, Path(path), watch)), file=answers, flush=True)


if __name__ == "__main__":
    main()
