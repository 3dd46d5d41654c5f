"""Memory against the number of images, against the forecast of a training, and over many turns of one process.

`memory, COMMAND` runs a command on 100, 1,000 and 5,000 photos of VOC 2007 trainval, each in a process of its own, and compares
the most memory that it held; images are seen at one small scale, so that what each adds stands out. `forecast, RECIPE` compares
the memory that a training announces after its first steps with what it took in the end. `soak, ...` lets one process do the
same thing over and over: hours of use in minutes. The photos are those under $DPL_VOC. What was measured is in
results/memory.csv too.
"""

import asyncio
import csv
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import httpx
import psutil
from outcomes import ROOT, Kind, Outcome, Result, Trial, dpl

from deep_patch_learning.common.devices import machine_name

COUNTS = (100, 1000, 5000)
FLAT, FORECAST = 1.10, 1.20  # as a ratio to the fewest images, and to the forecast
FIGURES = ROOT / "results" / "memory.csv"
TURNS, WARM_TURNS, CLIENTS, SECONDS = 60, 10, 20, 60.0
Row = dict[str, object]
rows: list[Row] = []


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return the kinds of loads; patches are made once, by the first command that needs them."""
    voc = Path(os.environ.get("DPL_VOC") or "nowhere")
    if not voc.is_dir():
        raise SystemExit("the part load reads photos: set DPL_VOC to the folder VOC2007")
    cpu = ("--device", "cpu", "--scales", 240)
    data = (voc, "--split", "trainval")
    commands: dict[str, Callable[[Path, int], list[object]]] = {
        "check": lambda work, count: ["check", *data, "--limit", count],
        "patches": lambda work, count: ["patches", *data, "--limit", count],
        "predict": lambda work, count: ["predict", _photos(voc, work, count), *cpu, "--no-draw", "--out", work / "out"],
        "label": lambda work, count: ["label", *data, "--limit", count, *cpu[:2], "--out", work / "out"],
        "evaluate": lambda work, count: ["evaluate", *data, "--limit", count, *cpu],
    }
    env = {**os.environ, "DPL_CACHE": str(scratch / "cache")}
    found: dict[str, Kind] = {
        f"memory, {name}": lambda trial, name=name, words=words: _flat(trial, name, words, env)
        for name, words in commands.items()
    }
    for name, words in (("fast", ()), ("fast, maps not kept", ("--set", "keep_maps=false"))):
        found[f"forecast, {name}"] = lambda trial, name=name, words=words: _forecast(trial, name, [*data, *words], env)
    found["soak, predict"] = lambda trial: _predict_again(trial, voc, env)
    found["soak, review"] = lambda trial: _review_again(trial, voc, env)
    return found


def write_figures(command: str, seed: int) -> None:
    """Put what was measured into results/memory.csv; rows of the same kind and number of images are replaced."""
    made: Row = {"command": command, "seed": seed, "machine": machine_name(), "date": date.today().isoformat()}
    known: dict[tuple[str, str], Row] = {}
    if FIGURES.exists():
        with FIGURES.open(newline="", encoding="utf-8") as file:
            known = {(row["kind"], row["images"]): dict(row) for row in csv.DictReader(file)}
    for row in rows:
        known[str(row["kind"]), str(row["images"])] = row | made
    with FIGURES.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("kind", "images", "peak_mib", "ratio", "ratio_to", "seconds", *made))
        writer.writeheader()
        writer.writerows(known.values())


def _keep(kind: str, images: int, peak: float, to: float, name: str, seconds: float) -> float:
    """Note a figure in MiB beside what it is compared with; return their ratio."""
    row = {"kind": kind, "images": images, "peak_mib": round(peak), "ratio": round(peak / to, 3), "ratio_to": name}
    rows.append(row | {"seconds": round(seconds, 1)})
    print(rows[-1], flush=True)
    return peak / to


def _photos(voc: Path, work: Path, count: int) -> Path:
    folder = work / "photos"
    folder.mkdir()
    for path in sorted((voc / "JPEGImages").glob("*.jpg"))[:count]:
        shutil.copy(path, folder)
    return folder


def _measured(words: list[object], env: dict[str, str]) -> tuple[int, str, float, float]:
    """Return exit status, standard error, the most memory that a process of the command held in MiB, and seconds."""
    began = time.monotonic()
    process = subprocess.Popen(dpl(*words), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, said, used.ru_maxrss / 1024, time.monotonic() - began


def _flat(trial: Trial, name: str, words: Callable[[Path, int], list[object]], env: dict[str, str]) -> Result:
    first, worst = 0.0, 0.0
    for count in COUNTS:
        work = trial.folder / str(count)
        work.mkdir()
        status, said, peak, seconds = _measured(words(work, count), env)
        if status not in (0, 1) or "Traceback" in said:  # `dpl check` ends with 1 where it found something
            return Result(Outcome.TRACEBACK, f"{count} images: status {status}\n{said}")
        first = first or peak
        worst = max(worst, _keep(f"memory, {name}", count, peak, first, f"{COUNTS[0]} images", seconds))
        shutil.rmtree(work)
    return Result(
        Outcome.SUCCESS if worst <= FLAT else Outcome.MEMORY_GREW, f"{worst:.3f} times that of {COUNTS[0]} images"
    )


def _forecast(trial: Trial, name: str, words: list[object], env: dict[str, str]) -> Result:
    count = 500
    plan = ("--limit", count, "--recipe", "fast", "--device", "cpu", "--out", trial.folder / "run")
    status, said, peak, seconds = _measured(["train", *words, *plan], env)
    told = re.search(r"to go, ([\d.]+) GiB of memory", said)
    if status != 0 or told is None:
        return Result(Outcome.TRACEBACK, f"status {status}\n{said}")
    ratio = _keep(f"forecast, {name}", count, peak, 1024 * float(told[1]), f"forecast of {told[1]} GiB", seconds)
    within = 1 / FORECAST <= ratio <= FORECAST
    return Result(Outcome.SUCCESS if within else Outcome.MEMORY_GREW, f"{ratio:.3f} times the forecast")


AGAIN = """
import sys, resource
import deep_patch_learning as dpl
photos, turns = sys.argv[2:], int(sys.argv[1])
model = dpl.load(device="cpu")
for turn in range(turns):
    for found in model.predict(photos):
        found.tags, found.boxes
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def _predict_again(trial: Trial, voc: Path, env: dict[str, str]) -> Result:
    """Predict the same 40 photos again and again in one process, by the Python API."""
    photos = sorted((voc / "JPEGImages").glob("*.jpg"))[:40]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(TURNS), *map(str, photos)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return Result(Outcome.TRACEBACK, done.stderr)
    peaks = [int(line) / 1024 for line in done.stdout.split()]
    warm = f"turn {WARM_TURNS} of {TURNS}"
    ratio = _keep("soak, predict", 40 * TURNS, peaks[-1], peaks[WARM_TURNS - 1], warm, time.monotonic() - began)
    return Result(Outcome.SUCCESS if ratio <= FLAT else Outcome.MEMORY_GREW, f"{ratio:.3f} times that of {warm}")


def _review_again(trial: Trial, voc: Path, env: dict[str, str]) -> Result:
    """Let clients read screens, crops and images of the review page's server, for a minute."""
    words = ["label", voc, "--split", "val", "--limit", 200, "--device", "cpu", "--out", trial.folder / "labels"]
    status, said, _, _ = _measured(words, env)
    if status:
        return Result(Outcome.TRACEBACK, said)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = dpl("review", trial.folder / "labels", "--follow-links", "--port", port)
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            if not any("every action" in line for line in server.stderr or ()):
                return Result(Outcome.TRACEBACK, "the server does not start")
            return asyncio.run(_readers(f"http://127.0.0.1:{port}", psutil.Process(server.pid)))
        finally:
            server.kill()


async def _readers(address: str, server: psutil.Process) -> Result:
    errors: list[str] = []
    answers = 0
    end = time.monotonic() + SECONDS

    async def read(number: int) -> None:
        nonlocal answers
        async with httpx.AsyncClient(base_url=address, timeout=30) as http:
            await http.get("/")
            while time.monotonic() < end:
                wanted = {"tab": f"reader-{number}", "mode": "sample", "size": 4}
                screen = await http.post("/api/screen", json=wanted)
                boxes = screen.json()["boxes"] if screen.status_code == 200 else []
                answered = [screen]
                for box in boxes:
                    answered.append(await http.get(f"/crops/{box['id']}"))
                answers += len(answered)
                errors.extend(f"{one.status_code} {one.text[:80]}" for one in answered if one.status_code != 200)
                await asyncio.sleep(0.02)

    work = [asyncio.create_task(read(number)) for number in range(CLIENTS)]
    await asyncio.sleep(SECONDS / 4)
    before = server.memory_info().rss / 2**20
    await asyncio.gather(*work)
    after = server.memory_info().rss / 2**20
    ratio = _keep("soak, review", answers, after, before, f"after {SECONDS / 4:g} s of {SECONDS:g}", SECONDS)
    if errors:
        return Result(Outcome.TRACEBACK, f"{len(errors)} answers with an error: {errors[:3]}")
    return Result(
        Outcome.SUCCESS if ratio <= FLAT else Outcome.MEMORY_GREW, f"{ratio:.3f} times that of a quarter before"
    )
