"""Where data lies: local paths and URIs that fsspec opens (s3, gs, https, ...), and the errors of what cannot be read."""

import glob
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import open_image
from deep_patch_learning.data.readers.table import is_uri

Answer = TypeVar("Answer")

TRIES = 3  # of a file that is far away
PAUSE = 1.0  # seconds before the second try, twice as long before the third
VERSIONS = ("ETag", "etag", "LastModified", "last_modified", "Last-Modified", "mtime", "updated")  # in a store's words
_INSTALL = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "abfs": "adlfs",
}
_CREDENTIALS = (
    "credential",
    "forbidden",
    "access denied",
    "accessdenied",
    "unauthorized",
    "anonymous caller",
)
_CLOSED = (401, 403)  # the states of HTTP that say that somebody is not let in


class UnreachableError(DplError):
    """A place that may hold what is wanted, but does not answer or does not let us in: not a broken image."""


@contextmanager
def opened(place: str) -> Iterator[BinaryIO]:
    """Yield a file opened for reading; a missing one raises FileNotFoundError.

    One that is far away is asked for up to three times, and raises `UnreachableError`, whenever it is read.
    """
    with Path(place).open("rb") if not is_uri(place) else cast(BinaryIO, _FarFile(place)) as file:
        yield file


class _FarFile(io.RawIOBase):
    """A file that fsspec reads. After an error it is opened anew: what broke may go on elsewhere than where it was."""

    def __init__(self, place: str) -> None:
        self._place, self._at = place, 0
        self._file: Any = None  # of fsspec; None before the first question and after an error
        self.seek(0)

    def readable(self) -> bool:
        """Return True, which Parquet asks for."""
        return True

    def seekable(self) -> bool:
        """Return True, which Parquet asks for."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, or all."""
        return self._ask(lambda file: file.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Return the new place in the file."""
        self._ask(lambda file: file.seek(offset, whence))
        return self._at

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        super().close()

    def _ask(self, question: Callable[[Any], Answer]) -> Answer:
        def once() -> Answer:
            try:
                if self._file is None:
                    self._file = _file_system(self._place).open(self._place, "rb")
                    self._file.seek(self._at)
                answer = question(self._file)
                self._at = self._file.tell()
            except Exception:
                self._file = None
                raise
            return answer

        return _asked(self._place, once)


def content_of(place: str) -> bytes:
    """Return the content of a file, which may be in a local shard; one that is far away is asked for up to three times."""
    if not is_uri(place):
        with open_image(Path(place)) as file:
            return file.read()
    return _asked(place, lambda: _file_system(place).cat_file(place))


def _asked(place: str, question: Callable[[], Answer]) -> Answer:
    """Return what a place far away answers, asked up to three times. A missing file raises FileNotFoundError."""
    for attempt in range(TRIES):
        try:
            return question()
        except DplError:
            raise
        except Exception as error:  # each store has its own kinds of errors
            if isinstance(error, FileNotFoundError) and not _is_of_network(error.__cause__):
                raise
            if attempt == TRIES - 1 or _wants_credentials(place, error):
                raise unreachable(place, error) from None
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError("there is at least one try")


def _is_of_network(cause: BaseException | None) -> bool:
    """Return whether a file is missing only because its server did not answer: fsspec calls it missing then too."""
    return type(cause).__module__.startswith("aiohttp") and getattr(cause, "status", 0) not in (404, 410)


def version_of(place: str) -> str:
    """Return what changes whenever a shard is written: its size, and its time or what its store says of its content.

    A place that does not answer raises a `DplError`.
    """
    try:
        if not is_uri(place):
            found = Path(place).stat()
            return f"{found.st_size} {found.st_mtime_ns}"
        about = _asked(place, lambda: _file_system(place).info(place))
    except FileNotFoundError:
        raise DataError(f"{place}: there is no such shard. Check its name, or copy it there again.") from None
    except OSError as error:
        raise unreachable(place, error) from None
    version = next((about[key] for key in VERSIONS if about.get(key)), "")
    return f"{about.get('size') or 0} {version}"


def listed(pattern: str) -> list[str]:
    """Return the files that a pattern with `*` names, in order."""
    if not is_uri(pattern):
        return sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be absolute
    try:
        scheme = pattern.partition("://")[0]
        found = _file_system(pattern).glob(pattern)
    except DplError:
        raise
    except Exception as error:
        raise unreachable(pattern, error) from None
    return sorted(one if is_uri(one) else f"{scheme}://{one}" for one in found)


def fetched(place: str, folder: str) -> Path:
    """Return a local copy of a small file, such as a list of tags, in a folder of ours."""
    try:
        content = content_of(place)
    except FileNotFoundError:
        raise DataError(f"{place}: there is no such file. Check the URI.") from None
    path = Path(tempfile.mkdtemp(dir=folder)) / place.rpartition("/")[2]
    path.write_bytes(content)
    return path


def unreachable(place: str, error: Exception) -> UnreachableError:
    """Return the error of a place that could not be read, in one line with the fix."""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    if _wants_credentials(place, error):
        scheme = place.partition("://")[0]
        fix = (
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or run `aws configure`, on every node."
            if scheme == "s3"
            else ("Give every node credentials that may read it.")
        )
        return UnreachableError(f"{place}: no credentials that may read it ({said}). {fix}")
    return UnreachableError(
        f"{place}: cannot be reached ({type(error).__name__}: {said}). Check the name and the network."
    )


def _wants_credentials(place: str, error: Exception) -> bool:
    """Return whether a place does not let us in, as the error's state says, or else its words but those of the place."""
    for one in (error, error.__cause__):  # fsspec calls a closed file missing too, because of what its server answered
        status = getattr(one, "status", None)
        if isinstance(status, int):
            return status in _CLOSED
    said = f"{type(error).__name__} {error}".replace(place, "").lower()
    return isinstance(error, PermissionError) or any(word in said for word in _CREDENTIALS) or _says_closed(said)


def _says_closed(said: str) -> bool:
    return any(re.search(rf"\b{status}\b", said) for status in _CLOSED)


def _file_system(place: str) -> Any:
    """Return the file system of a URI, or raise an error that names the package it needs."""
    try:
        import fsspec
    except ImportError:
        raise DplError(f'{place}: URIs need fsspec. Fix: pip install "deep-patch-learning[ray]"') from None
    scheme = place.partition("://")[0]
    try:
        return fsspec.filesystem(scheme)
    except ImportError as error:
        package = _INSTALL.get(scheme)
        fix = f"Fix: pip install {package}" if package else str(error)
        raise DplError(f"{place}: reading {scheme}:// needs a further package. {fix}") from None
    except ValueError:
        raise DataError(
            f"{place}: '{scheme}' is no kind of place that is known. Give a path, s3://, gs:// or https://."
        ) from None
    except Exception as error:
        raise unreachable(place, error) from None
