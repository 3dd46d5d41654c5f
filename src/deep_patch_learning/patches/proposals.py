"""Proposal files as patches: those of Fast R-CNN (`.mat`), of Detectron (`.pkl`) and numpy's (`.npz`)."""

import json
import pickle
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.errors import DataError, DplError, did_you_mean, short

SWOLLEN, FREE = 100, 16 << 20  # an array this many times larger than in the file, and of so many bytes, is no boxes


def read_proposals(path: str | Path) -> dict[str, np.ndarray]:
    """Return what `parse_proposals` does, from a process of its own whose memory and time are limited.

    The libraries that decode such files can be made to crash, and to take memory without end.
    """
    from deep_patch_learning.patches.proposal_process import parsed_apart

    return parsed_apart(_existing(Path(path)))


def _existing(path: Path) -> Path:
    """Return the path of a proposal file that is there and of a known kind."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such proposal file. Check the path.")
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{path}: proposals are read from {', '.join(READERS)} files.{did_you_mean(path.suffix, READERS)}"
        )
    return path


def parse_proposals(path: str | Path) -> dict[str, np.ndarray]:
    """Return the boxes (P, 4) uint16 of every image by its name, in this package's convention and the file's order.

    `.mat` is Fast R-CNN's: `boxes`, a cell per image of (y1, x1, y2, x2), 1-based with inclusive corners, and
    `images`, their names. `.pkl` is Detectron's: a dict of lists `boxes` (x1, y1, x2, y2, 0-based with inclusive
    corners) and `indexes` or `ids`; where it has `scores`, the best box comes first. A pickle may hold
    numbers, strings, lists, dicts and plain arrays only: anything else in it is refused before it runs. `.npz` is numpy's: an
    array of boxes (x1, y1, x2, y2), half-open in pixels, under the name of each image, best first.
    """
    path = _existing(Path(path))
    try:
        return READERS[path.suffix.lower()](path)
    except MemoryError:
        raise DataError(f"{path}: reading it takes more memory than there is. Do not trust this file.") from None


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as parts:
            for part in parts.infolist():
                if part.file_size > max(FREE, SWOLLEN * part.compress_size):
                    raise DataError(
                        f"{path}: '{part.filename}' unpacks to {part.file_size:,} bytes. Do not trust this file."
                    )
        with np.load(path, allow_pickle=False) as content:
            rows = {name: content[name] for name in content.files}
    except (DataError, MemoryError):
        raise
    except Exception as error:  # zip and numpy raise many kinds on damaged files
        raise DataError(f"{path}: not a .npz of plain arrays that can be read ({error}). Save it again.") from None
    return {name: _whole(path, name, _numbers(path, name, boxes)) for name, boxes in rows.items()}


def _read_mat(path: Path) -> dict[str, np.ndarray]:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DplError(f'{path}: reading .mat files needs scipy. Fix: pip install "deep-patch-learning[mat]"') from None
    try:
        content = loadmat(path)
    except NotImplementedError:
        raise DataError(f"{path}: a MATLAB 7.3 file. Save it again in MATLAB with -v7.") from None
    except MemoryError:
        raise
    except Exception as error:  # scipy raises many kinds on damaged files
        raise DataError(f"{path}: not a MATLAB file that can be read ({error}). Download it again.") from None
    _want(path, content, ("boxes", "images"))
    for key in ("boxes", "images"):
        if not isinstance(content[key], np.ndarray):
            raise DataError(
                f"{path}: '{key}' is a {type(content[key]).__name__}, wanted a cell array with one cell per image."
            )
    names = [_text(path, name) for name in content["images"].ravel()]
    boxes = list(content["boxes"].ravel())
    _same_length(path, boxes, names)
    found = {}
    for name, rows in zip(names, boxes, strict=True):
        array = _numbers(path, name, rows)
        found[name] = _whole(path, name, array[:, [1, 0, 3, 2]] - [1, 1, 0, 0])
    return found


def _read_pkl(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:
            loaded = _Unpickler(file, encoding="latin1").load()
        content = _Plain(path.stat().st_size).of(loaded)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path}: not a pickle that can be read ({error}). Download it again.") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}, wanted a dict with 'boxes' and 'indexes' or 'ids'.")
    ids = "indexes" if "indexes" in content else "ids"
    _want(path, content, ("boxes", ids))
    boxes, names = (
        _list(path, "boxes", content["boxes"]),
        [_name(path, name) for name in _list(path, ids, content[ids])],
    )
    _same_length(path, boxes, names)
    scores = [None] * len(boxes) if content.get("scores") is None else _list(path, "scores", content["scores"])
    _same_length(path, scores, names)
    found = {}
    for name, rows, marks in zip(names, boxes, scores, strict=True):
        array = _numbers(path, name, rows) + np.array([0, 0, 1, 1])
        if marks is not None:
            best_first = np.argsort(-_scores(path, name, marks), kind="stable")
            if len(best_first) != len(array):
                raise DataError(f"{path}: image '{name}' has {len(best_first)} scores for {len(array)} boxes.")
            array = array[best_first]
        found[name] = _whole(path, name, array)
    return found


def _want(path: Path, content: dict[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if key not in content:
            held = ", ".join(sorted(str(name) for name in content if not str(name).startswith("__"))) or "nothing"
            raise DataError(f"{path}: has no '{key}'; it holds {held}. Is it a proposal file?")


def _list(path: Path, key: str, value: Any) -> list[Any]:
    if not isinstance(value, list) and not (isinstance(value, np.ndarray) and value.ndim):
        raise DataError(f"{path}: '{key}' is {short(value)}, wanted a list with one entry per image.")
    return list(value)


def _name(path: Path, value: Any) -> str:
    if not isinstance(value, str | int | np.integer) or (isinstance(value, int) and abs(value) >= 2**63):
        raise DataError(f"{path}: {short(value)} is no image's name. Wanted a text or a whole number.")
    return str(value)


def _scores(path: Path, name: str, marks: Any) -> np.ndarray:
    try:
        return np.asarray(marks, np.float64).ravel()
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{path}: the scores of image {short(name)} are not numbers.") from None


def _same_length(path: Path, boxes: Sequence[Any], names: Sequence[str]) -> None:
    if len(boxes) != len(names):
        raise DataError(f"{path}: {len(boxes)} lists for {len(names)} images; wanted one for each image.")


def _text(path: Path, value: Any) -> str:
    while isinstance(value, np.ndarray) and value.size == 1:
        value = value.ravel()[0]
    if not isinstance(value, str):
        raise DataError(f"{path}: 'images' holds {short(value)}, wanted names. Is it a proposal file?")
    return str(value)


def _numbers(path: Path, name: str, rows: Any) -> np.ndarray:
    """Return one image's rows as (P, 4) float64."""
    try:
        array = np.asarray(rows, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{path}: the boxes of image '{name}' are not numbers.") from None
    if array.size == 0:
        return np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise DataError(f"{path}: the boxes of image '{name}' are {array.shape}, wanted (P, 4).")
    return array


def _whole(path: Path, name: str, boxes: np.ndarray) -> np.ndarray:
    """Return half-open boxes in whole pixels, or raise `DataError` at the first that is none."""
    with np.errstate(invalid="ignore"):
        good = np.isfinite(boxes).all(axis=1) & (boxes >= 0).all(axis=1) & (boxes <= 65535).all(axis=1)
        good &= (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise DataError(f"{path}: box {row} of image '{name}' is {boxes[row].tolist()} (half-open), which is no box.")
    return np.concatenate([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])], axis=1).astype(np.uint16)


class _Dtype:
    """A pickled numpy dtype: plain numbers, texts or objects only, and nothing of numpy's own unpickling."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.dtype = np.dtype(str(code))
        if self.dtype.kind not in "biufSUO":
            raise DataError(f"holds an array of {code}, wanted plain numbers.")

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """A pickled numpy array, rebuilt from its bytes."""

    value: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, data = state
        if kind.dtype.kind == "O":
            self.value = list(data)
        else:
            self.value = _frombuffer(data, kind, shape, "F" if by_column else "C").value


def _frombuffer(data: Any, kind: _Dtype, shape: Any, order: str = "C") -> _Array:
    array = _Array()
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    array.value = np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if order == "F" else "C")
    return array


def _scalar(kind: _Dtype, data: Any) -> Any:
    return _frombuffer(data, kind, ()).value.item()


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


ALLOWED = {
    ("multiarray", "_reconstruct"): lambda *_: _Array(),
    ("multiarray", "scalar"): _scalar,
    ("numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin1,
}


class _Unpickler(pickle.Unpickler):
    """An unpickler whose every callable is one of the few above, none of which runs anything from the file."""

    def find_class(self, module: str, name: str) -> Any:
        """Return our own stand-in for a part of numpy's arrays, and refuse all else."""
        numpy_part = module.removeprefix("numpy.core.").removeprefix("numpy._core.")
        known = ALLOWED.get((numpy_part, name))
        if known is None or (numpy_part in ("multiarray", "numeric") and not module.startswith("numpy.")):
            raise DataError(f"asks to run {module}.{name}; only plain numpy arrays are read. Do not trust this file.")
        return known

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to things outside the file."""
        raise DataError("refers to something outside the file; only plain numpy arrays are read.")


class _Plain:
    """Replaces the stand-ins in a loaded value by arrays.

    Lists that share lists can be larger than any memory when written out: there is a limit of parts, which a file of `size`
    bytes that repeats nothing cannot reach.
    """

    def __init__(self, size: int) -> None:
        self.left = 4 * size + 1000

    def of(self, value: Any) -> Any:
        """Return the value as plain lists, dicts and arrays."""
        self.left -= 1
        if self.left < 0:
            raise DataError("repeats its own parts until they fill any memory. Do not trust this file.")
        if isinstance(value, _Array):
            return [self.of(part) for part in value.value] if isinstance(value.value, list) else value.value
        if isinstance(value, dict):
            return {self.of(key): self.of(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part) for part in value]
        return value


READERS = {".mat": _read_mat, ".pkl": _read_pkl, ".npz": _read_npz}  # as in `PROPOSAL_SUFFIXES`


def main(path: str, result: str, memory: str, seconds: str) -> int:
    """Parse a proposal file with limits and write its boxes into `result`; an error is JSON on standard output.

    Return the exit status.
    """
    from deep_patch_learning.patches.proposal_process import limit_this_process

    limit_this_process(int(memory), int(seconds))
    try:
        found = parse_proposals(path)
    except DplError as error:
        print(json.dumps({"kind": "DataError" if isinstance(error, DataError) else "DplError", "said": str(error)}))
        return 2
    names = np.frombuffer(json.dumps(list(found)).encode(), np.uint8)
    boxes = np.concatenate([np.zeros((0, 4), np.uint16), *found.values()])
    np.savez(result, names=names, boxes=boxes, ends=np.cumsum([len(own) for own in found.values()], dtype=np.int64))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
