"""Labels and training at scale: kills, speed of workers, memory, ranks. Each part writes its rows of results/scale.csv.

    python benchmarks/scale.py kills VOC2007 [--images 500] [--kills 10]
    python benchmarks/scale.py speed VOC2007 [--images 1000] [--rounds 1]     # on an idle machine
    python benchmarks/scale.py memory VOC2007 [--images 100]
    python benchmarks/scale.py limit VOC2007 [--images 8000] [--gibibytes 4]
    python benchmarks/scale.py ranks VOC2007
    python benchmarks/scale.py costs VOC2007 [--images 60]

`kills`: two Ray nodes as real processes; workers are killed and a node is removed, and the labels are compared with those of
`dpl label`. `speed`: images per second of one and of two workers of one thread, and of `dpl label` with one thread, in turns.
`memory`: the most memory of a worker with a set, and with the set ten times under other names. `limit`: a training on tars
whose decoded images do not fit the limit on a process's data (`ulimit -d`). `ranks`: four ranks under torchrun, one of them
killed in the middle, against one process. `costs`: results/scale_costs.csv, what a million images take, from other results too.
"""

import argparse
import csv
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import psutil

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import PRESENT, TaggedImages
from deep_patch_learning.data.readers.read import read_tags
from rows import RESULTS, write_rows

FILE = RESULTS / "scale.csv"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
STORE = 100 << 20  # bytes of a node's object store
Row = tuple[str, str, str]  # what, figure, wanted


def keep(part: str, rows: list[Row], about: str, command: str) -> None:
    """Write the rows of one part into the CSV; those of the other parts stay."""
    before = list(csv.DictReader(FILE.open())) if FILE.exists() else []
    fixed = {
        "setting": about,
        "command": command,
        "seed": 0,
        "machine": machine_name(),
        "date": date.today().isoformat(),
    }
    new = [{"part": part, "what": what, "figure": figure, "wanted": wanted, **fixed} for what, figure, wanted in rows]
    write_rows(FILE, [*(row for row in before if row["part"] != part), *new])
    for row in new:
        print(f"{row['what']}: {row['figure']} (wanted: {row['wanted']})")


def tags_of(images: TaggedImages, index: int) -> str:
    """Return the tags of an image, separated by semicolons."""
    return ";".join(name for name, state in zip(images.classes, images.labels[index], strict=True) if state == PRESENT)


def write_csv(path: Path, images: TaggedImages, count: int, times: int = 1) -> Path:
    """Return a CSV of the first images, each `times` times as a link under another name."""
    folder = path.parent / f"{path.stem}-images"
    folder.mkdir()
    lines = ["image,tags"]
    for number in range(count * times):
        index = number % count
        link = folder / f"{number:06d}.jpg"
        link.symlink_to(images.paths[index].absolute())
        lines.append(f"{link},{tags_of(images, index)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def dpl(*words: object, limit: int | None = None) -> tuple[dict[str, Any], float]:
    """Return what a command of one thread prints as JSON, and the seconds it took; `limit` is that on its data in bytes."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "deep_patch_learning", *map(str, words), "--json"],
        env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True, check=True,
        preexec_fn=None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), time.monotonic() - began


def rows_of(places: list[Path]) -> list[dict[str, Any]]:
    """Return the rows of Parquet files, in order."""
    import pyarrow.parquet

    return [row for place in places for row in pyarrow.parquet.read_table(place).to_pylist()]


class Disturber(threading.Thread):
    """Kills a worker that is at work every few seconds, so many in all, and removes a node in the middle of that."""

    def __init__(self, cluster: Any, kills: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.kills, self.killed, self.removed = cluster, kills, 0, 0
        self.over = threading.Event()

    def run(self) -> None:
        dead: set[int] = set()
        while self.killed < self.kills and not self.over.wait(0.5):
            for process in psutil.Process().children(recursive=True):
                try:
                    title = "".join(process.cmdline()[:1])
                except psutil.Error:
                    continue
                if title in ("ray::Worker", "ray::Worker.work", "ray::Worker.state") and process.pid not in dead:
                    self.over.wait(3)
                    os.kill(process.pid, signal.SIGKILL)
                    dead.add(process.pid)
                    self.killed += 1
                    break
            if self.killed == self.kills // 2 and not self.removed:
                self.cluster.remove_node(next(iter(self.cluster.worker_nodes)), allow_graceful=False)
                self.removed += 1


def kills(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """Labels of two nodes under kills against those of one machine."""
    from ray.cluster_utils import Cluster

    data = write_csv(folder / "set.csv", images, options.images)
    plain, out = folder / "plain", folder / "out"
    dpl("label", data, "--format", "parquet", "--out", plain, "--workers", 1)
    os.environ.update(ONE_THREAD)
    head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=STORE)
    disturber = Disturber(cluster, options.kills)
    disturber.start()
    how = ("label", data, "--format", "parquet", "--out", out, "--engine", "ray", "--shard-images", 25)
    counts, _ = dpl(*how, "--address", cluster.address)
    disturber.over.set()
    disturber.join()
    cluster.shutdown()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    again, _ = dpl(*how, "--address", "127.0.0.1:1")
    same = before == {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    shards, wanted = rows_of(sorted((out / "shards").glob("*.parquet"))), rows_of([plain / "train.parquet"])
    differing = sum(one != other for one, other in zip(shards, wanted, strict=False)) + abs(len(shards) - len(wanted))
    names = [row["name"] for row in shards]
    rows = [
        ("images whose labels differ from one machine's", str(differing), "0"),
        (
            "images missing or there twice",
            str(len(names) - len(set(names)) + abs(options.images - len(set(names)))),
            "0",
        ),
        ("workers killed", str(disturber.killed), str(options.kills)),
        ("nodes removed", str(disturber.removed), "1"),
        ("workers replaced", str(counts["workers_replaced"]), "as many or more"),
        ("images labelled by a second start", str(again["images_done_now"] if same else "files changed"), "0"),
    ]
    about = f"{options.images} images of VOC 2007 val, two nodes, 25 images in a shard"
    keep(
        "kills",
        rows,
        about,
        f"python benchmarks/scale.py kills VOC2007 --images {options.images} --kills {options.kills}",
    )


def speed(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """One worker, two workers and plain `dpl label`, in turns; each without patches from before."""
    data = write_csv(folder / "set.csv", images, options.images)
    size = max(options.images // 20, 1)
    ray = ("--engine", "ray", "--shard-images", size)
    ways = {"plain": ("--workers", 1), "one": (*ray, "--workers", 1), "two": (*ray, "--workers", 2)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds):
        for name, words in ways.items():
            os.environ["DPL_CACHE"] = str(folder / f"cache-{name}-{turn}")
            counts, took = dpl("label", data, "--format", "parquet", "--out", folder / f"{name}-{turn}", *words)
            seconds[name].append(took)
            rates[name].append(counts.get("images_per_second", options.images / took))
    least = {name: min(values) for name, values in seconds.items()}
    best = {name: max(values) for name, values in rates.items()}
    rows = [
        ("images per second, one worker", f"{best['one']:.2f}", ""),
        ("images per second, two workers", f"{best['two']:.2f}", ""),
        ("throughput of two workers to one", f"{best['two'] / best['one']:.2f}", "1.8 or more"),
        ("images per second, dpl label on one thread", f"{best['plain']:.2f}", ""),
        (
            "time of one worker over dpl label, whole command, %",
            f"{100 * (least['one'] / least['plain'] - 1):.1f}",
            "below 15",
        ),
    ]
    about = f"{options.images} images of VOC 2007 val, shipped model, one thread each, no patches from before"
    keep(
        "speed",
        rows,
        about,
        f"python benchmarks/scale.py speed VOC2007 --images {options.images} --rounds {options.rounds}",
    )


def memory(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """The most memory of a worker, for a set and for ten times the set."""
    peaks = []
    for times in (1, 10):
        data = write_csv(folder / f"{times}.csv", images, options.images, times)
        how = ("--engine", "ray", "--workers", 2, "--shard-images", 25, "--format", "parquet")
        counts, _ = dpl("label", data, *how, "--out", folder / f"out-{times}")
        peaks.append(counts["peak_bytes_per_worker"] / 2**20)
    rows = [
        ("peak of a worker, MiB", f"{peaks[0]:.0f}", ""),
        ("peak of a worker with ten times the images, MiB", f"{peaks[1]:.0f}", ""),
        ("more, %", f"{100 * (peaks[1] / peaks[0] - 1):.1f}", "below 10"),
    ]
    about = f"{options.images} and {10 * options.images} images of VOC 2007 val, two workers"
    keep("memory", rows, about, f"python benchmarks/scale.py memory VOC2007 --images {options.images}")


def write_tars(folder: Path, images: TaggedImages, count: int) -> int:
    """Return the bytes of `count` decoded images, after writing them into tars of 500, with repetition."""
    folder.mkdir()
    decoded = 0
    for first in range(0, count, 500):
        with tarfile.open(folder / f"{first // 500:03d}.tar", "w") as tar:
            for number in range(first, min(first + 500, count)):
                index = number % len(images)
                height, width = images.read(index).shape[:2]
                decoded += 3 * height * width
                parts = ((".jpg", images.paths[index].read_bytes()), (".txt", tags_of(images, index).encode()))
                for suffix, content in parts:
                    member = tarfile.TarInfo(f"{number:06d}{suffix}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return decoded


def limit(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """A training on more decoded images than a process may hold; each is seen at least once."""
    decoded = write_tars(folder / "shards", images, options.images)
    size = int(options.gibibytes * 2**30)
    words = ["--recipe", "world", "--steps", -(-options.images // 16), "--device", "cpu", "--out", folder / "run"]
    settings = {"batch_images": 16, "images_per_micro_batch": 4, "patches": "sliding-window", "scales": "128"}
    for key, value in (settings | {"patches_per_sample": 16, "filters": 16}).items():
        words += ["--set", f"{key}={value}"]
    found, took = dpl("train", folder / "shards", *words, limit=size)
    rows = [
        ("decoded images, GiB", f"{decoded / 2**30:.2f}", f"more than {options.gibibytes:g}"),
        ("limit on the process's data, GiB", f"{options.gibibytes:g}", ""),
        ("steps done", str(found["steps"]), str(-(-options.images // 16))),
        ("seconds per image, decoding included", f"{took / options.images:.4f}", ""),
    ]
    about = f"{options.images} images of VOC 2007 in tars of 500, small network, ulimit -d"
    command = f"python benchmarks/scale.py limit VOC2007 --images {options.images} --gibibytes {options.gibibytes:g}"
    keep("limit", rows, about, command)


def ranks(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """Four ranks, one of them killed, against one process."""
    import torch

    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.recipe.build import recipe_patches
    from deep_patch_learning.recipe.presets import world
    from deep_patch_learning.runs.checkpoint import read_checkpoint
    from deep_patch_learning.training.fit import train_prepared

    data = write_csv(folder / "set.csv", images, 40)
    data.write_text(data.read_text().replace("image,tags", "image,tags,split").replace("\n", ",train\n").replace(
        "image,tags,split,train", "image,tags,split"
    ))  # fmt: skip
    recipe = world(steps=20).replace(
        batch_images=8, images_per_micro_batch=2, patches_per_sample=16, filters=16, scales=(128,)
    )
    recipe = recipe.replace(patches="sliding-window")
    (folder / "recipe.toml").write_text(recipe.to_toml())
    script = Path(__file__).parent.parent / "tests" / "training" / "elastic.py"
    for name, dies_at in (("whole", 0), ("killed", 10)):
        words = ["--standalone", "--nproc-per-node", "4", "--max-restarts", "2", str(script), str(data)]
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words, *map(str, (folder / "recipe.toml", folder / name, dies_at))],
            env=os.environ | ONE_THREAD, check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    train_prepared(prepare(read_tags(data, "train"), recipe_patches(recipe)), recipe, folder / "one", device="cpu")
    found = {name: read_checkpoint(folder / name / "weights.safetensors")[1] for name in ("one", "whole", "killed")}

    def difference(first: str, second: str) -> str:
        pairs = [(tensor.double(), found[second][name].double()) for name, tensor in found[first].items()]
        return f"{max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-12)) for a, b in pairs):.1e}"

    assert all(torch.isfinite(tensor.double()).all() for tensor in found["killed"].values())
    rows = [
        (
            "four ranks against one, largest relative difference of a weight tensor",
            difference("one", "whole"),
            "rounding",
        ),
        (
            "a rank killed and all started again, against four undisturbed",
            difference("whole", "killed"),
            "0 or rounding",
        ),
    ]
    about = "20 steps of 8 images, gloo, torchrun, one rank killed at step 10"
    keep("ranks", rows, about, "python benchmarks/scale.py ranks VOC2007")


CORE_HOUR, GPU_HOUR = 0.05, 3.0  # dollars, assumed: put in your own
SECONDS_OF_A_MILLION = 1e6 / 3600


def result(name: str, **wanted: str) -> dict[str, str]:
    """Return the row of a results file that has these values."""
    with (RESULTS / f"{name}.csv").open() as file:
        return next(row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items()))


def held_per_image(folder: Path) -> float:
    """Return the bytes of memory that names, places and tags of an image take in a training, measured on 100,000."""
    import tracemalloc

    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    count = 100_000
    columns = {"image": [b"x"] * count, "tags": [["dog", "sofa"][: 1 + number % 2] for number in range(count)]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "0.parquet")
    tracemalloc.start()
    images = read_tags(folder)
    held = tracemalloc.get_traced_memory()[0]
    assert len(images) == count
    return held / count


def costs(options: argparse.Namespace, images: TaggedImages, folder: Path) -> None:
    """What a million images take: hours and dollars, bytes on disk, and memory."""
    patches = result("patches_voc2007_trainval", method="Selective Search", first="all")
    testing = result("gpu_speed", what="testing, five scales", network="DPL-ResNet50", patches="512")
    training = result("gpu_speed", what="training", network="DPL-ResNet50", patches="512")
    labelling = float(result("shipped_speed", what="shipped model")["seconds"])
    data = write_csv(folder / "set.csv", images, options.images)
    dpl("label", data, "--format", "parquet", "--out", folder / "labels")
    label_bytes = (folder / "labels" / "train.parquet").stat().st_size / options.images
    per_image = [
        (
            "patches, Selective Search",
            "one core",
            float(patches["seconds_per_image"]),
            CORE_HOUR,
            "patches_voc2007_trainval.csv",
        ),
        ("labels, shipped model, with patches", "two cores", labelling, 2 * CORE_HOUR, "shipped_speed.csv"),
        (
            "labels, ResNet-50, five scales, 512 patches",
            "one H200",
            1 / float(testing["ours"]),
            GPU_HOUR,
            "gpu_speed.csv",
        ),
        ("training, ResNet-50, one epoch", "one H200", 1 / float(training["ours"]), GPU_HOUR, "gpu_speed.csv"),
    ]
    rows: list[dict[str, Any]] = [
        {
            "what": what, "on": on, "seconds_per_image": f"{seconds:.4f}",
            "hours_per_million": f"{seconds * SECONDS_OF_A_MILLION:.1f}",
            "dollars_per_million": f"{seconds * SECONDS_OF_A_MILLION * price:.2f}", "gigabytes_per_million": "", "of": source,
        }
        for what, on, seconds, price, source in per_image
    ]  # fmt: skip
    sizes = [
        ("patches in the cache", "disk", 8 * float(patches["boxes"]) + 32, "patches_voc2007_trainval.csv"),
        ("labels in Parquet", "disk", label_bytes, "this run"),
        ("names, places and tags while training", "memory of each rank", held_per_image(folder / "many"), "this run"),
    ]
    rows += [
        {
            "what": what, "on": on, "seconds_per_image": "", "hours_per_million": "", "dollars_per_million": "",
            "gigabytes_per_million": f"{size / 1000:.2f}", "of": source,
        }
        for what, on, size, source in sizes
    ]  # fmt: skip
    about = {"prices": f"{CORE_HOUR} dollars a core-hour and {GPU_HOUR} a GPU-hour, assumed", "seed": 0}
    about |= {"command": "python benchmarks/scale.py costs VOC2007", "machine": machine_name()}
    write_rows(RESULTS / "scale_costs.csv", [row | about | {"date": date.today().isoformat()} for row in rows])


PARTS: dict[str, Callable[[argparse.Namespace, TaggedImages, Path], None]] = {
    "kills": kills, "speed": speed, "memory": memory, "limit": limit, "ranks": ranks, "costs": costs,
}  # fmt: skip
IMAGES = {"kills": 500, "speed": 1000, "memory": 100, "limit": 8000, "ranks": 40, "costs": 60}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("voc", type=Path)
    parser.add_argument("--images", type=int)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gibibytes", type=float, default=4)
    options = parser.parse_args()
    options.images = options.images or IMAGES[options.part]
    images = read_tags(options.voc, "val")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPL_CACHE"] = f"{folder}/cache"
        PARTS[options.part](options, images, Path(folder))


if __name__ == "__main__":
    main()
