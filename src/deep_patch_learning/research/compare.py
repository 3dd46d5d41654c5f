"""`dpl compare`: Deep Patch Learning and its peers, trained, measured and timed side by side in one run."""

import csv
import gc
import io
import json
import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.table import Table

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import console, number, out
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.model.backbones.catalogue import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers.catalogue import PEERS
from deep_patch_learning.research.peers.contest import FIGURES, Contest, Outcome

RATES = ("train_samples_per_second", "test_images_per_second")
COLUMNS = (
    *("peer", "seed", *FIGURES, "samples", *RATES),
    *("scales", "patches", "backbone", "command", "machine", "date"),
)
Row = dict[str, Any]


def compare(
    data: Path,
    train_split: str | None,
    test_split: str | None,
    recipe: Recipe,
    peers: Sequence[str],
    out: Path,
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    limit: int | None = None,
    workers: int | None = None,
    hypotheses: int = 500,
    command: str = "",
) -> list[Row]:
    """Return a row for each peer and seed, in the order they were asked for.

    Rows are written to `out/compare.csv` one by one, so that the same call again goes on where it was stopped; the run of
    each peer is in `out/PEER-seedN`. All peers see the same images, at the same samples, as often, with the same backbone.
    """
    check_name(recipe.backbone)
    check_source(recipe.weights)
    machine = machine_name(usable_device(device))
    settings = {"data": str(data.resolve()), "split": train_split, "test_split": test_split, "limit": limit}
    settings |= {"hypotheses": hypotheses}
    settings |= json.loads(json.dumps({k: v for k, v in vars(recipe).items() if k not in ("seed", "heads")}))
    check_settings(out, settings)
    table = out / "compare.csv"
    rows = read_rows(table)
    finished = {(row["peer"], row["seed"]) for row in rows}
    wanted = [(peer, seed) for seed in seeds for peer in peers]
    if set(wanted) - finished:
        contest = _contest(data, (train_split, test_split), recipe, limit, workers, device, hypotheses)
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "settings.json", json.dumps(settings, indent=1))
    for peer, seed in wanted:
        if (peer, seed) in finished:
            console.print(f"{peer}, seed {seed}: measured before, see {table}", markup=False)
            continue
        console.print(f"{peer}, seed {seed}", markup=False, style="bold")
        outcome = PEERS[peer](contest, recipe.replace(seed=seed), out / f"{peer}-seed{seed}")
        if outcome is not None:
            row = _row(peer, seed, outcome) | {"backbone": recipe.backbone, "command": command}
            rows.append(row | {"machine": machine, "date": date.today().isoformat()})
            write_whole(table, rows_to_csv(rows))
        _let_go()
    order = {key: place for place, key in enumerate(wanted)}
    return sorted((r for r in rows if (r["peer"], r["seed"]) in order), key=lambda r: order[r["peer"], r["seed"]])


def _let_go() -> None:
    """Free what the last peer held on the device; networks with hooks wait for the collector."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _contest(
    data: Path,
    splits: tuple[str | None, str | None],
    recipe: Recipe,
    limit: int | None,
    workers: int | None,
    device: str,
    hypotheses: int,
) -> Contest:
    patches = recipe_patches(recipe)
    tags = limited(read_tags(data, splits[0]), limit)
    tests = limited(read_tags(data, splits[1], classes=tags.classes), limit)
    training = prepare(tags, patches, workers=workers)
    testing = prepare(tests, patches, workers=workers)
    truth = read_truth(data, testing.images)
    source = {"path": str(data.resolve()), "split": splits[0], "limit": limit}
    return Contest(data, training, testing, truth, source, device, hypotheses)


def check_settings(out: Path, settings: dict[str, Any]) -> None:
    """Raise `RunError` if the folder holds a comparison with other settings, or other files; nothing is written."""
    if out.is_file():
        raise RunError(f"{out}: is a file. Give another folder with --out.")
    stored = out / "settings.json"
    if not stored.exists():
        if out.exists() and any(out.iterdir()):
            raise RunError(f"{out}: holds other files and no comparison. Give a new or empty folder with --out.")
        return
    try:
        before = json.loads(stored.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{stored}: is damaged ({error}). Restore it, or give a new folder with --out.") from None
    keys = [key for key in {**before, **settings} if before.get(key) != settings.get(key)]
    if keys:
        changed = "; ".join(f"{key} was {before.get(key)!r}, now {settings.get(key)!r}" for key in keys)
        raise RunError(f"{out}: holds a comparison made with other settings: {changed}. Give a new folder with --out.")


def _row(peer: str, seed: int, outcome: Outcome) -> Row:
    figures = {key: _rounded(outcome.figures.get(key), 2) for key in FIGURES}
    rates = {key: _rounded(getattr(outcome, key), 3) for key in RATES}
    seen = {"scales": " ".join(map(str, outcome.scales)), "patches": round(outcome.patches)}
    return {"peer": peer, "seed": seed, **figures, "samples": outcome.samples, **rates, **seen}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)


def rows_to_csv(rows: Sequence[Row]) -> str:
    """Return rows as the text of a CSV; what is not known is empty."""
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
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise RunError(f"{table}: its columns are not those of a comparison. Give a new folder with --out.")
        return [{key: _value(key, text) for key, text in row.items()} for row in reader]


def _value(key: str, text: str) -> Any:
    if key in ("seed", "samples", "patches"):
        return int(text)
    if key in (*FIGURES, *RATES):
        return float(text) if text else None
    return text


def machine_name(device: str) -> str:
    """Return what the comparison runs on."""
    what = (
        torch.cuda.get_device_name() if device == "cuda" else platform.machine() + (" mps" if device == "mps" else "")
    )
    return f"{what}, {os.cpu_count()} cores"


def show(rows: Sequence[Row], folder: Path) -> None:
    """Print the table of a comparison; the CSV says more."""
    table = Table(title=f"{folder / 'compare.csv'}", title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("peer", no_wrap=True)
    headings = ("seed", "mAP", "11pt", "CorLoc", "det. mAP", "samples/s", "images/s")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["peer"], str(row["seed"]), *(number(row[key]) for key in (*FIGURES, *RATES)))
    out.print(table)
    out.print("samples/s: training. images/s: testing, at all scales. Making patches counts in neither.")
