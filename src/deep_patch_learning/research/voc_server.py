"""Predictions -> the result files that the PASCAL VOC evaluation server takes, which alone knows the answers of VOC 2012's test.

Classification goes to competition 2 and detection to competition 4: those for systems that have seen more than VOC's own
images, as every network that starts from ImageNet has.
"""

import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import numpy as np

from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.readers.voc import VOC_CLASSES
from deep_patch_learning.inference.prediction import Prediction

ARCHIVE = "results.tar.gz"
_CLASSIFICATION, _DETECTION = "comp2_cls", "comp4_det"


def write_server_files(
    predictions: Iterable[Prediction], folder: str | Path, year: str = "VOC2012", split: str = "test"
) -> Path:
    """Return the archive to upload, `folder/results.tar.gz`, which holds the files below `folder/results`.

    Every box found is written, whatever the threshold: average precision wants the unlikely ones too. The detection files are
    left out where no image has a box. `folder` must be new or empty; it appears when all is written, or not at all.
    """
    folder = Path(folder)
    if not re.fullmatch(r"VOC\d{4}", year) or not re.fullmatch(r"\w+", split):
        raise DataError(f"'{year}' and '{split}': wanted a year such as VOC2012 and a split such as test.")
    partial = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}.partial")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder}: is already there and not empty. Give a new folder.")
        _write_results(predictions, partial / "results" / year / "Main", split)
        with tarfile.open(partial / ARCHIVE, "w:gz") as packed:
            packed.add(partial / "results", "results", filter=_without_owner)
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        where, why = error.filename or folder, error.strerror or type(error).__name__
        raise DataError(f"{where}: cannot be written ({why}). Make room, or give a folder that can be.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder / ARCHIVE


def _write_results(predictions: Iterable[Prediction], main: Path, split: str) -> None:
    main.mkdir(parents=True)
    classes: tuple[str, ...] | None = None
    seen: set[str] = set()
    boxes = 0
    with ExitStack() as opened:
        for prediction in predictions:
            if classes is None:
                classes = prediction.classes
                _check_classes(classes)
                class_files = _open_all(main, _CLASSIFICATION, split, classes, opened)
                box_files = _open_all(main, _DETECTION, split, classes, opened)
            _check_image(prediction, classes, seen)
            seen.add(prediction.name)
            _write_scores(prediction, class_files)
            boxes += _write_boxes(prediction, box_files)
    if classes is None:
        raise DataError("there are no predictions to write. Predict the images of the test list first.")
    if boxes == 0:
        for path in main.glob(f"{_DETECTION}_*"):
            path.unlink()


def _open_all(main: Path, competition: str, split: str, classes: Sequence[str], opened: ExitStack) -> list[TextIO]:
    paths = [main / f"{competition}_{split}_{name}.txt" for name in classes]
    return [opened.enter_context(path.open("w", encoding="ascii", newline="\n")) for path in paths]


def _check_classes(classes: Sequence[str]) -> None:
    for name in classes:
        if name not in VOC_CLASSES:
            raise DataError(
                f"class '{name}': the server knows VOC's twenty classes alone.{did_you_mean(name, VOC_CLASSES)}"
            )


def _check_image(prediction: Prediction, classes: Sequence[str], seen: set[str]) -> None:
    if not re.fullmatch(r"[\w-]+", prediction.name, re.ASCII):
        raise DataError(f"image '{prediction.name}': wanted an image id such as 2008_000001. Name it as its list does.")
    if prediction.name in seen:
        raise DataError(f"image '{prediction.name}': is there twice. Give one prediction of each image.")
    if prediction.classes != classes:
        raise DataError(
            f"image '{prediction.name}': its classes are {list(prediction.classes)}, those of the first are "
            f"{list(classes)}. Predict all images with one model."
        )


def _write_scores(prediction: Prediction, files: Sequence[TextIO]) -> None:
    for file, score in zip(files, prediction.image_scores, strict=True):
        file.write(f"{prediction.name} {score:.6f}\n")


def _write_boxes(prediction: Prediction, files: Sequence[TextIO]) -> int:
    """Write the boxes of an image, best first, and return how many there are."""
    # VOC counts from 1 and its corners are both inside the box; ours counts from 0 and is half-open.
    corners = prediction.found_boxes.astype(np.float64) + np.array([1, 1, 0, 0])
    for index in np.argsort(-prediction.found_scores, kind="stable"):
        box = " ".join(map(_plain, corners[index]))
        files[prediction.found_classes[index]].write(f"{prediction.name} {prediction.found_scores[index]:.6f} {box}\n")
    return len(corners)


def _plain(number: float) -> str:
    """Return a coordinate without needless digits: 12, or 12.25."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
