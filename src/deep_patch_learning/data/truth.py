"""The true boxes of an image, for evaluation only: a test makes sure that nothing which trains imports this module."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.common.errors import DataError, did_you_mean, short
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers import coco, json_lines, voc
from deep_patch_learning.data.readers.read import Kind, recognise
from deep_patch_learning.data.readers.table import locate

FARTHEST = 2**24  # pixels; up to here float32 holds every whole number


@dataclass(frozen=True)
class TrueBoxes:
    """The annotated objects of one image.

    `boxes` (G, 4) float32 in this package's convention, `classes` (G,) int64 indices, `difficult` (G,) bool.
    """

    boxes: np.ndarray
    classes: np.ndarray
    difficult: np.ndarray

    def of_class(self, index: int, with_difficult: bool = True) -> np.ndarray:
        """Return the boxes (g, 4) of one class."""
        wanted = self.classes == index
        return self.boxes[wanted if with_difficult else wanted & ~self.difficult]


@dataclass(frozen=True, slots=True)
class _Object:
    place: str
    name: str
    box: tuple[float, float, float, float]
    difficult: bool


def read_truth(path: str | Path, images: TaggedImages) -> list[TrueBoxes] | None:
    """Return the true boxes of each of `images`, which were read from `path`; None when the data has no boxes.

    A CSV and a folder per class never have boxes; JSON lines may have them, VOC and COCO most often do. COCO's crowds
    are marked difficult. Classes are indices into `images.classes`.
    """
    kind, place = recognise(path)
    if kind is Kind.VOC:
        found = _voc_objects(place, images.names)
    elif kind is Kind.COCO:
        found = _coco_objects(place)
    elif kind is Kind.JSON_LINES:
        found = _json_lines_objects(place, set(images.names))
    else:
        return None
    if found is None:
        return None
    strangers = [name for name in images.names if name not in found]
    if strangers:
        raise DataError(f"{place}: has no image '{strangers[0]}'. Read the tags and the boxes from the same data.")
    column = {name: index for index, name in enumerate(images.classes)}
    return [_to_boxes(found[name], column) for name in images.names]


def _to_boxes(objects: list[_Object], column: dict[str, int]) -> TrueBoxes:
    for one in objects:
        x1, y1, x2, y2 = one.box
        if one.name not in column:
            raise DataError(f"{one.place}: unknown class '{one.name}'.{did_you_mean(one.name, column)} Correct it.")
        # A box without area stays, as COCO has a few: no found box can match it.
        if not all(map(math.isfinite, one.box)) or x2 < x1 or y2 < y1:
            raise DataError(f"{one.place}: the box {one.box} ends before it begins. Correct the box.")
        if max(map(abs, one.box)) > FARTHEST:
            raise DataError(f"{one.place}: the box {one.box} lies beyond any image. Correct the box.")
    return TrueBoxes(
        np.array([one.box for one in objects], np.float32).reshape(-1, 4),
        np.array([column[one.name] for one in objects], np.int64),
        np.array([one.difficult for one in objects], bool),
    )


def _voc_objects(folder: Path, names: Iterable[str]) -> dict[str, list[_Object]] | None:
    if not (folder / "Annotations").is_dir():
        return None
    found = {}
    for name in names:
        path = voc.annotation_of(folder, name)
        objects = []
        for number, (tag, difficult, element) in enumerate(voc.objects(path), start=1):
            place = f"{path}, object {number}"
            corners = [element.findtext(f"bndbox/{corner}") for corner in ("xmin", "ymin", "xmax", "ymax")]
            x1, y1, x2, y2 = _numbers(corners, place, "bndbox with xmin, ymin, xmax and ymax")
            # VOC counts from 1 and its corners are both inside the box; ours counts from 0 and is half-open.
            objects.append(_Object(place, tag, (x1 - 1, y1 - 1, x2, y2), difficult))
        found[name] = objects
    return found


def _coco_objects(path: Path) -> dict[str, list[_Object]] | None:
    content = coco.load(path)
    annotations = content["annotations"]
    if not any(isinstance(annotation, dict) and "bbox" in annotation for annotation in annotations):
        return None
    images, categories = coco.image_names(content, path), coco.category_names(content, path)
    by_image: dict[Any, list[_Object]] = {image_id: [] for image_id in images}
    for index, annotation in enumerate(annotations):
        image_id, category_id = coco.reference(annotation, index, images, categories, path)
        place = f"{path}, annotations[{index}]"
        x, y, width, height = _json_numbers(annotation.get("bbox"), place, "bbox [x, y, width, height]")
        box = (x, y, x + width, y + height)
        by_image[image_id].append(_Object(place, categories[category_id], box, bool(annotation.get("iscrowd"))))
    root = coco.image_folder(path, list(images.values()))
    return {locate(images[image_id], root)[0]: objects for image_id, objects in by_image.items()}


def _json_lines_objects(path: Path, names: set[str]) -> dict[str, list[_Object]] | None:
    found: dict[str, list[_Object]] = {}
    without: list[tuple[int, str]] = []
    for line, row in json_lines.objects(path):
        name, _ = json_lines.image_of(row, path, line)
        if name not in names:
            continue
        if row.get("boxes") is None:
            without.append((line, name))
        else:
            found[name] = list(_boxes_of_row(row["boxes"], f"{path}, line {line}"))
    if without and found:
        line, name = without[0]
        raise DataError(f"{path}, line {line}: '{name}' has no 'boxes', but other images have. Add \"boxes\": [...].")
    return found or None


def _boxes_of_row(boxes: Any, place: str) -> Iterable[_Object]:
    wanted = '{"tag": "dog", "box": [x1, y1, x2, y2]}'
    if not isinstance(boxes, list):
        raise DataError(f"{place}: 'boxes' is {short(boxes)}, wanted a list of {wanted}.")
    for index, entry in enumerate(boxes):
        here = f"{place}, boxes[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("tag"), str):
            raise DataError(f"{here}: found {short(entry)}, wanted {wanted}.")
        x1, y1, x2, y2 = _json_numbers(entry.get("box"), here, "box [x1, y1, x2, y2]")
        yield _Object(here, entry["tag"].strip(), (x1, y1, x2, y2), bool(entry.get("difficult", False)))


def _json_numbers(values: Any, place: str, wanted: str) -> tuple[float, float, float, float]:
    """Return the four numbers of a list; a text of four digits is none."""
    if not isinstance(values, list):
        raise DataError(f"{place}: found {short(values)}, wanted a {wanted}, all numbers. Correct the box.")
    return _numbers(values, place, wanted)


def _numbers(values: Any, place: str, wanted: str) -> tuple[float, float, float, float]:
    try:
        first, second, third, fourth = (float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{place}: found {short(values)}, wanted a {wanted}, all numbers. Correct the box.") from None
    return first, second, third, fourth
