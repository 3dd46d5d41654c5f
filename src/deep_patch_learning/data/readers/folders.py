"""Tags from folders: `dog/a.jpg` shows a dog; `train/dog/a.jpg` too, in the split `train`."""

import filecmp
import os
from collections import defaultdict
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.data.readers.table import TagRow, TagTable, sorted_classes

_FIX = "Put each image in a folder named for its tag, such as dog/a.jpg."


def read_folders(folder: Path) -> TagTable:
    """Return the images below `folder`, each tagged with the name of its class folder.

    A file that lies in several class folders under the same name and with the same bytes is one image with all
    their tags. The same name with other bytes is another image: cameras number from 1.
    """
    stray = _images_in(folder)
    if stray:
        raise DataError(f"{folder}: {len(stray)} image(s) outside a class folder, such as '{stray[0]}'. {_FIX}")
    first_level = _folders_in(folder)
    direct = [child for child in first_level if _images_in(child)]
    indirect = [child for child in first_level if child not in direct]
    if direct and indirect:
        raise DataError(
            f"{folder}: '{direct[0].name}' holds images but '{indirect[0].name}' holds none of its own. "
            f"{_FIX} Remove folders that are no class."
        )
    # Images right in the folders: these are the classes. Only deeper: these are splits, with the classes in them.
    class_folders: dict[str | None, list[Path]] = {None: direct}
    if not direct:
        class_folders = {split.name: _folders_in(split) for split in indirect}
    rows = [row for split, folders in class_folders.items() for row in _rows(folders, folder, split)]
    if not rows:
        raise DataError(f"{folder}: holds no image. {_FIX}")
    classes = sorted_classes(rows)
    for class_folder in (child for folders in class_folders.values() for child in folders):
        if class_folder.name not in classes:
            raise DataError(f"{class_folder}: this class folder holds no image. Add images, or remove the folder.")
    return TagTable(folder, folder, rows, classes)


def _rows(class_folders: list[Path], root: Path, split: str | None) -> list[TagRow]:
    # The copies of a file are looked for among files of one name below their class folders, and of one size.
    alike: dict[tuple[str, int], list[tuple[str, Path]]] = defaultdict(list)
    for class_folder in class_folders:
        for path in _images_below(class_folder):
            key = (path.relative_to(class_folder).as_posix(), path.stat().st_size)
            alike[key].append((class_folder.name, path))
    rows = []
    for files in alike.values():
        for copies in _equal_files(files):
            tags, path = [tag for tag, _ in copies], copies[0][1]
            name = path.relative_to(root).as_posix()
            rows.append(TagRow(name, name, path.absolute(), tags, split=split))
    return sorted(rows, key=lambda row: row.name)


def _equal_files(files: list[tuple[str, Path]]) -> list[list[tuple[str, Path]]]:
    """Return the files in groups of equal content."""
    groups: list[list[tuple[str, Path]]] = []
    for tag, path in files:
        for group in groups:
            if filecmp.cmp(group[0][1], path, shallow=False):
                group.append((tag, path))
                break
        else:
            groups.append([(tag, path)])
    return groups


def _folders_in(folder: Path) -> list[Path]:
    return sorted(
        child for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__MACOSX"))
    )


def _images_in(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if _is_image(entry.name) and entry.is_file())


def _images_below(folder: Path) -> list[Path]:
    found = sorted(Path(base, name) for base, _, names in os.walk(folder) for name in names if _is_image(name))
    if found and not _images_in(folder):
        raise DataError(f"{folder}: images lie deeper than a class folder, such as {found[0]}. {_FIX}")
    return found


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES
