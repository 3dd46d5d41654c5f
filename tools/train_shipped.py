"""Trains the model that the package ships and its twin, which is not trained on val, and packs them.

    BOXES="--boxes-from RUN --boxes-from RUN --boxes-from RUN"
    python tools/train_shipped.py --device cuda train VOC2007 --split train --weights LITE0 $BOXES --out twin
    python tools/train_shipped.py --device cuda train VOC2007 --split trainval --weights LITE0 $BOXES --out model
    python tools/train_shipped.py measure VOC2007 --twin twin
    python tools/train_shipped.py pack --model model --twin twin
    python tools/train_shipped.py trunk --weights LITE0

LITE0 is EfficientNet-Lite0 on ImageNet, with the names of the package efficientnet-lite-pytorch. The runs of --boxes-from
are the first networks of `dpl train --recipe best` on the same split, in its folder `stages`. Pseudo boxes from an earlier
run may lie beside OUT, as OUT-pseudo-boxes.jsonl, instead of --boxes-from. All layers are trained: some minutes on a GPU.
`measure` writes results/shipped_model.csv, the twin on val with its weights in half
precision as shipped, and calibrates it; `pack` fills src/deep_patch_learning/inference/shipped. `trunk` writes the layers
that `--recipe fast` starts from: those of ImageNet, without any photo of VOC.
"""

import argparse
import csv
import json
import shutil
from datetime import date
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from deep_patch_learning.common.atomic_files import write_whole, written_whole
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.measure import measure_predictions
from deep_patch_learning.inference.calibration import calibrate_predictions, write_calibration
from deep_patch_learning.inference.loading import SHIPPED, load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import build_network, recipe_patches
from deep_patch_learning.recipe.presets import fast, self_training_round
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes

RESULTS = Path(__file__).parent.parent / "results"
STEPS = 5000
TRUNK = SHIPPED.parents[1] / "model" / "backbones" / "lite0.safetensors"
FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP", "detection_mAP_11pt", "recall_at_80")


def train(options: argparse.Namespace) -> None:
    """Train on the tags of a split; an interrupted training resumes."""
    recipe = self_training_round(fast("lite0-map", STEPS))
    # as it was trained: the pseudo boxes frame whole objects, so that nothing has to be erased and a sharp vote is as good
    recipe = recipe.replace(erased_regions=0, vote_sharpness=8.0, keep_maps=False)
    recipe = recipe.replace(weights=str(options.weights), freeze_backbone=False, seed=options.seed)
    recipe = recipe.replace(patches_per_sample=0)  # all 300: the map is computed once, and a patch costs little
    prepared = prepare(read_tags(options.data, options.split), recipe_patches(recipe))
    given = find_pseudo_boxes(prepared, recipe, options.out, PseudoBoxSource(options.boxes_from, device=options.device))
    source = {"path": options.data.name, "split": options.split}
    train_prepared(prepared, recipe, options.out, source, device=options.device, pseudo_boxes=given)


def halve(weights: Path) -> None:
    """Store the numbers of a weight file in half precision."""
    with safe_open(weights, "pt") as stored:
        about, tensors = stored.metadata(), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    halves = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    with written_whole(weights) as part:
        save_file(halves, part, metadata=about)


def measure(options: argparse.Namespace) -> None:
    """Measure the twin on val, in half precision as shipped, and calibrate it there."""
    run = RunFolder(options.twin)
    halve(run.weights)
    model = load(options.twin, options.device)
    prepared = prepare(read_tags(options.data, "val"), model.patch_generator)
    found = list(predict_prepared(model, prepared))
    figures = measure_predictions(found, prepared.images.labels, read_truth(options.data, prepared.images))
    calibration = calibrate_predictions(found, prepared.images.labels, prepared.images.classes)
    write_calibration(run.calibration, calibration, {"path": options.data.name, "split": "val"})
    recipe = Recipe.load(run.config)
    row = {"trained_on": "train", "measured_on": "val"} | {name: round(figures[name], 2) for name in FIGURES}
    row |= {
        "samples": recipe.optimiser.steps * recipe.optimiser.batch_images,
        "megabytes": round(run.weights.stat().st_size / 1e6, 1),
    }
    command = f"python tools/train_shipped.py measure {options.data.name} --twin TWIN"
    row |= {"command": command, "seed": recipe.machine.seed}
    row |= {"machine": machine_name(), "date": date.today().isoformat()}
    with (RESULTS / "shipped_model.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
    print(row)


def pack(options: argparse.Namespace) -> None:
    """Put the model, its settings and the twin's calibration where the package looks for them."""
    run, twin = RunFolder(options.model), RunFolder(options.twin)
    shutil.copyfile(run.weights, SHIPPED / "weights.safetensors")
    halve(SHIPPED / "weights.safetensors")
    recipe = Recipe.load(run.config)
    write_whole(SHIPPED / "config.toml", recipe.replace(weights=Path(recipe.model.weights).name).to_toml())
    described = run.describe()
    kept = {name: described[name] for name in ("classes", "fingerprint", "path", "split")}
    write_whole(SHIPPED / "data.json", json.dumps(kept, indent=1) + "\n")
    shutil.copyfile(twin.calibration, SHIPPED / "calibration.json")


def trunk(options: argparse.Namespace) -> None:
    """Store the layers below the heads with ImageNet's weights, norms folded, in half precision."""
    network, _ = build_network(Recipe.of(backbone="lite0-map", weights=str(options.weights)), 1)
    below = {name: tensor.half() for name, tensor in network.state_dict().items() if name.startswith("backbone.")}
    with written_whole(TRUNK) as part:
        save_file(
            below, part, metadata={"from": "EfficientNet-Lite0 on ImageNet, norms folded", "licence": "Apache-2.0"}
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    ways = parser.add_subparsers(required=True)
    training = ways.add_parser("train")
    training.add_argument("data", type=Path)
    training.add_argument("--split", choices=("train", "trainval"), required=True)
    training.add_argument("--weights", type=Path, required=True)
    training.add_argument("--boxes-from", type=Path, action="append", default=[])
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--seed", type=int, default=0)
    measuring = ways.add_parser("measure")
    measuring.add_argument("data", type=Path)
    measuring.add_argument("--twin", type=Path, required=True)
    packing = ways.add_parser("pack")
    packing.add_argument("--model", type=Path, required=True)
    packing.add_argument("--twin", type=Path, required=True)
    layers = ways.add_parser("trunk")
    layers.add_argument("--weights", type=Path, required=True)
    for each, work in ((training, train), (measuring, measure), (packing, pack), (layers, trunk)):
        each.set_defaults(work=work)
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
