"""`dpl demo`: the whole way on the embedded world, with each head alone and naive boxes beside it."""

import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.progress import bar, console, number, out
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.data.world import World, make_world
from deep_patch_learning.evaluation.discovery import corloc
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import refined_world, self_training_round, world
from deep_patch_learning.recipe.recipe import HEADS, Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.self_training import find_pseudo_boxes

TITLES = {
    "second": "self-training round",
    "refined": "both heads and refinement",
    "both": "both heads (the paper)",
    "classification": "classification alone",
    "discovery": "discovery alone",
}
SHOWN = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP", "recall_at_80")


def ways(recipe: str, seed: int, steps: int | None = None) -> dict[str, Recipe]:
    """Return the recipe of each training, in their order: a refinement and a self-training round, or the paper's two heads."""
    if recipe not in ("refined-world", "world"):
        raise RunError(
            f"--recipe {recipe}: the demo has refined-world, which is the usual one, and world: the paper's two heads."
        )
    steps = steps or world().steps
    paper = world(steps=steps).replace(seed=seed)
    alone = {name: paper.replace(heads=(name,)) for name in HEADS}
    if recipe == "world":
        return {"both": paper, **alone}
    refined = refined_world(steps=steps).replace(seed=seed)
    return {"refined": refined, "second": self_training_round(refined), "both": paper, **alone}


def run_demo(
    out: Path,
    seed: int = 0,
    train: int = 600,
    test: int = 300,
    steps: int | None = None,
    recipe: str = "refined-world",
) -> dict[str, Any]:
    """Return the figures of the heads together, of each alone and of naive boxes, on images not trained on."""
    began = time.monotonic()
    recipes = ways(recipe, seed, steps)
    _must_be_free(out, seed)
    with bar("drawing the world") as show:
        listing = make_world(out / "world", train, test, seed, on_image=show)
    patches = recipe_patches(recipes["both"])
    training = prepare(read_tags(listing, "train"), patches, out / "patches")
    testing = prepare(read_tags(listing, "test"), patches, out / "patches")
    truth = read_truth(listing, testing.images)
    if truth is None:
        raise RuntimeError(f"{listing} holds no boxes")
    figures: dict[str, Any] = {}
    predictions = {}
    for name, chosen in recipes.items():
        source = {"path": str(listing), "split": "train"}
        given = find_pseudo_boxes(
            training, chosen, out / "runs" / name, [out / "runs" / "refined"], cache=out / "patches"
        )
        train_prepared(training, chosen, out / "runs" / name, source, description=name, given=given)
        predictions[name] = predict_prepared(load(out / "runs" / name), testing, 8, f"{name} on test images")
        measured = measure_predictions(predictions[name], testing.images.labels, truth)
        figures[name] = {key: measured[key] for key in SHOWN if key in measured} | {"measured": measured}
    figures["naive"] = naive_boxes(truth, testing.images.classes)
    shown = next(name for name in TITLES if name in recipes)
    report = _report(out, shown, figures, testing, predictions[shown], truth)
    for name in recipes:
        figures[name].pop("measured")
    return figures | {"report": str(report), "seed": seed, "seconds": round(time.monotonic() - began, 1)}


def _must_be_free(out: Path, seed: int) -> None:
    """Raise `RunError` before anything is drawn if the folder holds the demo of another seed."""
    settings = out / "world" / "settings.json"
    if out.is_file():
        raise RunError(f"{out}: is a file. Give another folder with --out.")
    if settings.exists() and json.loads(settings.read_text(encoding="utf-8"))["seed"] != seed:
        raise RunError(f"{out}: holds the demo of another seed. Give another folder with --out.")


def naive_boxes(
    truth: list[TrueBoxes], classes: tuple[str, ...], size: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Return the CorLoc of boxes that look at nothing: whole image, its middle half, and the best single centred size.

    The last tries every size in steps of a tenth of the sides and keeps the best in hindsight.
    """
    width, height = size or World().size

    def score(wide: float, high: float) -> float:
        box = np.array([width * (1 - wide), height * (1 - high), width * (1 + wide), height * (1 + high)]) / 2
        return corloc(np.broadcast_to(box, (len(truth), len(classes), 4)), truth, classes).mean

    shares = np.arange(1, 11) / 10
    best = max(itertools.product(shares, shares), key=lambda pair: score(*pair))
    found = {"whole_image": score(1, 1), "centre_box": score(0.5, 0.5), "best_single_size": score(*best)}
    return {"CorLoc": max(found.values()), **found, "best_size": [round(float(s), 1) for s in best]}


def _report(
    out: Path,
    shown: str,
    figures: dict[str, Any],
    testing: Prepared,
    predictions: list[Any],
    truth: list[TrueBoxes],
) -> Path:
    from deep_patch_learning.report.build import build_report
    from deep_patch_learning.report.page import write_report

    run = RunFolder(out / "runs" / shown)
    with bar("report") as show:
        report = build_report(
            run,
            load(run.folder),
            testing,
            predictions,
            figures[shown]["measured"],
            truth,
            title="The embedded world",
            split="test images",
            comparison=rows(figures),
            command="dpl demo",
            images_for_parts=60,
            progress=show,
        )
    return write_report(out / "report.html", report)


def rows(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the demo's table: what was measured, by name."""
    found = [
        {"name": title, **{key: figures[name].get(key) for key in SHOWN}}
        for name, title in TITLES.items()
        if name in figures
    ]
    wide, high = figures["naive"]["best_size"]
    naive = {
        "whole_image": "naive: whole image",
        "centre_box": "naive: middle half",
        "best_single_size": f"naive: best size {100 * wide:.0f}x{100 * high:.0f} %",
    }
    return found + [{"name": title, "CorLoc": figures["naive"][key]} for key, title in naive.items()]


def show(figures: dict[str, Any]) -> None:
    """Print the demo's table and where the report is."""
    table = Table(title="The embedded world, images not trained on", title_justify="left")
    table.add_column("", no_wrap=True)
    for key in SHOWN:
        table.add_column("recall at 80 %" if key == "recall_at_80" else key.replace("_", " "), justify="right")
    for row in rows(figures):
        table.add_row(row["name"], *(number(row.get(key)) for key in SHOWN))
    out.print(table)
    console.print(f"{figures['seconds']:.0f} s in all. Open {figures['report']}", markup=False)
