"""`dpl report`: one HTML page about a run, measured on held-out images where there are any."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from deep_patch_learning.commands.options import Work, check_options
from deep_patch_learning.common.atomic_files import must_be_replaceable
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.reviewed import judged_boxes, opened
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.evaluation.right_boxes import RightBoxes, right_boxes
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.report.build import MeasuredRun, build_report, held_out_split, images_of_run
from deep_patch_learning.report.page import MARK, write_report
from deep_patch_learning.runs.folder import RunFolder


def report(
    run: str | Path,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    out: str | Path | None = None,
    reviewed: str | Path | None = None,
    **work: Unpack[Work],
) -> Path:
    """Return the path of the page about a run, measured on images of `data`.

    Without `data` and `split` the images are those that the run held out; else those of a split that its data names and
    training did not see; where there is none, those of training. `reviewed` is a store of `dpl review`, that of the run if it
    has one: the page then shows how many boxes are right. For `work` see `Work`: workers, device, and limit, here
    so many images, spread evenly: 200 if not given.
    """
    check_options(work, Work, "report")
    folder = RunFolder(run)
    folder.must_exist()
    page_of_run = folder.folder / "report.html"
    written = Path(out) if out else page_of_run
    if os.path.realpath(written) != os.path.realpath(
        page_of_run
    ):  # what is in a run folder is ours, also of earlier versions
        must_be_replaceable(written, MARK, "report")
    model = load(run, work.get("device", "auto"))
    right = _right(folder, reviewed, model.classes)
    place, images, words = _chosen(folder, model.classes, None if data is None else Path(data), split)
    prepared = prepare(
        spread_evenly(images, work.get("limit", 200)), model.patch_generator, workers=work.get("workers")
    )
    predictions = list(predict_prepared(model, prepared))
    truth = read_truth(place, prepared.images)
    figures = measure_predictions(predictions, prepared.images.labels, truth)
    with bar("report") as show:
        page = build_report(
            MeasuredRun(folder, model, prepared, predictions, figures, truth, words, right), progress=show
        )
    return write_report(written, page)


def _right(run: RunFolder, reviewed: str | Path | None, classes: Sequence[str]) -> RightBoxes | None:
    """Return how many boxes are right by a store, that of the run if none is given; None where there is none."""
    store = run.review if reviewed is None else Path(reviewed)
    if reviewed is None and not store.exists():
        return None
    with opened(store) as file:
        return right_boxes(judged_boxes(file, classes))


def _chosen(
    run: RunFolder, classes: Sequence[str], data: Path | None, split: str | None
) -> tuple[Path, TaggedImages, str]:
    """Return the data set of the images to show, the images, and a name for them: those given, else held-out ones."""
    if data is not None:
        return data, read_tags(data, split, classes=classes), _words(data, split)
    about = run.describe()
    if not about.get("path"):
        raise RunError(f"{run.folder}: does not say what it was trained on. Give images with --data.")
    place = Path(about["path"])
    seen = images_of_run(run)
    if split is None and seen is not None:
        if seen.held_out is not None:
            return place, seen.held_out, _words(place, about.get("val_split") or "held out by the run")
        split = held_out_split(place, seen.trained)
    split = split or about.get("split")
    return place, read_tags(place, split, classes=classes), _words(place, split)


def _words(data: Path, split: str | None) -> str:
    return f"{data.name} {split or ''}".strip()


def spread_evenly(images: TaggedImages, most: int | None) -> TaggedImages:
    """Return at most so many images, from the first to the last at equal distances; all where `most` is None."""
    if most is None or most >= len(images):
        return images
    return images.subset(i * len(images) // most for i in range(most))
