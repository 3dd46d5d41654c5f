"""What a review begins with: the boxes that a model finds for a tagged set, or those of label files."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import image_size
from deep_patch_learning.data.readers.read import Kind, read_tags, recognise
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.select import LabelRule, labelled_image
from deep_patch_learning.labels.usefulness import review_order, usefulness
from deep_patch_learning.labels.write import MANIFEST
from deep_patch_learning.review.store import FoundBox, FoundImage

FORMATS = ("coco", "voc")  # of label folders that can be reviewed


def of_predictions(
    predictions: Iterable[Prediction],
    images: TaggedImages,
    follow_links: bool = False,
    root: Path | None = None,
    others: Sequence[Iterable[Prediction]] = (),
) -> list[FoundImage]:
    """Return each image with the boxes that `dpl label --for-training` would write for its tags, and no tag without one.

    `predictions` are those of `images`, in the same order, with an expected precision of each box; `others` are those of other
    runs for the same images. The most useful image to look at has the highest usefulness.
    """
    rule = LabelRule(for_training=True)
    found, useful = [], []
    for number, (prediction, *again) in enumerate(zip(predictions, *others, strict=True)):
        labelled = labelled_image(prediction, images, number, rule)
        useful.append(usefulness(prediction, labelled, again))
        trusted = labelled_image(prediction, images, number, LabelRule(for_training=True, precision=0.0))
        rows = zip(labelled.classes, labelled.boxes, labelled.scores, trusted.scores, useful[-1].boxes, strict=True)
        boxes = [
            FoundBox(int(index), _corners(box), float(score), float(precision), one.number, one.why)
            for index, box, score, precision, one in rows
        ]
        path = real_path(images.paths[number], root, follow_links)
        states, size = labelled.states.tolist(), (prediction.width, prediction.height)
        found.append(FoundImage(images.names[number], path, *size, states, boxes, useful[-1].why))
    order = review_order(useful, images.labels[: len(useful)])
    for rank, number in enumerate(order.tolist()):
        found[number] = replace(found[number], usefulness=1 - rank / len(order))
    return found


def _corners(box: np.ndarray) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = (float(value) for value in box)
    return x1, y1, x2, y2


def is_labels(place: Path) -> bool:
    """Return whether a path holds boxes to review rather than tags to find boxes for: a COCO json, or labels of `dpl label`."""
    return place.suffix.lower() == ".json" or (place / MANIFEST).is_file()


def digest_of_labels(place: Path) -> str:
    """Return a hash that changes with the labels: of a COCO json, or of what `dpl label` says of its folder."""
    file = place / MANIFEST
    return hashlib.sha256((file if file.is_file() else place).read_bytes()).hexdigest()


def of_labels(place: Path, follow_links: bool = False) -> tuple[tuple[str, ...], list[FoundImage]]:
    """Return the classes and the images, with the boxes of a COCO json or of a folder that `dpl label` wrote."""
    ours = (place / MANIFEST).is_file()
    file = _label_file(place) if ours else place
    images = read_tags(file)
    boxes = read_truth(file, images)
    if boxes is None:
        raise DataError(f"{file}: has no boxes. To review what a model finds, name the model with --model.")
    scores = _coco_scores(file, images) if recognise(file)[0] is Kind.COCO else {}
    found = []
    for number, (name, path, true) in enumerate(zip(images.names, images.paths, boxes, strict=True)):
        # the links in a folder of ours lead to the images that were labelled
        real = real_path(path, file.parent, follow_links or ours)
        height, width = image_size(real)
        kept = [
            FoundBox(int(index), _inside(corners, width, height, name), score, None, 1 - (score or 0.0), _scored(score))
            for index, corners, score in zip(
                true.classes, true.boxes, scores.get(name, [None] * len(true.classes)), strict=True
            )
        ]
        useful = max((box.usefulness for box in kept), default=0.0)
        found.append(
            FoundImage(
                name, real, width, height, images.labels[number].tolist(), kept, _why(kept, images.classes), useful
            )
        )
    return images.classes, found


def _why(boxes: Sequence[FoundBox], classes: Sequence[str]) -> str:
    """Return why an image of exported labels is looked at when it is."""
    scored = [(box.score, classes[box.index]) for box in boxes if box.score is not None]
    if scored:
        score, name = min(scored)
        return f"the lowest score of its boxes is {score:.2f}, of '{name}'"
    return "its boxes have no score" if boxes else "it has no box"


def _scored(score: float | None) -> str:
    return "" if score is None else f"score {score:.2f}"


def _label_file(folder: Path) -> Path:
    coco = sorted((folder / "annotations").glob("*.json"))
    if coco:
        return coco[0]
    if (folder / "JPEGImages").is_dir():
        return folder
    raise DataError(
        f"{folder}: its labels are in a format that is not reviewed; wanted {' or '.join(FORMATS)}. "
        "Write them again with dpl label --format coco."
    )


def _coco_scores(file: Path, images: TaggedImages) -> dict[str, list[float | None]]:
    """Return the scores of the boxes of each image, in the order of the file; None for one without."""
    from deep_patch_learning.data.readers import coco
    from deep_patch_learning.data.readers.table import locate

    content = coco.load(file)
    names = coco.image_names(content, file)
    root = coco.image_folder(file, list(names.values()))
    own = {key: locate(name, root)[0] for key, name in names.items()}
    found: dict[str, list[float | None]] = {name: [] for name in images.names}
    for annotation in content["annotations"]:
        score = annotation.get("score")
        found[own[annotation["image_id"]]].append(float(score) if isinstance(score, int | float) else None)
    return found


def _inside(box: Sequence[float], width: int, height: int, name: str) -> tuple[float, float, float, float]:
    x1, x2 = (min(max(float(value), 0.0), float(width)) for value in (box[0], box[2]))
    y1, y2 = (min(max(float(value), 0.0), float(height)) for value in (box[1], box[3]))
    if x2 <= x1 or y2 <= y1:
        corners = [float(value) for value in box]
        raise DataError(
            f"image '{name}': the box {corners} is empty or outside its {width} x {height} pixels. Remove it."
        )
    return x1, y1, x2, y2


def real_path(path: Path, root: Path | None, follow_links: bool) -> Path:
    """Return where an image really lies. A link that leads out of the data's folder is refused, unless it may be followed."""
    real = Path(os.path.realpath(path))
    if follow_links:
        return real
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - follows no link
    top = Path(os.path.abspath(root)) if root is not None else whole.parent  # noqa: PTH100
    if not whole.is_relative_to(top):
        top = whole.parent
    if not real.is_relative_to(os.path.realpath(top)):
        raise DataError(
            f"{path}: is a link that leads out of {top}, to {real}. If whoever opens the page may see it, add --follow-links."
        )
    return real
