"""The parts of a data set, handed to Ray's workers one at a time; a worker that dies is replaced and its part done again.

Plain actors, not Ray Data: the unit here is a part whose result is written whole by one process and that is done or not when the
command is started again. Ray Data streams rows through stages and cuts its blocks as the cluster's load has it, so that neither
the content of an output file nor which rows are missing after a kill follows from the data. What is written, `ray.data` reads.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deep_patch_learning.cluster.parts import Part
from deep_patch_learning.cluster.session import Cluster, WorkerPool
from deep_patch_learning.cluster.work import Done, Failed, Job
from deep_patch_learning.common.devices import ONE_HEAP
from deep_patch_learning.common.errors import DplError, RunError
from deep_patch_learning.common.progress import console

LOOK = 1.0  # seconds between looks at how far the workers are
MOST_DEATHS = 5  # of workers by one part, or of new workers in a row
WAITED = 30.0  # seconds after which it is said that no worker has a place


class Worker:
    """One process of the cluster: begins the job once, then does parts. It says how far it is while it works."""

    def __init__(self, job: Job, cores: int) -> None:
        self._job, self._cores = job, cores
        self._done = 0

    def begin(self) -> dict[str, Any] | str:
        """Return who this worker is, after loading the job; or in one line why it cannot begin."""
        from deep_patch_learning.common.devices import collect_garbage_later, keep_memory

        collect_garbage_later()
        keep_memory()
        import torch

        from deep_patch_learning import __version__

        torch.set_num_threads(self._cores)
        if not self._job.out.about.is_file():
            return (
                f"{self._job.out.folder}: {os.uname().nodename} does not see this folder. Use one that all nodes share."
            )
        try:
            self._job.begin()
        except DplError as error:
            return str(error)
        return {"version": __version__, "pid": os.getpid(), "node": os.uname().nodename}

    def work(self, part: Part) -> Done | Failed:
        """Do a part."""
        self._done = 0
        try:
            return self._job.work(part, self._tell)
        finally:
            self._done = 0

    def _tell(self, done: int) -> None:
        self._done = done

    def state(self) -> tuple[int, int]:
        """Return how many images of its part are done, and the most memory in bytes that this process has held."""
        import resource

        return self._done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass
class _Member:
    """A worker as the engine sees it: what it was asked for, and what it last said."""

    handle: Any
    beginning: Any
    part: Part | None = None
    working: Any = None
    asked: Any = None
    images: int = 0
    peak: int = 0

    @property
    def waits_for(self) -> list[Any]:
        return [ref for ref in (self.beginning, self.working, self.asked) if ref is not None]


@dataclass
class Engine:
    """The workers of one command and the parts that are left; `run` yields each part's outcome when it is there."""

    cluster: Cluster
    pool: WorkerPool
    job: Job
    replaced: int = 0
    peaks: dict[int, int] = field(default_factory=dict)  # most memory of each worker, by its number
    _members: list[_Member] = field(default_factory=list)
    _again: "deque[Part]" = field(default_factory=deque)
    _deaths: "Counter[int]" = field(default_factory=Counter)
    _dead_at_start: int = 0
    _began: float = field(default_factory=time.monotonic)
    _said_waiting: bool = False

    def run(self, parts: Iterable[Part], on_progress: Callable[[int], None]) -> Iterator[Done | Failed]:
        """Yield the outcome of each part, in the order in which they end.

        `on_progress` is called about once a second with the number of images that are done of the parts in work.
        """
        ray, waiting = self.cluster.ray, iter(parts)
        more = next(waiting, None)
        try:
            job = ray.put(self.job)
            while more is not None or self._again or any(one.part for one in self._members):
                self._hire(job, more is not None)
                for member in self._members:
                    if member.beginning is None and member.part is None and (self._again or more is not None):
                        part = self._again.popleft() if more is None else more  # what took a worker with it comes last
                        if part is more:
                            more = next(waiting, None)
                        member.part, member.working = part, member.handle.work.remote(part)
                yield from self._outcomes()
                on_progress(sum(member.images for member in self._members))
        finally:
            for member in self._members:
                ray.kill(member.handle)

    def _hire(self, job: Any, more: bool) -> None:
        """Start workers until there are as many as wanted, and no more than there are parts to do."""
        idle = sum(one.part is None for one in self._members)
        while len(self._members) < self.pool.workers and (more or idle < len(self._again)):
            options = {
                "num_cpus": self.pool.cores,
                "num_gpus": self.pool.gpus,
                "max_concurrency": 2,
                "runtime_env": {"env_vars": ONE_HEAP},  # Ray's own threads run before `begin`
            }
            handle = self.cluster.ray.remote(Worker).options(**options).remote(job, self.pool.cores)
            self._members.append(_Member(handle, handle.begin.remote()))
            idle += 1

    def _outcomes(self) -> Iterator[Done | Failed]:
        """Wait a moment, and yield the outcomes that came."""
        for member in self._members:
            if member.working is not None and member.asked is None:
                member.asked = member.handle.state.remote()
        refs = [ref for member in self._members for ref in (member.beginning, member.working) if ref is not None]
        self.cluster.ray.wait(refs, num_returns=1, timeout=LOOK, fetch_local=False)
        for member in list(self._members):
            yield from self._look_at(member)
        self._say_if_waiting()

    def _look_at(self, member: _Member) -> Iterator[Done | Failed]:
        ray = self.cluster.ray
        try:
            for ref in ray.wait(member.waits_for, num_returns=len(member.waits_for), timeout=0)[0]:
                found = ray.get(ref)
                if ref == member.beginning:
                    self._began_with(member, found)
                elif ref == member.asked:
                    member.asked, member.images = None, found[0]
                    number = self._members.index(member)
                    self.peaks[number] = max(self.peaks.get(number, 0), found[1])
                else:
                    member.part = member.working = None
                    member.images = 0
                    yield found
        except ray.exceptions.RayTaskError:
            raise  # an error in our own code
        except ray.exceptions.RayError as error:
            self._bury(member, error)

    def _began_with(self, member: _Member, found: dict[str, Any] | str) -> None:
        from deep_patch_learning import __version__

        if isinstance(found, str):
            raise RunError(found)
        if found["version"] != __version__:
            raise RunError(
                f"{found['node']}: has deep-patch-learning {found['version']}, here is {__version__}. Install the same version."
            )
        member.beginning, self._dead_at_start = None, 0

    def _bury(self, member: _Member, error: Exception) -> None:
        """Give up a worker that died; its part is to be done again, unless it took too many workers with it."""
        self._members.remove(member)
        self.cluster.ray.kill(member.handle)  # one that is only cut off must not go on
        self.replaced += 1
        why = str(error).strip().partition("\n")[0]
        if member.beginning is not None:
            self._dead_at_start += 1
            if self._dead_at_start == MOST_DEATHS:
                raise RunError(f"{MOST_DEATHS} workers in a row died while they started ({why}). See the logs of Ray.")
            return
        if member.part is None:
            return
        self._deaths[member.part.number] += 1
        if self._deaths[member.part.number] == MOST_DEATHS:
            raise RunError(
                f"{member.part.name}: {MOST_DEATHS} workers died at it ({why}). Is an image too large for the memory? "
                f"It is of {member.part.shard or member.part.places[0]}. What is done is kept; repeat the command to go on."
            )
        self._again.append(member.part)

    def _say_if_waiting(self) -> None:
        nobody = all(member.beginning is not None for member in self._members)
        if nobody and not self._said_waiting and time.monotonic() - self._began > WAITED:
            self._said_waiting = True
            console.print("waiting for a free core in the cluster", markup=False)
