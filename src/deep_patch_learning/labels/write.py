"""A folder of labels, whole or not at all: written beside its place under a hidden name, then renamed."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import UnfitError, folder_written_whole, parsed, sweep
from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.reviewed import ReviewedImage
from deep_patch_learning.data.shard_members import parquet
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.coco import write_coco
from deep_patch_learning.labels.createml import write_createml
from deep_patch_learning.labels.cvat import write_cvat
from deep_patch_learning.labels.fiftyone import write_fiftyone
from deep_patch_learning.labels.imagefolder import write_imagefolder
from deep_patch_learning.labels.label_studio import write_label_studio
from deep_patch_learning.labels.links import file_part, image_root, refuse_in_shard, turned
from deep_patch_learning.labels.parquet import write_parquet
from deep_patch_learning.labels.select import LabelRule, LabelSet, select, summary
from deep_patch_learning.labels.voc import refuse_unwritable, write_voc
from deep_patch_learning.labels.yolo import write_yolo

MANIFEST = "dpl-labels.json"  # the counts, and a digest that shows whether the folder has changed since
_KIND = "deep_patch_learning.labels/1"


@dataclass(frozen=True)
class LabelTarget:
    """Where labels go and in which format (one of FORMATS).

    `split` names the list of images (`train` if not given), `model_version` the model in Label Studio's tasks.
    """

    folder: str | Path
    format: str
    split: str | None = None
    model_version: str = "deep-patch-learning"

    def check(self, classes: Sequence[str] = (), images: TaggedImages | None = None) -> None:
        """Raise `DplError` for what cannot be written, before predictions take hours: format, class, image, folder.

        What a killed process left beside the folder is removed.
        """
        check_format(self.format)
        if self.format in IN_XML:
            refuse_unwritable(classes)
        if self.format == "parquet":
            parquet()
        if images is not None and self.format not in WITHOUT_LINKS:
            for path in images.paths:
                refuse_in_shard(path)
        target = _real(self.folder)
        sweep(target.parent, target.name)
        check_folder(self.folder)


# to add a format: a file beside this one that writes it, and its line here (and in `LabelFormat` of cli/options.py)
FORMATS: dict[str, Callable[[LabelTarget, LabelSet, Path], list[str]]] = {
    "coco": lambda target, labels, partial: write_coco(labels, partial),
    "voc": lambda target, labels, partial: write_voc(labels, partial, _real(target.folder).name),
    "parquet": lambda target, labels, partial: write_parquet(labels, partial),
    "yolo": lambda target, labels, partial: write_yolo(labels, partial),
    "label-studio": lambda target, labels, partial: write_label_studio(labels, partial, target.model_version),
    "cvat": lambda target, labels, partial: write_cvat(labels, partial),
    "createml": lambda target, labels, partial: write_createml(labels, partial),
    "fiftyone": lambda target, labels, partial: write_fiftyone(labels, partial),
    "imagefolder": lambda target, labels, partial: write_imagefolder(labels, partial),
}
IN_XML = ("voc", "label-studio", "cvat")  # which cannot hold every name of a class
WITHOUT_LINKS = (
    "parquet",
    "label-studio",
)  # the others link to image files, so that images in shards are none for them


def write_labels(
    predictions: Iterable[Prediction],
    images: TaggedImages,
    target: LabelTarget,
    rule: LabelRule | None = None,
    reviewed: Mapping[str, ReviewedImage] | None = None,
) -> dict[str, Any]:
    """Return the counts, after writing the labels of `images` into a folder, which appears whole or not at all.

    `predictions` are those of `images`, in the same order. They may come from a generator: of each, only the selected boxes are
    kept. Boxes of people, in `reviewed` by the images' names, go before those found. The folder must be new or empty, or hold
    labels that were written here and not changed since: those are replaced.
    """
    target.check()
    rule = rule or LabelRule()
    folder = Path(target.folder)
    labels = select(predictions, images, rule, split_name(target.split), reviewed)
    if not labels.images and labels.left_out:
        raise DataError("every image has a tag without a box that is sure enough. Ask for less, or train longer.")
    if not labels.images:
        raise DataError("there are no images to label. Choose another --split.")
    asked = {"min_score": rule.min_score, "precision": rule.precision, "for_training": rule.for_training}
    counts = {"format": target.format, **asked, **summary(labels)}
    counts["turned_images"] = turned(labels.images)
    with _whole(folder) as partial:
        files = _write_format(target, labels, partial)
        manifest = {"kind": _KIND, "digest": digest(partial), **counts}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="ascii")
    places = {"folder": str(folder), "files": files, "image_root": str(image_root(labels.images))}
    return {**places, **counts}


def check_format(format: str) -> None:
    """Raise `DataError` for an unknown format."""
    if format not in FORMATS:
        raise DataError(f"format '{format}': not known.{did_you_mean(format, FORMATS)}")


def check_folder(folder: str | Path) -> None:
    """Raise `DataError` unless labels may be written to `folder`: it is new, empty, or as it was written here before."""
    folder = Path(folder)
    if _real(folder).is_symlink():
        raise DataError(f"{folder}: is a link that leads to itself. Give a new folder with --out.")
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


def _real(folder: str | Path) -> Path:
    """Return where a folder is or will be; a link that leads to itself stays one."""
    return Path(os.path.realpath(folder))


def split_name(split: str | None) -> str:
    """Return the name of the lists: `val` for the split `val` and for a file `lists/val.txt`, `train` without one."""
    return file_part(Path(split or "train").name.removesuffix(".txt"), "train")


def digest(folder: Path) -> str:
    """Return a hash of the names and contents of all files below `folder` but the manifest; a link counts by its target."""
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
        manifest = parsed((folder / MANIFEST).read_bytes())
    except UnfitError:
        return None
    return manifest.get("digest") if isinstance(manifest, dict) and manifest.get("kind") == _KIND else None


def _write_format(target: LabelTarget, labels: LabelSet, partial: Path) -> list[str]:
    """Return what was written into `partial`, main file first."""
    return FORMATS[target.format](target, labels, partial)


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder to write into; at the end it is renamed to `folder`, and on any error removed."""
    check_folder(folder)
    target = _real(folder)
    new_parents = [parent for parent in target.parents if not parent.exists()]  # deepest first
    try:
        with folder_written_whole(target) as partial:
            yield partial
    except BaseException as error:
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise _cannot_be_written(folder, error) from None
        raise


def _cannot_be_written(folder: Path, error: OSError) -> DataError:
    why = error.strerror or type(error).__name__
    return DataError(f"{folder}: cannot be written ({why}). Make room, or give another folder with --out.")
