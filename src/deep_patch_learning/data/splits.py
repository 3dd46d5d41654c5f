"""Which splits a data set names, and those that can be compared: none is a part of another."""

from collections.abc import Mapping
from pathlib import Path

from deep_patch_learning.data.csv_tags import read_csv
from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.folders import read_folders
from deep_patch_learning.data.json_lines import read_json_lines
from deep_patch_learning.data.kinds import Kind, recognise

_READERS = {Kind.CSV: read_csv, Kind.FOLDERS: read_folders, Kind.JSON_LINES: read_json_lines}


def named_splits(path: str | Path) -> list[str]:
    """Return the names of the splits that the data itself has, in order: values, folders or VOC's lists."""
    kind, place = recognise(path)
    if kind is Kind.VOC:
        return [file.stem for file in sorted((place / "ImageSets" / "Main").glob("*.txt")) if _is_list_of_ids(file)]
    if kind is Kind.COCO:
        return []
    return sorted({row.split for row in _READERS[kind](place).rows if row.split is not None})


def separate(splits: Mapping[str, TaggedPictures]) -> dict[str, TaggedPictures]:
    """Return the splits that hold no other one whole: VOC's trainval is no third split beside train and val."""
    paths = {name: set(part.paths) for name, part in splits.items()}
    return {
        name: part
        for name, part in splits.items()
        if not any(other != name and paths[other] and paths[other] < paths[name] for other in splits)
    }


def _is_list_of_ids(file: Path) -> bool:
    """Return whether its first line is an image's id alone; in a class's list a state follows."""
    with file.open("rb") as lines:
        return len(lines.readline().split()) == 1
