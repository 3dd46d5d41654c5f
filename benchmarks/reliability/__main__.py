"""Count what becomes of runs that are killed, of bad and hostile inputs, and of large loads: results/reliability.csv.

python benchmarks/reliability --part crash --minutes 25 --seed 0
python benchmarks/reliability --part fuzz --kind coco --times 1000   # one kind; --first 17 --times 1 repeats one trial

Kinds take turns until the minutes are up or each was tried `--times` times. A trial draws from seed, part, kind and number
alone, so that any of them can be repeated. Exit status 1 if there was a fault.
"""

import argparse
import importlib
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from outcomes import FAULTS, Kind, Outcome, Result, Trial, write

# each a module beside this one, with `kinds(scratch) -> dict[str, Kind]`, and `write_figures` where it measures too
PARTS = ("crash", "fuzz", "hostile", "load")


def main() -> int:
    """Run the parts asked for and return the exit status."""
    asked = _arguments()
    faults = 0
    for part in asked.part or PARTS:
        with tempfile.TemporaryDirectory(prefix=f"dpl-{part}-") as scratch:
            module = importlib.import_module(part)
            found = module.kinds(Path(scratch))
            if wrong := set(asked.kind or ()) - set(found):
                raise SystemExit(f"{part}: no kind {sorted(wrong)}. Choose from: {', '.join(found)}")
            chosen = {name: kind for name, kind in found.items() if not asked.kind or name in asked.kind}
            counts, kills = _try(part, chosen, Path(scratch), asked)
        faults += sum(found[outcome] for found in counts.values() for outcome in FAULTS)
        if asked.write:
            write(part, counts, kills, _command(part, asked), asked.seed)
            if hasattr(module, "write_figures"):
                module.write_figures(_command(part, asked), asked.seed)
    return 1 if faults else 0


def _try(
    part: str, kinds: dict[str, Kind], scratch: Path, asked: argparse.Namespace
) -> tuple[dict[str, Counter[Outcome]], Counter[str]]:
    """Return how often each outcome came and how many kills there were, kind by kind."""
    counts: dict[str, Counter[Outcome]] = {name: Counter() for name in kinds}
    kills: Counter[str] = Counter()
    until, number = time.monotonic() + 60 * asked.minutes, asked.first
    while number < asked.first + asked.times and time.monotonic() < until:
        for name, kind in kinds.items():
            folder = scratch / "trial"
            folder.mkdir()
            result = kind(Trial(number, Random(f"{asked.seed} {part} {name} {number}"), folder))
            counts[name][result.outcome] += 1
            kills[name] += result.kills
            if result.outcome in FAULTS:
                _tell(part, name, number, result, folder, asked.keep)
            shutil.rmtree(folder, ignore_errors=True)
            if time.monotonic() > until:
                break
        number += 1
    for name, found in counts.items():
        print(f"{part} {name}: " + ", ".join(f"{found[one]} {one}" for one in Outcome if found[one]), flush=True)
    return counts, kills


def _tell(part: str, kind: str, number: int, result: Result, folder: Path, keep: Path | None) -> None:
    print(f"{part} {kind} {number}: {result.outcome}: {result.seen[-2000:]}", flush=True)
    if keep is not None:
        shutil.rmtree(keep / f"{part}-{kind}-{number}", ignore_errors=True)
        shutil.copytree(folder, keep / f"{part}-{kind}-{number}", symlinks=True, dirs_exist_ok=True)


def _command(part: str, asked: argparse.Namespace) -> str:
    only = "".join(f" --kind {shlex.quote(kind)}" for kind in asked.kind or ())
    times = f" --times {asked.times}" if asked.times < sys.maxsize else ""
    return f"python benchmarks/reliability --part {part}{only}{times} --minutes {asked.minutes:g} --seed {asked.seed}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="may be given again; all if not given")
    parser.add_argument("--kind", action="append", help="only this kind; may be given again")
    parser.add_argument("--minutes", type=float, default=10, help="at most so long for each part")
    parser.add_argument("--times", type=int, default=sys.maxsize, help="at most so many trials of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="keep the folder of each trial with a fault here")
    parser.add_argument("--no-write", dest="write", action="store_false", help="leave results/reliability.csv as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
