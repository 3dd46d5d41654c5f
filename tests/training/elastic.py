"""Trains under torchrun; one rank kills itself once, in the middle. Started by `test_elastic.py`."""

import os
import signal
import sys
from pathlib import Path

from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions

listing, recipe_file, out, dies_at = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
recipe = Recipe.load(recipe_file)
prepared = prepare(read_tags(listing, "train"), recipe_patches(recipe))
take_step = Trainer._take_step


def dies(self: Trainer, micro_batches: list) -> None:
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if self.ranks.rank == 2 and self.step == dies_at and first_life:
        os.kill(os.getpid(), signal.SIGKILL)
    take_step(self, micro_batches)


if dies_at:
    Trainer._take_step = dies
train_prepared(prepared, recipe, out, device="cpu", writing=TrainingOptions(log_steps=2, checkpoint_seconds=0))
