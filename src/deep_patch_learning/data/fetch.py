"""PASCAL VOC from its official host: fetched, checked against its known sum, unpacked, and only then moved into place.

All work happens in a hidden folder beside the final one. An interrupted download resumes there; the final folder is always
complete.
"""

import filecmp
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from deep_patch_learning.common.atomic_files import open_lock
from deep_patch_learning.common.errors import DataError, did_you_mean

_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without a byte
_ELSEWHERE = "Or download it elsewhere, unpack it, and give its folder."

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Archive:
    """One archive: where it is, what its bytes must be, and the list (in the VOC folder) of the images it brings."""

    url: str
    md5: str
    size: int
    marker: str

    @property
    def file_name(self) -> str:
        """Return the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


_HOST = "https://thor.robots.ox.ac.uk/pascal/VOC"
_TRAINVAL, _TEST = "ImageSets/Main/trainval.txt", "ImageSets/Main/test.txt"

ARCHIVES: dict[str, dict[str, Archive]] = {
    "VOC2007": {
        "trainval": Archive(
            f"{_HOST}/voc2007/VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", 460_032_000, _TRAINVAL
        ),
        "test": Archive(
            f"{_HOST}/voc2007/VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", 451_020_800, _TEST
        ),
    },
    "VOC2012": {
        # Its test images are given out by the evaluation server alone, to those who have an account there.
        "trainval": Archive(
            f"{_HOST}/voc2012/VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", 1_999_639_040, _TRAINVAL
        ),
    },
}


def fetch_voc(
    year: str,
    parts: Sequence[str],
    folder: Path,
    progress: Progress | None = None,
    *,
    mirror: str | None = None,
    archives: Mapping[str, Mapping[str, Archive]] = ARCHIVES,
) -> Path:
    """Return `folder/VOCdevkit/VOC<year>` with the images of `parts` (`trainval`, `test`) in it.

    What is already there and whole is not fetched again, and no file that is there is changed. `progress(done, total)`
    counts bytes. `mirror` is the address of a folder that holds the archives under their official names.
    """
    name = f"VOC{str(year).removeprefix('VOC')}"
    wanted = _choose(name, parts, archives)
    final = Path(folder) / "VOCdevkit" / name
    work = Path(folder) / f".fetch-{name}"
    missing = [archive for archive in wanted if not is_whole(final, archive)]
    if not missing:
        return final
    try:
        work.mkdir(parents=True, exist_ok=True)
        with _held(work):
            _refuse_small_disk(work, missing)
            files = _download_all(missing, work, mirror, progress or (lambda done, total: None))
            _unpack_all(missing, files, work, final)
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        where, why = error.filename or folder, error.strerror or type(error).__name__
        raise DataError(
            f"{where}: cannot be written ({why}). Make room, or give another folder, and repeat. {_ELSEWHERE}"
        ) from None
    return final


def is_whole(folder: Path, archive: Archive) -> bool:
    """Return whether a VOC folder has the archive's list, and an image and an annotation for each of its lines."""
    try:
        ids = (folder / archive.marker).read_text(encoding="utf-8").split()
        there = {path.name for inside in ("JPEGImages", "Annotations") for path in (folder / inside).iterdir()}
    except (OSError, UnicodeDecodeError):
        return False
    return bool(ids) and all(there.issuperset((f"{one}.jpg", f"{one}.xml")) for one in ids)


def _choose(name: str, parts: Sequence[str], archives: Mapping[str, Mapping[str, Archive]]) -> list[Archive]:
    if name not in archives:
        raise DataError(f"{name}: cannot be fetched.{did_you_mean(name, archives)}")
    if not parts:
        raise DataError(f"{name}: no part was asked for. Choose from {', '.join(archives[name])}.")
    for part in parts:
        if part not in archives[name]:
            raise DataError(f"{name}: its part '{part}' cannot be fetched.{did_you_mean(part, archives[name])}")
    return [archives[name][part] for part in dict.fromkeys(parts)]


@contextmanager
def _held(work: Path) -> Iterator[None]:
    """Hold the working folder for one process; another one gets a `DataError`."""
    try:
        import fcntl
    except ImportError:  # not on this system: two processes may then fetch into one folder
        yield
        return
    with os.fdopen(open_lock(work / "lock"), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"{work.parent}: another process is fetching there. Wait for it, or stop it.") from None
        yield


def _refuse_small_disk(work: Path, missing: Sequence[Archive]) -> None:
    here = sum(path.stat().st_size for path in work.glob("*.part"))
    needed = 2 * sum(archive.size for archive in missing) - here  # the archive, and what comes out of it
    free = shutil.disk_usage(work).free
    if free < needed:
        raise DataError(
            f"{work.parent}: has {free / 1e9:.1f} GB free, wanted {needed / 1e9:.1f} GB. "
            f"Make room, or give another folder. {_ELSEWHERE}"
        )


def _download_all(missing: Sequence[Archive], work: Path, mirror: str | None, progress: Progress) -> list[Path]:
    """Return the files of the archives, whole and checked."""
    total, before, files = sum(archive.size for archive in missing), 0, []
    for archive in missing:
        url = archive.url if mirror is None else f"{mirror.rstrip('/')}/{archive.file_name}"
        files.append(work / f"{archive.file_name}.part")
        _download(url, archive, files[-1], _counted_from(before, total, progress))
        before += archive.size
    return files


def _counted_from(before: int, total: int, progress: Progress) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)


def _download(url: str, archive: Archive, part: Path, progress: Callable[[int], None]) -> None:
    """Fill `part` with the archive, going on from the bytes it has; a wrong sum removes it."""
    have = part.stat().st_size if part.exists() else 0
    if have < archive.size:
        have = _receive(url, archive, part, have, progress)
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if have != archive.size or found != archive.md5:
        part.unlink()
        raise DataError(
            f"{url}: its {have} bytes have the MD5 sum {found}, wanted {archive.size} bytes and {archive.md5}. "
            f"They were removed: repeat, or give another mirror. {_ELSEWHERE}"
        )


def _receive(url: str, archive: Archive, part: Path, have: int, progress: Callable[[int], None]) -> int:
    """Append what `part` lacks and return its size; a host that cannot resume sends everything again."""
    with _opened(url, have) as response:
        if have and response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        if length is not None and have + int(length) != archive.size:
            raise DataError(
                f"{url}: is {have + int(length)} bytes, wanted {archive.size}. It is another file: "
                f"give another mirror. {_ELSEWHERE}"
            )
        with part.open("ab" if have else "wb") as file:
            while have <= archive.size and (chunk := _read(response, url)):
                file.write(chunk)
                have += len(chunk)
                progress(have)
    if have < archive.size:
        raise DataError(
            f"{url}: the connection ended after {have} of {archive.size} bytes. Repeat to go on from there. {_ELSEWHERE}"
        )
    return have


@contextmanager
def _opened(url: str, have: int) -> Iterator[Any]:
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={have}-"} if have else {}), timeout=_TIMEOUT)
    except HTTPError as error:
        error.close()
        raise DataError(
            f"{url}: the host answered {error.code} ({error.reason}). Give another mirror. {_ELSEWHERE}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", error)
        raise DataError(
            f"{url}: cannot be reached ({why}). Check the network and repeat, or give a mirror. {_ELSEWHERE}"
        ) from None
    with response:
        yield response


def _read(response: Any, url: str) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise DataError(f"{url}: the connection broke ({error}). Repeat to go on from there. {_ELSEWHERE}") from None


def _unpack_all(missing: Sequence[Archive], files: Sequence[Path], work: Path, final: Path) -> None:
    """Unpack each archive by itself, and bring their folders together under the final name."""
    unpacked = work / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was killed
    try:
        folders = [
            _unpack(archive, file, unpacked / str(number), final.name)
            for number, (archive, file) in enumerate(zip(missing, files, strict=True))
        ]
        there = final.exists()
        target = final if there else folders[0]
        for archive, folder in zip(missing, folders, strict=True):
            if folder != target:
                _merge(folder, target, archive.marker)
        if not there:
            final.parent.mkdir(parents=True, exist_ok=True)
            target.rename(final)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _unpack(archive: Archive, file: Path, folder: Path, name: str) -> Path:
    """Return the VOC folder inside the unpacked archive; one that is not whole raises `DataError`."""
    try:
        with tarfile.open(file) as packed:
            packed.extractall(folder, filter="data")  # refuses files that would land outside
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive.file_name}: the archive is broken ({error}). {_ELSEWHERE}") from None
    found = folder / "VOCdevkit" / name
    if not is_whole(found, archive):
        raise DataError(
            f"{archive.file_name}: wanted VOCdevkit/{name}/{archive.marker} in the archive, and an image and an "
            f"annotation for each of its lines; they are not all there. {_ELSEWHERE}"
        )
    return found


def _merge(source: Path, target: Path, last: str) -> None:
    """Move the files of `source` into `target`, the list `last` at the end: until then the folder does not count as complete.

    A file that is there stays; one with other content raises `DataError` before anything is moved.
    """
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    new = [file for file in files if not (target / file).exists()]
    for file in sorted(set(files).difference(new)):
        if not filecmp.cmp(source / file, target / file, shallow=False):
            raise DataError(
                f"{target / file}: differs from the archive's {file}. It was left as it is: move {target} away and repeat."
            )
    moved = []
    try:
        for file in sorted(new, key=lambda file: file.as_posix() == last):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).rename(target / file)
            moved.append(target / file)
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        raise
