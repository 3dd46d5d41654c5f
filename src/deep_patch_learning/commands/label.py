"""What `dpl label` does: tags and a model in, a folder of labels and a table out."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.labels.select import Choice
from deep_patch_learning.labels.write import check_folder, check_format, write_labels

out = Console(highlight=False, markup=False)


def label(
    data: Path,
    model: Path,
    format: str,
    folder: Path,
    split: str | None = None,
    choice: Choice | None = None,
    limit: int | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Return the counts, after finding boxes in the images of `data` and writing them to `folder`."""
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.inference.loading import load
    from deep_patch_learning.inference.stream import predict_prepared
    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.recipe.recipe import Recipe
    from deep_patch_learning.runs.folder import RunFolder

    choice = choice or Choice()
    # what can fail at once fails before hours of predicting
    check_format(format)
    check_folder(folder)
    if data.is_dir() and folder.resolve().is_relative_to(data.resolve()):
        raise DataError(f"{folder}: lies in the data set {data}. Give a folder outside it with --out.")
    run = RunFolder(model)
    run.must_exist()
    if tuple(Recipe.load(run.config).heads) == ("classification",):
        raise RunError(f"{model}: only classifies and finds no boxes. Train one with --heads both or discovery.")
    loaded = load(model, device)
    images = limited(read_tags(data, split, classes=loaded.classes), limit)
    prepared = prepare(images, loaded.patch_generator, workers=workers)
    try:
        predictions = predict_prepared(loaded, prepared, description="labelling")
    except KeyboardInterrupt:
        console.print(f"stopped: nothing was written to {folder}. Repeat the command.", markup=False, soft_wrap=True)
        raise
    counts = write_labels(
        predictions,
        prepared.images,
        folder,
        format,
        split=split,
        min_score=choice.min_score,
        boxes_per_class=choice.boxes_per_class,
        untagged=choice.untagged,
        model_version=model.resolve().name,
    )
    return {**counts, "broken": [str(path) for path, _ in prepared.broken]}


def show(counts: dict[str, Any]) -> None:
    """Print the counts of each class, and where the labels are."""
    table = Table(title=f"{counts['images']} images", title_justify="left")
    table.add_column("class")
    for heading in ("images tagged", "boxes written", "abstained", "mean score"):
        table.add_column(heading, justify="right")
    for name, row in counts["per_class"].items():
        table.add_row(name, *_cells(row))
    table.add_section()
    table.add_row("all", *_cells({**counts, "mean_score": _mean_score(counts)}), style="bold")
    out.print(table)
    if counts["turned_images"]:
        console.print(
            f"{counts['turned_images']} images are turned by an EXIF mark. The boxes are those of the upright image: "
            "train with a reader that turns images too.",
            style="yellow",
            markup=False,
        )
    if counts["tagged"] and counts["abstained"] == counts["tagged"]:
        console.print(
            f"no box of a tagged class reaches {_least(counts)}. Lower --min-score, or train longer.",
            style="yellow",
            markup=False,
        )
    for line in places(counts):
        out.print(line, soft_wrap=True)


def _least(counts: dict[str, Any]) -> str:
    least = counts["min_score"]
    return "the probability from which its tag is shown" if least is None else f"a score of {least:g}"


def places(counts: dict[str, Any]) -> list[str]:
    """Return the lines that say what was left without a box, and where the labels are."""
    folder = Path(counts["folder"])
    lines = [
        f"{counts['images_without_boxes']} of {counts['images']} images have no box; "
        f"{counts['abstained']} of {counts['tagged']} tags have none that reaches {_least(counts)}"
    ]
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
