"""`dpl compare`: Deep Patch Learning and its peers, trained, measured and timed in one run."""

import csv
import gc
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.table import Table

from deep_patch_learning.common.atomic_files import read_json, write_whole
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import console, number, out
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.model.backbones.registry import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.choose import choose, seed_numbers
from deep_patch_learning.recipe.recipe import RENAMED, RENAMED_VALUES, Recipe
from deep_patch_learning.research.peers.catalogue import PEERS, chosen_peers
from deep_patch_learning.research.peers.contest import FIGURES, Contest, Outcome

RATES = ("train_samples_per_second", "test_images_per_second")
COLUMNS = (
    *("peer", "seed", *FIGURES, "samples", *RATES),
    *("scales", "patches", "backbone", "command", "machine", "date"),
)
RENAMED_COLUMNS = {"visits": "samples", "train_visits_per_second": "train_samples_per_second"}  # of earlier versions
Row = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What is compared: peers by name, on two splits of one data set, with one recipe and several seeds.

    The runs and `compare.csv` go to `out`. `hypotheses` is the number of crops of a test image, for HCP; `command` goes into
    the rows.
    """

    data: Path
    train_split: str | None
    test_split: str | None
    recipe: Recipe
    peers: Sequence[str]
    out: Path
    seeds: Sequence[int] = (0,)
    device: str = "auto"
    limit: int | None = None
    workers: int | None = None
    hypotheses: int = 500
    command: str = ""

    def settings(self) -> dict[str, Any]:
        """Return what must not change between the rows of one table, ready for JSON."""
        names = {"data": str(self.data.resolve()), "split": self.train_split, "test_split": self.test_split}
        recipe = {key: value for key, value in self.recipe.settings().items() if key not in ("seed", "heads")}
        return json.loads(json.dumps({**names, "limit": self.limit, "hypotheses": self.hypotheses, **recipe}))


@dataclass(frozen=True)
class Options:
    """The options of `dpl compare`, as they are typed."""

    data: Path
    split: str = "train"
    test_split: str = "val"
    peers: str = ",".join(PEERS)
    recipe: str = "modern"
    backbone: str | None = None
    weights: str | None = None
    steps: int | None = None
    seeds: str = "0"
    hypotheses: int = 500
    changes: Sequence[str] = ()
    out: Path = Path("dpl-compare")
    device: str = "auto"
    limit: int | None = None
    workers: int | None = None

    def comparison(self) -> Comparison:
        """Return the comparison; a name that is not known raises `RunError`."""
        given = {"backbone": self.backbone, "weights": self.weights, "steps": self.steps}
        return Comparison(
            data=self.data,
            train_split=self.split,
            test_split=self.test_split,
            recipe=choose(self.recipe, "both", 0, self.changes, {k: v for k, v in given.items() if v is not None}),
            peers=chosen_peers(self.peers),
            out=self.out,
            seeds=seed_numbers(self.seeds),
            device=self.device,
            limit=self.limit,
            workers=self.workers,
            hypotheses=self.hypotheses,
            command=self.command(),
        )

    def command(self) -> str:
        """Return the command with these options; of a path, the last part."""
        usual = Options(self.data)
        names = (
            "split",
            "test_split",
            "peers",
            "recipe",
            "backbone",
            "weights",
            "steps",
            "seeds",
            "hypotheses",
            "limit",
        )
        changed = [name for name in names if getattr(self, name) != getattr(usual, name)]
        values = {name: str(getattr(self, name)) for name in changed}
        if "weights" in values:
            values["weights"] = Path(values["weights"]).name
        words = [f"--{name.replace('_', '-')} {value}" for name, value in values.items()]
        return " ".join(["dpl compare", self.data.name, *words, *(f"--set {change}" for change in self.changes)])


def compare(options: Options) -> list[Row]:
    """Return a row for each peer and seed, after training and measuring those that `out/compare.csv` lacks."""
    return compare_peers(options.comparison())


def compare_peers(wanted: Comparison) -> list[Row]:
    """Return a row for each peer and seed, in the order asked for.

    Rows are written to `out/compare.csv` one by one, so that the same call resumes after an interruption; the run of each peer
    is in `out/PEER-seedN`. All peers have the same images, number of samples and backbone.
    """
    check_name(wanted.recipe.model.backbone)
    check_source(wanted.recipe.model.weights)
    about = {
        "backbone": wanted.recipe.model.backbone,
        "command": wanted.command,
        "machine": machine_name(wanted.device),
    }
    check_settings(wanted.out, wanted.settings())
    table = wanted.out / "compare.csv"
    rows = read_rows(table)
    finished = {(row["peer"], row["seed"]) for row in rows}
    pairs = [(peer, seed) for seed in wanted.seeds for peer in wanted.peers]
    if set(pairs) - finished:
        contest = _contest(wanted)
        wanted.out.mkdir(parents=True, exist_ok=True)
        write_whole(wanted.out / "settings.json", json.dumps(wanted.settings(), indent=1))
    for peer, seed in pairs:
        if (peer, seed) in finished:
            console.print(f"{peer}, seed {seed}: already measured, see {table}", markup=False)
            continue
        console.print(f"{peer}, seed {seed}", markup=False, style="bold")
        outcome = PEERS[peer](contest, wanted.recipe.replace(seed=seed), wanted.out / f"{peer}-seed{seed}")
        if outcome is not None:
            rows.append(_row(peer, seed, outcome) | about | {"date": date.today().isoformat()})
            write_whole(table, rows_to_csv(rows))
        _free_memory()
    order = {key: place for place, key in enumerate(pairs)}
    return sorted((r for r in rows if (r["peer"], r["seed"]) in order), key=lambda r: order[r["peer"], r["seed"]])


def _free_memory() -> None:
    """Free what the last peer held on the device; networks with hooks are in reference cycles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _contest(wanted: Comparison) -> Contest:
    patches = recipe_patches(wanted.recipe)
    tags = limited(read_tags(wanted.data, wanted.train_split), wanted.limit)
    tests = limited(read_tags(wanted.data, wanted.test_split, classes=tags.classes), wanted.limit)
    training = prepare(tags, patches, workers=wanted.workers)
    testing = prepare(tests, patches, workers=wanted.workers)
    truth = read_truth(wanted.data, testing.images)
    source = {"path": str(wanted.data.resolve()), "split": wanted.train_split, "limit": wanted.limit}
    return Contest(wanted.data, training, testing, truth, source, wanted.device, wanted.hypotheses)


def check_settings(out: Path, settings: dict[str, Any]) -> None:
    """Raise `RunError` for a folder with a comparison of other settings, or with other files; nothing is written."""
    if out.is_file():
        raise RunError(f"{out}: is a file. Give another folder with --out.")
    stored = out / "settings.json"
    if not stored.exists():
        if out.exists() and any(out.iterdir()):
            raise RunError(f"{out}: holds other files and no comparison. Give a new or empty folder with --out.")
        return
    found = read_json(stored, dict[str, Any], RunError, "Restore it, or give a new folder with --out.")
    before = dict(_present(*pair) for pair in found.items())
    keys = [key for key in {**before, **settings} if before.get(key) != settings.get(key)]
    if keys:
        changed = "; ".join(f"{key} was {before.get(key)!r}, now {settings.get(key)!r}" for key in keys)
        raise RunError(f"{out}: holds a comparison made with other settings: {changed}. Give a new folder with --out.")


def _present(key: str, value: Any) -> tuple[str, Any]:
    """Return the name and value of a setting as this version has them; an earlier one may have had others."""
    name = RENAMED.get(key, key)
    return name, RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value


def _row(peer: str, seed: int, outcome: Outcome) -> Row:
    figures = {key: _rounded(outcome.figures.get(key), 2) for key in FIGURES}
    rates = {key: _rounded(getattr(outcome, key), 3) for key in RATES}
    seen = {"scales": " ".join(map(str, outcome.scales)), "patches": round(outcome.patches)}
    return {"peer": peer, "seed": seed, **figures, "samples": outcome.samples, **rates, **seen}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)


def rows_to_csv(rows: Sequence[Row]) -> str:
    """Return rows as the text of a CSV; an unknown value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_rows(table: Path) -> list[Row]:
    """Return the rows of a CSV that `rows_to_csv` wrote, numbers as numbers; none where there is no file."""
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        reader.fieldnames = [RENAMED_COLUMNS.get(name, name) for name in reader.fieldnames or ()]
        if tuple(reader.fieldnames) != COLUMNS:
            raise RunError(f"{table}: its columns are not those of a comparison. Give a new folder with --out.")
        return [{key: _value(key, text) for key, text in row.items()} for row in reader]


def _value(key: str, text: str) -> Any:
    if key in ("seed", "samples", "patches"):
        return int(text)
    if key in (*FIGURES, *RATES):
        return float(text) if text else None
    return text


def show(rows: Sequence[Row], folder: Path) -> None:
    """Print the table of a comparison; the CSV has more columns."""
    table = Table(title=f"{folder / 'compare.csv'}", title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("peer", no_wrap=True)
    headings = ("seed", "mAP", "11pt", "CorLoc", "det. mAP", "samples/s", "images/s")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["peer"], str(row["seed"]), *(number(row[key]) for key in (*FIGURES, *RATES)))
    out.print(table)
    out.print("samples/s: training. images/s: testing, at all scales. Neither includes making the patches.")
