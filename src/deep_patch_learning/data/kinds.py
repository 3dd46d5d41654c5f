"""Which kind of data set a path is, told by looking at it."""

from enum import Enum
from pathlib import Path

from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.data.text import near_file
from deep_patch_learning.errors import DataError

WANTED = (
    "Wanted a VOC folder (with JPEGImages), a COCO .json, a .csv with the header 'image,tags', "
    "a folder with one folder per class, or a .jsonl"
)


class Kind(Enum):
    """The kinds of data set that can be read."""

    VOC = "VOC folder"
    COCO = "COCO json"
    CSV = "CSV"
    FOLDERS = "folder per class"
    JSON_LINES = "JSON lines"


_BY_SUFFIX = {".json": Kind.COCO, ".csv": Kind.CSV, ".jsonl": Kind.JSON_LINES, ".ndjson": Kind.JSON_LINES}


def recognise(path: str | Path) -> tuple[Kind, Path]:
    """Return the kind of data set, and its own place: the VOC folder inside a VOCdevkit, else `path` itself."""
    path = Path(path)
    try:
        if path.is_dir():
            return _recognise_folder(path)
        if not path.exists():
            raise DataError(f"{path}: there is no such file or folder.{near_file(path)} {WANTED}.")
    except PermissionError:
        raise DataError(f"{path}: permission denied. Make it readable (chmod u+r).") from None
    kind = _BY_SUFFIX.get(path.suffix.lower())
    if kind is None:
        found = "one picture" if path.suffix.lower() in IMAGE_SUFFIXES else f"a file ending in '{path.suffix}'"
        raise DataError(f"{path}: found {found}, which is not a data set. {WANTED}.")
    return kind, path


def _recognise_folder(folder: Path) -> tuple[Kind, Path]:
    if (folder / "JPEGImages").is_dir():
        return Kind.VOC, folder
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
    # Beside a tag file, a folder of pictures is most likely not a class: better ask than train on a class "images".
    for child in inside:
        if child.is_file() and _is_tag_file(child):
            raise DataError(f"{folder}: a folder with the tag file {child.name} in it. Give that file: {child}.")
    return Kind.FOLDERS, folder


def _is_tag_file(path: Path) -> bool:
    kind = _BY_SUFFIX.get(path.suffix.lower())
    if kind is not Kind.CSV:
        return kind is Kind.JSON_LINES
    with path.open("rb") as file:
        header = file.readline(1000).lower()
    return b"image" in header and b"tags" in header
