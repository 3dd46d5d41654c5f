"""Reading tags: one function for every kind of data set. It never reads a box; `data/truth.py` does."""

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from deep_patch_learning.common.atomic_files import must_be_regular
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.data.readers.table import TagTable, near_file, to_images


class Kind(Enum):
    """The kinds of data set that can be read."""

    VOC = "VOC folder"
    COCO = "COCO json"
    CSV = "CSV"
    FOLDERS = "folder per class"
    JSON_LINES = "JSON lines"
    SHARDS = "shards"
    HUGGING_FACE = "Hugging Face data set"
    LABEL_STUDIO = "Label Studio export"
    CVAT = "CVAT xml"


def _table(kind: Kind, place: Path, voc_split: str | None = None) -> TagTable:
    """Return the images and tags of a data set; of VOC, whose splits are lists, those of one. Other readers are not loaded."""
    if kind is Kind.VOC:
        from deep_patch_learning.data.readers.voc import read_voc

        return read_voc(place, voc_split)
    if kind is Kind.COCO:
        from deep_patch_learning.data.readers.coco import read_coco

        return read_coco(place)
    if kind is Kind.CSV:
        from deep_patch_learning.data.readers.csv_tags import read_csv

        return read_csv(place)
    if kind is Kind.FOLDERS:
        from deep_patch_learning.data.readers.folders import read_folders

        return read_folders(place)
    if kind is Kind.HUGGING_FACE:
        from deep_patch_learning.data.readers.hugging_face import read_hugging_face

        return read_hugging_face(place)
    if kind is Kind.SHARDS:
        from deep_patch_learning.data.readers.shards import read_shards

        return read_shards(place)
    if kind is Kind.LABEL_STUDIO:
        from deep_patch_learning.data.readers.label_studio import read_label_studio

        return read_label_studio(place)
    if kind is Kind.CVAT:
        from deep_patch_learning.data.readers.cvat import read_cvat

        return read_cvat(place)
    from deep_patch_learning.data.readers.json_lines import read_json_lines

    return read_json_lines(place)


def read_table(kind: Kind, place: Path, split: str | None) -> tuple[TagTable, str | None]:
    """Return the table of a data set, and the split that is still to be taken from it: VOC's reader took its own."""
    return _table(kind, place, split), None if kind is Kind.VOC else split


def read_tags(path: str | Path, split: str | Path | None = None, classes: Sequence[str] | None = None) -> TaggedImages:
    """Return the images of a data set with their tags: present, absent or unknown.

    The kind is recognised from `path`: a VOC folder (or a VOCdevkit with one inside), a COCO json, a CSV, a folder
    per class, JSON lines, shards (tars of WebDataset, Parquet tables), or an export of Label Studio or CVAT. `split` is a VOC
    list (`train`, `val`, ...), a value of the CSV's or JSON lines' `split`, a CVAT subset, a
    first-level folder, or, for every kind, a text file with one image name per line; None takes all images (VOC: `trainval`
    where there is one). `classes` fixes the classes and their order, and a tag outside them raises `DataError`; when None they
    are all classes of the data set, whatever the split.
    """
    kind, place = recognise(path)
    wanted = None if split is None else str(split)
    try:
        table, remaining = read_table(kind, place, wanted)
        return to_images(table, remaining, classes)
    except OSError as error:  # a folder that may not be entered, a disk that fails
        found = error.strerror or type(error).__name__
        raise DataError(f"{error.filename or place}: cannot be read ({found}). Make it readable.") from None


WANTED = (
    "Wanted a VOC folder (with JPEGImages), a COCO .json, a .csv with the header 'image,tags', "
    "a folder with one folder per class, a .jsonl, shards (.tar, .parquet), or a .json of Label Studio or "
    ".xml of CVAT"
)


_BY_SUFFIX = {
    ".json": Kind.COCO,
    ".csv": Kind.CSV,
    ".jsonl": Kind.JSON_LINES,
    ".ndjson": Kind.JSON_LINES,
    ".xml": Kind.CVAT,
}
_SHARDS = (".tar", ".parquet")


def recognise(path: str | Path) -> tuple[Kind, Path]:
    """Return the kind of data set, and where it is: the VOC folder inside a VOCdevkit, else `path` itself."""
    path = Path(path)
    _must_be_utf8(path)
    try:
        if path.is_dir():
            return _recognise_folder(path)
        if not path.exists():
            raise DataError(f"{path}: there is no such file or folder.{near_file(path)} {WANTED}.")
    except PermissionError:
        raise DataError(f"{path}: permission denied. Make it readable (chmod u+r).") from None
    kind = Kind.SHARDS if path.suffix.lower() in _SHARDS else _BY_SUFFIX.get(path.suffix.lower())
    if kind is not None:
        must_be_regular(path)
    else:
        found = "one image" if path.suffix.lower() in IMAGE_SUFFIXES else f"a file ending in '{path.suffix}'"
        raise DataError(f"{path}: found {found}, which is not a data set. {WANTED}.")
    if kind is Kind.COCO and _is_list(path):
        return Kind.LABEL_STUDIO, path
    return kind, path


def _must_be_utf8(path: Path) -> None:
    """Raise `DataError` where the full path is not UTF-8: runs and reviews, which keep it as text, could not be read again."""
    full = str(path) if "\0" in str(path) else os.path.realpath(path)  # a NUL leads nowhere
    try:
        full.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{full}: the path of a data set must be UTF-8, and this one is not. Rename its folder."
        ) from None


def _is_list(path: Path) -> bool:
    """Return whether a JSON file holds a list, as Label Studio's does; COCO's is an object."""
    try:
        with path.open("rb") as file:
            return file.read(1000).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except OSError:  # its reader says why
        return False


def _recognise_folder(folder: Path) -> tuple[Kind, Path]:
    if (folder / "JPEGImages").is_dir():
        return Kind.VOC, folder
    if _is_saved_by_datasets(folder):
        return Kind.HUGGING_FACE, folder
    inside = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    voc = [child for child in inside if (child / "JPEGImages").is_dir()]
    if len(voc) == 1:
        return Kind.VOC, voc[0]
    if voc:
        names = ", ".join(child.name for child in voc)
        raise DataError(f"{folder}: holds {len(voc)} VOC folders ({names}). Give one of them, such as {voc[-1]}.")
    coco = sorted((folder / "annotations").glob("*.json"))
    if coco:
        raise DataError(f"{folder}: holds a COCO data set. Give one of its json files, such as {coco[-1]}.")
    if any(child.suffix.lower() in _SHARDS and child.is_file() for child in inside):
        return Kind.SHARDS, folder
    # Beside a tag file, a folder of images is most likely not a class: better to stop than to train on a class "images".
    for child in inside:
        if child.is_file() and _is_tag_file(child):
            raise DataError(f"{folder}: a folder with the tag file {child.name} in it. Give that file: {child}.")
    return Kind.FOLDERS, folder


def _is_saved_by_datasets(folder: Path) -> bool:
    """Return whether Hugging Face `datasets` saved this folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def _is_tag_file(path: Path) -> bool:
    kind = _BY_SUFFIX.get(path.suffix.lower())
    if kind is not Kind.CSV:
        return kind is Kind.JSON_LINES
    with path.open("rb") as file:
        header = file.readline(1000).lower()
    return b"image" in header and b"tags" in header


def named_splits(path: str | Path) -> list[str]:
    """Return the names of the splits that the data itself has, in order: values, folders or VOC's lists."""
    kind, place = recognise(path)
    if kind is Kind.VOC:
        return [file.stem for file in sorted((place / "ImageSets" / "Main").glob("*.txt")) if _is_list_of_ids(file)]
    if kind is Kind.COCO:
        return []
    return sorted({row.split for row in _table(kind, place).rows if row.split is not None})


def disjoint_splits(splits: Mapping[str, TaggedImages]) -> dict[str, TaggedImages]:
    """Return the splits without those that contain another one: VOC's trainval is left out beside train and val."""
    paths = {name: set(part.paths) for name, part in splits.items()}
    return {
        name: part
        for name, part in splits.items()
        if not any(other != name and paths[other] and paths[other] < paths[name] for other in splits)
    }


def _is_list_of_ids(file: Path) -> bool:
    """Return whether its first line is an image's id alone; in a class's list a state follows."""
    must_be_regular(file)
    with file.open("rb") as lines:
        return len(lines.readline().split()) == 1
