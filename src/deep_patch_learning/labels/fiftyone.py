"""Labels for FiftyOne: `labels.json` with the boxes and `tags.json` with the tags, of its two image formats, and `data/`."""

import json
from pathlib import Path
from typing import Any

from deep_patch_learning.labels.links import file_names, link
from deep_patch_learning.labels.select import LabelledImage, LabelSet


def write_fiftyone(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`, main file first.

    `labels.json` is a `FiftyOneImageDetectionDataset`, `tags.json` the labels of a `FiftyOneImageClassificationDataset`.
    """
    boxes, tags = {}, {}
    for name, image in zip(file_names(labels.images), labels.images, strict=True):
        link(folder / "data" / name, image)
        key = Path(name).stem  # by which FiftyOne joins labels and files
        boxes[key] = _detections(image)
        tags[key] = [labels.classes.index(tag) for tag in labels.tags(image)]
    for file, found in (("labels.json", boxes), ("tags.json", tags)):
        content = {"classes": list(labels.classes), "labels": found}
        (folder / file).write_text(json.dumps(content, allow_nan=False) + "\n", encoding="ascii")
    return ["labels.json", "tags.json", "data"]


def _detections(image: LabelledImage) -> list[dict[str, Any]]:
    """Return the boxes as shares of the image: [left, top, width, height]."""
    rows = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), strict=True)
    across, down = 1 / image.width, 1 / image.height
    return [
        {
            "label": index,
            "bounding_box": [x1 * across, y1 * down, (x2 - x1) * across, (y2 - y1) * down],
            "confidence": score,
        }
        for (x1, y1, x2, y2), index, score in rows
    ]
