"""What a trial is, what may come of it, and the table that counts it: results/reliability.csv, one row per part and kind."""

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import NamedTuple

from deep_patch_learning.common.devices import machine_name

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "reliability.csv"
HANG = 20.0  # seconds for one bad input


class Outcome(StrEnum):
    """What came of one trial; all but the first two are faults."""

    SUCCESS = "success"
    CLEAN_ERROR = "clean_error"  # one line, exit status 2 (1 where a check says no; a signal's own where one was sent)
    TRACEBACK = "traceback"  # also a crash of the interpreter, and an error of several lines
    HANG = "hang"
    LOST_OR_CHANGED = "lost_or_changed"  # a result that differs, half a file, a leftover, a user's file that changed
    MEMORY_GREW = "memory_grew"  # with the number of images or turns, or beyond the forecast


FAULTS = (Outcome.TRACEBACK, Outcome.HANG, Outcome.LOST_OR_CHANGED, Outcome.MEMORY_GREW)
COLUMNS = ("part", "kind", "tried", "kills", *Outcome, "command", "seed", "machine", "date")


class Trial(NamedTuple):
    """One trial of a kind: its number, what it draws from (the same for the same seed), and an empty folder of its own."""

    number: int
    random: Random
    folder: Path


class Result(NamedTuple):
    """What came of a trial, what was seen, which is printed for faults, and how many signals met a process at work."""

    outcome: Outcome
    seen: str = ""
    kills: int = 0


Kind = Callable[[Trial], Result]


def dpl(*words: object) -> list[str]:
    """Return the command line of `dpl` with these words, in this interpreter."""
    return [sys.executable, "-m", "deep_patch_learning", *map(str, words)]


def run(
    command: Sequence[str], env: Mapping[str, str], seconds: float = HANG, folder: Path | None = None
) -> tuple[Result, subprocess.CompletedProcess[str] | None]:
    """Return what came of a command, and what it printed; None for one that hung and was killed."""
    options = {"env": dict(env), "cwd": folder, "capture_output": True, "timeout": seconds, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(command, **options, encoding="utf-8", errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return Result(Outcome.HANG, f"not done after {seconds:g} s: {' '.join(command)}"), None
    return judged(done.returncode, done.stderr), done


def judged(status: int, said: str) -> Result:
    """Return what an exit status and the lines on standard error say of a command that nobody interrupted."""
    if (
        "Traceback (most recent call last)" in said
        or status < 0
        or status > 2
        or (status == 2 and not _is_one_line(said))
    ):
        return Result(Outcome.TRACEBACK, f"exit status {status}\n{said}")
    return Result(Outcome.SUCCESS if status == 0 else Outcome.CLEAN_ERROR, said)


def _is_one_line(said: str) -> bool:
    """Return whether an error is the last line, after notes of the work; typer's own panel about a wrong option counts as one."""
    lines = [line for line in said.splitlines() if line.strip()]
    return bool(lines) and (lines[-1].startswith("dpl: ") or any(line.startswith("Usage: ") for line in lines))


def write(part: str, counts: Mapping[str, Counter[Outcome]], kills: Mapping[str, int], command: str, seed: int) -> None:
    """Put the counts of a part's kinds into the table; rows of the same part and kind are replaced."""
    made = {"command": command, "seed": seed, "machine": machine_name(), "date": date.today().isoformat()}
    rows = {(row["part"], row["kind"]): row for row in read()}
    for kind, found in counts.items():
        if not found:  # the minutes were up before
            continue
        numbers = {str(outcome): found[outcome] for outcome in Outcome}
        tried = {"tried": sum(numbers.values()), "kills": kills.get(kind, 0)}
        rows[part, kind] = {"part": part, "kind": kind, **tried, **numbers, **made}
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval=0)
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def read() -> list[dict[str, str]]:
    """Return the rows of the table."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
