"""Labels for CVAT: `annotations.xml` in its format "CVAT for images 1.1", tags and boxes, and `images/` with a link to each."""

from pathlib import Path
from xml.etree import ElementTree

from deep_patch_learning.labels.links import image_root, link, relative_name
from deep_patch_learning.labels.select import LabelledImage, LabelSet
from deep_patch_learning.labels.voc import add, refuse_unwritable, write_xml

SCORE = "score"  # an attribute of every label, since CVAT has no place for the score of a box


def write_cvat(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`, main file first."""
    refuse_unwritable(labels.classes)
    root = image_root(labels.images)
    names = [relative_name(image, root) for image in labels.images]
    write_xml(folder / "annotations.xml", annotations(labels, names))
    for name, image in zip(names, labels.images, strict=True):
        link(folder / "images" / name, image)
    return ["annotations.xml", "images"]


def annotations(labels: LabelSet, names: list[str]) -> ElementTree.Element:
    """Return the XML; `names` are the images' paths below their folder."""
    top = ElementTree.Element("annotations")
    add(top, "version", "1.1")
    task = add(add(top, "meta"), "task")
    for key, value in (("name", labels.split), ("size", len(names)), ("mode", "annotation")):
        add(task, key, value)
    known = add(task, "labels")
    for name in labels.classes:
        label = add(known, "label")
        add(label, "name", name)
        attribute = add(add(label, "attributes"), "attribute")
        about = {"name": SCORE, "mutable": "False", "input_type": "text", "default_value": "", "values": ""}
        for key, value in about.items():
            add(attribute, key, value)
    for number, (name, image) in enumerate(zip(names, labels.images, strict=True)):
        top.append(_image(number, name, image, labels))
    return top


def _image(number: int, name: str, image: LabelledImage, labels: LabelSet) -> ElementTree.Element:
    size = {"width": str(image.width), "height": str(image.height)}
    found = ElementTree.Element("image", {"id": str(number), "name": name, **size})
    for tag in labels.tags(image):
        ElementTree.SubElement(found, "tag", {"label": tag, "source": "manual"})
    rows = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), strict=True)
    for corners, index, score in rows:
        place = {key: f"{value:.2f}" for key, value in zip(("xtl", "ytl", "xbr", "ybr"), corners, strict=True)}
        about = {"label": labels.classes[index], "source": "auto", "occluded": "0", **place, "z_order": "0"}
        box = ElementTree.SubElement(found, "box", about)
        add(box, "attribute", f"{score:.6f}").set("name", SCORE)
    return found
