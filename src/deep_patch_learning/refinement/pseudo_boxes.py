"""Pseudo boxes: what a finished run found on the training images, on which the refinement of the next run is trained."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.common.atomic_files import UnfitError, fitting, parsed, read_content, write_whole
from deep_patch_learning.common.errors import RunError, short
from deep_patch_learning.refinement.seeds import Seeds

LARGEST = 1 << 30  # bytes: the pseudo boxes of some million images


class PseudoBoxes(NamedTuple):
    """The boxes of one image: (B, 4) in its pixels, their classes (B,), and their weights (B,) in the loss, 1 if not given."""

    boxes: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None = None


def waiting(out: str | Path) -> Path:
    """Return the file beside the run folder `out` that keeps pseudo boxes until their training begins.

    A file under the name of earlier versions is used where it exists.
    """
    before = Path(out).with_name(f"{Path(out).name}-given-boxes.jsonl")
    return before if before.exists() else Path(out).with_name(f"{Path(out).name}-pseudo-boxes.jsonl")


def keep_pseudo_boxes(
    kept: Path, found_before: Path, names: Sequence[str], classes: Sequence[str], given: Sequence[PseudoBoxes]
) -> None:
    """Move the pseudo boxes of a training that begins into its run folder, unless they are there."""
    if kept.exists():
        found_before.unlink(missing_ok=True)
    elif found_before.exists():
        found_before.replace(kept)
    else:
        write_pseudo_boxes(kept, {}, names, classes, given)


def write_pseudo_boxes(
    path: Path, source: dict[str, Any], names: Sequence[str], classes: Sequence[str], given: Sequence[PseudoBoxes]
) -> None:
    """Write the source of the pseudo boxes and the boxes of all images as JSON lines, whole or not at all."""
    lines: list[dict[str, Any]] = [{"source": source}]
    for name, one in zip(names, given, strict=True):
        boxes = [[classes[c], *map(float, box)] for box, c in zip(one.boxes, one.classes, strict=True)]
        weights = {} if one.weights is None else {"weights": [round(float(weight), 4) for weight in one.weights]}
        lines.append({"image": name, "boxes": boxes} | weights)
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines))


def read_pseudo_boxes(path: Path, names: Sequence[str], classes: Sequence[str]) -> list[PseudoBoxes]:
    """Return what `write_pseudo_boxes` wrote for images of these names, or raise `RunError`."""
    numbers = {name: number for number, name in enumerate(classes)}
    try:
        lines = [fitting(parsed(line), _Line) for line in read_content(path, LARGEST).splitlines()[1:]]
        found = {line["image"]: _of_line(line, numbers) for line in lines}
        return [found[name] for name in names]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunError(
            f"{path}: is damaged or of other images ({short(error)}). Train again in a new folder."
        ) from None


class _Line(TypedDict):
    """The schema of a line of pseudo_boxes.jsonl after the first: boxes are [class, x1, y1, x2, y2]."""

    image: str
    boxes: list[list[str | float]]
    weights: NotRequired[list[float]]


def _of_line(line: _Line, numbers: dict[str, int]) -> PseudoBoxes:
    boxes = [(numbers[str(tag)], tuple(map(float, corners))) for tag, *corners in line["boxes"]]
    weights = np.array(line["weights"], np.float32) if "weights" in line else None
    corners = np.array([corners for _, corners in boxes], np.float32).reshape(len(boxes), 4)
    if not np.isfinite(corners).all() or (corners[:, 2:] < corners[:, :2]).any():
        raise ValueError(f"{line['image']}: a box ends before it begins")
    if weights is not None and (weights.shape != (len(boxes),) or not np.isfinite(weights).all()):
        raise ValueError(f"{line['image']}: {len(weights)} weights for {len(boxes)} boxes")
    return PseudoBoxes(corners, np.array([tag for tag, _ in boxes], np.int64), weights)


class _Source(TypedDict):
    source: dict[str, Any]


def source_of(path: Path) -> dict[str, Any]:
    """Return the source that `write_pseudo_boxes` wrote; {} for a damaged file."""
    try:
        return fitting(parsed(read_content(path, LARGEST).partition(b"\n")[0]), _Source)["source"]
    except UnfitError:
        return {}


def seeds_among(patches: Tensor, counts: Sequence[int], given: Sequence[PseudoBoxes], classes: int) -> Seeds:
    """Return as seeds the boxes at the end of each image's patches (P, 4), of which it has `counts`.

    Their scores are the boxes' weights. They are read there, not from `given`, since there they are scaled and mirrored with the
    image.
    """
    most = max((int(np.bincount(one.classes).max()) for one in given if len(one.classes)), default=1)
    rows = np.zeros((len(given), classes * most), np.int64)
    weights = np.zeros((len(given), classes * most), np.float32)
    ends = np.cumsum(counts)
    for image, one in enumerate(given):
        used = np.zeros(classes, np.int64)
        for row, index in enumerate(one.classes, start=int(ends[image]) - len(one.classes)):
            column = index * most + used[index]
            rows[image, column] = row
            weights[image, column] = 1 if one.weights is None else one.weights[row - int(ends[image])]
            used[index] += 1
    places, scores = (_sent(array, patches.device) for array in (rows, weights))
    boxes = patches.new_zeros(*places.shape, 4)
    if len(patches):
        boxes = patches.index_select(0, places.flatten()).view(*places.shape, 4)
    column_class = torch.arange(classes, device=patches.device).repeat_interleave(most)
    return Seeds(boxes, scores.to(patches.dtype), scores > 0, column_class)


def _sent(array: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
