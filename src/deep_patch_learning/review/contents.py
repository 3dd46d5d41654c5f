"""What a review begins with: the boxes that a model finds for a tagged set, or those of label files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import image_size
from deep_patch_learning.data.readers.read import Kind, read_tags, recognise
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels.select import LabelledImage, LabelRule, select
from deep_patch_learning.labels.write import MANIFEST
from deep_patch_learning.review.store import FoundBox, FoundImage

FORMATS = ("coco", "voc")  # of label folders that can be reviewed


def of_predictions(
    predictions: Iterable[Prediction], images: TaggedImages, follow_links: bool = False, root: Path | None = None
) -> Iterator[FoundImage]:
    """Yield each image with the boxes that `dpl label --for-training` would write for its tags, and no tag without one.

    `predictions` are those of `images`, in the same order, with an expected precision of each box.
    """
    for number, prediction in enumerate(predictions):
        one = images.subset([number])
        by_trust, by_tag = (_labelled(prediction, one, precision) for precision in (0.0, None))
        boxes = [
            FoundBox(
                int(index),
                _corners(corners),
                float(score),
                float(precision),
                1 - float(precision),
                _why(precision, part),
            )
            for index, corners, score, precision, part in zip(
                by_tag.classes, by_tag.boxes, by_tag.scores, by_trust.scores, by_tag.parts, strict=True
            )
        ]
        missing = [images.classes[index] for index in by_tag.abstained]
        path = real_path(images.paths[number], root, follow_links)
        why = f"nothing found for {', '.join(missing)}" if missing else ""
        yield FoundImage(
            images.names[number], path, prediction.width, prediction.height, by_tag.states.tolist(), boxes, why
        )


def _labelled(prediction: Prediction, image: TaggedImages, precision: float | None) -> LabelledImage:
    labels = select([prediction], image, LabelRule(precision=precision, for_training=True))
    return (labels.images or labels.left_out)[0]


def _corners(box: np.ndarray) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = (float(value) for value in box)
    return x1, y1, x2, y2


def _why(precision: float, part: bool) -> str:
    expected = f"{precision:.0%} likely to be right"
    return f"looks like a part; {expected}" if part else expected


def is_labels(place: Path) -> bool:
    """Return whether a path holds boxes to review rather than tags to find boxes for: a COCO json, or labels of `dpl label`."""
    return place.suffix.lower() == ".json" or (place / MANIFEST).is_file()


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
        found.append(FoundImage(name, real, width, height, images.labels[number].tolist(), kept))
    return images.classes, found


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
