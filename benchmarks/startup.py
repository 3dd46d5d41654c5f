"""Seconds until `dpl --help` and `dpl predict PHOTO` are done, beside another checkout, in turns.

    python benchmarks/startup.py PHOTO [--against COMMIT] [--rounds 10]

Each run is a process of its own; one run of each comes first and is not counted, since it fills numba's cache. Every prediction
makes its patches anew. COMMIT is another version of this repository, or the path of a checkout. Writes results/startup.csv.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

from deep_patch_learning.common.devices import machine_name
from rows import RESULTS, write_rows

HERE = Path(__file__).resolve().parent.parent / "src"


def seconds(source: Path, words: list[str]) -> float:
    """Return how long a command of the package in `source` takes."""
    with tempfile.TemporaryDirectory() as scratch:
        env = os.environ | {"PYTHONPATH": str(source), "DPL_CACHE": f"{scratch}/cache"}
        words = [word.replace("SCRATCH", scratch) for word in words]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "deep_patch_learning", *words], env=env, capture_output=True, text=True, check=False
        )
        took = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{source}: dpl {' '.join(words)}: status {done.returncode}\n{done.stderr}")
    return took


def source_of(version: str, scratch: Path) -> Path:
    """Return the `src` folder of a checkout or a commit; a commit is unpacked into `scratch`."""
    if not Path(version).is_dir():
        packed = subprocess.run(["git", "archive", version, "src"], cwd=HERE.parent, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "--extract", "--directory", scratch], input=packed.stdout, check=True)
        version = str(scratch)
    source = Path(version) / "src"
    if not (source / "deep_patch_learning").is_dir():
        sys.exit(f"{version}: holds no src/deep_patch_learning. Name a commit or a checkout of this package.")
    return source.resolve()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        measure(Path(scratch))


def measure(scratch: Path) -> None:
    """Measure both versions in turns and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photo", type=Path)
    parser.add_argument("--against", help="a commit or a checkout of this package")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    versions = {"this": HERE}
    if given.against is not None:
        versions["other"] = source_of(given.against, scratch)
    commands = {
        "dpl --help": ["--help"],
        "dpl predict PHOTO": ["predict", str(given.photo), "--out", "SCRATCH/found", "--device", "cpu"],
    }
    spent: dict[tuple[str, str], list[float]] = {}
    for turn in range(given.rounds + 1):
        for name, words in commands.items():
            for version, source in versions.items():
                took = seconds(source, words)
                if turn:
                    spent.setdefault((name, version), []).append(took)
    against = f" --against {Path(given.against).name}" if given.against is not None else ""
    command = f"python benchmarks/startup.py {given.photo.name}{against} --rounds {given.rounds}"
    about = {"command": command, "seed": "none", "machine": machine_name(), "date": date.today().isoformat()}
    rows = []
    for (name, version), times in spent.items():
        other = spent.get((name, "other" if version == "this" else "this"), times)
        row = {"what": name, "version": version, "seconds": round(median(times), 2), "least": round(min(times), 2)}
        rows.append(row | {"times_other": round(median(other) / median(times), 2), "runs": len(times)} | about)
        print(rows[-1])
    write_rows(RESULTS / "startup.csv", rows)


if __name__ == "__main__":
    main()
