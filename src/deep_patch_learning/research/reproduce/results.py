"""The rows of a table over all its trainings and seeds: our figures, the paper's, and what differs; the CSVs of them."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.evaluation.measure import OTHERWISE
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers.contest import FIGURES
from deep_patch_learning.research.reproduce import paper, tables
from deep_patch_learning.research.reproduce.experiments import Experiments, Measured
from deep_patch_learning.research.reproduce.protocol import Protocol, Splits, differences
from deep_patch_learning.research.reproduce.tables import Claim, Spread, Table, Variant, Verdict
from deep_patch_learning.runs.folder import RunFolder, training_time

PerClass = dict[str, Spread | None]


@dataclass(frozen=True)
class Row:
    """One row over its seeds: figures by measure and by class, the paper's, and what differs from its experiment."""

    name: str
    figures: dict[str, Spread | None]
    paper: dict[str, float]
    by_class: dict[str, PerClass]
    tags_on: Splits
    boxes_on: Splits
    differs: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row, ready for JSON: the mean of each measure, and its deviation where there are several seeds."""
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
            "claims": [tables.as_dict(claim, found) for claim, found in self.verdicts],
        }


@dataclass(frozen=True)
class VariantRun:
    """One finished training and its figures on one list of images; `recipe` has its seed."""

    recipe: Recipe
    run: RunFolder
    splits: Splits
    found: Measured
    differs: str


def needed(protocol: Protocol, table: str, variant: Variant) -> list[Splits]:
    """Return what must be trained and measured for a row: for its tags and, where it finds boxes, for its CorLoc."""
    wanted = [protocol.classification]
    if "discovery" in variant.recipe.model.heads and protocol.discovery(table) not in wanted:
        wanted.append(protocol.discovery(table))
    return wanted


def fill_table(experiments: Experiments, table: Table, seeds: Sequence[int], command: str) -> Result:
    """Return the table after training and measuring what it lacks; each measured run adds its rows to the CSVs at once."""
    return _judged(table, [fill_row(experiments, table, variant, seeds, command) for variant in table.variants])


def _judged(table: Table, rows: list[Row]) -> Result:
    figures = {row.name: row.figures for row in rows}
    return Result(table, rows, [(claim, tables.judge(claim, figures)) for claim in table.claims])


def fill_row(experiments: Experiments, table: Table, variant: Variant, seeds: Sequence[int], command: str) -> Row:
    """Return one row of a table after training and measuring what it lacks."""
    protocol = experiments.protocol
    tags_on, boxes_on = protocol.classification, protocol.discovery(table.name)
    measured: dict[Splits, list[Measured]] = {splits: [] for splits in needed(protocol, table.name, variant)}
    speeds: list[float | None] = []
    clauses: dict[str, None] = {}  # a set that keeps its order
    for seed in seeds:
        for splits, found in measured.items():
            one = _variant_run(experiments, variant, seed, splits)
            found.append(one.found)
            clauses |= dict.fromkeys(one.differs.split("; ") if one.differs else [])
            _write_rows(experiments, table, variant, one, command)
        speeds.append(training_time(experiments.trained(variant, seed, tags_on.trained_on).read_log())[1])
    tags, boxes = measured[tags_on], measured.get(boxes_on, [])
    return Row(
        name=variant.name,
        figures=_figures(tags, boxes, speeds),
        paper={} if variant.paper is None else {k: v for k, v in variant.paper._asdict().items() if v is not None},
        by_class={"AP": _by_class(tags, "AP"), "CorLoc": _by_class(boxes, "CorLoc_per_class")},
        tags_on=tags_on,
        boxes_on=boxes_on,
        differs="; ".join(clauses),
    )


def _variant_run(experiments: Experiments, variant: Variant, seed: int, splits: Splits) -> VariantRun:
    found = experiments.measured(variant, seed, splits)
    ablation = variant.paper is not None
    differs = differences(variant.recipe, experiments.protocol, splits, found.images, experiments.limit, ablation)
    run = experiments.trained(variant, seed, splits.trained_on)
    return VariantRun(variant.recipe.replace(seed=seed), run, splits, found, differs)


def _write_rows(experiments: Experiments, table: Table, variant: Variant, one: VariantRun, command: str) -> None:
    row = {"table": table.name, "row": variant.name, "command": command, **run_row(one)}
    name = experiments.protocol.name
    merge_rows(experiments.out / f"{name}_{table.name}.csv", COLUMNS, KEY, [row])
    by_class = class_rows(variant.run.replace("-", " "), row, one.found)
    merge_rows(experiments.out / f"{name}_per_class.csv", CLASS_COLUMNS, CLASS_KEY, by_class)


def _figures(
    tags: Sequence[Measured], boxes: Sequence[Measured], speeds: Sequence[float | None]
) -> dict[str, Spread | None]:
    hours = [None if speed is None else paper.SAMPLES / speed / 3600 for speed in speeds]
    return {
        "mAP": Spread.of([one.figures.get("mAP") for one in tags]),
        "mAP_11pt": Spread.of([one.figures.get("mAP_11pt") for one in tags]),
        "CorLoc": Spread.of([one.figures.get("CorLoc") for one in boxes]),
        **{name: Spread.of([one.figures.get(name) for one in boxes]) for name in OTHERWISE},
        "detection_mAP": Spread.of([one.figures.get("detection_mAP") for one in tags]),
        "seconds": Spread.of([one.seconds for one in tags]),
        "seconds_with_patches": Spread.of([one.seconds + one.patch_seconds for one in tags]),
        "samples_per_second": Spread.of(speeds),
        "training_hours": Spread.of(hours),
    }


def _by_class(measured: Sequence[Measured], key: str) -> PerClass:
    classes = measured[0].figures.get(key, {}) if measured else {}
    return {name: Spread.of([one.figures[key][name] for one in measured]) for name in classes}


COLUMNS = (
    "table", "row", "seed", *FIGURES, *OTHERWISE, "trained_on", "measured_on", "images", "samples", "backbone", "weights",
    "recipe", "scales", "patches", "training_seconds", "samples_per_second", "test_images_per_second", "patch_seconds",
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
    "command",
    "machine",
    "date",
)
CLASS_KEY = tuple(column for column in CLASS_COLUMNS if column not in ("value", "command", "machine", "date"))


def run_row(one: VariantRun) -> dict[str, Any]:
    """Return the columns of one measured run: all but the table, the row's name and the command."""
    recipe, found = one.recipe, one.found
    seconds, speed = training_time(one.run.read_log())
    return {
        "seed": recipe.machine.seed,
        **{key: found.figures.get(key) for key in (*FIGURES, *OTHERWISE)},
        "trained_on": one.splits.trained_on,
        "measured_on": one.splits.measured_on,
        "images": found.images,
        "samples": recipe.total_steps * recipe.optimiser.batch_images,
        "backbone": recipe.model.backbone,
        "weights": weights_name(recipe),
        "recipe": recipe.name,
        "scales": " ".join(map(str, recipe.data.scales)),
        "patches": recipe.data.patches,
        "training_seconds": seconds,
        "samples_per_second": speed,
        "test_images_per_second": 1 / found.seconds,
        "patch_seconds": found.patch_seconds,
        "differs": one.differs,
        "machine": found.machine,
        "date": found.date,
    }


def weights_name(recipe: Recipe) -> str:
    """Return the weights of a recipe in short: a name such as imagenet, or a file name, with its run folder's if it has one."""
    path = Path(recipe.model.weights)
    return f"{path.parent.name}/{path.name}" if path.stem == "weights" else path.name


def class_rows(name: str, row: Mapping[str, Any], found: Measured) -> list[dict[str, Any]]:
    """Return the per-class rows of one measured run, whose row is `row`."""
    same = ("seed", "backbone", "recipe", "samples", "trained_on", "measured_on", "command", "machine", "date")
    about = {key: row[key] for key in same}
    return [
        {"row": name, "measure": measure, "class": label, "value": value, **about}
        for measure, key in BY_CLASS.items()
        for label, value in found.figures.get(key, {}).items()
        if value is not None
    ]


def merge_rows(path: Path, columns: Sequence[str], key: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows to a CSV, or make it; a row replaces one with the same key."""
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    for row in [*read_rows(path), *({column: _text(row[column]) for column in columns} for row in rows)]:
        kept[tuple(row.get(column, "") for column in key)] = row
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept.values())
    if not path.exists() or path.read_text(encoding="utf-8") != text.getvalue():
        write_whole(path, text.getvalue())


# columns of earlier versions
RENAMED = {"pictures": "images", "visits": "samples", "visits_per_second": "samples_per_second"}


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV, none when it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{RENAMED.get(key, key): value for key, value in row.items()} for row in csv.DictReader(file)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"
    return str(value)


PEER_NAMES = {"plain": "plain CNN", "hcp": "HCP", "svm": "SVM", "whole-image": "whole image"}


def fill_peers(experiments: Experiments, table: Table, seeds: Sequence[int], command: str) -> Result:
    """Return the table of peers after training and measuring what it lacks; our own row is the main table's training."""
    from deep_patch_learning.research.compare import Comparison, compare_peers

    variant, protocol = table.variants[0], experiments.protocol
    recipe, splits = variant.recipe, protocol.classification
    ours = fill_row(experiments, table, variant, seeds, command)
    out = experiments.group(recipe) / f"peers_{splits.trained_on}"
    wanted = Comparison(
        *(protocol.data, *splits, recipe, tuple(PEER_NAMES), out, seeds),
        *(experiments.device, experiments.limit, experiments.workers),
        command=command,
    )
    found = compare_peers(wanted)
    images = len(experiments.prepared(splits.measured_on, recipe).images)
    differs = differences(recipe, protocol, splits, images, experiments.limit)
    about = _peer_columns(recipe, splits) | {"images": images, "differs": differs}
    merge_rows(
        experiments.out / f"{protocol.name}_peers.csv", COLUMNS, KEY, [_peer_csv_row(one, about) for one in found]
    )
    network = paper.counterpart(recipe.model.backbone) or paper.VGG16
    ours.paper["mAP"] = paper.CLASSIFICATION[protocol.year][network].mean
    rows = [ours]
    for key, name in PEER_NAMES.items():
        figures = _peer_figures([one for one in found if one["peer"] == key])
        printed = paper.PEERS[protocol.year].get(key, {})
        theirs = {"mAP": printed[network]} if network in printed else {}
        rows.append(Row(name, figures, theirs, {}, splits, splits, differs))
    return _judged(table, rows)


def _peer_figures(found: Sequence[dict[str, Any]]) -> dict[str, Spread | None]:
    speeds = [one["test_images_per_second"] for one in found]
    return {
        **{measure: Spread.of([one[measure] for one in found]) for measure in FIGURES},
        "seconds": Spread.of([1 / speed if speed else None for speed in speeds]),
        "samples_per_second": Spread.of([one["train_samples_per_second"] for one in found]),
    }


def _peer_columns(recipe: Recipe, splits: Splits) -> dict[str, Any]:
    return {
        "table": "peers",
        "trained_on": splits.trained_on,
        "measured_on": splits.measured_on,
        "weights": weights_name(recipe),
        "recipe": recipe.name,
        "patches": recipe.data.patches,
    }


def _peer_csv_row(one: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    same = ("seed", *FIGURES, "samples", "scales", "backbone", "test_images_per_second", "command", "machine", "date")
    named = {"row": PEER_NAMES[one["peer"]], "samples_per_second": one["train_samples_per_second"]}
    return dict.fromkeys(COLUMNS) | {key: one[key] for key in same} | named | about
