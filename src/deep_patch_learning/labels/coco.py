"""Labels as a COCO data set: `annotations/instances_SPLIT.json`, and `images/` with a link to each image."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deep_patch_learning.labels.links import image_root, link, relative_name
from deep_patch_learning.labels.select import LabelledImage, LabelSet


def write_coco(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`, main file first."""
    root = image_root(labels.images)
    names = [relative_name(image, root) for image in labels.images]
    file = folder / "annotations" / f"instances_{labels.split}.json"
    file.parent.mkdir()
    # ASCII: some readers open the file in the encoding of their system
    file.write_text(json.dumps(coco_content(labels, names), allow_nan=False) + "\n", encoding="ascii")
    for name, image in zip(names, labels.images, strict=True):
        link(folder / "images" / name, image)
    return [f"annotations/{file.name}", "images"]


def coco_content(labels: LabelSet, names: Sequence[str], first_ids: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """Return the data set as COCO's dictionary; `names` are the images' paths below their folder.

    `first_ids` are the first ids of images and of annotations; those of categories begin at 1.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (name, image) in enumerate(zip(names, labels.images, strict=True), first_ids[0]):
        images.append({"id": number, "file_name": name, "width": image.width, "height": image.height})
        annotations += _annotations(image, number, len(annotations) + first_ids[1])
    categories = [
        {"id": number, "name": name, "supercategory": "none"} for number, name in enumerate(labels.classes, start=1)
    ]
    info = {"description": "Boxes found by Deep Patch Learning from tags alone; score is a probability."}
    return {
        "info": info,
        "licenses": [],
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }


def _annotations(image: LabelledImage, image_id: int, first: int) -> list[dict[str, Any]]:
    rows = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), strict=True)
    return [
        {
            "id": number,
            "image_id": image_id,
            "category_id": index + 1,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "area": (x2 - x1) * (y2 - y1),
            "segmentation": [],
            "iscrowd": 0,
            "score": score,
        }
        for number, ((x1, y1, x2, y2), index, score) in enumerate(rows, start=first)
    ]
