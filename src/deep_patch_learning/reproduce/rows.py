"""What is written down: a row per measured run in a CSV per table, and a row per class in a CSV of its own."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deep_patch_learning.reproduce.bench import Measured, training_time
from deep_patch_learning.reproduce.protocol import Splits
from deep_patch_learning.training.recipe import Recipe
from deep_patch_learning.training.run import RunFolder
from deep_patch_learning.whole_files import write_whole

FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP")
COLUMNS = (
    "table", "row", "seed", *FIGURES, "trained_on", "measured_on", "pictures", "visits", "backbone", "weights", "recipe",
    "scales", "patches", "training_seconds", "visits_per_second", "test_images_per_second", "patch_seconds",
    "differs", "command", "machine", "date",
)  # fmt: skip
KEY = (
    "table", "row", "seed", "trained_on", "measured_on", "pictures", "visits", "backbone", "weights", "recipe",
    "scales", "patches",
)  # fmt: skip
BY_CLASS = {
    "AP": "AP",
    "AP_11pt": "AP_11pt",
    "CorLoc": "CorLoc_per_class",
    "detection_AP": "detection_AP",
}
CLASS_COLUMNS = (
    "row",
    "seed",
    "measure",
    "class",
    "value",
    "backbone",
    "recipe",
    "visits",
    "trained_on",
    "measured_on",
)
CLASS_KEY = tuple(column for column in CLASS_COLUMNS if column != "value")


def run_row(
    table: str, name: str, recipe: Recipe, splits: Splits, found: Measured, run: RunFolder, differs: str, command: str
) -> dict[str, Any]:
    """Return the row of one measured run."""
    seconds, speed = training_time(run.read_log())
    return {
        "table": table,
        "row": name,
        "seed": recipe.seed,
        **{key: found.figures.get(key) for key in FIGURES},
        "trained_on": splits.trained_on,
        "measured_on": splits.measured_on,
        "pictures": found.pictures,
        "visits": recipe.total_steps * recipe.batch_images,
        "backbone": recipe.backbone,
        "weights": weights_name(recipe),
        "recipe": recipe.name,
        "scales": " ".join(map(str, recipe.scales)),
        "patches": recipe.patches,
        "training_seconds": seconds,
        "visits_per_second": speed,
        "test_images_per_second": 1 / found.seconds,
        "patch_seconds": found.patch_seconds,
        "differs": differs,
        "command": command,
        "machine": found.machine,
        "date": found.date,
    }


def weights_name(recipe: Recipe) -> str:
    """Return the weights of a recipe: a name such as imagenet, or a file's name, with its folder's in a run folder."""
    path = Path(recipe.weights)
    return f"{path.parent.name}/{path.name}" if path.stem == "weights" else path.name


def class_rows(name: str, row: Mapping[str, Any], found: Measured) -> list[dict[str, Any]]:
    """Return the rows by class of one measured run, whose own row is `row`."""
    about = {key: row[key] for key in ("seed", "backbone", "recipe", "visits", "trained_on", "measured_on")}
    return [
        {"row": name, "measure": measure, "class": label, "value": value, **about}
        for measure, key in BY_CLASS.items()
        for label, value in found.figures.get(key, {}).items()
        if value is not None
    ]


def merge_rows(path: Path, columns: Sequence[str], key: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows to a CSV, or make it; a row whose key is already there takes the old one's place."""
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    for row in [*read_rows(path), *({column: _text(row[column]) for column in columns} for row in rows)]:
        kept[tuple(row.get(column, "") for column in key)] = row
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept.values())
    if not path.exists() or path.read_text(encoding="utf-8") != text.getvalue():
        write_whole(path, text.getvalue())


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV, none when it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"
    return str(value)
