"""A trainer in a folder of its own, as the tests of training want it."""

from pathlib import Path

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer, Writing


def trainer(prepared: Prepared, recipe: Recipe, folder: Path, **writing: float) -> Trainer:
    run = RunFolder(folder)
    run.begin(recipe, prepared.images, {})
    made = Trainer(recipe, prepared.images, prepared.patches, run, "cpu", Writing(**writing))
    made.resume()
    return made
