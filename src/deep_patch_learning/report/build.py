"""A measured run -> the page: what it shows, how much of it, in which words, and whether its images were trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from deep_patch_learning import __version__
from deep_patch_learning.data.dataset import ABSENT, PRESENT, TaggedImages
from deep_patch_learning.data.readers.read import named_splits, read_tags
from deep_patch_learning.evaluation.matching import rule_in_words
from deep_patch_learning.evaluation.right_boxes import RightBoxes
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.report.charts import loss_curve
from deep_patch_learning.report.images import CardMaker
from deep_patch_learning.report.opinions import Opinions
from deep_patch_learning.report.page import Headline, Notice, ReportPage
from deep_patch_learning.report.sections import (
    RANDOM_IMAGES,
    Progress,
    class_images,
    doubt_groups,
    explained_tags,
    filter_rows,
    page_budget,
    random_group,
    to_explain,
)
from deep_patch_learning.report.tables import (
    TITLES,
    WHERE,
    class_table,
    comparison_table,
    percent,
    right_table,
    trust_table,
)
from deep_patch_learning.runs.folder import RunFolder, training_time
from deep_patch_learning.runs.stages import read_record

if TYPE_CHECKING:
    from deep_patch_learning.data.truth import TrueBoxes

_NOTES = {
    "mAP": "average precision of the tags, all-point, mean over the classes",
    "CorLoc": "tags whose best box lies on a true object, mean over the classes",
    "detection_mAP": "average precision of all boxes, as for a detector",
    "recall_at_80": "true objects found at a precision of 80 %, mean over the classes",
}
_DOUBTS = (
    "Images in which the network and the tag disagree and the network is sure, the surest first. Check each: the lower the AP of "
    "a class, the more of these are errors of the network and not of the tags. The box is the network's best one for the class."
)
_JUDGED = "A box is green if it lies on a true object ({rule}) and red if not; dashed boxes are true."
_UNJUDGED = "There are no true boxes here, so boxes are not judged."
_UNBOXED = "This network has no discovery head and so no boxes, only the probabilities of the tags."
_FEWER_CLASSES = "The page has room for {shown} of the {all} classes: those with the lowest AP."
_EXPLAINED = (
    "The coloured box is the patch with the highest discovery score. The numbered patches are those through which part filters "
    "raise the classification score most, with their share of everything that raises it."
)
_FILTERS = (
    "Each part filter of the classification head scores every patch. Shown are the patches that the strongest filters respond to "
    "most, one per image and best first, among {count} images. A filter is listed under the class whose score it raises most: by "
    "its classifier weight for the whole image times the standard deviation of its response."
)
_NO_FILTERS = "This network has no classification head and so no part filters."
_NOT_SEARCHED = "No image was searched for the patches that the part filters respond to."


_RIGHT = (
    "People judged the boxes of images drawn at random. A box is right if they accepted it, or corrected it so little that the "
    "IoU is at least 0.5. The interval covers the true share 95 % of the time or more. A dash: no box of the class was drawn yet."
)


class WithPatches(Protocol):
    """Images and the patches of each, such as `Prepared`."""

    @property
    def images(self) -> TaggedImages:
        """Return the images with their tags."""

    @property
    def patches(self) -> Sequence[np.ndarray]:
        """Return the patches (P, 4) of each image."""


@dataclass(frozen=True)
class MeasuredRun:
    """A run and what it predicts: `predictions`, and `truth` where boxes are known, are in the order of `prepared`'s images.

    `figures` is what `measure_predictions` gives, `split` what the images are called. `right` is how many boxes are right, where
    people judged some.
    """

    run: RunFolder
    model: Model
    prepared: WithPatches
    predictions: Sequence[Prediction]
    figures: Mapping[str, Any]
    truth: "Sequence[TrueBoxes] | None" = None
    split: str = ""
    right: RightBoxes | None = None

    def __post_init__(self) -> None:
        images, found = len(self.prepared.images), len(self.predictions)
        if not images == found == len(self.truth if self.truth is not None else self.predictions):
            boxes = "no" if self.truth is None else len(self.truth)
            raise ValueError(f"{images} images, {found} predictions, {boxes} true boxes; wanted as many of each")


@dataclass(frozen=True)
class ReportOptions:
    """What a page shows besides the run.

    `comparison` has rows of other methods, each a dict whose first key names the row. `strict` is the IoU rule of `evaluate`.
    The part filters' strongest patches are searched in at most `images_for_parts` images, spread evenly.
    """

    title: str = ""
    comparison: Sequence[Mapping[str, Any]] | None = None
    command: str = ""
    strict: bool = False
    images_for_parts: int = 100


def build_report(
    measured: MeasuredRun, options: ReportOptions | None = None, progress: Progress | None = None
) -> ReportPage:
    """Return the page of a measured run.

    How much it shows depends on the number of classes (see `page_budget`). The images that are searched for part filters are
    predicted once more, which takes most of the time; `progress(done, total)` is called after each.
    """
    options, progress = options or ReportOptions(), progress or _no_progress
    run, model, figures, predictions = measured.run, measured.model, measured.figures, measured.predictions
    images, patches, truth = measured.prepared.images, measured.prepared.patches, measured.truth
    budget = page_budget(len(images.classes))
    true: list[TrueBoxes | None] = [None] * len(images) if truth is None else list(truth)
    maker = CardMaker(images, predictions, true, options.strict, budget.side, budget.image_bytes, {})
    opinions = Opinions.of(predictions, images.labels)
    explained = to_explain(opinions, [len(own) > 0 for own in patches])
    log = run.read_log()
    return ReportPage(
        title=options.title or f"Deep Patch Learning: {run.folder.resolve().name}",
        classes=images.classes,
        facts=_facts(run, images, log),
        notice=notice(images_of_run(run), images),
        measured_on=_measured_on(len(images), measured.split, figures),
        headlines=(*_right(measured.right), *_sureness(opinions), *_headlines(figures)),
        has_boxes=figures.get("CorLoc") is not None,
        comparison=comparison_table(options.comparison) if options.comparison else None,
        trust=trust_table(images.classes, figures, opinions),
        per_class=class_table(images.classes, figures),
        taught=_taught(run),
        right=None if measured.right is None else right_table(images.classes, measured.right),
        right_note=_RIGHT,
        doubts=doubt_groups(maker, opinions, budget.doubts),
        doubts_note=_DOUBTS,
        by_class=class_images(maker, opinions, figures, budget.classes, budget.per_class),
        by_class_note=_by_class_note(measured, options.strict, budget.classes),
        sample=random_group(maker, RANDOM_IMAGES),
        explained=explained_tags(model, maker, patches, explained, progress),
        explained_note=_EXPLAINED,
        filters=filter_rows(model, images, patches, budget.filters, options.images_for_parts, progress),
        filters_note=_filters_note(model, min(len(images), options.images_for_parts)),
        curve=loss_curve(log),
        narrow_curve=loss_curve(log, width=370, height=270),
        settings=_settings(run),
        versions=_versions(run),
        command=options.command,
        frame=_frame(predictions),
        footer=f"Made by deep_patch_learning {__version__} on {date.today().isoformat()}.",
    )


def _no_progress(done: int, total: int) -> None:
    """Ignore the progress."""


def _frame(predictions: Sequence[Prediction]) -> float:
    """Return the median aspect ratio of the images, from square to 3 : 2."""
    return float(np.clip(np.median([one.width / one.height for one in predictions]), 1.0, 1.5))


def _headlines(figures: Mapping[str, Any]) -> list[Headline]:
    return [
        Headline(name, percent(figures[key]), _NOTES[key], kind)
        for key, (name, kind) in TITLES.items()
        if key in _NOTES and figures.get(key) is not None
    ]


def _right(right: RightBoxes | None) -> list[Headline]:
    """Return the share of right boxes, where people judged images whole."""
    share = None if right is None else right.overall
    if share is None:
        return []
    low, high = percent(100 * share.low), percent(100 * share.high)
    note = f"{low} to {high} with 95 % confidence, from {share.judged:,} of {share.boxes:,} boxes that people judged"
    return [Headline("Boxes that are right", percent(100 * share.share), note, WHERE)]


def _taught(run: RunFolder) -> str:
    """Return what a run was trained on, in words."""
    if not run.reviewed.exists():
        return "tags alone, without boxes"
    count = len(run.reviewed.read_bytes().splitlines())
    return f"tags, and on the boxes of {count:,} images that people reviewed"


def _sureness(opinions: Opinions) -> list[Headline]:
    """Return the share of the tags that the network is sure of, and the number of tags to check."""
    classes = range(opinions.labels.shape[1])
    tagged = [opinions.counts(c, PRESENT) for c in classes]
    untagged = [opinions.counts(c, ABSENT) for c in classes]
    total = sum(counts.total for counts in tagged)
    sure, wrong = sum(counts.agrees for counts in tagged), sum(counts.against for counts in tagged)
    missing = sum(counts.against for counts in untagged)
    return [
        Headline(
            "Sure of the tags",
            percent(100 * sure / total if total else None),
            f"share of the {total:,} tags of these images whose presence the network is sure of",
        ),
        Headline(
            "Tags to check",
            f"{wrong + missing:,}",
            f"{wrong:,} likely wrong, {missing:,} likely missing",
        ),
    ]


def _by_class_note(measured: MeasuredRun, strict: bool, shown: int) -> str:
    """Return what the colours of the boxes mean, and which classes are shown where not all are."""
    boxed = any(one.best_boxes is not None for one in measured.predictions)
    rule = _JUDGED.format(rule=_in_print(rule_in_words(0.5, strict)))
    text = _UNBOXED if not boxed else _UNJUDGED if measured.truth is None else rule
    classes = len(measured.prepared.images.classes)
    return text if shown == classes else f"{text} {_FEWER_CLASSES.format(shown=shown, all=classes)}"


def _filters_note(model: Model, searched: int) -> str:
    if model.network.classification is None:
        return _NO_FILTERS
    return _FILTERS.format(count=f"{searched:,}") if searched else _NOT_SEARCHED


def _facts(run: RunFolder, images: TaggedImages, log: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    facts = [f"{len(images.classes)} classes"]
    if log:
        facts.append(f"{log[-1]['step']:,} training steps")
    seconds = training_time([entry for entry in log if "seconds" in entry]).seconds
    if seconds:
        facts.append(f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes")
    record = read_record(run)
    if record is not None:
        facts.append(
            f"network of {record.network}, {record.samples_in_all:,} samples in {len(record.stages)} trainings"
        )
    return (*facts, f"run {run.folder}")


def _measured_on(count: int, split: str, figures: Mapping[str, Any]) -> str:
    where = f"{count:,} images" + (f" of the split “{split}”" if split else "")
    rule = figures.get("CorLoc_rule")
    return where + (f"; a box is right if {_in_print(rule)}" if rule else "")


def _in_print(rule: str) -> str:
    return rule.replace(">=", "≥").replace(" ", "\N{NO-BREAK SPACE}", 2)  # "IoU ≥ 0.5" stays on one line


def _settings(run: RunFolder) -> dict[str, str]:
    if not run.config.exists():
        return {}
    settings = Recipe.load(run.config).settings()
    return {name.replace("_", " "): _plain(value) for name, value in settings.items()}


def _versions(run: RunFolder) -> dict[str, str]:
    return run.read_versions()


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


PREFERRED = ("val", "valid", "validation", "dev", "test")  # names of held-out splits, the likeliest first


class RunImages(NamedTuple):
    """The images that a run was trained on, and those that it held out, if any."""

    trained: TaggedImages
    held_out: TaggedImages | None


def images_of_run(run: RunFolder) -> RunImages | None:
    """Return the images of a run; None where it does not name them, or they are gone."""
    about = run.describe() if run.data.is_file() else {}
    if not about.get("path") or not Path(about["path"]).exists():
        return None
    return RunImages(*run.read_images())


def held_out_split(data: Path, trained: TaggedImages) -> str | None:
    """Return the name of a split of the data that shares no image with training, or None."""
    seen = set(trained.paths)
    names = named_splits(data)
    ranked = [name for name in PREFERRED if name in names] + [name for name in names if name not in PREFERRED]
    for name in ranked:
        images = read_tags(data, name, trained.classes)
        if len(images) and seen.isdisjoint(images.paths):
            return name
    return None


def notice(of_run: RunImages | None, images: TaggedImages) -> Notice:
    """Return whether the measured images were trained on: only figures on others show what the network has learned."""
    if of_run is None:
        return Notice("It is not known whether these images were trained on: the run's own images are gone.", "careful")
    shared = len(_real(of_run.trained).intersection(_real(images)))
    if not shared:
        return Notice("None of these images was trained on: expect the same figures on new images.", "good")
    how_many = "All" if shared == len(images) else f"{shared:,} of the {len(images):,}"
    return Notice(
        f"{how_many} images here were trained on: the figures are better than on new images, and the network may have "
        "memorised wrong tags. Give held-out images with --data and --split.",
        "careful",
    )


def _real(images: TaggedImages) -> set[Path]:
    return {path.resolve() for path in images.paths}
