"""One command over all parts: those that are done are skipped, the others go through the engine, with a bar."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deep_patch_learning.cluster.engine import Engine
from deep_patch_learning.cluster.parts import Parts
from deep_patch_learning.cluster.session import connected, worker_pool
from deep_patch_learning.cluster.work import Failed, Job
from deep_patch_learning.common.errors import DplError, RunError
from deep_patch_learning.common.progress import bar, console

FAILURES_SHOWN = 5


@dataclass(frozen=True)
class Asked:
    """Where the cluster is, how many workers are wanted, and on which device."""

    address: str | None = None
    workers: int | None = None
    device: str = "auto"


@dataclass
class Tally:
    """What a run did: parts found done, images done now, the seconds it took, the workers replaced and their memory."""

    parts: int = 0
    found: int = 0
    images: int = 0
    seconds: float = 0.0
    replaced: int = 0
    peaks: dict[int, int] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)  # JSON of each part done now: smaller than its objects

    def as_dict(self) -> dict[str, Any]:
        """Return the tally ready for JSON."""
        rate = self.images / self.seconds if self.seconds and self.images else None
        return {
            "shards": self.parts,
            "shards_found_done": self.found,
            "images_done_now": self.images,
            "seconds": round(self.seconds, 3),
            "images_per_second": rate,
            "workers_replaced": self.replaced,
            "peak_bytes_per_worker": max(self.peaks.values(), default=None),
        }


def run_parts(
    job: Job, parts: Parts, about: Mapping[str, Any], asked: Asked, description: str, fresh: bool = False
) -> Tally:
    """Return what was done to have every part in the job's folder; parts that are done are skipped, unless `fresh`.

    Parts that fail do not stop the others; afterwards they are named in a `RunError`.
    """
    job.out.must_fit(about)
    left, failed = _left(job, parts)
    tally = Tally(parts=len(parts), found=len(parts) - len(left) - len(failed))
    if not left and not fresh:
        _must_be_whole(failed, parts)
        return tally
    with connected(asked.address, asked.workers) as cluster:
        pool = worker_pool(cluster, asked.workers, asked.device)
        job.out.begin(about)
        with job.out.locked():
            job.sweep()
            if fresh:  # only now: a command that does not get here takes nothing away
                job.out.forget()
            left, failed = _left(job, parts)
            tally.found = len(parts) - len(left) - len(failed)
            pool = replace(pool, workers=min(pool.workers, len(left)))
            failed += _run(Engine(cluster, pool, job), parts, left, tally, description)
            job.sweep()  # of the workers that were replaced
    _must_be_whole(failed, parts)
    return tally


def _left(job: Job, parts: Parts) -> tuple[list[int], list[Failed]]:
    """Return the numbers of the parts that are to be done, and those whose shard is missing or does not answer."""
    left, failed = [], []
    for number in range(len(parts)):
        try:
            part = parts.part(number)
        except DplError as error:
            failed.append(Failed(number, str(error)))
            continue
        if job.finished(part) is None:
            left.append(number)
    return left, failed


def _run(engine: Engine, parts: Parts, left: list[int], tally: Tally, description: str) -> list[Failed]:
    failed: list[Failed] = []
    job = engine.job
    with bar(description) as show:
        began, ended = time.monotonic(), 0

        def on_progress(under_way: int) -> None:
            rate = (tally.images + under_way) / max(time.monotonic() - began, 1e-9)
            note = f"{rate:.1f} images/s" + (f", {len(failed)} parts failed" if failed else "")
            if parts.images is None:
                show(tally.found + ended, len(parts), note)
            else:
                show(tally.found * parts.part_images + tally.images + under_way, parts.images, note)

        try:
            for outcome in engine.run(map(parts.part, left), on_progress):
                if isinstance(outcome, Failed):
                    failed.append(outcome)
                    continue
                ended += 1
                tally.notes[outcome.part] = json.dumps(outcome.facts)
                tally.images += outcome.facts["images"] + len(outcome.facts["broken"])
        except KeyboardInterrupt:
            done = f"{tally.found + ended} of {len(parts)} parts are done"
            console.print(
                f"stopped: {done} in {job.out.folder}. Repeat the command to go on.", markup=False, soft_wrap=True
            )
            raise
        finally:
            tally.seconds, tally.replaced, tally.peaks = time.monotonic() - began, engine.replaced, engine.peaks
    return failed


def _must_be_whole(failed: list[Failed], parts: Parts) -> None:
    if failed:
        shown = " ".join(one.why for one in failed[:FAILURES_SHOWN])
        more = f" And {len(failed) - FAILURES_SHOWN} more." if len(failed) > FAILURES_SHOWN else ""
        raise RunError(
            f"{len(failed)} of {len(parts)} parts failed: {shown}{more} The others are done and kept: repeat the command "
            "afterwards."
        )


def facts_of(job: Job, parts: Parts, tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield what is known of each part, in order; one that is missing raises `RunError`.

    What workers have just said is not read again: where the folder is shared, a file of theirs may not be seen for a while.
    """
    for number in range(len(parts)):
        found = json.loads(tally.notes[number]) if number in tally.notes else job.finished(parts.part(number))
        if found is None:
            raise RunError(f"{job.out.folder}: {parts.part(number).name} is not there. Repeat the command.")
        yield found


def broken_of(job: Job, parts: Parts, tally: Tally) -> Iterator[dict[str, str]]:
    """Yield the images that could not be read, with the reason."""
    for facts in facts_of(job, parts, tally):
        yield from facts["broken"]
