"""Which boxes a person should look at first: for each box how much its correction would teach, and why, in a sentence.

All of it is read off predictions that have an expected precision (`inference/box_trust.py`), beside the tags of their image.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deep_patch_learning.common.boxes import area, box_iou
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.inference.box_trust import found_again
from deep_patch_learning.inference.prediction import Prediction, sigmoid
from deep_patch_learning.labels.select import LIMIT, LabelledImage, share_of_wholes

MOVED = 0.5  # below it a box was not found again: IoU of 0.5 with the best one of another view
FURTHER_SHARE = 0.5  # of the best box's probability, from which a box beside it may be a further object
APART = 0.3  # share of the smaller of two boxes in the other, below which they may be two objects


class Usefulness(NamedTuple):
    """How likely a box is wrong and worth a look, from 0 to 1, and why."""

    number: float
    why: str


class ImageUsefulness(NamedTuple):
    """Of an image: the sum over its boxes, the reason of the most useful one, and each box's own."""

    number: float
    why: str
    boxes: list[Usefulness]


def usefulness(prediction: Prediction, labelled: LabelledImage, others: Sequence[Prediction] = ()) -> ImageUsefulness:
    """Return how useful it is to look at an image with the boxes that were selected from its prediction.

    `others` are predictions of the same image by other runs, such as other seeds or self-training rounds.
    """
    if prediction.found_precision is None or prediction.found_views is None:
        raise DataError(f"image '{prediction.name}': its boxes have no expected precision. Predict with further views.")
    rows = [_row_of(prediction, box, index) for box, index in zip(labelled.boxes, labelled.classes, strict=True)]
    again = [found_again(prediction, other) for other in others]
    boxes = [_of_box(prediction, row, [float(one[row]) for one in again], labelled) for row in rows]
    without = [_without_box(prediction, int(index)) for index in labelled.abstained]
    all_of_them = sorted([*boxes, *without], key=lambda one: -one.number)
    why = all_of_them[0].why if all_of_them else ""
    return ImageUsefulness(sum(one.number for one in all_of_them), why, boxes)


def _row_of(prediction: Prediction, box: np.ndarray, index: int) -> int:
    own = np.flatnonzero(prediction.found_classes == index)
    return int(own[box_iou(box[None], prediction.found_boxes[own])[0].argmax()])


def _of_box(prediction: Prediction, row: int, again: Sequence[float], labelled: LabelledImage) -> Usefulness:
    """Return the usefulness of one found box: how likely it is wrong, by all that speaks against it."""
    assert prediction.found_precision is not None
    assert prediction.found_views is not None
    index, name = int(prediction.found_classes[row]), prediction.classes[prediction.found_classes[row]]
    right = float(prediction.found_precision[row])
    reasons: list[tuple[float, str]] = []  # each with the factor by which the box is right less often
    sure = _certainty(prediction, index)
    if sure <= -0.5:
        reasons.append(
            (0.3, f"the tag '{name}' is likely wrong: the model gives it {prediction.probabilities[index]:.0%}")
        )
    mirrored, scaled = map(float, prediction.found_views[row])
    if again and min(again) < MOVED:
        reasons.append(
            (max(min(again), 0.3), f"{sum(one < MOVED for one in again)} of {len(again)} other runs find it elsewhere")
        )
    if min(mirrored, scaled) < MOVED:
        where = "in the mirrored image" if mirrored <= scaled else "at another scale"
        reasons.append((1.0, f"{where} the {name} is found elsewhere"))  # the expected precision knows it
    wholes = _share_on_wholes(prediction, row)
    if wholes > LIMIT:
        reasons.append((max(1 - wholes, 0.3), f"may be a part: larger boxes around it are about as likely a {name}"))
    further = _further_objects(prediction, row, labelled)
    if further:
        reasons.append((0.9, f"{further} more of the class '{name}' may be in the image"))
    for factor, _ in reasons:
        right *= factor
    said = f"{right:.0%} likely right"
    return Usefulness(1 - right, f"{said}: {'; '.join(why for _, why in reasons)}" if reasons else said)


def _certainty(prediction: Prediction, index: int) -> float:
    """Return 1 where the class is surely in the image, 0 at the threshold of its tag, -1 where it surely is not."""
    probability, threshold = float(prediction.probabilities[index]), float(prediction.thresholds[index])
    room = 1 - threshold if probability >= threshold else threshold
    return (probability - threshold) / max(room, float(np.finfo(float).tiny))


def _share_on_wholes(prediction: Prediction, row: int) -> float:
    own = prediction.found_classes == prediction.found_classes[row]
    return float(
        share_of_wholes(prediction.found_boxes[row], prediction.found_boxes[own], prediction.found_scores[own])[0]
    )


def _further_objects(prediction: Prediction, row: int, labelled: LabelledImage) -> int:
    """Return how many boxes of the class, none of them selected, score well beside this one and lie apart from all others."""
    index = prediction.found_classes[row]
    own = np.flatnonzero(prediction.found_classes == index)
    odds = sigmoid(prediction.found_scores[own])
    likely = own[odds >= FURTHER_SHARE * odds.max()]
    kept, count = labelled.boxes[labelled.classes == index].astype(np.float64), 0
    for box in prediction.found_boxes[likely[np.argsort(-prediction.found_scores[likely], kind="stable")]].astype(
        np.float64
    ):
        if (_shared(box, kept) < APART).all():
            kept, count = np.concatenate((kept, box[None])), count + 1
    return count


def _shared(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the share of the smaller one of two boxes that lies in the other, for each of the others (N, 4)."""
    iou, sizes = box_iou(box[None], others)[0], area(others)
    return iou / (1 + iou) * (area(box) + sizes) / np.minimum(area(box), sizes)


def _without_box(prediction: Prediction, index: int) -> Usefulness:
    probability, name = float(prediction.probabilities[index]), prediction.classes[index]
    return Usefulness(1.0, f"no box for the tag '{name}', to which the model gives {probability:.0%}")


def review_order(images: Sequence[ImageUsefulness], labels: np.ndarray) -> np.ndarray:
    """Return the order (I,) in which images are looked at: the most useful ones first, and all classes in turn.

    `labels` (I, C) are the tags. The next image is one of the class that has been looked at least for its share of unsure boxes.
    """
    numbers = np.array([image.number for image in images], np.float64)
    present = np.asarray(labels) == PRESENT
    due = (numbers[:, None] * present / np.maximum(present.sum(axis=1, keepdims=True), 1)).sum(axis=0) ** 0.5  # (C,)
    seen, order = np.zeros(present.shape[1]), []
    queues = [list(np.flatnonzero(column)[np.argsort(numbers[column], kind="stable")]) for column in present.T]
    taken = np.zeros(len(numbers), bool)
    while any(queues):
        turn = np.where([bool(queue) for queue in queues], (seen + 1) / np.maximum(due, 1e-9), np.inf)
        image = queues[int(turn.argmin())].pop()
        if not taken[image]:
            taken[image] = True
            seen += present[image]
            order.append(image)
    rest = np.flatnonzero(~taken)
    return np.array([*order, *rest[np.argsort(-numbers[rest], kind="stable")]], np.int64)
