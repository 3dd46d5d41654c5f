"""A trainer in a folder of its own, as the tests of training want it."""

from pathlib import Path
from typing import Any

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions


def trainer(prepared: Prepared, recipe: Recipe, folder: Path, **writing: Any) -> Trainer:
    run = RunFolder(folder)
    run.begin(recipe, prepared.images, {})
    made = Trainer(recipe, prepared, run, TrainingOptions(device="cpu", **writing))
    made.resume()
    return made
