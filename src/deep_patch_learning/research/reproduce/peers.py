"""The peers' table: ours beside systems that `peers/` trains on the same images, at the same samples, with the same backbone."""

from collections.abc import Sequence
from typing import Any

from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import paper, verdicts
from deep_patch_learning.research.reproduce import results as rows
from deep_patch_learning.research.reproduce.bench import Bench
from deep_patch_learning.research.reproduce.differences import differences
from deep_patch_learning.research.reproduce.plan import Splits, Table
from deep_patch_learning.research.reproduce.results import Result, Row, fill_row
from deep_patch_learning.research.reproduce.verdicts import Spread

NAMES = {"plain": "plain CNN", "hcp": "HCP", "svm": "SVM", "whole-image": "whole image"}


def fill_peers(bench: Bench, table: Table, seeds: Sequence[int], command: str) -> Result:
    """Return the table of peers after training and measuring those that are not yet; Deep Patch Learning is not trained again."""
    from deep_patch_learning.research.compare import compare

    way, splits = table.ways[0], bench.protocol.classification
    ours = fill_row(bench, table, way, seeds, command)
    found = compare(
        bench.protocol.data,
        splits.trained_on,
        splits.measured_on,
        way.recipe,
        tuple(NAMES),
        bench.group(way.recipe) / f"peers_{splits.trained_on}",
        seeds,
        device=bench.device,
        limit=bench.limit,
        workers=bench.workers,
        command=command,
    )
    images = len(bench.prepared(splits.measured_on, way.recipe).images)
    differs = differences(way.recipe, bench.protocol, splits, images, bench.limit)
    written = [_csv_row(one, way.recipe, splits, images, differs) for one in found]
    rows.merge_rows(bench.out / f"{bench.protocol.name}_peers.csv", rows.COLUMNS, rows.KEY, written)
    peers = [_row(key, name, [o for o in found if o["peer"] == key], splits, differs) for key, name in NAMES.items()]
    theirs = paper.PEERS[bench.protocol.year]
    network = paper.counterpart(way.recipe.backbone) or paper.VGG16
    for row, key in zip(peers, NAMES, strict=True):
        if network in theirs.get(key, {}):
            row.paper["mAP"] = theirs[key][network]
    ours.paper["mAP"] = paper.CLASSIFICATION[bench.protocol.year][network].mean
    figures = {row.name: row.figures for row in (ours, *peers)}
    return Result(table, [ours, *peers], [(claim, verdicts.judge(claim, figures)) for claim in table.claims])


def _row(key: str, name: str, found: Sequence[dict[str, Any]], splits: Splits, differs: str) -> Row:
    speeds = [one["test_images_per_second"] for one in found]
    figures = {measure: Spread.of([one[measure] for one in found]) for measure in rows.FIGURES}
    figures["seconds"] = Spread.of([1 / speed if speed else None for speed in speeds])
    figures["samples_per_second"] = Spread.of([one["train_samples_per_second"] for one in found])
    return Row(name, figures, {}, {}, splits, splits, differs)


def _csv_row(one: dict[str, Any], recipe: Recipe, splits: Splits, images: int, differs: str) -> dict[str, Any]:
    return dict.fromkeys(rows.COLUMNS) | {
        **{
            key: one[key]
            for key in ("seed", *rows.FIGURES, "samples", "scales", "backbone", "command", "machine", "date")
        },
        "table": "peers",
        "row": NAMES[one["peer"]],
        "trained_on": splits.trained_on,
        "measured_on": splits.measured_on,
        "images": images,
        "weights": rows.weights_name(recipe),
        "recipe": recipe.name,
        "patches": recipe.patches,
        "samples_per_second": one["train_samples_per_second"],
        "test_images_per_second": one["test_images_per_second"],
        "differs": differs,
    }
