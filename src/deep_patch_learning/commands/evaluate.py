"""`dpl evaluate`: a model on tagged images -> mAP and, where boxes are known, CorLoc and detection mAP."""

from pathlib import Path
from typing import Any, Unpack

from rich.table import Table

from deep_patch_learning.commands.options import Work, check_options
from deep_patch_learning.common.progress import number
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import OTHERWISE, measure_predictions
from deep_patch_learning.inference.loading import ModelOrRun, as_model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare

COLUMNS = {
    "mAP": "AP",
    "mAP_11pt": "AP_11pt",
    "CorLoc": "CorLoc_per_class",
    **{name: f"{name}_per_class" for name in OTHERWISE},
    "detection_mAP": "detection_AP",
}


def evaluate(
    data: str | Path,
    model: ModelOrRun = None,
    *,
    split: str | None = None,
    strict: bool = False,
    difficult: bool = True,
    **work: Unpack[Work],
) -> dict[str, Any]:
    """Return the figures of a model on the images of `data`, in per cent, per class and in the mean.

    `mAP` and `mAP_11pt` come from the tags; `CorLoc` and `detection_mAP` where `data` has boxes. `model` is a model, a run
    folder, or None for the shipped model. With `strict` an IoU of exactly 0.5 is a miss. CorLoc counts objects marked
    difficult, as in the paper, unless `difficult` is false; with the paper's heads alone it is measured by vote and by arg-max.
    For `work` see `Work`: limit, workers, device.
    """
    check_options(work, Work, "evaluate")
    loaded = as_model(model, work.get("device", "auto"))
    images = limited(read_tags(Path(data), split, classes=loaded.classes), work.get("limit"))
    prepared = prepare(images, loaded.patch_generator, workers=work.get("workers"))
    truth = read_truth(Path(data), prepared.images)
    predictions = predict_prepared(loaded, prepared)
    return measure_predictions(predictions, prepared.images.labels, truth, strict, difficult)


def show(figures: dict[str, Any], title: str) -> None:
    """Print the figures of an evaluation, per class and in the mean."""
    shown = {mean: by_class for mean, by_class in COLUMNS.items() if mean in figures}
    table = Table(title=f"{title}: {figures['images']} images", title_justify="left")
    table.add_column("class")
    for mean in shown:
        table.add_column(mean, justify="right")
    for name in figures["AP"]:
        table.add_row(name, *(number(figures[by_class][name]) for by_class in shown.values()))
    table.add_section()
    table.add_row("mean", *(number(figures[mean]) for mean in shown), style="bold")
    stdout.print(table)
    if "CorLoc_rule" in figures:
        stdout.print(f"CorLoc and detection count an IoU of {figures['CorLoc_rule']}")
