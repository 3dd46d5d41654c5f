"""Four real ranks under torchrun, one of which is killed: torchrun starts all again, and they end where one process does."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.training.fit import train_prepared


def test_a_killed_rank_is_started_again_and_the_weights_are_those_of_one(
    small_world: Path, small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = small_recipe.replace(batch_images=8, images_per_micro_batch=2, steps=6)
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    words = [
        "--standalone",
        "--nproc-per-node",
        "4",
        "--max-restarts",
        "2",
        str(Path(__file__).with_name("elastic.py")),
    ]
    words += [str(small_world), str(tmp_path / "recipe.toml"), str(tmp_path / "four"), "4"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Signal 9 (SIGKILL)" in done.stderr or "exitcode: -9" in done.stderr, done.stderr[-3000:]
    assert "resumed at step 4 of 6" in " ".join(done.stderr.split())
    train_prepared(small_prepared, recipe, tmp_path / "one", device="cpu")
    one, four = (read_checkpoint(tmp_path / name / "weights.safetensors")[1] for name in ("one", "four"))
    for name, tensor in one.items():
        torch.testing.assert_close(four[name], tensor, rtol=1e-3, atol=1e-5, msg=name)
