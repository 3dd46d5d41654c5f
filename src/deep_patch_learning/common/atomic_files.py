"""Files that are written whole or not at all: to a temporary name, then renamed, so that no reader sees half of one.

The temporary name is `.NAME.PID.dpl-part`. While it is written it is locked; the kernel frees the lock when its process ends,
however it ends. Whoever writes to a folder next removes what a killed process left there: names of this form without a lock.
"""

import ctypes
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system: nobody can tell what is still being written, so nothing is removed
    fcntl = None  # type: ignore[assignment]

LONGEST_NAME = 200  # bytes of a name that leave room for what is added to it: most systems take 255
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.dpl-(?P<kind>part|before)")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; at the end it is renamed to `path`, or removed after an error.

    Its permissions are those of any new file there, even where the library that writes it makes private files. An `OSError`
    names `path`.
    """
    part = part_of(path)
    try:
        with _locked(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)):
            rights = part.stat().st_mode
            yield part
            part.chmod(rights)
            part.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(part)):  # of a full disk Python names no file
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside `folder` to write to; at the end it takes its place, or is removed after an error.

    Where the system can, both names change in one step; else a kill between the two leaves no `folder` until the next `sweep`
    gives it back.
    """
    part = part_of(folder)
    part.mkdir(parents=True)
    try:
        with _locked(os.open(part, os.O_RDONLY)):
            yield part
            if folder.exists():
                _exchange(part, folder)
            else:
                part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def part_of(path: Path) -> Path:
    """Return the temporary name of a file or folder while this process writes it."""
    return path.with_name(f".{shortened(path.name)}.{os.getpid()}.dpl-part")


def is_temporary(path: Path) -> bool:
    """Return whether a file or folder has a temporary name of this module."""
    return _TEMPORARY.fullmatch(path.name) is not None


def shortened(name: str) -> str:
    """Return a name without the end that a file system may not have room for."""
    return os.fsdecode(os.fsencode(name)[:LONGEST_NAME])


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; an existing file of that name is replaced in one step."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left half-written in `folder`, or only what was to become `name` there.

    A folder that was about to be replaced and has lost its name gets it back.
    """
    if fcntl is None or not folder.is_dir():
        return
    for entry in list(os.scandir(folder)):
        found = _TEMPORARY.fullmatch(entry.name)
        if found is None or (name is not None and found["name"] != shortened(name)) or entry.is_symlink():
            continue
        left, lost = Path(entry.path), folder / found["name"]
        if not _is_abandoned(left):
            continue
        if found["kind"] == "before" and not lost.exists():
            left.rename(lost)
        elif entry.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    """Return whether nobody is writing a temporary file or folder any more."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # its writer has just finished
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is being written now, or this file system has no locks
        return False
    finally:
        os.close(handle)
    return True


def _exchange(part: Path, folder: Path) -> None:
    """Let `part` and `folder` change names: in one step where the system can, else in three, undone if one fails."""
    if _in_one_step(part, folder):
        return
    before = folder.with_name(f".{shortened(folder.name)}.{os.getpid()}.dpl-before")
    folder.rename(before)
    try:
        part.rename(folder)
    except BaseException:
        before.rename(folder)
        raise
    before.rename(part)


def _in_one_step(part: Path, folder: Path) -> bool:
    """Return whether the system has let two names change places at once."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    here, both_ways = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(part), here, os.fsencode(folder), both_ways) == 0


@contextmanager
def _locked(handle: int) -> Iterator[None]:
    """Hold the lock on an open file or folder, which says that it is being written; it is closed at the end."""
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: what is killed there stays until someone removes it
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
