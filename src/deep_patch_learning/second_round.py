"""The step before a second round: finished runs find, on the training pictures, the boxes that another is to learn from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deep_patch_learning import verbs
from deep_patch_learning.errors import RunError
from deep_patch_learning.loading import check_together, load
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.training.given_boxes import (
    GivenBoxes,
    boxes_of_tags,
    read_given,
    source_of,
    waiting,
    write_given,
)
from deep_patch_learning.training.recipe import Recipe
from deep_patch_learning.training.run import RunFolder, fingerprint


def check_teacher(
    recipe: Recipe, out: str | Path, teachers: Sequence[str | Path], classes: tuple[str, ...] | None = None
) -> None:
    """Raise `RunError` where given boxes are wanted and cannot be had: at once, before any picture is looked at.

    `classes` are those of the pictures, once they are known.
    """
    if recipe.seeds != "given":
        return
    kept = RunFolder(out).given_boxes
    if kept.exists():
        before = source_of(kept).get("boxes_from", [])
        if teachers and before != _places(teachers):
            whose = f"the boxes of {' and '.join(before)}" if before else "boxes that were handed to it"
            raise RunError(
                f"{out}: learns from {whose}. Repeat the first command to resume it, or give a new folder with --out."
            )
        return
    if not teachers and waiting(out).exists():
        return
    if not teachers:
        raise RunError("recipe: seeds = 'given' needs the run whose boxes are given. Name it with --boxes-from RUN.")
    if len(teachers) > 1:
        check_together(teachers)
    for teacher in teachers:
        run = RunFolder(teacher)
        run.must_be_finished()
        if tuple(Recipe.load(run.config).heads) == HEADS[:1]:
            raise RunError(f"{teacher}: only classifies and finds no boxes. Give a run with --heads both or all.")
        if classes is not None and tuple(run.describe()["classes"]) != tuple(classes):
            raise RunError(
                f"{teacher}: knows other classes than these pictures are tagged with. Train it on the same tags."
            )


def find_given(
    prepared: verbs.Prepared,
    recipe: Recipe,
    out: str | Path,
    teachers: Sequence[str | Path] = (),
    device: str | None = None,
    workers: int | None = None,
    cache: Path | None = None,
    scales: Sequence[int] | None = None,
) -> list[GivenBoxes] | None:
    """Return the boxes that the refinement of a run in `out` is to learn from, or None where the recipe does not say `given`.

    The runs `teachers`, asked as one and at `scales` (those of the first, if not given), find them now, unless that was done:
    they wait in a file beside `out` until the training begins, so that neither a failure nor the processes of other devices
    cost them again. Without teachers those that wait there are taken as they are.
    """
    if recipe.seeds != "given":
        return None
    pictures = prepared.pictures
    check_teacher(recipe, out, teachers, pictures.classes)
    kept, found_before = RunFolder(out).given_boxes, waiting(out)
    if kept.exists():
        return read_given(kept, pictures.names, pictures.classes)
    if not teachers:
        return read_given(found_before, pictures.names, pictures.classes)
    scales = scales or Recipe.load(RunFolder(teachers[0]).config).seen_at
    source = _source(teachers, scales, recipe, prepared)
    if found_before.exists() and source_of(found_before) == source:
        return read_given(found_before, pictures.names, pictures.classes)
    model = load(teachers, device, scales)
    patched = verbs.prepare(pictures, model.patch_generator, cache, workers)
    predictions = verbs.predict(model, patched, description="boxes to learn from")
    given = [
        boxes_of_tags(one, labels, recipe.seeds_per_class, recipe.seed_floor)
        for one, labels in zip(predictions, pictures.labels, strict=True)
    ]
    found_before.parent.mkdir(parents=True, exist_ok=True)
    write_given(found_before, source, pictures.names, pictures.classes, given)
    return given


def _source(
    teachers: Sequence[str | Path], scales: Sequence[int], recipe: Recipe, prepared: verbs.Prepared
) -> dict[str, Any]:
    """Return what the boxes depend on."""
    return {
        "boxes_from": _places(teachers),
        "weights_written": [RunFolder(teacher).weights.stat().st_mtime_ns for teacher in teachers],
        "scales": list(scales),
        "boxes_per_class": recipe.seeds_per_class,
        "floor": recipe.seed_floor,
        "pictures": fingerprint(prepared.pictures),
    }


def _places(teachers: Sequence[str | Path]) -> list[str]:
    return [str(Path(teacher).resolve()) for teacher in teachers]
