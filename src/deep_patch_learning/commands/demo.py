"""`dpl demo`: from tags to measured boxes on the synthetic data set, beside naive boxes."""

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from deep_patch_learning.common.atomic_files import must_be_replaceable, read_json
from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.common.progress import bar, console, number
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.data.world import World, make_world
from deep_patch_learning.evaluation.discovery import corloc
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import refined_world, self_training_round, world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes

TITLES = {
    "second": "self-training round",
    "refined": "both heads and refinement",
    "both": "both heads (the paper)",
    "classification": "classification alone",
    "discovery": "discovery alone",
}
SHOWN = ("mAP", "mAP_11pt", "CorLoc", "CorLoc_argmax", "detection_mAP", "recall_at_80")


def ways(recipe: str, seed: int, steps: int | None = None, all_heads: bool = False) -> dict[str, Recipe]:
    """Return the recipe of each training, in their order: a refinement, the paper's two heads, a self-training round.

    Of `world` it is the paper's two heads alone. With `all_heads` each of the two heads alone follows.
    """
    if recipe not in ("refined-world", "world"):
        raise SettingError(
            f"--recipe {recipe}: the demo has refined-world, which is the usual one, and world: the paper's two heads."
        )
    steps = steps or world().optimiser.steps
    paper = world(steps=steps).replace(seed=seed)
    alone = {name: paper.replace(heads=(name,)) for name in HEADS} if all_heads else {}
    if recipe == "world":
        return {"both": paper, **alone}
    refined = refined_world(steps=steps).replace(seed=seed)
    return {"refined": refined, "both": paper, "second": self_training_round(refined), **alone}


def demo(
    out: str | Path | None = None,
    *,
    seed: int = 0,
    recipe: str = "refined-world",
    all_heads: bool = False,
    steps: int | None = None,
    images: tuple[int, int] = (600, 300),
) -> dict[str, Any]:
    """Return the figures of each training on the synthetic data set and of naive boxes, measured on images not trained on.

    The data set, the runs and report.html go to `out`, dpl-demo if not given. `recipe` is refined-world, or world for the
    paper's two heads alone; `all_heads` trains each of these heads alone too. `images` are those to train and to test on.
    """
    began = time.monotonic()
    out = Path(out or (f"dpl-demo-{seed}" if seed else "dpl-demo"))
    recipes = ways(recipe, seed, steps, all_heads)
    _must_be_free(out, seed)
    with bar("drawing the data set") as progress:
        listing = make_world(out / "world", *images, seed, on_image=progress)
    patches = recipe_patches(recipes["both"])
    training = prepare(read_tags(listing, "train"), patches, out / "patches")
    testing = prepare(read_tags(listing, "test"), patches, out / "patches")
    truth = read_truth(listing, testing.images)
    if truth is None:
        raise RuntimeError(f"{listing} holds no boxes")
    figures: dict[str, Any] = {}
    predictions = {}
    for name, chosen in recipes.items():
        _train(training, chosen, out, name, {"path": str(listing), "split": "train"})
        model = load(out / "runs" / name)
        predictions[name] = list(predict_prepared(model, testing, 8, f"{TITLES[name]}: test images"))
        measured = measure_predictions(predictions[name], testing.images.labels, truth)
        figures[name] = {key: measured[key] for key in SHOWN if key in measured} | {"measured": measured}
        _say(name, figures[name], time.monotonic() - began)
    figures["naive"] = naive_boxes(truth, testing.images.classes)
    shown = next(name for name in TITLES if name in recipes)
    report = _report(out, shown, figures, testing, predictions[shown], truth)
    for name in recipes:
        figures[name].pop("measured")
    return figures | {"report": str(report), "seed": seed, "seconds": round(time.monotonic() - began, 1)}


def _train(training: Prepared, recipe: Recipe, out: Path, name: str, source: dict[str, Any]) -> None:
    """Train one of the ways in its own run folder; the self-training round learns from the boxes of `refined`."""
    run, cache = out / "runs" / name, out / "patches"
    given = find_pseudo_boxes(training, recipe, run, PseudoBoxSource([out / "runs" / "refined"], cache=cache))
    train_prepared(training, recipe, run, source, description=TITLES[name], pseudo_boxes=given)


def _say(name: str, figures: dict[str, Any], seconds: float) -> None:
    """Print the first figures of one way as soon as it is measured."""
    measured = ", ".join(f"{key} {figures[key]:.1f}" for key in ("mAP", "CorLoc", "CorLoc_argmax") if key in figures)
    console.print(f"{TITLES[name]}: {measured} after {seconds:.0f} s", markup=False)


def _must_be_free(out: Path, seed: int) -> None:
    """Raise `RunError` before anything is drawn if the folder holds the demo of another seed."""
    settings = out / "world" / "settings.json"
    if out.is_file():
        raise RunError(f"{out}: is a file. Give another folder with --out.")
    fix = "Give another folder with --out."
    if not settings.exists():
        from deep_patch_learning.report.page import MARK

        must_be_replaceable(out / "report.html", MARK, "report")
    elif read_json(settings, dict[str, Any], RunError, fix).get("seed") != seed:
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
    from deep_patch_learning.report.build import MeasuredRun, ReportOptions, build_report
    from deep_patch_learning.report.page import write_report

    run = RunFolder(out / "runs" / shown)
    with bar("report") as show:
        page = build_report(
            MeasuredRun(run, load(run.folder), testing, predictions, figures[shown]["measured"], truth, "test images"),
            ReportOptions("The synthetic data set", rows(figures), "dpl demo", images_for_parts=60),
            show,
        )
    return write_report(out / "report.html", page)


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
    table = Table(title="The synthetic data set, images not trained on", title_justify="left")
    table.add_column("", no_wrap=True)
    for key in SHOWN:
        table.add_column("recall at 80 %" if key == "recall_at_80" else key.replace("_", " "), justify="right")
    for row in rows(figures):
        table.add_row(row["name"], *(number(row.get(key)) for key in SHOWN))
    stdout.print(table)
    console.print(f"{figures['seconds']:.0f} s in all. Open {figures['report']}", markup=False)
