"""Labels for Hugging Face `datasets`: a folder for the split with links to the images and `metadata.jsonl`."""

import json
from pathlib import Path

import numpy as np

from deep_patch_learning.data.dataset import UNKNOWN
from deep_patch_learning.labels.links import file_names, link
from deep_patch_learning.labels.select import LabelSet


def write_imagefolder(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`, main file first. Boxes are [x, y, width, height] in pixels, as in COCO."""
    place = folder / labels.split
    place.mkdir()
    lines = []
    for name, image in zip(file_names(labels.images), labels.images, strict=True):
        link(place / name, image)
        boxes = [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in image.boxes.tolist()]
        objects = {
            "bbox": boxes,
            "categories": [labels.classes[index] for index in image.classes],
            "scores": image.scores.tolist(),
        }
        unknown = [labels.classes[index] for index in np.flatnonzero(image.states == UNKNOWN)]
        row = {"file_name": name, "image_name": image.name, "tags": labels.tags(image), "unknown": unknown}
        lines.append(
            json.dumps({**row, "width": image.width, "height": image.height, "objects": objects}, allow_nan=False)
        )
    (place / "metadata.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    return [f"{labels.split}/metadata.jsonl", labels.split]
