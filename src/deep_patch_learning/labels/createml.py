"""Labels for Apple's Create ML: a folder with the images and `annotations.json`, boxes by their centre in pixels."""

import json
from pathlib import Path
from typing import Any

from deep_patch_learning.labels.links import file_names, link
from deep_patch_learning.labels.select import LabelledImage, LabelSet


def write_createml(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`. Create ML wants one JSON beside the images, hence the folder of the split."""
    place = folder / labels.split
    place.mkdir()
    entries = []
    for name, image in zip(file_names(labels.images), labels.images, strict=True):
        link(place / name, image)
        entries.append({"image": name, "annotations": _annotations(image, labels.classes)})
    (place / "annotations.json").write_text(json.dumps(entries, allow_nan=False) + "\n", encoding="ascii")
    return [f"{labels.split}/annotations.json", labels.split]


def _annotations(image: LabelledImage, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    found = []
    for (x1, y1, x2, y2), index in zip(image.boxes.tolist(), image.classes.tolist(), strict=True):
        place = {"x": (x1 + x2) / 2, "y": (y1 + y2) / 2, "width": x2 - x1, "height": y2 - y1}
        found.append({"label": classes[index], "coordinates": place})
    return found
