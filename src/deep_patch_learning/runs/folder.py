"""The run folder: everything that one training made, nothing half-written; and its log, one JSON object per line."""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict

from deep_patch_learning.common.atomic_files import (
    UnfitError,
    fitting,
    is_temporary,
    open_lock,
    parsed,
    read_content,
    read_json,
    sweep,
    write_whole,
)
from deep_patch_learning.common.errors import RunError, did_you_mean
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.recipe.recipe import Recipe

if TYPE_CHECKING:
    from deep_patch_learning.data.holdout import Draw


LOCK = ".lock"  # an empty file, locked by the process that trains
LARGEST_LOG = 1 << 28  # bytes: each line of 300 stands for tens of steps
AGAIN = "Restore it, or train again in a new folder."


class RunData(TypedDict):
    """The schema of data.json: what the run was trained on."""

    classes: list[str]
    fingerprint: str
    path: NotRequired[str | None]
    split: NotRequired[str | None]
    limit: NotRequired[int | None]
    held_out: NotRequired[str]
    val_split: NotRequired[str | None]
    val_share: NotRequired[float | None]
    val_seed: NotRequired[int]
    distilling: NotRequired[dict[str, Any]]


class LogEntry(TypedDict):
    """The schema of a line of log.jsonl, which also holds the parts of the loss by name."""

    step: int
    samples: NotRequired[int]
    seconds: NotRequired[float]
    loss: NotRequired[float]


class RunFolder:
    """The files of a run: config.toml, data.json, versions.json, log.jsonl, checkpoint.safetensors, weights.safetensors.

    Where it starts from pretrained weights: layers.json, which layers they filled.
    Where it learns from another run's boxes: pseudo_boxes.jsonl. Where it learns from what people said: reviewed.jsonl.
    Where images are held out: held_out_images.json, their names; held_out.json, what was measured on them; best.safetensors
    until the training ends, calibration.json from then on.
    Where it is the last of several trainings: the others under stages/, and run.json (see `runs/stages.py`).
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = self.folder / "config.toml"
        self.data = self.folder / "data.json"
        self.versions = self.folder / "versions.json"
        self.log = self.folder / "log.jsonl"
        self.checkpoint = self.folder / "checkpoint.safetensors"
        self.weights = self.folder / "weights.safetensors"
        self.layers = self.folder / "layers.json"
        self.held_out = self.folder / "held_out.json"
        self.held_out_images = self.folder / "held_out_images.json"
        self.best = self.folder / "best.safetensors"
        self.calibration = self.folder / "calibration.json"
        self.reviewed = self.folder / "reviewed.jsonl"
        self.review = (
            self.folder / "review.sqlite"
        )  # where dpl review keeps what people say, unless another place is named
        self.stages = self.folder / "stages"
        self.asked = self.stages / "config.toml"
        self.record = self.folder / "run.json"
        self._held = False

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the training itself, there or not; config.toml, which says that the folder is a run, comes last."""
        return (
            *(self.data, self.versions, self.log, self.checkpoint, self.weights, self.layers),
            *(self.held_out, self.held_out_images, self.best, self.calibration, self.pseudo_boxes, self.reviewed),
            self.config,
        )

    @property
    def pseudo_boxes(self) -> Path:
        """The pseudo boxes that the run learns from, under the name of an earlier version where that is there."""
        before = self.folder / "given_boxes.jsonl"
        return before if before.exists() else self.folder / "pseudo_boxes.jsonl"

    def begin(
        self,
        recipe: Recipe,
        images: TaggedImages,
        source: dict[str, Any],
        held_out: TaggedImages | None = None,
        reviewed: str = "",
    ) -> None:
        """Create the folder, or check that what it holds was made with the same settings and data.

        `reviewed` is what people said about boxes, as JSON lines.
        """
        self._make()
        if self.config.exists():
            self._same_settings(Recipe.load(self.config), recipe)
        description = {"classes": list(images.classes), "fingerprint": fingerprint(images), **source}
        if held_out is not None:
            description["held_out"] = fingerprint(held_out)
        if self.config.exists():
            self._same_data(description)
            self.must_have_reviewed(reviewed)
            return
        for left in (
            self.held_out_images,
            self.reviewed,
        ):  # by a kill in the first moments of a run that was never begun
            left.unlink(missing_ok=True)
        if held_out is not None:
            write_whole(self.held_out_images, json.dumps(held_out.names, indent=0))
        if reviewed:
            write_whole(self.reviewed, reviewed)
        write_whole(self.data, json.dumps(description, indent=1))
        write_whole(self.versions, json.dumps(versions(), indent=1))
        write_whole(self.config, recipe.to_toml())  # last: its presence says that the folder is a run

    def _make(self) -> None:
        """Create the folder, or check that it holds a run or what a kill left of the first moments of one."""
        self.must_be_free_or_a_run()
        make_folder(self.folder)
        sweep(self.folder)

    def begun_with(self) -> Recipe | None:
        """Return the recipe that the run in the folder was begun with; None where there is none.

        Of several trainings it is the one that was asked for, not that of the last of them.
        """
        found = self.asked if self.asked.exists() else self.config
        return Recipe.load(found) if found.exists() else None

    def check(self, recipe: Recipe) -> None:
        """Raise `RunError` if the folder holds a run begun with other settings, or other files; nothing is written."""
        self.must_be_free_or_a_run()
        begun = self.begun_with()
        if begun is not None:
            self._same_settings(begun, recipe)

    def must_be_free_or_a_run(self) -> None:
        """Raise `RunError` if the folder holds something else than a run or the beginning of one."""
        if self.folder.is_file():
            raise RunError(f"{self.folder}: is a file. Give another folder with --out.")
        self._must_hold_files()
        if self.config.exists() or self.asked.exists() or not self.folder.exists():
            return
        other = sorted(path.name for path in self.folder.iterdir() if not self._is_a_beginning(path))
        if other:
            raise RunError(
                f"{self.folder}: holds other files ({', '.join(other[:3])}{', ...' * (len(other) > 3)}) and no run. "
                "Give a new or empty folder with --out."
            )

    def _must_hold_files(self) -> None:
        """Raise `RunError` where a folder, a pipe or a device has the name of one of the run's files: it may never end."""
        for path in (*self.files, self.asked, self.record):
            if path.exists() and not path.is_file():
                raise RunError(
                    f"{path}: is no file, and has the name of one of a run. Remove it, or give another folder."
                )

    def _is_a_beginning(self, path: Path) -> bool:
        """Return whether a file is one that `begin` writes before config.toml: all that a kill, or a full disk, may leave.

        A user's file of the same name has other content, and is not touched.
        """
        if is_temporary(path) or _is_a_lock(path):
            return True
        if path == self.stages:
            return path.is_dir() and all(is_temporary(one) or _is_a_lock(one) for one in path.iterdir())
        begins = {self.data: '{\n "classes": [', self.versions: '{\n "python": "'}
        begins |= {self.held_out_images: "[\n", self.reviewed: '{"image": '}
        if path not in begins or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(begins[path])) == begins[path].encode()

    def _same_settings(self, begun: Recipe, recipe: Recipe) -> None:
        before = begun.settings()
        changed = [
            f"{key} was {before[key]!r}, now {value!r}"
            for key, value in recipe.settings().items()
            if value != before[key]
        ]
        if changed:
            raise RunError(
                f"{self.folder}: holds a run made with other settings: {'; '.join(changed)}. "
                "Repeat the first command to resume it, or give a new folder with --out."
            )

    def _same_data(self, description: dict[str, Any]) -> None:
        stored = self.describe()
        if stored["fingerprint"] != description["fingerprint"]:
            raise RunError(
                f"{self.folder}: was trained on other images or tags ({stored.get('path')}, split {stored.get('split')}). "
                "Repeat the first command to resume it, or give a new folder with --out."
            )
        before, now = stored.get("held_out"), description.get("held_out")
        if before != now:
            was = "held out no images" if before is None else "held out other images" if now else "held out images"
            raise RunError(
                f"{self.folder}: was begun with other measurements: it {was}. Repeat the first command to resume it, "
                "or give a new folder with --out."
            )

    def must_have_reviewed(self, now: str) -> None:
        """Raise `RunError` where a run, or one of its stages, was begun with other reviews than those of `now`, as JSON lines."""
        for folder in (self, *(RunFolder(path.parent) for path in sorted(self.stages.glob("*/config.toml")))):
            if not folder.config.exists():
                continue
            before = folder._read_reviewed()
            if before != now:
                was = "with other reviews" if before and now else "with reviews" if before else "without reviews"
                raise RunError(
                    f"{self.folder}: was begun {was}. A training learns from one state of a store: give a new folder with --out."
                )

    def _read_reviewed(self) -> str:
        """Return what people said about boxes when the run was begun, as JSON lines; empty where it learns from tags alone."""
        try:
            return read_content(self.reviewed).decode() if self.reviewed.exists() else ""
        except UnicodeDecodeError as error:
            raise RunError(f"{self.reviewed}: is damaged (byte {error.start} is not UTF-8). {AGAIN}") from None
        except UnfitError as wrong:
            raise RunError(f"{self.reviewed}: is damaged ({wrong}). {AGAIN}") from None

    def drawing(self, val_share: float | None) -> "Draw":
        """Return how images of this share are held out: as when the run was begun with it, else near-duplicates on one side."""
        from deep_patch_learning.data.holdout import drawn_before, drawn_singly, drawn_together

        folders = (self, *(RunFolder(path.parent) for path in sorted(self.stages.glob("*/config.toml"))))
        begun = next((one for one in folders if one.config.exists()), None)
        if begun is None or begun.describe().get("val_share") != val_share:
            return drawn_together
        if not begun.held_out_images.exists():
            return drawn_singly  # a run of an earlier version
        return drawn_before(read_json(begun.held_out_images, list[str], RunError, AGAIN))

    def read_images(self) -> tuple[TaggedImages, TaggedImages | None]:
        """Return the images that the run was trained on, and those that it held out, read again from where they were."""
        from deep_patch_learning.data.holdout import read_apart

        about = self.describe()
        if not about.get("path"):
            raise RunError(f"{self.data}: does not say where the images are. {AGAIN}")
        held = about.get("val_split"), about.get("val_share")
        seed, limit = about.get("val_seed", Recipe.load(self.config).machine.seed), about.get("limit")
        return read_apart(Path(about["path"]), about.get("split"), *held, seed, limit, self.drawing(held[1]))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for one process; another that trains in the same folder gets a `RunError`.

        The folder is made. Whoever holds it already goes on holding it.
        """
        self._make()
        if self._held:
            yield
            return
        with locked_folder(self.folder):
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def describe(self) -> dict[str, Any]:
        """Return what is known of the run's data: classes, path, split, fingerprint (see `RunData`)."""
        self.must_exist()
        found = read_json(self.data, RunData, RunError, AGAIN)
        classes = found["classes"]
        named = bool(classes) or "distilling" in found  # a distillation reads no tags, so that it has no classes
        if not named or len(set(classes)) != len(classes):
            raise RunError(f"{self.data}: is damaged ({'a class is there twice' if classes else 'no class'}). {AGAIN}")
        return dict(found)

    def read_versions(self) -> dict[str, str]:
        """Return the versions that the run was made with; {} where they were not written down."""
        return read_json(self.versions, dict[str, str], RunError, AGAIN) if self.versions.exists() else {}

    def digest(self) -> str:
        """Return a hash of what predictions come from: the weights and their calibration."""
        found = hashlib.sha256()
        for file in (self.weights if self.weights.exists() else self.checkpoint, self.calibration):
            if file.exists():
                with file.open("rb") as content:
                    found.update(hashlib.file_digest(content, "sha256").digest())
        return found.hexdigest()

    def must_exist(self) -> None:
        """Raise `RunError` unless the folder holds a run; runs beside it are named."""
        self._must_hold_files()
        if self.config.is_file() and self.data.is_file():
            return
        if self.folder.is_dir():
            raise RunError(
                f"{self.folder}: holds no run (no config.toml). Train one with: dpl train DATA --out {self.folder}"
            )
        parent = self.folder.parent
        beside = sorted(p.parent.name for p in parent.glob("*/config.toml")) if parent.is_dir() else []
        hint = did_you_mean(self.folder.name, beside) if beside else " Train one with: dpl train DATA --out RUN"
        raise RunError(f"{self.folder}: there is no such run.{hint}")

    def must_be_finished(self) -> None:
        """Raise `RunError` unless the folder holds a run that is trained to its end."""
        self.must_exist()
        if not self.weights.exists():
            raise RunError(f"{self.folder}: is not finished. Repeat its dpl train command first.")

    def read_log(self) -> list[dict[str, Any]]:
        """Return the lines of the log; a line cut off by a kill is left out."""
        return read_log(self.log)

    def append_log(self, entry: dict[str, Any]) -> None:
        """Add one line to the log."""
        append_log(self.log, entry)

    def cut_log(self, step: int) -> None:
        """Drop what the log says of steps after `step`, which will be done again."""
        cut_log(self.log, step)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, or raise `RunError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise RunError(f"{folder}: is a file. Give another folder with --out.") from None
    except PermissionError:
        raise RunError(f"{folder}: may not be written to. Give another folder with --out.") from None


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for one process that trains there; another gets a `RunError`."""
    try:
        import fcntl
    except ImportError:  # not on this system: two trainings in one folder are then the user's to avoid
        yield
        return
    with os.fdopen(open_lock(folder / LOCK), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{folder}: another process is training there. Wait for it, or stop it.") from None
        yield


def _is_a_lock(path: Path) -> bool:
    return path.name == LOCK and not path.is_symlink() and path.is_file() and not path.stat().st_size


def fingerprint(images: TaggedImages) -> str:
    """Return a hash of the classes, names and tags: two runs on the same data share it."""
    digest = hashlib.sha256()
    for words in (images.classes, images.names):
        digest.update("\0".join(words).encode() + b"\1")
    digest.update(images.labels.tobytes())
    return digest.hexdigest()[:16]


def versions(
    packages: Sequence[str] = ("torch", "torchvision", "numpy", "numba", "opencv-python-headless"),
) -> dict[str, str]:
    """Return the versions that the run depends on."""
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for package in ("deep-patch-learning", *packages):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


RENAMED_KEYS = {"visits": "samples"}  # keys of earlier versions


class TrainingTime(NamedTuple):
    """How long a training took, and how fast it was once it was warm; None where the log is too short to tell."""

    seconds: float
    samples_per_second: float | None


def training_time(log: Sequence[Mapping[str, Any]]) -> TrainingTime:
    """Return the seconds that a training took and its samples per second, from its log.

    A run that was resumed has several clocks, each from 0; their times are added up. The speed leaves out the first line of
    each clock, in which the device warms up, unless there is no other. Lines without a time or samples do not count.
    """
    log = [entry for entry in log if "seconds" in entry and "samples" in entry]
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
    try:
        content = read_content(path, LARGEST_LOG)
    except UnfitError as wrong:
        raise RunError(f"{path}: is damaged ({wrong}). {AGAIN}") from None
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            entry = parsed(line)
        except UnfitError:
            break
        try:
            fitting(entry, dict[str, Any])
            entry = {RENAMED_KEYS.get(key, key): value for key, value in entry.items()}
            lines.append(dict(fitting(entry, LogEntry)))
        except UnfitError as wrong:
            raise RunError(f"{path}, line {number}: is damaged ({wrong}). {AGAIN}") from None
    return lines


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    """Add one line to a log."""
    try:
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # of a full disk Python names no file


def cut_log(path: Path, step: int) -> None:
    """Drop what a log says of steps after `step`, which will be done again."""
    kept = [entry for entry in read_log(path) if entry["step"] <= step]
    write_whole(path, "".join(json.dumps(entry) + "\n" for entry in kept))
