"""The rows of a table, from all its trainings and seeds: figures with their spread, the paper's, and what differs."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import paper, verdicts
from deep_patch_learning.research.reproduce import results as rows
from deep_patch_learning.research.reproduce.bench import Bench, Measured, training_time
from deep_patch_learning.research.reproduce.differences import differences
from deep_patch_learning.research.reproduce.plan import Claim, Protocol, Splits, Table, Way
from deep_patch_learning.research.reproduce.verdicts import Spread, Verdict
from deep_patch_learning.runs.folder import RunFolder

PerClass = dict[str, Spread | None]


@dataclass(frozen=True)
class Row:
    """One row over its seeds: figures by measure, by class where they exist, and what differs from the paper's."""

    name: str
    figures: dict[str, Spread | None]
    paper: dict[str, float]
    by_class: dict[str, PerClass]
    tags_on: Splits
    boxes_on: Splits
    differs: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row, ready for JSON: for each measure the mean, and its deviation where there are several seeds."""
        known = {key: value for key, value in self.figures.items() if value is not None}
        return {
            "row": self.name,
            **{key: value.mean for key, value in known.items()},
            "deviation": {key: value.deviation for key, value in known.items() if value.deviation is not None},
            "paper": self.paper,
            "trained_on": self.tags_on.trained_on,
            "measured_on": self.tags_on.measured_on,
            "CorLoc_trained_on": self.boxes_on.trained_on,
            "CorLoc_measured_on": self.boxes_on.measured_on,
            "differs": self.differs,
        }


@dataclass(frozen=True)
class Result:
    """A finished table: its rows and the verdicts on its claims."""

    table: Table
    rows: list[Row]
    verdicts: list[tuple[Claim, Verdict]]

    def as_dict(self) -> dict[str, Any]:
        """Return the table, ready for JSON."""
        return {
            "rows": [row.as_dict() for row in self.rows],
            "claims": [verdicts.as_dict(claim, found) for claim, found in self.verdicts],
        }


def needed(protocol: Protocol, table: str, way: Way) -> list[Splits]:
    """Return what must be trained and measured for a row: for its tags and, where it finds boxes, for its CorLoc."""
    wanted = [protocol.classification]
    if "discovery" in way.recipe.heads and protocol.discovery(table) not in wanted:
        wanted.append(protocol.discovery(table))
    return wanted


def fill_table(bench: Bench, table: Table, seeds: Sequence[int], command: str) -> Result:
    """Return the table after training and measuring what it needs; each measured run adds a row to the CSVs at once."""
    found = [fill_row(bench, table, way, seeds, command) for way in table.ways]
    figures = {row.name: row.figures for row in found}
    return Result(table, found, [(claim, verdicts.judge(claim, figures)) for claim in table.claims])


def fill_row(bench: Bench, table: Table, way: Way, seeds: Sequence[int], command: str) -> Row:
    """Return one row of a table after training and measuring what it needs."""
    protocol = bench.protocol
    tags_on, boxes_on = protocol.classification, protocol.discovery(table.name)
    measured: dict[Splits, list[Measured]] = {splits: [] for splits in needed(protocol, table.name, way)}
    speeds: list[float | None] = []
    said: dict[str, None] = {}  # a set that keeps its order
    for seed in seeds:
        for splits, found in measured.items():
            found.append(bench.measured(way, seed, splits))
            differs = differences(
                way.recipe, protocol, splits, found[-1].images, bench.limit, ablation=way.paper is not None
            )
            said |= dict.fromkeys(differs.split("; ") if differs else [])
            _write(bench, table, way, seed, splits, found[-1], differs, command)
        log = bench.trained(way, seed, tags_on.trained_on).read_log()
        speeds.append(training_time(log)[1])
    tags, boxes = measured[tags_on], measured.get(boxes_on, [])
    return Row(
        name=way.name,
        figures=_figures(tags, boxes, speeds),
        paper={} if way.paper is None else {k: v for k, v in way.paper._asdict().items() if v is not None},
        by_class={"AP": _by_class(tags, "AP"), "CorLoc": _by_class(boxes, "CorLoc_per_class")},
        tags_on=tags_on,
        boxes_on=boxes_on,
        differs="; ".join(said),
    )


def _write(
    bench: Bench, table: Table, way: Way, seed: int, splits: Splits, found: Measured, differs: str, command: str
) -> None:
    recipe = way.recipe.replace(seed=seed)
    run = bench.trained(way, seed, splits.trained_on)
    row = rows.run_row(table.name, way.name, recipe, splits, found, run, differs, command)
    name = bench.protocol.name
    rows.merge_rows(bench.out / f"{name}_{table.name}.csv", rows.COLUMNS, rows.KEY, [row])
    by_class = rows.class_rows(way.run.replace("-", " "), row, found)
    rows.merge_rows(bench.out / f"{name}_per_class.csv", rows.CLASS_COLUMNS, rows.CLASS_KEY, by_class)


def _figures(
    tags: Sequence[Measured], boxes: Sequence[Measured], speeds: Sequence[float | None]
) -> dict[str, Spread | None]:
    hours = [None if speed is None else paper.SAMPLES / speed / 3600 for speed in speeds]
    return {
        "mAP": Spread.of([one.figures.get("mAP") for one in tags]),
        "mAP_11pt": Spread.of([one.figures.get("mAP_11pt") for one in tags]),
        "CorLoc": Spread.of([one.figures.get("CorLoc") for one in boxes]),
        "detection_mAP": Spread.of([one.figures.get("detection_mAP") for one in tags]),
        "seconds": Spread.of([one.seconds for one in tags]),
        "seconds_with_patches": Spread.of([one.seconds + one.patch_seconds for one in tags]),
        "samples_per_second": Spread.of(speeds),
        "training_hours": Spread.of(hours),
    }


def _by_class(measured: Sequence[Measured], key: str) -> PerClass:
    classes = measured[0].figures.get(key, {}) if measured else {}
    return {name: Spread.of([one.figures[key][name] for one in measured]) for name in classes}


FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP")
COLUMNS = (
    "table", "row", "seed", *FIGURES, "trained_on", "measured_on", "images", "samples", "backbone", "weights", "recipe",
    "scales", "patches", "training_seconds", "samples_per_second", "test_images_per_second", "patch_seconds",
    "differs", "command", "machine", "date",
)  # fmt: skip
KEY = (
    "table", "row", "seed", "trained_on", "measured_on", "images", "samples", "backbone", "weights", "recipe",
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
    "samples",
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
        "images": found.images,
        "samples": recipe.total_steps * recipe.batch_images,
        "backbone": recipe.backbone,
        "weights": weights_name(recipe),
        "recipe": recipe.name,
        "scales": " ".join(map(str, recipe.scales)),
        "patches": recipe.patches,
        "training_seconds": seconds,
        "samples_per_second": speed,
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
    about = {key: row[key] for key in ("seed", "backbone", "recipe", "samples", "trained_on", "measured_on")}
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
