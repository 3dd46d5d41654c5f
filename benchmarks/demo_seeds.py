"""Runs `dpl demo` with several seeds and writes results/demo.csv: a row per seed and way, and their means.

    python benchmarks/demo_seeds.py [--seeds 0 1 2]

Each demo is a process of its own, as a user starts it; nothing is kept between them.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from deep_patch_learning.commands.demo import SHOWN, TITLES
from written import this_machine

RESULTS = Path(__file__).parent.parent / "results" / "demo.csv"
NAIVE = {
    "naive, whole image": "whole_image",
    "naive, middle half": "centre_box",
    "naive, best single size": "best_single_size",
}


def run(seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "deep_patch_learning",
            "demo",
            "--seed",
            str(seed),
            "--out",
            folder + "/demo",
            "--json",
        ]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    seeds = parser.parse_args().seeds
    common = {"machine": this_machine(), "date": date.today().isoformat()}
    rows = []
    for seed in seeds:
        found = run(seed)
        print(json.dumps(found), flush=True)
        command = f"dpl demo --seed {seed} --json"
        for way, name in TITLES.items():
            rows.append(
                {"way": name, "seed": seed, **{k: found[way].get(k) for k in SHOWN}, "command": command, **common}
            )
            rows[-1]["demo_seconds"] = found["seconds"]
        for way, key in NAIVE.items():
            rows.append({"way": way, "seed": seed, "CorLoc": found["naive"][key], "command": command, **common})
    for way in dict.fromkeys(row["way"] for row in rows):
        mine = [row for row in rows if row["way"] == way]
        means = {k: sum(r[k] for r in mine) / len(mine) for k in SHOWN if all(r.get(k) is not None for r in mine)}
        rows.append({"way": way, "seed": "mean", **means, "command": "python benchmarks/demo_seeds.py", **common})
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["way", "seed", *SHOWN, "demo_seconds", "machine", "date", "command"])
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.1f}" if isinstance(v, float) else v for k, v in row.items()})


if __name__ == "__main__":
    main()
