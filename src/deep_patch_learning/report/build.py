"""A run, its predictions and its figures -> a report: what is shown, how much of it, and in which words."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deep_patch_learning import __version__
from deep_patch_learning.data.dataset import PRESENT, TaggedPictures
from deep_patch_learning.evaluation.matching import rule_in_words
from deep_patch_learning.predict import Model, Picture
from deep_patch_learning.prediction import Prediction
from deep_patch_learning.report.figures import loss_curve
from deep_patch_learning.report.page import CardGroup, Crop, Figure, FilterRow, Report
from deep_patch_learning.report.parts import FilterPatches, strongest_patches
from deep_patch_learning.report.pictures import jpeg_uri, judge, verdict_card
from deep_patch_learning.report.tables import TITLES, class_table, comparison_table, percent
from deep_patch_learning.training.run import RunFolder

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

_NOTES = {
    "mAP": "average precision of the tags, all-point, mean over the classes",
    "mAP_11pt": "the same by the 11-point rule of VOC 2007",
    "CorLoc": "pictures in which the best box of a tag lies on a true object, mean over the classes",
    "detection_mAP": "average precision of all boxes, as of a detector",
    "instance_recall": "true objects on which at least one found box lies",
}
_JUDGED = (
    "The best box of each of a picture's tags: green where it lies on a true object ({rule}), red where it does not; "
    "dashed white lines are the true boxes. Beside each tag: how likely the network thinks it is, and the overlap (IoU) "
    "of its box with the true one."
)
_UNJUDGED = (
    "Pictures with the best box of each of their tags, and how likely the network thinks the tag is. "
    "There are no true boxes here to judge them by: look for yourself."
)
_UNBOXED = "This network has no discovery head, and so no boxes: only how likely it thinks the tags of a picture are."
_SAMPLE = "The sample is drawn at random, spread over the classes: nothing is picked by its looks."
_FILTERS = (
    "Each part filter of the classification head scores every patch. These are the patches that the most telling "
    "filters respond to most, one per picture and best first, among {count} pictures; each filter stands under the "
    "class whose score it raises most (its classifier weight for the whole picture times the spread of its response)."
)
_NO_FILTERS = "This network has no classification head, and so no part filters to show."
_NOT_SEARCHED = "No picture was searched for the patches that the part filters respond to."


class WithPatches(Protocol):
    """Pictures and the patches of each, such as `verbs.Prepared`."""

    @property
    def pictures(self) -> TaggedPictures:
        """Return the pictures with their tags."""

    @property
    def patches(self) -> list[np.ndarray]:
        """Return the patches (P, 4) of each picture."""


def build_report(
    run: RunFolder,
    model: Model,
    prepared: WithPatches,
    predictions: Sequence[Prediction],
    figures: Mapping[str, Any],
    truth: "Sequence[TrueBoxes] | None" = None,
    *,
    title: str = "",
    split: str = "",
    comparison: Sequence[Mapping[str, Any]] | None = None,
    command: str = "",
    strict: bool = False,
    cards: int = 12,
    filters: int = 12,
    pictures_for_parts: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Return the report of a run, measured on `prepared`: `predictions` and `truth` are in the order of its pictures.

    `figures` is what `verbs.measure` gives. `comparison` is a list of rows, each a dict whose first key names the row.
    Up to `cards` right and as many wrong pictures are shown. The strongest patches of `filters` part filters are looked
    for in at most `pictures_for_parts` pictures, spread evenly: the network sees these once more, which takes the
    longest, and `progress(done, total)` hears of each.
    """
    pictures = prepared.pictures
    if not len(pictures) == len(predictions) == len(truth if truth is not None else predictions):
        boxes = "no" if truth is None else len(truth)
        raise ValueError(
            f"{len(pictures)} pictures, {len(predictions)} predictions, {boxes} true boxes; wanted as many of each"
        )
    groups, note = _found(prepared, predictions, truth, strict, cards)
    rows, filters_note = _filters(model, prepared, filters, pictures_for_parts, progress)
    log = run.read_log()
    return Report(
        title=title or f"Deep Patch Learning: {run.folder.resolve().name}",
        facts=_facts(run, pictures, log),
        measured_on=_measured_on(len(pictures), split, figures),
        figures=tuple(
            Figure(name, percent(figures[key]), _NOTES[key], kind)
            for key, (name, kind) in TITLES.items()
            if figures.get(key) is not None
        ),
        has_boxes=figures.get("CorLoc") is not None,
        comparison=comparison_table(comparison) if comparison else None,
        per_class=class_table(pictures.classes, figures),
        curve=loss_curve(log),
        narrow_curve=loss_curve(log, width=370, height=270),
        found=groups,
        found_note=note,
        filters=rows,
        filters_note=filters_note,
        settings=_settings(run),
        versions=_versions(run),
        command=command,
        footer=f"Made by deep_patch_learning {__version__} on {date.today().isoformat()}.",
    )


def _facts(run: RunFolder, pictures: TaggedPictures, log: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    facts = [f"{len(pictures.classes)} classes"]
    if log:
        facts.append(f"{log[-1]['step']:,} training steps")
    if log and log[-1].get("seconds"):
        seconds = float(log[-1]["seconds"])
        facts.append(f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes")
    return (*facts, f"run {run.folder}")


def _measured_on(count: int, split: str, figures: Mapping[str, Any]) -> str:
    where = f"{count:,} pictures" + (f" of the split “{split}”" if split else "")
    rule = figures.get("CorLoc_rule")
    return where + (f"; a box counts as right by the rule {_in_print(rule)}" if rule else "")


def _in_print(rule: str) -> str:
    return rule.replace(">=", "≥").replace(" ", "\N{NO-BREAK SPACE}", 2)  # "IoU ≥ 0.5" stays on one line


def _settings(run: RunFolder) -> dict[str, str]:
    if not run.config.exists():
        return {}
    settings = tomllib.loads(run.config.read_text(encoding="utf-8"))
    return {name.replace("_", " "): _plain(value) for name, value in settings.items()}


def _versions(run: RunFolder) -> dict[str, str]:
    return json.loads(run.versions.read_text(encoding="utf-8")) if run.versions.exists() else {}


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


@dataclass(frozen=True)
class _Drawer:
    """The pictures with what was found in each and what is true, to draw some of them."""

    pictures: TaggedPictures
    predictions: Sequence[Prediction]
    truth: "Sequence[TrueBoxes | None]"
    strict: bool

    def group(self, indices: Sequence[int], total: int, words: str, title: str, kind: str = "") -> CardGroup:
        """Return the drawn cards of the pictures at `indices`, which are some of a `total` that `words` describe."""
        cards = tuple(
            verdict_card(
                self.pictures.read(i), self.predictions[i], self.pictures.labels[i], self.truth[i], strict=self.strict
            )
            for i in indices
        )
        return CardGroup(title, f"{len(cards)} of the {total:,} pictures {words}", cards, kind)


def _found(
    prepared: WithPatches,
    predictions: Sequence[Prediction],
    truth: "Sequence[TrueBoxes] | None",
    strict: bool,
    count: int,
) -> tuple[tuple[CardGroup, ...], str]:
    """Return the groups of pictures to show and the sentences above them."""
    pictures = prepared.pictures
    true: list[TrueBoxes | None] = [None] * len(pictures) if truth is None else list(truth)
    rows = zip(predictions, pictures.labels, true, strict=True)
    finds = [judge(prediction, labels, boxes, strict=strict) for prediction, labels, boxes in rows]
    drawer = _Drawer(pictures, predictions, true, strict)
    if all(find.right is None for row in finds for find in row):
        tagged = {i: [find.class_index for find in row] for i, row in enumerate(finds) if row}
        group = drawer.group(spread(tagged, 2 * count), len(tagged), "that have a tag", "Pictures")
        boxed = any(find.box is not None for row in finds for find in row)
        return (group,), f"{_UNJUDGED if boxed else _UNBOXED} {_SAMPLE}"
    right = {
        i: [find.class_index for find in row] for i, row in enumerate(finds) if row and all(find.right for find in row)
    }
    wrong = {
        i: [find.class_index for find in row if find.right is False]
        for i, row in enumerate(finds)
        if any(find.right is False for find in row)
    }
    groups = (
        drawer.group(spread(right, count), len(right), "in which every box is right", "Found right", "right"),
        drawer.group(spread(wrong, count), len(wrong), "in which a box is wrong", "Found wrong", "wrong"),
    )
    rule = _in_print(rule_in_words(0.5, strict))
    return groups, f"{_JUDGED.format(rule=rule)} {_SAMPLE}"


def spread(classes_of: Mapping[int, Sequence[int]], count: int, seed: int = 0) -> list[int]:
    """Return `count` of the pictures, each once, taking from the classes in turn; the same for the same input.

    `classes_of` gives the class indices that a picture may stand for.
    """
    shuffled = np.random.default_rng(seed).permutation(list(classes_of)).tolist()
    waiting: dict[int, list[int]] = {}
    for picture in shuffled:
        for index in classes_of[picture]:
            waiting.setdefault(index, []).append(picture)
    chosen: dict[int, None] = {}  # a set that keeps its order
    while len(chosen) < count and any(waiting.values()):
        for index in sorted(waiting):
            left = [picture for picture in waiting[index] if picture not in chosen]
            if left and len(chosen) < count:
                chosen[left[0]] = None
            waiting[index] = left[1:]
    return list(chosen)


def _filters(
    model: Model, prepared: WithPatches, filters: int, most: int, progress: Callable[[int, int], None] | None
) -> tuple[tuple[FilterRow, ...], str]:
    if model.network.classification is None:
        return (), _NO_FILTERS
    pictures = prepared.pictures
    shown = min(len(pictures), most)
    indices = [i * len(pictures) // shown for i in range(shown)]

    def read() -> Iterator[Picture]:
        for done, index in enumerate(indices, 1):
            yield Picture(pictures.names[index], pictures.read(index), prepared.patches[index])
            if progress is not None:
                progress(done, shown)

    found = strongest_patches(model, read(), filters)
    note = _FILTERS.format(count=f"{shown:,}") if found else _NOT_SEARCHED
    return tuple(_filter_row(one, pictures) for one in found), note


def _filter_row(one: FilterPatches, pictures: TaggedPictures) -> FilterRow:
    column = pictures.classes.index(one.speaks_for)
    place = {name: index for index, name in enumerate(pictures.names)}
    tagged = sum(int(pictures.labels[place[patch.picture], column]) == PRESENT for patch in one.patches)
    crops = tuple(
        Crop(jpeg_uri(patch.crop, most_bytes=6_000), f"{patch.picture}, response {patch.response:.2f}")
        for patch in one.patches
    )
    return FilterRow(
        one.filter, one.speaks_for, f"{tagged} of {len(one.patches)} from pictures tagged {one.speaks_for}", crops
    )
