"""The folder that a cluster fills, part by part. What is there is whole: a second start goes on where the first one ended.

OUT/dpl-parts.json         what is being made: settings, model and data; another run's folder is refused
OUT/shards/part-00000.*    the parts' results, each renamed into place when whole
OUT/done/part-00000.json   what is known of a part, written after its result: it says that the part is done
OUT/broken.jsonl           the images that could not be read, written when all parts are done
OUT/index.json             the parts and the totals, written last
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from deep_patch_learning.common.atomic_files import open_lock, read_json, sweep, write_whole, written_whole
from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.patches.cache_files import NO_LOCKS

KIND = "deep_patch_learning.parts/1"
AGAIN = "Remove it, and repeat the command."


class PartFacts(TypedDict):
    """The schema of done/part-00000.json: what is known of any part."""

    part: str
    digest: str
    source: str
    broken: list[dict[str, str]]


class ChangedError(RunError):
    """A part that was made of other images or tags than it has now."""


class PartsFolder:
    """A folder of finished parts."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.about = self.folder / "dpl-parts.json"
        self.shards = self.folder / "shards"
        self.done = self.folder / "done"
        self.broken = self.folder / "broken.jsonl"
        self.index = self.folder / "index.json"

    def check(self) -> None:
        """Raise `DataError` unless the folder is new, empty, or one of ours."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: is a file. Give a new folder with --out.")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not self.about.is_file():
            raise DataError(
                f"{self.folder}: is not empty, and no run with --engine ray began it. Give a new folder with --out."
            )

    def must_fit(self, about: Mapping[str, Any]) -> None:
        """Raise an error if the folder holds other files, or was begun with other settings, another model or other data."""
        self.check()
        if not self.about.is_file():
            return
        before, wanted = read_json(self.about, dict[str, Any], RunError, AGAIN), {"kind": KIND, **about}
        changed = [
            f"{key} was {_short(before.get(key))}, now {_short(wanted.get(key))}"
            for key in {**before, **wanted}
            if before.get(key) != wanted.get(key)
        ]
        if changed:
            raise RunError(
                f"{self.folder}: holds another run: {'; '.join(changed)}. Repeat its command to go on, or give a new folder "
                "with --out."
            )

    def begin(self, about: Mapping[str, Any]) -> None:
        """Create the folder unless it is there; it must fit."""
        self.must_fit(about)
        if self.about.is_file():
            return
        try:
            self.shards.mkdir(parents=True, exist_ok=True)
            self.done.mkdir(exist_ok=True)
            write_whole(self.about, json.dumps({"kind": KIND, **about}, indent=1) + "\n")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise DataError(f"{self.folder}: cannot be written ({why}). Make room, or give another --out.") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one process; a second start meanwhile gets a `RunError`.

        Where the file system knows no locks nothing is held.
        """
        try:
            import fcntl
        except ImportError:  # not on this system
            yield
            return
        with os.fdopen(open_lock(self.folder / ".lock"), "r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"{self.folder}: another process fills it. Wait for it, or stop it.") from None
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    why = error.strerror or type(error).__name__
                    raise RunError(f"{self.folder}: cannot be locked ({why}). Check the folder.") from None
            yield

    def finished(self, part: str, digest: str, schema: Any = PartFacts) -> dict[str, Any] | None:
        """Return what is known of a part that is done, or None; `ChangedError` where it was done of other data."""
        try:
            found = read_json(self.done / f"{part}.json", schema, RunError, AGAIN)
        except FileNotFoundError:
            return None
        result = self.shards / found["file"] if found.get("file") else None
        if result is not None and (not result.is_file() or result.stat().st_size != found["bytes"]):
            return None  # removed or cut since: made again
        if found["digest"] != digest:
            raise ChangedError(
                f"{self.folder}: {part} was made of other images or tags than {found['source']}: the data set has changed "
                "since. Restore it, or give a new folder with --out."
            )
        return found

    def forget(self) -> None:
        """Let no part be done."""
        for note in self.done.glob("part-*.json"):
            note.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a process that died has left half-written."""
        for folder in (self.folder, self.shards, self.done):
            sweep(folder)

    def close(self, index: Mapping[str, Any], broken: Iterator[Mapping[str, str]]) -> int:
        """Write the lists that end a run and return the number of broken images."""
        count = 0
        with written_whole(self.broken) as partial, partial.open("w", encoding="utf-8") as file:
            for one in broken:
                file.write(json.dumps(one) + "\n")
                count += 1
        write_whole(self.index, json.dumps({**index, "broken": count}, indent=1) + "\n")
        return count


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
