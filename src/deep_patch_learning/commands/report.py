"""The page of a finished run: predict on images that were held out where there are any, measure, and write."""

from collections.abc import Sequence
from pathlib import Path

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.report.build import build_report
from deep_patch_learning.report.held_out import held_out_split, images_of_run
from deep_patch_learning.report.page import write_report
from deep_patch_learning.runs.folder import RunFolder


def report_on_run(
    folder: Path,
    data: Path | None = None,
    split: str | None = None,
    out: Path | None = None,
    limit: int | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> Path:
    """Return the path of the page about the run in `folder`, on at most `limit` images of `data`, spread evenly.

    Without `data` and `split` they are those that the run held out; else those of a split that its data names and training
    did not see; where there is none, those of training.
    """
    run = RunFolder(folder)
    run.must_exist()
    model = load(folder, device)
    place, images, words = _chosen(run, model.classes, data, split)
    images = spread_evenly(images, limit)
    prepared = prepare(images, model.patch_generator, workers=workers)
    predictions = predict_prepared(model, prepared)
    truth = read_truth(place, prepared.images)
    figures = measure_predictions(predictions, prepared.images.labels, truth)
    with bar("report") as show:
        report = build_report(run, model, prepared, predictions, figures, truth, split=words, progress=show)
    return write_report(out or run.folder / "report.html", report)


def _chosen(
    run: RunFolder, classes: Sequence[str], data: Path | None, split: str | None
) -> tuple[Path, TaggedImages, str]:
    """Return where the images to show come from, the images, and the split's name: those given, else held-out ones."""
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
