"""The page of a finished run: predict again on some pictures, measure, and write."""

from pathlib import Path

from deep_patch_learning import verbs
from deep_patch_learning.data.tags import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.errors import RunError
from deep_patch_learning.predict import load
from deep_patch_learning.progress import bar
from deep_patch_learning.report.build import build_report
from deep_patch_learning.report.page import write_report
from deep_patch_learning.training.run import RunFolder


def report_on_run(
    folder: Path,
    data: Path | None = None,
    split: str | None = None,
    out: Path | None = None,
    limit: int | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> Path:
    """Return the path of the page about the run in `folder`, on pictures of `data` (those of training if not given)."""
    run = RunFolder(folder)
    about = run.describe()
    model = load(folder, device)
    if data is None:
        if not about.get("path"):
            raise RunError(f"{folder}: does not say what it was trained on. Give pictures with --data.")
        data, split = Path(about["path"]), split or about.get("split")
    pictures = verbs.limited(read_tags(data, split, classes=model.classes), limit)
    prepared = verbs.prepare(pictures, model.patch_generator, workers=workers)
    predictions = verbs.predict(model, prepared)
    truth = read_truth(data, prepared.pictures)
    figures = verbs.measure(predictions, prepared.pictures.labels, truth)
    with bar("report") as show:
        report = build_report(
            run, model, prepared, predictions, figures, truth, split=f"{data.name} {split or ''}".strip(), progress=show
        )
    return write_report(out or run.folder / "report.html", report)
