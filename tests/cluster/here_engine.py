"""The parts of a command done in this process, in the place of Ray's workers."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deep_patch_learning.cluster import runs
from deep_patch_learning.cluster.parts import Part
from deep_patch_learning.cluster.session import Cluster, WorkerPool
from deep_patch_learning.cluster.work import Done, Failed


class HereEngine:
    """Does parts one after another; `after` is called after each."""

    replaced = 0
    after: Callable[[Part], None] | None = None

    def __init__(self, cluster: Cluster, pool: WorkerPool, job: Any) -> None:
        self.job = job
        self.peaks: dict[int, int] = {}

    def run(self, parts: Iterable[Part], on_progress: Callable[[int], None]) -> Iterator[Done | Failed]:
        """Yield the outcome of each part."""
        self.job.begin()
        for part in parts:
            yield self.job.work(part, lambda _: None)
            if HereEngine.after is not None:
                HereEngine.after(part)


def work_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `run_parts` work without Ray."""

    @contextmanager
    def connected(*_: object) -> Iterator[Cluster]:
        yield Cluster(None, 1, 0)

    monkeypatch.setattr(runs, "connected", connected)
    monkeypatch.setattr(runs, "Engine", HereEngine)
    monkeypatch.setattr(HereEngine, "after", None)
