"""Throughput and peak memory of `dpl predict` on few and on many images, beside another checkout, in turns.

    python benchmarks/predict_speed.py DATA [--against PATH] [--counts 100 1000] [--rounds 1]

DATA is a folder of photos. Where it holds fewer than wanted they are taken again under other names, each with four bytes more at
its end, so that no cache takes it for the same file. Each run is a process of its own with the shipped model, --no-draw and a
fresh patch cache. PATH is the other checkout's `src` folder, or the folder that holds it. Seconds include the start of the
process.
Writes results/predict_speed.csv: one row for each number of images and version, with throughput as a ratio to the other version
in the same run, and peak memory as a ratio to that on the fewest images.
"""

import argparse
import os
import shutil
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


def photos(data: Path, count: int, folder: Path) -> Path:
    """Return a folder with `count` photos of DATA, some of them several times."""
    files = sorted(file for file in data.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not files:
        sys.exit(f"{data}: holds no photos (.jpg, .png). Give a folder of them.")
    folder.mkdir()
    for number in range(count):
        file, again = files[number % len(files)], number // len(files)
        copy = folder / f"{number:06}{file.suffix.lower()}"
        shutil.copy(file, copy)
        if again:
            with copy.open("ab") as end:
                end.write(again.to_bytes(4, "little"))
    return folder


def predict(source: Path, images: Path) -> dict[str, float]:
    """Return what `dpl predict` of the package in `source` used: seconds, processor seconds, and peak memory in MiB."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["predict", str(images), "--no-draw", "--out", f"{scratch}/found", "--device", "cpu"]
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "deep_patch_learning", *command],
            env=os.environ | {"PYTHONPATH": str(source), "DPL_CACHE": f"{scratch}/cache"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        printed = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)  # of this one process, not of the largest so far
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        written = len(list(Path(scratch, "found").glob("*.json")))
    if process.returncode or written != len(list(images.iterdir())):
        sys.exit(f"{source}: dpl {' '.join(command)}: {written} predictions, status {process.returncode}.\n{printed}")
    return {"seconds": seconds, "user": used.ru_utime, "system": used.ru_stime, "peak_mib": used.ru_maxrss / 1024}


def rows_of(runs: dict[tuple[int, str], list[dict[str, float]]]) -> list[dict[str, object]]:
    """Return one row for each number of images and version, from the medians of its runs."""
    middle = {key: {name: median(run[name] for run in own) for name in own[0]} for key, own in runs.items()}
    fewest = min(count for count, _ in middle)
    rows = []
    for (count, version), used in middle.items():
        other = middle.get((count, "other" if version == "this" else "this"), used)
        rows.append(
            {
                "images": count,
                "version": version,
                "images_per_second": round(count / used["seconds"], 2),
                "throughput_to_other": round(other["seconds"] / used["seconds"], 2),
                "peak_mib": round(used["peak_mib"]),
                "peak_to_fewest": round(used["peak_mib"] / middle[fewest, version]["peak_mib"], 3),
                **{name: round(used[name], 1) for name in ("seconds", "user", "system")},
                "runs": len(runs[count, version]),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="a folder of photos")
    parser.add_argument("--against", type=Path, help="another checkout of this package")
    parser.add_argument("--counts", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    versions = {"this": HERE}
    if given.against is not None:
        inside = given.against / "src"
        versions["other"] = (inside if inside.is_dir() else given.against).resolve()
    runs: dict[tuple[int, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {count: photos(given.data, count, Path(scratch, str(count))) for count in given.counts}
        for _ in range(given.rounds):
            for count, images in folders.items():
                for version, source in versions.items():
                    runs.setdefault((count, version), []).append(predict(source, images))
                    print(count, version, runs[count, version][-1], flush=True)
    against = f" --against {given.against.name}" if given.against is not None else ""
    counts = " ".join(map(str, given.counts))
    command = f"python benchmarks/predict_speed.py {given.data.name}{against} --counts {counts} --rounds {given.rounds}"
    about = {"command": command, "seed": 0, "machine": machine_name(), "date": date.today().isoformat()}
    rows = [row | about for row in rows_of(runs)]
    write_rows(RESULTS / "predict_speed.csv", rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
