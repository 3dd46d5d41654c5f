"""The time that the refinement adds to a training step on one GPU, measured alternately in one process.

    python benchmarks/gpu_refinement.py [--quick]

ResNet-50 with the recipes `modern` and `refined`, on the same noise images with the same number of patches. Writes
results/gpu_refinement.csv.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import torch

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import modern, refined
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions, set_up_process
from gpu_speed import about, make_images, seconds, take
from rows import RESULTS, write_rows


def refinement_cost(folder: Path, quick: bool) -> list[dict]:
    """Return the time of a step with and without a refinement, for few and for many patches."""
    rows, common = [], about("python benchmarks/gpu_refinement.py")
    warm, steps = (3, 5) if quick else (15, 30)
    for patches in (256, 512):
        images, boxes = make_images(folder, 64, patches)
        trainers = {}
        for name, made in (("two heads", modern("resnet50", 100_000)), ("refined", refined("resnet50", 100_000))):
            recipe = made.replace(weights="", patches_per_sample=patches)
            run = RunFolder(folder / f"refinement-{patches}-{name}")
            trainers[name] = Trainer(recipe, Prepared(images, boxes, []), run, TrainingOptions(10**9, 1e9, "cuda"))
            set_up_process(recipe, trainers[name].fabric.device)
            trainers[name].images.fill()
            trainers[name].network.train()
            take(trainers[name], 0, warm)
        found: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(3):
            for name, trainer in trainers.items():
                found[name].append(seconds(partial(take, trainer, warm + turn * steps, steps)) / steps)
        without, refining = (sorted(found[name])[1] for name in ("two heads", "refined"))
        row = {"network": "DPL-ResNet50", "patches": patches, "images_per_step": 8}
        row |= {"two_heads_ms": round(without * 1e3, 2), "refined_ms": round(refining * 1e3, 2)}
        rows.append(row | {"added_percent": round(100 * (refining / without - 1), 1)} | common)
        print(rows[-1], flush=True)
        del trainers
        torch.cuda.empty_cache()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        write_rows(RESULTS / "gpu_refinement.csv", refinement_cost(Path(temporary), options.quick))


if __name__ == "__main__":
    main()
