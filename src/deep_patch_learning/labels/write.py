"""Labels into a folder, whole or not at all: written beside it under a hidden name, then renamed. No other file is touched."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.coco import write_coco
from deep_patch_learning.labels.label_studio import write_label_studio
from deep_patch_learning.labels.links import file_part, image_root, turned
from deep_patch_learning.labels.select import BOXES_PER_CLASS, Choice, LabelSet, select, summary
from deep_patch_learning.labels.voc import write_voc
from deep_patch_learning.labels.yolo import write_yolo

FORMATS = ("coco", "voc", "yolo", "label-studio")
MANIFEST = "dpl-labels.json"  # the counts, and by its digest whether the folder is still as it was written
_KIND = "deep_patch_learning.labels/1"


def write_labels(
    predictions: Sequence[Prediction],
    images: TaggedImages,
    folder: str | Path,
    format: str,
    *,
    split: str | None = None,
    min_score: float | None = None,
    boxes_per_class: int | None = BOXES_PER_CLASS,
    untagged: bool = False,
    model_version: str = "deep-patch-learning",
) -> dict[str, Any]:
    """Return the counts, after writing the labels of `images` into `folder`, which appears whole or not at all.

    `format` is coco, voc, yolo or label-studio; `split` names the list (`train` if not given). Which boxes: see
    `labels.select.Choice`. `folder` must be new or empty, or one that was written here before and is unchanged since: that one
    is replaced.
    """
    check_format(format)
    folder = Path(folder)
    labels = select(predictions, images, Choice(min_score, boxes_per_class, untagged), split_name(split))
    if not labels.images:
        raise DataError("there are no images to label. Choose another --split.")
    counts = {"format": format, "min_score": min_score, **summary(labels), "turned_images": turned(labels.images)}
    with _whole(folder) as partial:
        files = _writer(format, folder.resolve().name, model_version)(labels, partial)
        manifest = {"kind": _KIND, "digest": digest(partial), **counts}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="ascii")
    places = {"folder": str(folder), "files": files, "image_root": str(image_root(labels.images))}
    return {**places, **counts}


def check_format(format: str) -> None:
    """Raise `DataError` for a format that is not known."""
    if format not in FORMATS:
        raise DataError(f"format '{format}': not known.{did_you_mean(format, FORMATS)}")


def check_folder(folder: str | Path) -> None:
    """Raise `DataError` unless labels may be written to `folder`: it is new, empty, or as it was written here before."""
    folder = Path(folder)
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not folder.is_dir():
            raise DataError(f"{folder}: is a file. Give a new folder with --out.")
        if not (folder / MANIFEST).is_file():
            raise DataError(f"{folder}: is not empty, and its files are not labels. Give a new folder with --out.")
        if _written_digest(folder) != digest(folder):
            raise DataError(f"{folder}: its labels were changed since they were written. Give a new folder with --out.")
    except OSError as error:
        raise _cannot_be_written(folder, error) from None


def split_name(split: str | None) -> str:
    """Return the name of the lists: `val` for the split `val` and for a file `lists/val.txt`, `train` without one."""
    return file_part(Path(split or "train").name.removesuffix(".txt"), "train")


def digest(folder: Path) -> str:
    """Return a hash of the names and contents of all files below `folder`, of links by where they lead; not the manifest."""
    found = hashlib.sha256()
    for base, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(base, name) for name in sorted(names)):
            if path == folder / MANIFEST:
                continue
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            for part in (os.fsencode(path.relative_to(folder)), content):
                found.update(hashlib.sha256(part).digest())
    return found.hexdigest()


def _written_digest(folder: Path) -> str | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except ValueError:
        return None
    return manifest.get("digest") if isinstance(manifest, dict) and manifest.get("kind") == _KIND else None


def _writer(format: str, name: str, model_version: str) -> Callable[[LabelSet, Path], list[str]]:
    if format == "voc":
        return lambda labels, folder: write_voc(labels, folder, name)
    if format == "label-studio":
        return lambda labels, folder: write_label_studio(labels, folder, model_version)
    return write_coco if format == "coco" else write_yolo


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder to write into, which becomes `folder` at the end; on any error nothing of it is left."""
    check_folder(folder)
    target = folder.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    new_parents = [parent for parent in target.parents if not parent.exists()]  # deepest first
    try:
        partial.mkdir(parents=True)
        yield partial
        _put(partial, target)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise _cannot_be_written(folder, error) from None
        raise


def _put(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`; labels that stand there give way, and come back if that fails."""
    before = target.with_name(f".{target.name}.{os.getpid()}.before")
    try:
        if target.exists():
            target.rename(before)
        partial.rename(target)
    except BaseException:
        if before.exists() and not target.exists():
            before.rename(target)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _cannot_be_written(folder: Path, error: OSError) -> DataError:
    why = error.strerror or type(error).__name__
    return DataError(f"{folder}: cannot be written ({why}). Make room, or give another folder with --out.")
