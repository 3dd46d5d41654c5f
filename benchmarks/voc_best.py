"""Recipe `best` on VOC 2007, one chain of trainings per seed with nothing shared between seeds, measured after every training.

    python benchmarks/voc_best.py VOC2007 --weights resnet50_imagenet.safetensors --out FOLDER [--split train] [--seeds 0,1,2]
        [--views 600,800,1000] [--words "--set round_weights=agreement"]

Each chain is `dpl train --recipe best` as a user calls it, with further --words; finished parts in FOLDER are not repeated, and
several processes may work on different seeds. Trained on train it is measured on train and val, trained on trainval on trainval
(the paper's protocol for CorLoc). Every network of a chain is measured, at the recipe's own views and at those of --views with
flips. Boxes only measure.
Writes results/voc2007_best.csv.
"""

import argparse
import json
import shlex
from datetime import date
from pathlib import Path

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.recipe.choose import seed_numbers
from own_photos import dpl
from rows import RESULTS, write_rows

FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP", "detection_mAP_11pt", "recall_at_80")


def measured(run: Path, options: argparse.Namespace, split: str, views: str) -> dict[str, float]:
    """Return the figures of a finished run on a split, measured now unless they are written beside it."""
    kept = run.with_name(f"{run.name}-{split}-{views.replace(',', '-') or 'own'}.json")
    if not kept.exists():
        words = ("--scales", views, "--flips") if views else ()
        said = dpl("evaluate", options.data, "--split", split, "--model", run, "--json", *words)
        kept.write_text(said.splitlines()[-1])
    return json.loads(kept.read_text())


def chain(options: argparse.Namespace, seed: int) -> list[dict[str, object]]:
    """Return the rows of one chain: every network, on every split and in both kinds of views."""
    run = options.out / f"{options.split}-{seed}"
    weights = () if options.weights is None else ("--backbone", "resnet50-v1", "--weights", options.weights.resolve())
    given = ("--split", options.split, "--recipe", "best", *weights, "--seed", seed, *shlex.split(options.words))
    dpl("train", options.data, *given, "--out", run)
    record = json.loads((run / "run.json").read_text())
    shown = [word.name if isinstance(word, Path) else str(word) for word in given]
    command = f"dpl train {options.data.name} {' '.join(shown)} --out RUN"
    folders = {
        **{path.parent.name: path.parent for path in sorted((run / "stages").glob("*/weights.safetensors"))},
        "last": run,
    }
    rows: list[dict[str, object]] = []
    for name, folder in folders.items():
        for split in ("train", "val") if options.split == "train" else (options.split,):
            for views in ("", options.views):
                found = measured(folder, options, split, views)
                row = {"network": name, "views": f"{views} and mirrored" if views else "the recipe's"}
                row |= {"trained_on": options.split, "measured_on": split}
                rows.append(row | {key: round(found[key], 2) for key in FIGURES})
                model = "RUN" if folder is run else f"RUN/stages/{name}"
                chosen = f"dpl evaluate {options.data.name} --split {split} --model {model}"
                chosen += f" --scales {views} --flips" if views else ""
                rows[-1] |= {
                    "samples_in_all": record["samples_in_all"],
                    "seed": seed,
                    "command": f"{command}; {chosen}",
                }
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", choices=("train", "trainval"), default="trainval")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--views", default="600,800,1000")
    parser.add_argument("--words", default="", help="further words of dpl train")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    about = {"machine": machine_name(), "date": date.today().isoformat()}
    rows = [row | about for seed in seed_numbers(options.seeds) for row in chain(options, seed)]
    write_rows(RESULTS / "voc2007_best.csv", rows)


if __name__ == "__main__":
    main()
