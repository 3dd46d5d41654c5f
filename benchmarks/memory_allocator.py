"""System time, page faults and peak memory of training and prediction, with freed blocks kept and given back, in turns.

    python benchmarks/memory_allocator.py DATA IMAGES [--steps 60] [--count 40] [--rounds 2]

Each run is a process of its own: `dpl train DATA --recipe fast` and `dpl predict` on the first images of a folder, once as
it is and once with DPL_KEEP_MEMORY=0. Patches are made before the first one. Writes results/memory_allocator.csv.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from statistics import median

from deep_patch_learning.common.devices import machine_name
from rows import RESULTS, write_rows

WAYS = {"given back": {"DPL_KEEP_MEMORY": "0"}, "kept": {}}


def measure(arguments: list[str], settings: dict[str, str]) -> dict[str, float]:
    """Return what a `dpl` process used: seconds of user and system time, page faults and the most memory, in MiB.

    Not the time on the clock, which depends on what else the machine does.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "deep_patch_learning", *arguments],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)  # of this one process, not of the largest so far
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"dpl {' '.join(arguments)}: failed.\n{said}")
    return {
        "user": used.ru_utime,
        "system": used.ru_stime,
        "faults": used.ru_minflt,
        "peak_mib": used.ru_maxrss / 1024,
    }


def row(task: str, way: str, runs: list[dict[str, float]]) -> dict[str, object]:
    """Return the medians of the runs of one task."""
    middle = {key: median(run[key] for run in runs) for key in runs[0]}
    share = round(100 * middle["system"] / middle["user"], 1)
    rounded = {key: round(value, 1) if key in ("user", "system") else round(value) for key, value in middle.items()}
    return {"task": task, "freed_blocks": way} | rounded | {"system_percent_of_user": share, "runs": len(runs)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="a tagged data set to train on")
    parser.add_argument("images", type=Path, help="a folder of images to predict")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    images = [str(path) for path in sorted(given.images.glob("*.jpg"))[: given.count]]
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        cache = {"DPL_CACHE": f"{scratch}/cache"}

        def train(steps: int, name: str) -> list[str]:
            recipe = ["--recipe", "fast", "--device", "cpu", "--set", f"steps={steps}"]
            return ["train", str(given.data), *recipe, "--out", f"{scratch}/{name}"]

        measure(train(1, "first"), cache)
        for number in range(given.rounds):
            for way, settings in WAYS.items():
                tasks = {
                    f"train, {given.steps} steps": train(given.steps, f"{way}-{number}"),
                    f"predict, {len(images)} images": ["predict", *images, "--no-draw", "--out", f"{scratch}/found"],
                }
                for task, arguments in tasks.items():
                    found.setdefault((task, way), []).append(measure(arguments, cache | settings))
                    print(task, way, found[task, way][-1], flush=True)
    about = {
        "command": f"python benchmarks/memory_allocator.py {given.data.name} {given.images.name} --steps {given.steps} "
        f"--count {given.count} --rounds {given.rounds}",
        "seed": 0,
        "machine": machine_name(),
        "date": date.today().isoformat(),
    }
    rows = [row(task, way, runs) | about for (task, way), runs in sorted(found.items())]
    write_rows(RESULTS / "memory_allocator.csv", rows)
    for one in rows:
        print(one)


if __name__ == "__main__":
    main()
