"""Processes of `dpl` that start at once: each is forked from this one, which has imported everything and runs nothing itself."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path


def import_everything() -> None:
    """Import what the commands need, with one thread each, so that a forked process is soon where it may be killed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import deep_patch_learning.cli.app
    import deep_patch_learning.commands.label
    import deep_patch_learning.commands.patches
    import deep_patch_learning.commands.predict
    import deep_patch_learning.commands.train
    import deep_patch_learning.model.kernels.pooling_cpu
    import deep_patch_learning.patches.selective_search.search
    import deep_patch_learning.training.rounds  # noqa: F401


class Forked:
    """A process that runs `dpl` with some words; what it prints goes to a file."""

    def __init__(self, words: list[object], output: Path, env: Mapping[str, str] | None = None) -> None:
        self.words, self.output = [str(word) for word in words], output
        self.output.touch()  # here: the process may be killed before its first line
        self.started = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            self._child(env or {})

    def _child(self, env: Mapping[str, str]) -> None:
        status = 1
        try:
            file = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            for stream in (1, 2):
                os.dup2(file, stream)
            os.environ.update(env)
            sys.argv = ["dpl", *self.words]
            from deep_patch_learning.cli.app import main

            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def kill(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def has_ended(self) -> bool:
        """Return whether it has come to its end, of which `wait` still says how."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, seconds: float) -> int | None:
        """Return its exit status, negative where a signal ended it; None where it hung, and was killed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None

    @property
    def said(self) -> str:
        """What it printed."""
        return self.output.read_text(errors="replace")
