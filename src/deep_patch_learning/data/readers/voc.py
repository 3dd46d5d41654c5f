"""Tags from a VOC folder: the lists of `ImageSets/Main`, or the objects' names in `Annotations`.

Only names and the `difficult` mark are read here, never a box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from deep_patch_learning.common.atomic_files import must_be_regular
from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.data.readers.table import (
    TagRow,
    TagTable,
    near_file,
    read_lines,
    read_list,
    sorted_classes,
)

# fmt: off
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on

_WANTED = "one image id per line"


@dataclass(frozen=True)
class _Lists:
    """The files of `ImageSets/Main`: one per split, and per split one per class."""

    splits: dict[str, Path]
    classes: dict[str, dict[str, Path]]

    def class_names(self) -> set[str]:
        return {name for lists in self.classes.values() for name in lists}


def read_voc(folder: Path, split: str | None) -> TagTable:
    """Return the images and tags of one list: `split`, else `trainval`, else every image of the folder.

    A class is present, absent or unknown as its list says (1, -1, 0 = only difficult objects); where the split has no
    class lists, as the annotations say. The classes are those of the whole folder, in alphabetical order.
    """
    lists = _find_lists(folder)
    if split is None and "trainval" in lists.splits:
        split = "trainval"
    if split is None:
        source, ids = folder / "JPEGImages", [(image_id, image_id) for image_id in _all_ids(folder)]
    elif split in lists.splits:
        source = lists.splits[split]
        ids = _with_places(read_lines(source, _WANTED))
    else:
        source, lines = read_list(split, folder, lists.splits, folder)
        ids = _with_places(lines)
    class_lists = lists.classes.get(split or "", {})
    if class_lists:
        rows = _rows_from_lists(folder, ids, source, class_lists, lists.class_names())
        return TagTable(source, folder, rows, tuple(sorted(lists.class_names())))
    rows = _rows_from_annotations(folder, ids, source)
    return TagTable(source, folder, rows, _annotated_classes(folder, lists, rows))


def objects(path: Path) -> list[tuple[str, bool, ElementTree.Element]]:
    """Return (class name, difficult, element) of each object in an annotation file."""
    try:
        must_be_regular(path)
        root = ElementTree.parse(path).getroot()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such annotation.{near_file(path)} Add it, or remove the image.") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: an encoding that is not known
        raise DataError(f"{path}: not XML that can be read ({error}). Save it as XML in UTF-8.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Fix the file.") from None
    found = []
    for number, element in enumerate(root.findall("object"), start=1):
        name = (element.findtext("name") or "").strip()
        difficult = (element.findtext("difficult") or "0").strip()
        if not name:
            raise DataError(f"{path}, object {number}: it has no name. Add <name>dog</name>.")
        if difficult not in ("0", "1"):
            raise DataError(f"{path}, object {number}: difficult is {short(difficult)}, wanted 0 or 1. Correct it.")
        found.append((name, difficult == "1", element))
    return found


def annotation_of(folder: Path, image_id: str) -> Path:
    """Return where the annotation of an image is, or would be."""
    return folder / "Annotations" / f"{image_id}.xml"


def _find_lists(folder: Path) -> _Lists:
    """Return the lists, distinguished by their columns: a split has ids alone, a class list has a state after each."""
    splits: dict[str, Path] = {}
    with_states: dict[str, Path] = {}
    for path in sorted((folder / "ImageSets" / "Main").glob("*.txt")):
        must_be_regular(path)
        with path.open("rb") as file:
            columns = len(file.readline().split())
        (with_states if columns > 1 else splits)[path.stem] = path
    classes: dict[str, dict[str, Path]] = {}
    for stem, path in with_states.items():
        # "train_val" is the class train in the split val, and a class of "x_my_val" is x if there is a split my_val
        split = max((name for name in splits if stem.endswith(f"_{name}")), key=len, default=None)
        if split is not None:
            classes.setdefault(split, {})[stem.removesuffix(f"_{split}")] = path
    return _Lists(splits, classes)


def _with_places(lines: list[tuple[int, str]]) -> list[tuple[str, str]]:
    return [(f"line {number}", image_id) for number, image_id in lines]


def _all_ids(folder: Path) -> list[str]:
    files = (folder / "JPEGImages").iterdir()
    return sorted({file.stem for file in files if file.suffix.lower() in IMAGE_SUFFIXES})


def _rows_from_lists(
    folder: Path, ids: Sequence[tuple[str, str]], source: Path, lists: dict[str, Path], all_classes: set[str]
) -> list[TagRow]:
    lacking = sorted(all_classes - set(lists))
    if lacking:
        other = min(lists.values()).name
        raise DataError(f"{source}: there is no class list for '{lacking[0]}', but there is {other}. Add it.")
    tags: dict[str, tuple[list[str], list[str]]] = {image_id: ([], []) for _, image_id in ids}
    for name, path in sorted(lists.items()):
        states = _read_states(path)
        for place, image_id in ids:
            if image_id not in states:
                raise DataError(f"{path}: has no line for '{image_id}' ({source}, {place}). Add '{image_id} -1'.")
            present, unknown = tags[image_id]
            if states[image_id] == "1":
                present.append(name)
            elif states[image_id] == "0":
                unknown.append(name)
    find = _Images(folder)
    return [TagRow(place, image_id, find(image_id), *tags[image_id]) for place, image_id in ids]


def _read_states(path: Path) -> dict[str, str]:
    """Return the state of one class by image id: `1` present, `-1` absent, `0` only difficult."""
    states: dict[str, str] = {}
    for line, text in read_lines(path, "lines such as '000012 -1'"):
        image_id, _, state = text.replace("\t", " ").partition(" ")
        state = state.strip().removeprefix("+")
        if state not in ("1", "-1", "0"):
            raise DataError(f"{path}, line {line}: found '{text}', wanted an id and 1, -1 or 0. Correct the line.")
        if states.setdefault(image_id, state) != state:
            raise DataError(f"{path}, line {line}: '{image_id}' is there twice with two states. Remove one of them.")
    return states


def _rows_from_annotations(folder: Path, ids: Sequence[tuple[str, str]], source: Path) -> list[TagRow]:
    if not (folder / "Annotations").is_dir():
        raise DataError(
            f"{source}: no class lists such as dog_{source.stem}.txt go with it, and {folder} has no Annotations. "
            "Add one of them: the tags come from there."
        )
    find = _Images(folder)
    rows = []
    for place, image_id in ids:
        present, unknown = _tags_in(annotation_of(folder, image_id))
        rows.append(TagRow(f"{place} (Annotations/{image_id}.xml)", image_id, find(image_id), present, unknown))
    return rows


def _tags_in(annotation: Path) -> tuple[list[str], list[str]]:
    """Return the classes with an object that is not difficult, and those with difficult ones only."""
    found = objects(annotation)
    present = {name for name, difficult, _ in found if not difficult}
    unknown = {name for name, _, _ in found} - present
    return sorted(present), sorted(unknown)


def _annotated_classes(folder: Path, lists: _Lists, rows: list[TagRow]) -> tuple[str, ...]:
    """Return the classes of the whole folder, so that all its splits have the same ones."""
    named = lists.class_names()
    if not named:
        read = {row.name for row in rows}
        for annotation in sorted((folder / "Annotations").glob("*.xml")):
            if annotation.stem not in read:
                named.update(name for name, _, _ in objects(annotation))
    return tuple(sorted(named.union(sorted_classes(rows))))


class _Images:
    """Finds `JPEGImages/{id}.jpg`, or the image of that id with another suffix."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute() / "JPEGImages"
        files = sorted(self.folder.iterdir(), key=lambda file: (file.suffix == ".jpg", file.name))
        # .jpg comes last and wins
        self.files = {file.stem: file for file in files if file.suffix.lower() in IMAGE_SUFFIXES}

    def __call__(self, image_id: str) -> Path:
        return self.files.get(image_id) or self.folder / f"{image_id}.jpg"
