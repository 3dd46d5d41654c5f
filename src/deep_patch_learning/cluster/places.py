"""Where data lies: local paths and URIs that fsspec opens (s3, gs, https, ...), and the errors of what cannot be read."""

import glob
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.readers.table import is_uri

TRIES = 3  # of a file that is far away
PAUSE = 1.0  # seconds before the second try, twice as long before the third
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
    "403",
    "401",
)


class UnreachableError(DplError):
    """A place that may hold what is wanted, but does not answer or does not let us in: not a broken image."""


@contextmanager
def opened(place: str) -> Iterator[BinaryIO]:
    """Yield a file opened for reading. A missing one raises FileNotFoundError, other errors are those of its store."""
    if not is_uri(place):
        with Path(place).open("rb") as file:
            yield file
        return
    with _file_system(place).open(place, "rb") as file:
        yield file


def content_of(place: str) -> bytes:
    """Return the content of a file; one that is far away is asked for up to three times."""
    if not is_uri(place):
        return Path(place).read_bytes()
    for attempt in range(TRIES):
        try:
            return _file_system(place).cat_file(place)
        except (FileNotFoundError, DplError):
            raise
        except Exception as error:  # each store has its own kinds of errors
            if attempt == TRIES - 1 or _wants_credentials(error):
                raise unreachable(place, error) from None
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError("there is at least one try")


def size_of(place: str) -> int:
    """Return the bytes of a file; a place that does not answer raises a `DplError`."""
    try:
        if not is_uri(place):
            return Path(place).stat().st_size
        return int(_file_system(place).info(place)["size"] or 0)
    except FileNotFoundError:
        raise DataError(f"{place}: there is no such shard. Check its name, or copy it there again.") from None
    except DplError:
        raise
    except Exception as error:
        raise unreachable(place, error) from None


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
    if _wants_credentials(error):
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


def _wants_credentials(error: Exception) -> bool:
    said = f"{type(error).__name__} {error}".lower()
    return isinstance(error, PermissionError) or any(word in said for word in _CREDENTIALS)


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
