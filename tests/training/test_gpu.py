"""On a GPU, in half precision, with fused kernels: what is trained is what is saved. Skipped where there is none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import BoxSelection
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import modern
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("backbone", ["alexnet", "resnet50"])
def test_a_loaded_run_says_what_the_trained_network_says(
    backbone: str, small_prepared: Prepared, tmp_path: Path
) -> None:
    recipe = modern(backbone, steps=5).replace(
        weights="", scales=(160,), patches_per_sample=16, batch_images=4, images_per_micro_batch=4, learning_rate=1e-3
    )
    run = RunFolder(tmp_path / "run")
    run.begin(recipe, small_prepared.images, {})
    trainer = Trainer(recipe, small_prepared, run, TrainingOptions(device="cuda"))
    before = {name: value.clone() for name, value in trainer.bare.named_parameters()}
    assert trainer.fit()
    assert all(not torch.equal(value, before[name]) for name, value in trainer.bare.named_parameters())
    loaded = load(run.folder, "cuda")
    loaded.box_selection = BoxSelection()
    first = list(predict_prepared(loaded, small_prepared))
    loaded.network = trainer.bare.eval()
    second = list(predict_prepared(loaded, small_prepared))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one.image_scores, other.image_scores, rtol=1e-2, atol=1e-2)


def test_in_single_precision_a_gpu_and_the_cpu_learn_the_same(small_prepared: Prepared, tmp_path: Path) -> None:
    recipe = modern("alexnet", steps=2).replace(
        weights="", scales=(160,), patches_per_sample=16, batch_images=4, images_per_micro_batch=4, precision="32-true"
    )
    weights = []
    for device in ("cpu", "cuda"):
        run = RunFolder(tmp_path / device)
        run.begin(recipe, small_prepared.images, {})
        trainer = Trainer(recipe, small_prepared, run, TrainingOptions(device=device))
        trainer.bare.patch_features.dropout.p = 0.0
        trainer.fit()
        weights.append({name: value.cpu() for name, value in trainer.bare.state_dict().items()})
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4, msg=name)
