"""Labels as a VOC folder: `Annotations/ID.xml`, the lists of `ImageSets/Main`, and `JPEGImages/ID.jpg` as links."""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN
from deep_patch_learning.labels.links import flat_names, link
from deep_patch_learning.labels.select import LabelledImage, LabelSet

_LONGEST = 180  # bytes of a class name in the name of its list


def write_voc(labels: LabelSet, folder: Path, name: str) -> list[str]:
    """Return what was written into `folder`, which will be called `name`, main place first.

    Readers of VOC open `JPEGImages/ID.jpg` whatever the image is, so each link has that suffix.
    """
    refuse_unwritable(labels.classes)
    main, annotations = folder / "ImageSets" / "Main", folder / "Annotations"
    main.mkdir(parents=True)
    annotations.mkdir()
    ids = flat_names(labels.images)
    for image_id, image in zip(ids, labels.images, strict=True):
        write_xml(annotations / f"{image_id}.xml", annotation(image, image_id, labels.classes, name))
        link(folder / "JPEGImages" / f"{image_id}.jpg", image)
    _write(main / f"{labels.split}.txt", ids)
    if _are_file_names(labels.classes):
        for index, class_name in enumerate(labels.classes):
            states = (_state(image, index) for image in labels.images)
            lines = [f"{image_id} {state:>2}" for image_id, state in zip(ids, states, strict=True)]
            _write(main / f"{class_name}_{labels.split}.txt", lines)
    return ["Annotations", f"ImageSets/Main/{labels.split}.txt", "JPEGImages"]


def annotation(image: LabelledImage, image_id: str, classes: tuple[str, ...], folder: str) -> ElementTree.Element:
    """Return the XML of one image; each object has an element `score`, which VOC's own files lack."""
    root = ElementTree.Element("annotation")
    add(root, "folder", folder)
    add(root, "filename", f"{image_id}.jpg")
    source = add(root, "source")
    add(source, "database", "Deep Patch Learning")
    add(source, "annotation", "found from tags alone")
    add(source, "image", image.name)
    size = add(root, "size")
    for key, pixels in (("width", image.width), ("height", image.height), ("depth", 3)):
        add(size, key, pixels)
    add(root, "segmented", 0)
    rows = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), strict=True)
    for box, index, score in rows:
        thing = add(root, "object")
        for key, value in (("name", classes[index]), ("pose", "Unspecified"), ("truncated", 0), ("difficult", 0)):
            add(thing, key, value)
        place = add(thing, "bndbox")
        corners = inclusive(box, image.width, image.height)
        for key, corner in zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True):
            add(place, key, corner)
        add(thing, "score", f"{score:.6f}")
    return root


def inclusive(box: list[float], width: int, height: int) -> tuple[int, int, int, int]:
    """Return a half-open box as VOC counts: whole pixels from 1, both corners inside the box and the image."""
    x1, y1, x2, y2 = (math.floor(value + 0.5) for value in box)
    left, top = min(x1 + 1, width), min(y1 + 1, height)
    return left, top, min(max(x2, left), width), min(max(y2, top), height)


def _state(image: LabelledImage, index: int) -> int:
    """Return the state of a class in VOC's lists: 1 tagged, or given a box; 0 unknown; -1 absent."""
    if image.states[index] == PRESENT or index in image.classes:
        return 1
    return 0 if image.states[index] == UNKNOWN else -1


def _are_file_names(classes: tuple[str, ...]) -> bool:
    """Return whether a list can be named for each class; where not, readers find the tags in the annotations."""
    fit = all(not re.search(r"[/\\\x00]", name) and len(name.encode()) <= _LONGEST for name in classes)
    return fit and len({name.casefold() for name in classes}) == len(classes)  # some systems ignore case


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def refuse_unwritable(names: Iterable[str]) -> None:
    """Raise `DataError` for a class name with a character that XML cannot hold."""
    for name in names:
        if _NOT_IN_XML.search(name):
            raise DataError(f"class {name!r}: XML cannot hold that name. Rename the class, or give --format coco.")


def add(parent: ElementTree.Element, key: str, value: object = None) -> ElementTree.Element:
    """Return a new element below `parent`; what XML cannot hold of its text becomes the replacement character."""
    element = ElementTree.SubElement(parent, key)
    if value is not None:
        element.text = _NOT_IN_XML.sub("\ufffd", str(value))
    return element


def write_xml(path: Path, root: ElementTree.Element) -> None:
    """Write a tree, indented, in UTF-8."""
    ElementTree.indent(root, "\t")
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8") + b"\n")
