"""Our own files: written whole or not at all, and read with every value checked.

A file is written to a temporary name, then renamed, so that no reader sees half of one. The temporary name is
`.NAME.PID.dpl-part`. While it is written it is locked; the kernel frees the lock when its process ends, however it ends.
Whoever writes to a folder next removes what a killed process left there: names of this form without a lock.

What is read may have been changed by others: each JSON file has one schema, a `TypedDict` beside the code that writes it.
"""

import ctypes
import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from deep_patch_learning.common.errors import DataError, DplError, short

Stored = TypeVar("Stored")
LARGEST = 64 << 20  # bytes of a JSON file of our own: more is none, and would fill the memory

try:
    import fcntl
except ImportError:  # not on this system: nobody can tell what is still being written, so nothing is removed
    fcntl = None  # type: ignore[assignment]

_NEAR = 1 << 16  # bytes at the start or end of a file, where a mark is looked for
LONGEST_NAME = 200  # bytes of a name that leave room for what is added to it: most systems take 255
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.dpl-(?P<kind>part|before)")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; at the end it is renamed to `path`, or removed after an error.

    Its permissions are those of any new file there, even where the library that writes it makes private files. An `OSError`
    names `path`.
    """
    with _written(path, Path.replace) as part:
        yield part


@contextmanager
def _written(path: Path, name: Callable[[Path, Path], object]) -> Iterator[Path]:
    """Yield a temporary path as `written_whole` does; at the end `name` gives the file its name."""
    part = part_of(path)
    try:
        with _locked(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)):
            rights = part.stat().st_mode
            yield part
            part.chmod(rights)
            name(part, path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(part)):  # of a full disk Python names no file
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def published_once(path: Path) -> Iterator[Path]:
    """Yield a temporary path as `written_whole` does; where `path` is there by the end, it stays and is a `FileExistsError`."""
    sweep(path.parent, path.name)
    with _written(path, _publish) as part:
        yield part


def _publish(part: Path, path: Path) -> None:
    """Give a file its name; unlike renaming, a link replaces nothing."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        part.replace(path)


@contextmanager
def folder_alone(folder: Path) -> Iterator[None]:
    """Wait until no other process is here for the same folder, and let none in until the end."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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


def open_lock(path: Path) -> int:
    """Return the handle of a lock file, which is made where it is not there; what is another kind of file raises `DplError`.

    Nothing is cut off and no link is followed, since somebody else may have put there what stands under this name.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    refused = DplError(
        f"{path}: is no file of its own, wanted one that dpl can lock. Remove it, or give another folder."
    )
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise refused from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise refused
    return handle


def must_be_regular(path: Path) -> None:
    """Raise `DataError` for a pipe or a device, which would be waited for without end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(f"{path}: this is a pipe or a device, wanted a file. Save its content as a file.")


def must_be_replaceable(path: Path, mark: bytes, what: str) -> None:
    """Raise `DplError` where a path holds something else than an earlier file of ours, which has `mark` near its start or end."""
    if not os.path.lexists(path):
        return
    if not path.is_symlink() and path.is_file():
        with path.open("rb") as file:
            start = file.read(_NEAR)
            file.seek(max(path.stat().st_size - _NEAR, 0))
            if mark in start or mark in file.read():
                return
    raise DplError(f"{path}: is there and is no {what} that dpl wrote. It stays as it is: give another --out.")


@contextmanager
def written_afresh(path: Path) -> Iterator[Path]:
    """Yield a temporary path as `written_whole` does, after removing what killed processes left of the same file."""
    sweep(path.parent, path.name)
    with written_whole(path) as part:
        yield part


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left half-written in `folder`, or only what was to become `name` there.

    A folder that was about to be replaced and has lost its name gets it back.
    """
    if fcntl is None or not folder.is_dir():
        return
    for entry in list(os.scandir(folder)):
        found = _TEMPORARY.fullmatch(entry.name)
        if found is None or (name is not None and found["name"] != shortened(name)):
            continue
        if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            continue  # a link or a pipe, which dpl does not make
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
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # which waits for no pipe
    except OSError:  # its writer has just finished, or is another user
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


class UnfitError(ValueError):
    """Why a text is no JSON, or not of its schema, in one line."""


def parsed(content: str | bytes) -> Any:
    """Return what JSON says; `UnfitError` says why it cannot be read, whatever is wrong with it."""
    try:
        return json.loads(content)
    except UnicodeDecodeError as error:
        raise UnfitError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise UnfitError("nested too deep") from None
    except json.JSONDecodeError as error:
        raise UnfitError(f"not JSON: {error}") from None
    except ValueError:  # what Python refuses to convert, since it would take long
        raise UnfitError("a number of thousands of digits") from None


def read_json(path: Path, kind: type[Stored], error: type[DplError], fix: str) -> Stored:
    """Return what a JSON file says, known to be of `kind`; anything else is an `error` that ends with the `fix`.

    A file that is not there raises `FileNotFoundError`.
    """
    try:
        return fitting(parsed(read_content(path)), kind)
    except UnfitError as wrong:
        raise error(f"{path}: is damaged ({wrong}). {fix}") from None


def read_content(path: Path, most: int = LARGEST) -> bytes:
    """Return what a file of our own holds; `UnfitError` for a folder, for a pipe or a device, and for more than `most` bytes."""
    if path.exists() and not path.is_file():
        raise UnfitError("not a file")
    if path.stat().st_size > most:
        raise UnfitError(f"{path.stat().st_size:,} bytes, of at most {most:,}")
    return path.read_bytes()


def fitting(value: Any, kind: type[Stored], place: str = "") -> Stored:
    """Return the value, known to be of `kind`; `UnfitError` names the first part that is not.

    `kind` is a type as an annotation writes it: plain types, None, `Any`, unions, lists, dicts and `TypedDict`, which may have
    further keys. A float is finite, an int has at most 64 bits and a string can be written as UTF-8. For a few small files
    this is all that pydantic, msgspec or typeguard would be used for.
    """
    if get_origin(kind) in (Union, UnionType):
        _fitting_one_of(value, get_args(kind), place)
    elif is_typeddict(kind):
        _must(isinstance(value, dict), value, "an object", place)
        for key, inner in get_type_hints(kind).items():
            if key in value:
                fitting(value[key], inner, f"{place}.{key}".lstrip("."))
            elif key in kind.__required_keys__:  # type: ignore[attr-defined]
                raise UnfitError(f"no '{key}'" + (f" in {place}" if place else ""))
    elif get_origin(kind) is list:
        _must(isinstance(value, list), value, "a list", place)
        if get_args(kind) == (str,) and all(type(one) is str and one.isascii() for one in value):
            return value  # a million names
        for index, one in enumerate(value):
            fitting(one, get_args(kind)[0], f"{place}[{index}]")
    elif get_origin(kind) is dict:
        _must(isinstance(value, dict), value, "an object", place)
        for key, one in value.items():
            fitting(one, get_args(kind)[1], f"{place}.{short(key)}".lstrip("."))
    elif kind is not Any:
        _fitting_plain(value, kind, place)
    return value


def _fitting_one_of(value: Any, kinds: tuple[Any, ...], place: str) -> None:
    misfits = []
    for kind in kinds:
        try:
            fitting(value, kind, place)
        except UnfitError as wrong:
            misfits.append(wrong)
        else:
            return
    raise misfits[0]


def _fitting_plain(value: Any, kind: type, place: str) -> None:
    if kind is int:
        _must(type(value) is int and abs(value) < 2**63, value, "a whole number", place)
    elif kind is float:
        _must(type(value) in (int, float) and abs(value) < 1e308, value, "a number", place)
    elif kind is str:
        _must(isinstance(value, str) and _is_text(value), value, "a text", place)
    else:
        _must(type(value) is kind, value, "nothing" if kind is NoneType else f"a {kind.__name__}", place)


def _is_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # half of a character
        return False


def _must(holds: bool, value: Any, wanted: str, place: str) -> None:
    if not holds:
        raise UnfitError(f"{place + ' is ' if place else ''}{short(value)}, wanted {wanted}")
