"""XML as label formats want it: text that XML can hold, written in UTF-8."""

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from deep_patch_learning.errors import DataError

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
