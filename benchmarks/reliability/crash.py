"""Runs that are killed at a random moment, disks that are full, folders that are read-only, two processes on one folder.

A killed command is started again until it ends by itself. Then its files must be those of an undisturbed run, byte for byte
where nothing in them is a time; before that, every file with its final name must be whole; after it, no temporary file may be
left. Processes are forked (`processes.py`), so that kills meet the work and not the imports.
"""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
from outcomes import Kind, Outcome, Result, Trial
from processes import Forked, import_everything
from safetensors import safe_open

from deep_patch_learning.common.atomic_files import is_temporary
from deep_patch_learning.data.world import make_world
from deep_patch_learning.labels.write import MANIFEST
from deep_patch_learning.patches.cache_files import read_record, records

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# SIGTERM ends a process that has not begun; a signal that comes after the last step finds a command that is done
STOPPED = {-signal.SIGKILL, -signal.SIGTERM, 130, 143, 0}
PATIENCE = 300.0
MOST_KILLS = 3  # of one command, before it is left alone
SMALL = (
    "steps=10",
    "batch_images=4",
    "images_per_micro_batch=2",
    "patches_per_sample=16",
    "filters=16",
    "scales=96,128",
)


@dataclass
class Command:
    """A command that is killed: its words in a folder, what must be equal afterwards, and what it took undisturbed."""

    words: Callable[[Path], list[object]]
    content: Callable[[Path], object]
    whole: Callable[[Path], str]  # what is half-written, or nothing
    env: Callable[[Path], dict[str, str]] = lambda folder: {}
    before: Callable[[Path], None] = lambda folder: None
    needs: "Command | None" = None
    place: Path = Path()
    seconds: float = 0.0
    wanted: object = None

    def measure(self) -> None:
        """Run it undisturbed, after what it needs; twice, since the first run compiles and reads what the second finds."""
        if self.wanted is not None:
            return
        if self.needs is not None:
            self.needs.measure()
        folder = self.place
        for _ in range(2):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            self.before(folder)
            made = Forked(self.words(folder), folder.with_suffix(".said"), self.env(folder))
            status = made.wait(PATIENCE)
            if status != 0:
                raise SystemExit(f"undisturbed, it ended with {status}: {made.said[-3000:]}")
            self.seconds, self.wanted = time.monotonic() - made.started, self.content(folder)

    def killed(self, trial: Trial) -> Result:
        """Return what comes of it when it is killed up to `MOST_KILLS` times and started again."""
        self.measure()
        folder = trial.folder / "work"
        folder.mkdir()
        self.before(folder)
        kills = 0
        for turn in range(MOST_KILLS + 1):
            started = Forked(self.words(folder), trial.folder / f"said-{turn}", self.env(folder))
            sent = trial.random.choice(SIGNALS)
            if turn < MOST_KILLS:
                time.sleep(trial.random.uniform(0, self.seconds))
                started.kill(sent)
            status = started.wait(PATIENCE)
            if status is None:
                return Result(Outcome.HANG, f"after {sent.name}: {started.said[-1500:]}", kills)
            kills += status != 0  # otherwise it was done before the signal came
            if "Traceback" in started.said or status not in (STOPPED if turn < MOST_KILLS else {0}):
                return Result(Outcome.TRACEBACK, f"status {status} in turn {turn}: {started.said[-2500:]}", kills)
            if half := self.whole(folder):
                return Result(Outcome.LOST_OR_CHANGED, f"half-written after {sent.name}: {half}", kills)
            if status == 0:
                break
        if self.content(folder) != self.wanted:
            return Result(Outcome.LOST_OR_CHANGED, f"differs from the undisturbed run: {folder}", kills)
        return _nothing_left(folder, kills)


def _nothing_left(folder: Path, kills: int) -> Result:
    """Return what came of a trial whose results are right: no temporary file may be left."""
    left = [str(path) for path in folder.rglob("*") if is_temporary(path)]
    outcome = Outcome.LOST_OR_CHANGED if left else Outcome.SUCCESS
    return Result(outcome, f"left: {left}" if left else "", kills)


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return the kinds of trials; what they share is made in `scratch`."""
    import_everything()
    world = make_world(scratch / "world", train=12, test=6, seed=3)
    cache = {"DPL_CACHE": str(scratch / "cache")}
    settings = [word for setting in SMALL for word in ("--set", setting)]

    def train(folder: Path, *more: object) -> list[object]:
        words = ["train", world, "--split", "train", "--device", "cpu", "--workers", 1, "--out", folder / "run"]
        return [*words, *settings, *more]

    def label(folder: Path, *more: object) -> list[object]:
        words = ["label", world, "--split", "test", "--model", run, "--device", "cpu", "--workers", 1, "--min-score", 0]
        return [*words, "--out", folder / "labels", *more]

    training = Command(
        lambda f: train(f, "--recipe", "world", "--val-share", "0.4"), run_content, run_half, lambda _: cache
    )
    rounds = Command(
        lambda f: train(f, "--recipe", "refined-world", "--rounds", 1, "--first-networks", 2),
        run_content,
        run_half,
        lambda _: cache,
    )
    run = scratch / "train" / "run"
    images = world.parent / "images"
    commands = {
        "train": training,
        "rounds": rounds,
        "patches": Command(
            lambda f: ["patches", world, "--split", "train", "--workers", 1],
            patches_content,
            lambda f: "",
            lambda f: {"DPL_CACHE": str(f)},
        ),
        "label": Command(lambda f: label(f, "--format", "voc"), tree, labels_half, lambda _: cache),
        "label again": Command(
            lambda f: label(f, "--format", "voc"), tree, labels_half, lambda _: cache, lambda f: old_labels(f, label)
        ),
        "predict": Command(
            lambda f: ["predict", images, "--model", run, "--device", "cpu", "--out", f / "found"],
            tree,
            predictions_half,
            lambda _: cache,
        ),
        "export": Command(
            lambda f: ["export", run, "--format", "torch", "--out", f / "model.pt2"],
            exported,
            lambda f: "",
            lambda _: cache,
        ),
    }
    for name, command in commands.items():
        command.place = scratch / name.replace(" ", "-")
        command.needs = None if name in ("train", "rounds", "patches") else training
    made: dict[str, Kind] = {f"{name}, killed": command.killed for name, command in commands.items()}
    made["two trainings in one folder"] = lambda trial: two_at_once(trial, training)
    made["train, disk full"] = lambda trial: on_a_small_disk(trial, training)
    made["predict, read-only folder"] = lambda trial: on_a_read_only_disk(trial, commands["predict"])
    coco = Command(lambda f: label(f, "--format", "coco"), tree, labels_half, lambda _: cache, needs=training)
    coco.place = scratch / "coco"
    made["review, killed"] = lambda trial: review_killed(trial, coco)
    return made


def run_content(folder: Path) -> object:
    """Return the tensors' bytes of all runs below a folder, their settings, and the steps in their logs.

    A logged loss is the mean over the steps since the last line or, where it was resumed since, over fewer.
    """
    found = {}
    for path in sorted((folder / "run").rglob("*.safetensors")):
        found[str(path.relative_to(folder))] = path.read_bytes()
    for path in sorted((folder / "run").rglob("log.jsonl")):
        found[str(path.relative_to(folder))] = [
            [json.loads(line)[key] for key in ("step", "samples", "learning_rate")] for line in path.open()
        ]
    for path in sorted((folder / "run").rglob("config.toml")):
        found[str(path.relative_to(folder))] = path.read_text()
    return found


def run_half(folder: Path) -> str:
    """Return the file of a run that is there and cannot be read; the last line of a log may be torn."""
    for path in folder.rglob("*"):
        if not path.is_file() or is_temporary(path):
            continue
        try:
            if path.suffix == ".safetensors":
                with safe_open(path, "pt") as stored:
                    _ = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a dict)
            elif path.suffix == ".json":
                json.loads(path.read_text())
        except Exception as error:
            return f"{path}: {error}"
    return ""


def patches_content(folder: Path) -> object:
    """Return the boxes of every whole record of a cache."""
    found = {}
    for shard in folder.rglob("*.patches"):
        for image, offset, _ in records(shard, 0):
            record = read_record(shard, offset)
            if record is not None:
                found[image] = record[1].tobytes()
    return found


def tree(folder: Path) -> object:
    """Return every file below a folder with its content, a link with its target."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file())
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else without_places(path, folder)
        for path in files
    }


def without_places(path: Path, folder: Path) -> bytes:
    """Return a file's content without the path of the trial."""
    return path.read_bytes().replace(str(folder.resolve()).encode(), b"")


def labels_half(folder: Path) -> str:
    """Return what is wrong with a folder of labels that is there: it is whole or not there."""
    from deep_patch_learning.labels.write import check_folder

    try:
        check_folder(folder / "labels")
    except Exception as error:
        return str(error)
    return ""


def old_labels(folder: Path, label: Callable[..., list[object]]) -> None:
    """Write labels that the command is to replace."""
    made = Forked(label(folder, "--format", "yolo"), folder / ".said")
    if made.wait(PATIENCE) != 0:
        raise SystemExit(made.said)
    (folder / ".said").unlink()


def predictions_half(folder: Path) -> str:
    """Return a prediction that cannot be read."""
    from PIL import Image

    for path in folder.glob("found/[!.]*"):
        try:
            if path.suffix == ".json":
                json.loads(path.read_text())
            else:
                with Image.open(path) as image:
                    image.load()
        except Exception as error:
            return f"{path}: {error}"
    return ""


def exported(folder: Path) -> object:
    """Return the names of what was exported, and the sum of each part of its archive, which may hold times."""
    found = {}
    for path in folder.rglob("*.pt2"):
        with zipfile.ZipFile(path) as archive:
            found[path.name] = sorted((entry.filename, entry.CRC) for entry in archive.infolist())
    return found


def two_at_once(trial: Trial, training: Command) -> Result:
    """Start the same training twice: one trains, the other is refused and changes nothing."""
    training.measure()
    words = training.words(trial.folder)
    both = [Forked(words, trial.folder / "said-0", training.env(trial.folder))]
    time.sleep(trial.random.uniform(0, training.seconds / 2))
    both.append(Forked(words, trial.folder / "said-1", training.env(trial.folder)))
    ended = [one.wait(PATIENCE) for one in both]
    said = "".join(one.said for one in both)
    if None in ended:
        return Result(Outcome.HANG, said)
    if "Traceback" in said or not {*ended} <= {0, 2} or 0 not in ended:
        return Result(Outcome.TRACEBACK, f"{ended}: {said}")
    if training.content(trial.folder) != training.wanted:
        return Result(Outcome.LOST_OR_CHANGED, said)
    return Result(Outcome.CLEAN_ERROR if 2 in ended else Outcome.SUCCESS)


def on_a_small_disk(trial: Trial, training: Command) -> Result:
    """Train where the disk is soon full, then make room and repeat."""
    training.measure()
    place = trial.folder / "disk"
    place.mkdir()
    size = trial.random.randint(4, 4_000)  # KiB
    mount("-t", "tmpfs", "-o", f"size={size}k", "none", place)
    try:
        full = Forked(training.words(place), trial.folder / "said-0", training.env(place))
        status = full.wait(PATIENCE)
        if status is None:
            return Result(Outcome.HANG, full.said)
        if (
            "Traceback" in full.said
            or status not in (0, 2)
            or full.said.strip().splitlines()[-1].startswith("dpl: a file")
        ):
            return Result(Outcome.TRACEBACK, f"{size} KiB, status {status}: {full.said}")
        if half := training.whole(place):
            return Result(Outcome.LOST_OR_CHANGED, half)
        mount("-o", "remount,size=100m", place)
        again = Forked(training.words(place), trial.folder / "said-1", training.env(place))
        if again.wait(PATIENCE) != 0:
            return Result(Outcome.LOST_OR_CHANGED, f"{size} KiB: cannot go on: {full.said}\n{again.said}")
        if training.content(place) != training.wanted or any(map(is_temporary, place.rglob("*"))):
            return Result(Outcome.LOST_OR_CHANGED, f"{size} KiB: {full.said}\n{again.said}")
        return Result(Outcome.CLEAN_ERROR if status else Outcome.SUCCESS)
    finally:
        subprocess.run(["umount", place], check=True)


def on_a_read_only_disk(trial: Trial, predict: Command) -> Result:
    """Predict into a folder that cannot be written to."""
    predict.measure()
    place = trial.folder / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "ro", "none", place)
    try:
        tried = Forked(predict.words(place), trial.folder / "said", predict.env(place))
        status = tried.wait(PATIENCE)
        if status is None:
            return Result(Outcome.HANG, tried.said)
        if "Traceback" in tried.said or status != 2 or len(tried.said.strip().splitlines()) != 1:
            return Result(Outcome.TRACEBACK, f"status {status}: {tried.said}")
        return Result(Outcome.CLEAN_ERROR)
    finally:
        subprocess.run(["umount", place], check=True)


def mount(*words: object) -> None:
    """Mount a file system in memory; needs the rights of root."""
    subprocess.run(["mount", *map(str, words)], check=True)


def review_killed(trial: Trial, labels: Command) -> Result:
    """Kill the review page's server while boxes are drawn: each answer that it gave must be in the store that is opened next."""
    labels.measure()
    shutil.copytree(labels.place / "labels", trial.folder / "labels", symlinks=True)
    (data,) = (path for path in (trial.folder / "labels").rglob("*.json") if path.name != MANIFEST)
    acknowledged: list[str] = []
    for turn in range(MOST_KILLS):
        served = Forked(["review", data, "--follow-links", "--port", 0], trial.folder / f"said-{turn}")
        link, until = None, time.monotonic() + 60
        while link is None and time.monotonic() < until:
            link = re.search(r"review at (http\S+)", served.said if served.output.exists() else "")
            time.sleep(0.01)
        if link is None:
            served.wait(0.1)
            return Result(Outcome.HANG, served.said)
        stop_at = time.monotonic() + trial.random.uniform(0, 0.4)
        base, _, key = link[1].partition("?")
        with httpx.Client(base_url=base.rstrip("/"), timeout=30) as client:
            client.get(f"/?{key}").raise_for_status()
            version = 0
            while time.monotonic() < stop_at:
                action = {"id": f"action-{trial.number}-{turn}-{len(acknowledged):06d}", "kind": "draw", "image": 1}
                action |= {"seen": {"1": version}, "index": 0, "corners": [1, 1, 20, 20]}
                answer = client.post("/api/actions", json=action)
                if answer.status_code == 409:  # the turn before was there already
                    version = answer.json()["conflicts"][0]["version"]
                    continue
                if answer.status_code != 200:
                    served.kill(signal.SIGKILL)
                    served.wait(5)
                    return Result(Outcome.TRACEBACK, answer.text)
                acknowledged.append(action["id"])
                version += 1
            if served.has_ended():
                return Result(Outcome.TRACEBACK, f"it ended before it was killed: {served.said}")
            served.kill(trial.random.choice(SIGNALS))
        status = served.wait(30)
        if status is None:
            return Result(Outcome.HANG, served.said)
        if "Traceback" in served.said:
            return Result(Outcome.TRACEBACK, f"status {status}: {served.said}")
    (store,) = trial.folder.rglob("*.sqlite")
    with closing(sqlite3.connect(store)) as file:
        known = {row[0] for row in file.execute("SELECT id FROM actions")}
        sound = file.execute("PRAGMA integrity_check").fetchone()[0]
    lost = set(acknowledged) - known
    if lost or sound != "ok":
        said = f"{sound}; {len(lost)} of {len(acknowledged)} answers are not in the store"
        return Result(Outcome.LOST_OR_CHANGED, said, MOST_KILLS)
    return _nothing_left(trial.folder, MOST_KILLS)
