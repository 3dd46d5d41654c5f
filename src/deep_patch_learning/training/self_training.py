"""Self-training round: finished runs find pseudo boxes on the training images, and the refinement of another learns from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from deep_patch_learning.common.atomic_files import sweep
from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.inference.loading import check_together, load
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.pseudo_boxes import (
    PseudoBoxes,
    read_pseudo_boxes,
    seeds_among,
    source_of,
    waiting,
    write_pseudo_boxes,
)
from deep_patch_learning.runs.folder import RunFolder, fingerprint
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.samples import Sample


@dataclass(frozen=True)
class PseudoBoxSource:
    """The runs that find pseudo boxes, as one ensemble, and how: at `scales`, those of the first run if not given.

    With `agreement` boxes have weights in the loss: see `weighted`.
    """

    runs: Sequence[str | Path] = ()
    device: str | None = None
    workers: int | None = None
    cache: Path | None = None
    scales: Sequence[int] | None = None
    agreement: bool = False


def check_pseudo_box_source(
    recipe: Recipe, out: str | Path, runs: Sequence[str | Path], classes: tuple[str, ...] | None = None
) -> None:
    """Raise `RunError` where pseudo boxes are wanted and cannot be had: at once, before any image is read.

    `classes` are those of the images, once they are known.
    """
    if recipe.refinement.seeds != "pseudo-boxes":
        return
    kept = RunFolder(out).pseudo_boxes
    if kept.exists():
        before = source_of(kept).get("boxes_from", [])
        if runs and before != _places(runs):
            whose = f"the boxes of {' and '.join(before)}" if before else "boxes that were handed to it"
            raise RunError(
                f"{out}: learns from {whose}. Repeat the first command to resume it, or give a new folder with --out."
            )
        return
    if not runs and waiting(out).exists():
        return
    if not runs:
        raise SettingError(
            "recipe: seeds = 'pseudo-boxes' needs the run that finds them. Name it with --pseudo-boxes-from RUN."
        )
    if len(runs) > 1:
        check_together(runs)
    for folder in runs:
        run = RunFolder(folder)
        run.must_be_finished()
        if tuple(Recipe.load(run.config).model.heads) == HEADS[:1]:
            raise RunError(f"{folder}: only classifies and finds no boxes. Give a run with --heads both or all.")
        if classes is not None and tuple(run.describe()["classes"]) != tuple(classes):
            raise RunError(
                f"{folder}: knows other classes than these images are tagged with. Train it on the same tags."
            )


def find_pseudo_boxes(
    prepared: Prepared, recipe: Recipe, out: str | Path, source: PseudoBoxSource | None = None
) -> list[PseudoBoxes] | None:
    """Return the boxes that the refinement of a run in `out` learns from; None where its seeds are not `pseudo-boxes`.

    The runs of the source find them now, unless that was done: they wait in a file beside `out` until the training begins, so
    that neither a failure nor other ranks make them again. Without runs those that wait there are taken as they are.
    """
    if recipe.refinement.seeds != "pseudo-boxes":
        return None
    images, source = prepared.images, source or PseudoBoxSource()
    check_pseudo_box_source(recipe, out, source.runs, images.classes)
    kept, found_before = RunFolder(out).pseudo_boxes, waiting(out)
    sweep(found_before.parent, found_before.name)
    if kept.exists():
        return read_pseudo_boxes(kept, images.names, images.classes)
    if not source.runs:
        return read_pseudo_boxes(found_before, images.names, images.classes)
    scales = source.scales or Recipe.load(RunFolder(source.runs[0]).config).seen_at
    described = _described(source.runs, scales, recipe, prepared) | ({"agreement": True} if source.agreement else {})
    if found_before.exists() and source_of(found_before) == described:
        return read_pseudo_boxes(found_before, images.names, images.classes)
    model = load(source.runs, source.device, scales)
    patched = prepare(images, model.patch_generator, source.cache, source.workers)
    predictions = list(predict_prepared(model, patched, description="pseudo boxes"))
    found = [
        boxes_of_tags(one, labels, recipe.refinement.seeds_per_class, recipe.refinement.seed_floor)
        for one, labels in zip(predictions, images.labels, strict=True)
    ]
    if source.agreement and len(source.runs) > 1:
        alone = [_best_boxes(load(run, source.device, scales), patched) for run in source.runs]
        found = [weighted(one, [boxes[index] for boxes in alone]) for index, one in enumerate(found)]
    found_before.parent.mkdir(parents=True, exist_ok=True)
    write_pseudo_boxes(found_before, described, images.names, images.classes, found)
    return found


def _best_boxes(model: Model, patched: Prepared) -> list[np.ndarray]:
    """Return the best box of each class (C, 4) that a model finds on each image."""
    return [one.best_boxes for one in predict_prepared(model, patched, description="agreement")]  # type: ignore[misc]


def weighted(found: PseudoBoxes, alone: Sequence[np.ndarray]) -> PseudoBoxes:
    """Return pseudo boxes with weights, given the best box of each class (C, 4) that each of several runs found alone.

    The weight of a tag's boxes is the square of the least IoU of its first one with the box of a run. Where the errors of the
    runs are independent, boxes on which they agree are right more often.
    """
    first = {int(index): found.boxes[row] for row, index in reversed([*enumerate(found.classes)])}
    least = {
        index: min(float(box_iou(box[None], own[index][None])[0, 0]) for own in alone) for index, box in first.items()
    }
    return found._replace(weights=np.array([least[int(index)] ** 2 for index in found.classes], np.float32))


def _described(runs: Sequence[str | Path], scales: Sequence[int], recipe: Recipe, prepared: Prepared) -> dict[str, Any]:
    """Return what pseudo boxes depend on."""
    return {
        "boxes_from": _places(runs),
        "weights_written": [RunFolder(run).weights.stat().st_mtime_ns for run in runs],
        "scales": list(scales),
        "boxes_per_class": recipe.refinement.seeds_per_class,
        "floor": recipe.refinement.seed_floor,
        "images": fingerprint(prepared.images),
    }


def _places(runs: Sequence[str | Path]) -> list[str]:
    return [str(Path(run).resolve()) for run in runs]


class PseudoBoxTrainer(Trainer):
    """A training whose refinement learns from pseudo boxes. They are added to the patches, as true boxes are in Fast R-CNN."""

    def __init__(
        self, *arguments: Any, pseudo_boxes: Sequence[PseudoBoxes], shown: Sequence[int] | None = None, **others: Any
    ) -> None:
        self.shown = shown  # the images of an epoch, where some are shown several times
        super().__init__(*arguments, **others)
        if len(pseudo_boxes) != len(self.dataset):
            raise ValueError(f"pseudo boxes of {len(pseudo_boxes)} images for {len(self.dataset)} images")
        self.pseudo_boxes = pseudo_boxes
        self.bare.refinement.two_stream.requires_grad_(False)  # whose place they take

    def entries(self) -> Sequence[int] | None:
        """Return the images of an epoch where some are shown several times; None: each once."""
        return self.shown

    def patches_of(self, sample: Sample) -> np.ndarray:
        """Return the patches that a sample draws, and after them the image's pseudo boxes."""
        return np.concatenate((super().patches_of(sample).astype(np.float32), self.pseudo_boxes[sample.image].boxes))

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the named loss terms of one micro-batch, those of the refinement from the pseudo boxes."""
        assert batch.counts is not None  # as `render` makes it
        own = [self.pseudo_boxes[sample.image] for sample in samples]
        seeds = seeds_among(batch.patches, batch.counts, own, labels.shape[1])
        return self.losses(self.network(batch), labels, batch, seeds)


def boxes_of_tags(prediction: Prediction, labels: np.ndarray, most: int = 1, floor: float = 0.5) -> PseudoBoxes:
    """Return the boxes that were found of the classes an image surely shows, 1 in `labels` (C,).

    The best one of each class, and up to `most` in all: further ones need `floor` times its probability.
    """
    if prediction.best_boxes is None:
        raise RunError(
            f"{prediction.name}: the run that boxes are to come from only classifies. Give one that finds boxes."
        )
    boxes, classes = [], []
    for index in np.flatnonzero(labels == 1):
        own = np.flatnonzero(prediction.found_classes == index)
        probability = 1 / (1 + np.exp(-prediction.found_scores[own].astype(np.float64)))
        likely = own[probability >= floor * probability.max(initial=0)]
        others = [
            box for box in prediction.found_boxes[likely] if not np.array_equal(box, prediction.best_boxes[index])
        ]
        boxes += [prediction.best_boxes[index], *others[: most - 1]]
        classes += [index] * (1 + len(others[: most - 1]))
    return PseudoBoxes(np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int64))
