"""Labels for Label Studio: `tasks.json` with the boxes as predictions to accept or fix, and `config.xml`, the labelling page."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from deep_patch_learning.labels.links import image_root, relative_name
from deep_patch_learning.labels.select import LabelledImage, LabelSet
from deep_patch_learning.labels.voc import refuse_unwritable, write_xml

FROM_NAME, TO_NAME = "label", "image"  # of the control and the image in config.xml
_SERVED = "/data/local-files/?d="  # Label Studio's address of files on its own machine, below its document root


def write_label_studio(labels: LabelSet, folder: Path, model_version: str) -> list[str]:
    """Return what was written into `folder`, main file first."""
    refuse_unwritable(labels.classes)
    (folder / "tasks.json").write_text(
        json.dumps(tasks(labels, model_version), indent=1, allow_nan=False) + "\n", encoding="ascii"
    )
    write_xml(folder / "config.xml", config(labels.classes))
    return ["tasks.json", "config.xml"]


def tasks(labels: LabelSet, model_version: str) -> list[dict[str, Any]]:
    """Return a task for each image; one without boxes has no prediction.

    The score of a prediction is that of its least sure box, so that sorting by it brings up what a person should look at first.
    """
    root = image_root(labels.images)
    found = []
    for number, image in enumerate(labels.images, start=1):
        data = {"image": address(image, root), "name": image.name, "tags": labels.tags(image)}
        result = _regions(image, labels.classes, number)
        prediction = {
            "model_version": model_version,
            "score": min(image.scores.tolist(), default=0),
            "result": result,
        }
        found.append({"data": data, "predictions": [prediction] if result else []})
    return found


def address(image: LabelledImage, root: Path) -> str:
    """Return where Label Studio serves the image when its document root is the folder that holds `root`."""
    # It refuses to serve the document root itself, only folders in it: hence the one above.
    path = Path(root.name, relative_name(image, root))
    return _SERVED + quote(os.fsencode(path.as_posix()))


def config(classes: tuple[str, ...]) -> ElementTree.Element:
    """Return the labelling page: the image, and a rectangle for each class."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name=TO_NAME, value="$image")
    control = ElementTree.SubElement(view, "RectangleLabels", name=FROM_NAME, toName=TO_NAME)
    for name in classes:
        ElementTree.SubElement(control, "Label", value=name)
    return view


def _regions(image: LabelledImage, classes: tuple[str, ...], number: int) -> list[dict[str, Any]]:
    across, down = 100 / image.width, 100 / image.height  # Label Studio counts in percent of the image
    regions = []
    rows = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), strict=True)
    for place, ((x1, y1, x2, y2), index, score) in enumerate(rows, start=1):
        value = {
            "x": x1 * across,
            "y": y1 * down,
            "width": (x2 - x1) * across,
            "height": (y2 - y1) * down,
            "rotation": 0,
            "rectanglelabels": [classes[index]],
        }
        region = {"id": f"{number}-{place}", "type": "rectanglelabels", "from_name": FROM_NAME, "to_name": TO_NAME}
        size = {"original_width": image.width, "original_height": image.height, "image_rotation": 0}
        regions.append({**region, **size, "value": value, "score": score})
    return regions
