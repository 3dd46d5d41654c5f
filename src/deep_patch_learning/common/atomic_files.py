"""Our own files: written whole or not at all, and read with every value checked.

A file is written to a temporary name, then renamed, so that no reader sees half of one. What is read may have been changed by
others: each JSON file has one schema, a `TypedDict` beside the code that writes it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from deep_patch_learning.common.errors import DplError, short

Stored = TypeVar("Stored")
LARGEST = 64 << 20  # bytes of a JSON file of our own: more is none, and would fill the memory


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; at the end it is renamed to `path`, or removed after an error.

    Its permissions are those of any new file there, even where the library that writes it makes private files.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch()
        rights = part.stat().st_mode
        yield part
        part.chmod(rights)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; an existing file of that name is replaced in one step."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


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
        if path.exists() and not path.is_file():
            raise UnfitError("not a file")
        if path.stat().st_size > LARGEST:
            raise UnfitError(f"{path.stat().st_size:,} bytes, of at most {LARGEST:,}")
        return fitting(parsed(path.read_bytes()), kind)
    except UnfitError as wrong:
        raise error(f"{path}: is damaged ({wrong}). {fix}") from None


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
