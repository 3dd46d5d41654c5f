"""The log of a run: one JSON object per line, and what it says of the speed of a training."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deep_patch_learning.common.atomic_files import write_whole

RENAMED = {"visits": "samples"}  # keys of earlier versions


class TrainingTime(NamedTuple):
    """How long a training took, and how fast it was once it was warm; None where the log is too short to tell."""

    seconds: float
    samples_per_second: float | None


def training_time(log: Sequence[Mapping[str, Any]]) -> TrainingTime:
    """Return the seconds that a training took and its samples per second, from its log.

    A run that was resumed has several clocks, each from 0; their times are added up. The speed leaves out the first line of
    each clock, in which the device warms up, unless there is no other. Lines without a time do not count.
    """
    log = [entry for entry in log if "seconds" in entry]
    seconds, steady_seconds, steady_samples = 0.0, 0.0, 0
    before: Mapping[str, Any] | None = None
    for entry in log:
        goes_on = before is not None and entry["seconds"] >= before["seconds"]
        took = entry["seconds"] - (before["seconds"] if before is not None and goes_on else 0.0)
        seconds += took
        if before is not None and goes_on:
            steady_seconds += took
            steady_samples += entry["samples"] - before["samples"]
        before = entry
    if not steady_seconds and log and log[0]["seconds"]:
        return TrainingTime(seconds, log[0]["samples"] / log[0]["seconds"])
    return TrainingTime(seconds, steady_samples / steady_seconds if steady_seconds else None)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log; one cut off by a kill is left out. Keys of earlier versions get their names of today."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append({RENAMED.get(key, key): value for key, value in json.loads(line).items()})
        except json.JSONDecodeError:
            break
    return lines


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    """Add one line to a log."""
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")


def cut_log(path: Path, step: int) -> None:
    """Drop what a log says of steps after `step`, which will be done again."""
    kept = [entry for entry in read_log(path) if entry["step"] <= step]
    write_whole(path, "".join(json.dumps(entry) + "\n" for entry in kept))
