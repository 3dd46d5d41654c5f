"""A run, its predictions and its figures -> a report: what is shown, how much of it, and in which words."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deep_patch_learning import __version__
from deep_patch_learning.data.dataset import ABSENT, PRESENT, TaggedImages
from deep_patch_learning.evaluation.matching import rule_in_words
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.report.budget import SAMPLE, make_plan
from deep_patch_learning.report.figures import loss_curve
from deep_patch_learning.report.held_out import images_of_run, notice
from deep_patch_learning.report.images import CardMaker
from deep_patch_learning.report.opinions import Opinions
from deep_patch_learning.report.page import Figure, Report
from deep_patch_learning.report.sections import (
    Progress,
    class_images,
    doubt_groups,
    explain,
    filter_rows,
    sample_group,
    to_explain,
)
from deep_patch_learning.report.tables import TITLES, class_table, comparison_table, percent, trust_table
from deep_patch_learning.runs.folder import RunFolder

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

_NOTES = {
    "mAP": "average precision of the tags, all-point, mean over the classes",
    "CorLoc": "images in which the best box of a tag lies on a true object, mean over the classes",
    "detection_mAP": "average precision of all boxes, as of a detector",
    "recall_at_80": "true objects that are found while 80 % of the boxes are right, mean over the classes",
}
_DOUBTS = (
    "Images in which the network and the tag disagree and the network is sure, the surest first. Look at each: the lower the "
    "AP of a class, the more of these are mistakes of the network and not of the tags. The box is where the network sees the "
    "class, or where it would look for it."
)
_JUDGED = "A box is green where it lies on a true object ({rule}) and red where it does not; dashed boxes are true."
_UNJUDGED = "There are no true boxes here to judge the boxes by: look for yourself."
_UNBOXED = "This network has no discovery head, and so no boxes: only how likely it thinks the tags of an image are."
_FEWER_CLASSES = "The page has room for {shown} of the {all} classes: those with the lowest AP."
_REASONS = (
    "The coloured box is the patch that the discovery head scores highest. The numbered patches are those through which part "
    "filters raise the score of the classification head most, with their share of all that raises it."
)
_FILTERS = (
    "Each part filter of the classification head scores every patch. These are the patches that the most telling "
    "filters respond to most, one per image and best first, among {count} images; each filter stands under the "
    "class whose score it raises most (its classifier weight for the whole image times the spread of its response)."
)
_NO_FILTERS = "This network has no classification head, and so no part filters to show."
_NOT_SEARCHED = "No image was searched for the patches that the part filters respond to."


class WithPatches(Protocol):
    """Images and the patches of each, such as `Prepared`."""

    @property
    def images(self) -> TaggedImages:
        """Return the images with their tags."""

    @property
    def patches(self) -> list[np.ndarray]:
        """Return the patches (P, 4) of each image."""


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
    images_for_parts: int = 100,
    progress: Progress | None = None,
) -> Report:
    """Return the report of a run, measured on `prepared`: `predictions` and `truth` are in the order of its images.

    `figures` is what `measure` gives. `comparison` is a list of rows, each a dict whose first key names the row.
    How much is shown follows from the number of classes (see `budget`). The part filters' strongest patches are looked
    for in at most `images_for_parts` images, spread evenly: the network sees these once more, which takes the
    longest, and `progress(done, total)` hears of each.
    """
    images, hear = prepared.images, progress or _unheard
    if not len(images) == len(predictions) == len(truth if truth is not None else predictions):
        boxes = "no" if truth is None else len(truth)
        raise ValueError(
            f"{len(images)} images, {len(predictions)} predictions, {boxes} true boxes; wanted as many of each"
        )
    plan = make_plan(len(images.classes))
    true: list[TrueBoxes | None] = [None] * len(images) if truth is None else list(truth)
    maker = CardMaker(images, predictions, true, strict, plan.side, plan.image_bytes, {})
    opinions = Opinions.of(predictions, images.labels)
    explained = to_explain(opinions, [len(own) > 0 for own in prepared.patches])
    log = run.read_log()
    return Report(
        title=title or f"Deep Patch Learning: {run.folder.resolve().name}",
        classes=images.classes,
        facts=_facts(run, images, log),
        notice=notice(images_of_run(run), images),
        measured_on=_measured_on(len(images), split, figures),
        figures=(*_sureness(opinions), *_headlines(figures)),
        has_boxes=figures.get("CorLoc") is not None,
        comparison=comparison_table(comparison) if comparison else None,
        trust=trust_table(images.classes, figures, opinions),
        per_class=class_table(images.classes, figures),
        doubts=doubt_groups(maker, opinions, plan.doubts),
        doubts_note=_DOUBTS,
        by_class=class_images(maker, opinions, figures, plan.classes, plan.per_class),
        by_class_note=_by_class_note(predictions, truth, strict, plan.classes, len(images.classes)),
        sample=sample_group(maker, SAMPLE),
        reasons=explain(model, maker, prepared.patches, explained, hear),
        reasons_note=_REASONS,
        filters=filter_rows(model, images, prepared.patches, plan.filters, images_for_parts, hear),
        filters_note=_filters_note(model, min(len(images), images_for_parts)),
        curve=loss_curve(log),
        narrow_curve=loss_curve(log, width=370, height=270),
        settings=_settings(run),
        versions=_versions(run),
        command=command,
        frame=_frame(predictions),
        footer=f"Made by deep_patch_learning {__version__} on {date.today().isoformat()}.",
    )


def _unheard(done: int, total: int) -> None:
    """Stand for a progress that nobody listens to."""


def _frame(predictions: Sequence[Prediction]) -> float:
    """Return the width by height that suits most of the images, from square to 3 : 2."""
    return float(np.clip(np.median([one.width / one.height for one in predictions]), 1.0, 1.5))


def _headlines(figures: Mapping[str, Any]) -> list[Figure]:
    return [
        Figure(name, percent(figures[key]), _NOTES[key], kind)
        for key, (name, kind) in TITLES.items()
        if key in _NOTES and figures.get(key) is not None
    ]


def _sureness(opinions: Opinions) -> list[Figure]:
    """Return the share of the tags that the network is sure of, and in how many the two are to be compared."""
    classes = range(opinions.labels.shape[1])
    tagged = [opinions.counts(c, PRESENT) for c in classes]
    untagged = [opinions.counts(c, ABSENT) for c in classes]
    total = sum(counts.total for counts in tagged)
    sure, wrong = sum(counts.agrees for counts in tagged), sum(counts.against for counts in tagged)
    missing = sum(counts.against for counts in untagged)
    return [
        Figure(
            "Sure of the tags",
            percent(100 * sure / total if total else None),
            f"of the {total:,} tags of these images, the share that the network is sure is there",
        ),
        Figure(
            "Tags to check",
            f"{wrong + missing:,}",
            f"tags, of which {wrong:,} likely wrong and {missing:,} likely missing",
        ),
    ]


def _by_class_note(
    predictions: Sequence[Prediction], truth: "Sequence[TrueBoxes] | None", strict: bool, shown: int, classes: int
) -> str:
    """Return what the boxes mean, and which classes are shown where not all are."""
    boxed = any(one.best_boxes is not None for one in predictions)
    rule = _JUDGED.format(rule=_in_print(rule_in_words(0.5, strict)))
    said = _UNBOXED if not boxed else _UNJUDGED if truth is None else rule
    return said if shown == classes else f"{said} {_FEWER_CLASSES.format(shown=shown, all=classes)}"


def _filters_note(model: Model, searched: int) -> str:
    if model.network.classification is None:
        return _NO_FILTERS
    return _FILTERS.format(count=f"{searched:,}") if searched else _NOT_SEARCHED


def _facts(run: RunFolder, images: TaggedImages, log: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    facts = [f"{len(images.classes)} classes"]
    if log:
        facts.append(f"{log[-1]['step']:,} training steps")
    if log and log[-1].get("seconds"):
        seconds = float(log[-1]["seconds"])
        facts.append(f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes")
    return (*facts, f"run {run.folder}")


def _measured_on(count: int, split: str, figures: Mapping[str, Any]) -> str:
    where = f"{count:,} images" + (f" of the split “{split}”" if split else "")
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
