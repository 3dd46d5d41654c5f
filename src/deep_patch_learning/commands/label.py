"""`dpl label`: tags and a model -> a folder of labels, and a table of what was written."""

import os
from pathlib import Path
from typing import Any, TypedDict, Unpack

from rich.table import Table

from deep_patch_learning.commands.options import check_options, is_ray
from deep_patch_learning.common.errors import DataError, RunError, SettingError
from deep_patch_learning.common.progress import console
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.reviewed import reviewed_of, with_reviewed_tags
from deep_patch_learning.inference.box_trust import TrustingModel
from deep_patch_learning.inference.loading import ONNX, ModelOrRun, as_model
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.labels.select import BOXES_PER_CLASS, LabelRule
from deep_patch_learning.labels.write import LabelTarget, split_name, write_labels
from deep_patch_learning.patches.cache import default_folder
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder


class LabelOptions(TypedDict, total=False):
    """Which boxes are written, and how the data set is worked through.

    `min_score`: the probability that a box must reach, if not given that of a shown tag: 0.5, or the class's own where
    calibrated. `precision`: the expected precision that a box must reach, which takes three views of each image; it is then
    what the score of a label says. `boxes_per_class`: at most so many boxes of a class in an image, 1 if not given, for
    training all. `untagged`: boxes of classes that are not tagged too. `for_training`: labels to train a detector on, see
    `LabelRule`. `reviewed`: the store of `dpl review`, whose boxes and tags go before those found. `patches`: others than the
    run's, a generator's name or a proposal file. `limit`, `workers` and `device` as of `Work`. `engine`: `local`, or `ray` for
    many processes on the cluster at `address`, or on this machine without one; then `workers` are processes, and each shard of
    the output holds `shard_images` images.
    """

    min_score: float | None
    precision: float | None
    for_training: bool
    boxes_per_class: int | None
    untagged: bool
    reviewed: str | Path | None
    patches: str | Path | None
    limit: int | None
    workers: int | None
    device: str
    engine: str
    address: str | None
    shard_images: int | None


def label(
    data: str | Path,
    model: ModelOrRun = None,
    *,
    out: str | Path,
    format: str = "coco",
    split: str | None = None,
    **options: Unpack[LabelOptions],
) -> dict[str, Any]:
    """Return the counts, after finding boxes for the tags of `data` and writing them to the new folder `out`.

    `format` is coco, voc, yolo, label-studio, cvat, createml, fiftyone, imagefolder (Hugging Face) or parquet.
    `model` is a model, a run folder, an ONNX file, or None for the shipped model. Images without boxes are written as negatives.
    The folder appears whole or not at all. For `options` see `LabelOptions`:
    min_score, precision, boxes_per_class, untagged, for_training, reviewed, patches, limit, workers, device, engine, address,
    shard_images.

    With the engine `ray`, `data` may also be shards or at a URI, and `out` fills shard by shard: the same call goes on where
    one that was stopped ended.
    """
    check_options(options, LabelOptions, "label")
    rule = _rule(options)
    if is_ray(options.get("engine", "local"), options.get("address"), options.get("shard_images")):
        return _label_on_ray(data, model, Path(out), (format, split), rule, options)
    data, out = Path(data), Path(out)
    # what can fail at once fails before hours of predicting
    target = LabelTarget(out, format, split, _name(model))
    target.check()
    _refuse_inside(data, out)
    if not _finds_boxes(model):
        raise RunError(f"{_name(model)}: only classifies and finds no boxes. Train one with --heads both or discovery.")
    loaded = as_model(model, options.get("device", "auto"), options.get("patches"))
    target.check(loaded.classes)
    if rule.precision is not None:
        loaded = TrustingModel.of(loaded)
    images = limited(read_tags(data, split, classes=loaded.classes), options.get("limit"))
    target.check(images=images)
    store = options.get("reviewed")
    reviewed = {} if store is None else reviewed_of(store, images)
    images = with_reviewed_tags(images, reviewed)
    prepared = prepare(images, loaded.patch_generator, workers=options.get("workers"))
    try:
        predictions = predict_prepared(loaded, prepared, description="labelling")
        counts = write_labels(predictions, prepared.images, target, rule, reviewed)
    except KeyboardInterrupt:
        console.print(f"stopped: nothing was written to {out}. Repeat the command.", markup=False, soft_wrap=True)
        raise
    return {**counts, "broken": [str(path) for path, _ in prepared.broken]}


def _label_on_ray(
    data: str | Path, model: ModelOrRun, out: Path, kind: tuple[str, str | None], rule: LabelRule, options: LabelOptions
) -> dict[str, Any]:
    from deep_patch_learning.cluster.folder import PartsFolder
    from deep_patch_learning.cluster.label import check_format as check_shards
    from deep_patch_learning.cluster.label import fingerprint, label_on_ray
    from deep_patch_learning.cluster.parts import PART_IMAGES, read_parts
    from deep_patch_learning.cluster.runs import Asked
    from deep_patch_learning.cluster.work import LabelJob

    format, split = kind
    check_shards(format)
    if options.get("reviewed") is not None:
        raise SettingError("--reviewed: not with --engine ray. Label the reviewed images on one machine.")
    if isinstance(model, str | Path) and Path(model).suffix.lower() == ".onnx":
        raise SettingError(f"{model}: not with --engine ray. Give the folder of the run it was exported from.")
    folder = PartsFolder(out)
    folder.check()
    _refuse_inside(data, out)
    if not _finds_boxes(model):
        raise RunError(f"{_name(model)}: only classifies and finds no boxes. Train one with --heads both or discovery.")
    patches, device = options.get("patches"), options.get("device", "auto")
    loaded = as_model(model, "cpu", patches)
    parts = read_parts(data, split, loaded.classes, options.get("limit"), options.get("shard_images") or PART_IMAGES)
    given = model if isinstance(model, Model) else _from_root(model)
    where = default_folder()
    job = LabelJob(folder, given, device, patches, rule, format, split_name(split), where, loaded.classes)
    return label_on_ray(job, parts, fingerprint(loaded), Asked(options.get("address"), options.get("workers"), device))


def _from_root(model: Any) -> Any:
    """Return the paths of runs from the root, as other processes need them."""
    if model is None:
        return None
    return (
        str(Path(model).absolute()) if isinstance(model, str | Path) else [str(Path(one).absolute()) for one in model]
    )


def _refuse_inside(data: str | Path, out: Path) -> None:
    if Path(data).is_dir() and Path(os.path.realpath(out)).is_relative_to(os.path.realpath(data)):
        raise DataError(f"{out}: lies in the data set {data}. Give a folder outside it with --out.")


def _rule(options: LabelOptions) -> LabelRule:
    for_training = options.get("for_training", False)
    most = options.get("boxes_per_class") or (None if for_training else BOXES_PER_CLASS)
    asked = options.get("min_score"), most, options.get("untagged", False), options.get("precision")
    return LabelRule(*asked, for_training)


def _finds_boxes(model: ModelOrRun) -> bool:
    """Whether a model, or the run in a folder, has a head that scores patches."""
    if isinstance(model, Model):
        return model.finds_boxes
    if not isinstance(model, str | Path):
        return True  # the shipped model does; several runs are checked as they are loaded
    if Path(model).suffix.lower() == ONNX:
        return True  # no other is exported
    run = RunFolder(model)
    run.must_exist()
    return tuple(Recipe.load(run.config).model.heads) != ("classification",)


def _name(model: ModelOrRun) -> str:
    """Return a name for the model in messages and label files: that of its run folder where it was given as one."""
    return Path(model).resolve().name if isinstance(model, str | Path) else "deep-patch-learning"


def show(counts: dict[str, Any]) -> None:
    """Print the counts of each class, and where the labels are."""
    table = Table(title=f"{counts['images']} images", title_justify="left")
    table.add_column("class")
    mean = "mean score" if counts["precision"] is None else "expected right"
    for heading in ("images tagged", "boxes written", "abstained", mean):
        table.add_column(heading, justify="right")
    for name, row in counts["per_class"].items():
        table.add_row(name, *_cells(row))
    table.add_section()
    table.add_row("all", *_cells({**counts, "mean_score": _mean_score(counts)}), style="bold")
    stdout.print(table)
    if "shards_found_done" in counts:
        show_parts(counts)
        return
    if counts["turned_images"]:
        console.print(
            f"{counts['turned_images']} images are turned by an EXIF mark. The boxes are those of the upright image: "
            "train with a reader that turns images too.",
            style="yellow",
            markup=False,
        )
    if counts["tagged"] and counts["abstained"] == counts["tagged"]:
        console.print(
            f"no box of a tagged class reaches {_least(counts)}. Ask for less, or train longer.",
            style="yellow",
            markup=False,
        )
    for line in places(counts):
        stdout.print(line, soft_wrap=True)


def show_parts(counts: dict[str, Any]) -> None:
    """Print what a cluster did."""
    speed = counts["images_per_second"]
    if speed is None:
        stdout.print(f"all {counts['shards']} shards were done already: nothing was left to do")
    else:
        stdout.print(
            f"{counts['images_done_now']} images in {counts['seconds']:.1f} s, {speed:.1f} per second; "
            f"{counts['workers_replaced']} workers replaced"
        )
    if counts["broken"]:
        stdout.print(f"{counts['broken']} images cannot be read: {counts['folder']}/broken.jsonl", soft_wrap=True)
    stdout.print(f"{counts['format']} labels in {counts['folder']}: index.json, shards", soft_wrap=True)


def _least(counts: dict[str, Any]) -> str:
    least = counts["min_score"]
    if counts["precision"] is not None:
        return f"an expected precision of {counts['precision']:g}"
    if counts["for_training"] and least is None:
        least = 0
    return "the probability from which its tag is shown" if least is None else f"a score of {least:g}"


def places(counts: dict[str, Any]) -> list[str]:
    """Return the lines that say what was left without a box, and where the labels are."""
    folder = Path(counts["folder"])
    lines = [
        f"{counts['images_without_boxes']} of {counts['images']} images have no box; "
        f"{counts['abstained']} of {counts['tagged']} tags have none that reaches {_least(counts)}"
    ]
    if counts["left_out"]:
        lines.append(f"{len(counts['left_out'])} images are left out: a tag of theirs has no such box")
    if counts["precision"] is not None and counts["boxes"]:
        lines.append(f"{_mean_score(counts):.0%} of the {counts['boxes']} boxes are expected to be right (IoU of 0.5)")
    if counts["by_people"]:
        lines.append(f"{counts['by_people']} of the {counts['boxes']} boxes are those of people who reviewed them")
    if counts["parts"]:
        lines.append(f"{counts['parts']} of {counts['boxes']} boxes look like parts of an object: look at those first")
    lines.append(f"{counts['format']} labels in {folder}: {', '.join(counts['files'])}")
    if counts["format"] == "yolo":
        lines.append(f"train with: yolo detect train data={folder / 'data.yaml'}")
    if counts["format"] == "label-studio":
        root = Path(counts["image_root"])
        lines.append(f"Label Studio's document root: {root.parent}; local storage to add: {root}")
    return lines


def _cells(row: dict[str, Any]) -> list[str]:
    mean = "-" if row["mean_score"] is None else f"{row['mean_score']:.2f}"
    return [str(row["tagged"]), str(row["boxes"]), str(row["abstained"]), mean]


def _mean_score(counts: dict[str, Any]) -> float | None:
    rows = [row for row in counts["per_class"].values() if row["boxes"]]
    return sum(row["mean_score"] * row["boxes"] for row in rows) / counts["boxes"] if rows else None
