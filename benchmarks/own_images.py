"""A few hundred tagged images on a laptop: the boxes of `dpl train` without a GPU on images that it was not trained on.

    python benchmarks/own_images.py FOLDER... [--voc VOC2007] --out OUT [--seeds 0,1] [--ways "fast,as before"]

A FOLDER is a COCO data set with annotations/instances_train.json and instances_val.json; their boxes only measure. With
--voc, the 300 photos that own_photos.py chooses, all of them to train on, and 500 others to measure on. Each row is `dpl train`
and `dpl evaluate` as a user calls them, on the CPU; finished parts in OUT are not repeated. Writes results/own_images.csv, where
rows of other sets and ways stay.
"""

import argparse
import csv
import json
from datetime import date
from pathlib import Path

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.recipe.choose import seed_numbers
from own_photos import FIGURES, choose, dpl
from rows import RESULTS, write_rows

FILE = RESULTS / "own_images.csv"
WAYS: dict[str, tuple[str, ...]] = {
    "fast": (),
    "the shipped model's layers": ("--weights", "shipped-model"),
    "mirrored too": ("--set", "test_flips=true"),
    "nothing erased": ("--set", "erased_regions=0"),
    "as before": ("--set", "erased_regions=0", "--set", "vote_sharpness=8", "--set", "keep_maps=false"),
}
Listing = tuple[object, ...]  # the arguments that name images


def image_sets(folders: list[Path], voc: Path | None, out: Path) -> dict[str, tuple[Listing, Listing]]:
    """Return the images to train on and the others to measure on, by the name of their set."""
    sets: dict[str, tuple[Listing, Listing]] = {}
    for folder in folders:
        train, val = (folder / "annotations" / f"instances_{split}.json" for split in ("train", "val"))
        sets[folder.name] = (train,), (val,)
    if voc is not None:
        listing = out / "photos.jsonl"
        choose(voc, listing, seed=0)
        # the photos that own_photos.py holds out are trained on too
        listing.write_text(listing.read_text().replace('"split": "val"', '"split": "train"'))
        sets[voc.name] = (listing, "--split", "train"), (listing, "--split", "others")
    return sets


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--voc", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--ways", default="fast,as before", help=f"of {', '.join(WAYS)}")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    about = {"machine": machine_name(), "date": date.today().isoformat()}
    rows = []
    for name, (train, others) in image_sets(options.folders, options.voc, options.out).items():
        for way in options.ways.split(","):
            for seed in seed_numbers(options.seeds):
                run = options.out / f"{name}-{way.replace(' ', '-')}-{seed}".replace("'", "")
                words = ("--recipe", "fast", "--device", "cpu", "--seed", seed, *WAYS[way])
                dpl("train", *train, *words, "--out", run)
                figures = run.with_suffix(".json")
                if not figures.exists():
                    said = dpl("evaluate", *others, "--model", run, "--device", "cpu", "--json")
                    figures.write_text(said.splitlines()[-1])
                found = json.loads(figures.read_text())
                command = f"dpl train TRAIN {' '.join(map(str, words))} --out RUN; dpl evaluate OTHERS --model RUN"
                row = {"image_set": name, "way": way} | {key: round(found[key], 2) for key in FIGURES}
                rows.append(row | {"seed": seed, "command": command} | about)
                print(rows[-1], flush=True)
    with FILE.open(newline="") as file:
        measured = {(row["image_set"], row["way"]) for row in rows}
        kept = [row for row in csv.DictReader(file) if (row["image_set"], row["way"]) not in measured]
    write_rows(FILE, [*kept, *rows])


if __name__ == "__main__":
    main()
