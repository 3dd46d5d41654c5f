"""Tags from CVAT's "CVAT for images 1.1": the tags of an image, and the labels of its shapes. Classes are those of the task."""

from pathlib import Path
from xml.etree import ElementTree

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.coco import image_folder
from deep_patch_learning.data.readers.table import TagRow, TagTable, is_file, locate, read_text, sorted_classes

_WANTED = 'annotations of "CVAT for images 1.1"'
_EXPORT = f"Export the task as {_WANTED}"
_SHAPES = ("tag", "box", "polygon", "polyline", "points", "ellipse", "cuboid", "mask", "skeleton")


def read_cvat(path: Path) -> TagTable:
    """Return the images and tags of an `annotations.xml`; the subsets of a project are splits."""
    try:
        top = ElementTree.fromstring(read_text(path, _WANTED))
    except ElementTree.ParseError as error:
        line, column = error.position
        raise DataError(f"{path}, line {line}, column {column + 1}: not XML ({error.msg}). {_EXPORT} again.") from None
    if top.tag != "annotations":
        raise DataError(f"{path}: found <{top.tag}>, wanted {_WANTED}. {_EXPORT}.")
    if top.find("track") is not None:
        raise DataError(f'{path}: holds the tracks of a video ("CVAT for video 1.1"), wanted images. {_EXPORT}.')
    images = top.findall("image")
    names = [_name(image, f"image {number}", path) for number, image in enumerate(images, start=1)]
    subsets = [image.get("subset", "").strip() for image in images]
    below = [f"{subset}/{name}" if subset else name for subset, name in zip(subsets, names, strict=True)]
    root = image_folder(path, [*names, *below])  # a project's images may lie in a folder for each subset
    rows = []
    for number, (image, written, subset, deeper) in enumerate(zip(images, names, subsets, below, strict=True), start=1):
        present = dict.fromkeys(
            label for shape in _SHAPES for one in image.iterfind(shape) if (label := one.get("label", "").strip())
        )
        in_subset = not is_file(root / written) and is_file(root / deeper)
        name, file = locate(deeper if in_subset else written, root)
        rows.append(TagRow(f"image {number}", name, file, tuple(present), split=subset or None))
    return TagTable(path, root, rows, _classes(top) or sorted_classes(rows))


def _name(image: ElementTree.Element, place: str, path: Path) -> str:
    name = image.get("name", "").strip()
    if not name:
        raise DataError(f"{path}, {place}: has no name, wanted the path of an image. {_EXPORT} again.")
    return name


def _classes(top: ElementTree.Element) -> tuple[str, ...]:
    """Return the labels of the task, job or project in their order."""
    found = (name.text.strip() for name in top.iterfind("meta/*/labels/label/name") if name.text and name.text.strip())
    return tuple(dict.fromkeys(found))
