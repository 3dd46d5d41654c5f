"""A run of several trainings: all but the last are runs under RUN/stages, the last is RUN itself; run.json says the result."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from deep_patch_learning.common.atomic_files import read_json, sweep, write_whole, written_whole
from deep_patch_learning.common.errors import RunError, short
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import step_of
from deep_patch_learning.runs.folder import AGAIN, RunFolder, locked_folder, make_folder


@dataclass(frozen=True)
class TrainedStage:
    """A training that ended: its name, seed, steps and samples."""

    name: str
    seed: int
    steps: int
    samples: int


@dataclass(frozen=True)
class StageRecord:
    """What run.json says: the trainings that ended, the judgements between them, and whose network the run has in the end."""

    stages: tuple[TrainedStage, ...] = ()
    judgements: tuple[dict[str, Any], ...] = ()
    network: str | None = None

    @property
    def samples_in_all(self) -> int:
        """The samples of all trainings together."""
        return sum(stage.samples for stage in self.stages)

    def as_dict(self) -> dict[str, Any]:
        """Return the record ready for JSON."""
        return {
            "network": self.network,
            "samples_in_all": self.samples_in_all,
            "stages": [asdict(stage) for stage in self.stages],
            "judgements": list(self.judgements),
        }


class _StoredStage(TypedDict):
    name: str
    seed: int
    steps: int
    samples: int


class _StoredRecord(TypedDict):
    """The schema of run.json."""

    stages: list[_StoredStage]
    judgements: list[dict[str, Any]]
    network: str | None


def read_record(run: RunFolder) -> StageRecord | None:
    """Return what run.json says of a run; None where it is a single training."""
    try:
        found = read_json(run.record, _StoredRecord, RunError, AGAIN)
    except FileNotFoundError:
        return None
    stages = tuple(TrainedStage(one["name"], one["seed"], one["steps"], one["samples"]) for one in found["stages"])
    for name in (*(stage.name for stage in stages), found["network"] or "last"):
        if Path(name).name != name:  # names a folder below stages/, and nothing above it
            raise RunError(f"{run.record}: is damaged ({short(name)} is no training's name). {AGAIN}")
    return StageRecord(stages, tuple(found["judgements"]), found["network"])


@dataclass
class Stages:
    """The trainings of a run by name, `last` the one in the run folder itself, and the record of what was done."""

    run: RunFolder
    last: str
    record: StageRecord = field(default_factory=StageRecord)

    def begin(self, recipe: Recipe) -> None:
        """Keep the recipe that was asked for, or check that it is the same; go on where a kill came."""
        self.run.check(recipe)
        if not self.run.asked.exists():
            if self.run.config.exists():
                raise RunError(f"{self.run.folder}: holds a single training. Give a new folder with --out.")
            write_whole(self.run.asked, recipe.to_toml())
        self.record = read_record(self.run) or StageRecord()
        if self.record.network is not None:
            self.finish(self.record.network)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold all trainings for one process."""
        self.run.must_be_free_or_a_run()
        make_folder(self.run.stages)
        sweep(self.run.folder)
        with locked_folder(self.run.stages):
            sweep(self.run.stages)
            yield

    def folder(self, name: str) -> RunFolder:
        """Return the run folder of a training: under stages/, but that of the last unless another took its place."""
        own = self.run.stages / name
        return self.run if name == self.last and not own.exists() else RunFolder(own)

    def trained(self, name: str, recipe: Recipe) -> None:
        """Write down that a training ended."""
        if name in {stage.name for stage in self.record.stages}:
            return
        steps = step_of(self.folder(name).checkpoint)
        stage = TrainedStage(name, recipe.machine.seed, steps, steps * recipe.optimiser.batch_images)
        self._write(replace(self.record, stages=(*self.record.stages, stage)))

    def judged(self, judgement: dict[str, Any]) -> None:
        """Write down a judgement."""
        self._write(replace(self.record, judgements=(*self.record.judgements, judgement)))

    def finish(self, name: str) -> None:
        """Let the run folder hold the finished training of this name; what a kill left half-done is done again.

        The decision is written first. At any moment the folder holds a whole run, or none: config.toml leaves it first and comes
        last.
        """
        if self.record.network != name:
            self._write(replace(self.record, network=name))
        if name == self.last:
            return
        was_trained = self.last in {stage.name for stage in self.record.stages}
        if was_trained and not (self.run.stages / self.last).exists():
            self._set_aside()
        if not self.run.config.exists():
            self._take_over(self.folder(name))

    def _set_aside(self) -> None:
        """Move the last training from the run folder to one of its own under stages/."""
        part = self.run.stages / f".{self.last}.part"  # always the same, so that a move that was killed goes on
        part.mkdir(exist_ok=True)
        for file in reversed(self.run.files):
            if file.exists():
                file.replace(part / file.name)
        part.rename(self.run.stages / self.last)

    def _take_over(self, stage: RunFolder) -> None:
        for file in stage.files:
            if file.exists():
                with written_whole(self.run.folder / file.name) as part:
                    shutil.copyfile(file, part)

    def _write(self, record: StageRecord) -> None:
        self.record = record
        write_whole(self.run.record, json.dumps(record.as_dict(), indent=1))
