"""The model that is shipped: there, small, whole, and of some use on photos."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import deep_patch_learning as dpl
from deep_patch_learning.inference.loading import SHIPPED
from deep_patch_learning.recipe.presets import fast


def test_it_is_small_and_says_what_it_is() -> None:
    weights = SHIPPED / "weights.safetensors"
    assert weights.stat().st_size <= 16 * 2**20
    assert {tensor.dtype for tensor in load_file(weights).values() if tensor.is_floating_point()} == {torch.float16}
    model = dpl.load(device="cpu")
    assert len(model.classes) == 20
    card = (SHIPPED / "MODEL_CARD.md").read_text()
    assert all(name in card for name in model.classes)
    assert model.calibration is not None


def test_predicting_without_a_model(small_world: Path, tmp_path: Path) -> None:
    image = small_world.parent / "images" / "500000.jpg"
    command = [sys.executable, "-m", "deep_patch_learning", "predict", str(image), "--out", str(tmp_path), "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    (one,) = json.loads(found.stdout.splitlines()[-1])["predictions"]
    assert tuple(one["raw"]["classes"]) == dpl.load(device="cpu").classes
    assert {path.name for path in tmp_path.iterdir()} == {"500000.json", "500000.png"}


def test_fast_begins_with_layers_that_know_no_tags() -> None:
    from deep_patch_learning.recipe.build import build_network

    recipe = fast()
    network, report = build_network(recipe, 3)
    assert report is not None
    assert not any(layer.startswith("backbone.") for layer in report.new)
    begun = network.backbone.body.head[0].weight.half()
    tuned = load_file(SHIPPED / "weights.safetensors")["network.backbone.body.head.0.weight"]
    assert not torch.equal(begun, tuned)  # the model's own layers have learnt from the tags of VOC


def test_layers_of_fast_are_those_of_imagenet() -> None:
    from deep_patch_learning.recipe.build import build_network
    from deep_patch_learning.recipe.recipe import Recipe

    file = Path(os.environ.get("DPL_WEIGHTS", "")) / "efficientnet_lite0_imagenet.safetensors"
    if not file.is_file():
        pytest.skip("needs ImageNet weights: set DPL_WEIGHTS to the folder of efficientnet_lite0_imagenet.safetensors")
    shipped, named = (
        build_network(Recipe.of(backbone="lite0-map", weights=source), 3)[0] for source in ("shipped", str(file))
    )
    for name, tensor in named.backbone.state_dict().items():
        assert torch.equal(shipped.backbone.state_dict()[name], tensor.half().float()), name


@pytest.mark.voc
def test_on_photos(voc: Path) -> None:
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.data.truth import read_truth
    from deep_patch_learning.evaluation.measure import measure_predictions
    from deep_patch_learning.inference.stream import predict_prepared
    from deep_patch_learning.patches.prepare import prepare

    model = dpl.load(device="cpu")
    images = limited(read_tags(voc, "val"), 60)
    found = list(predict_prepared(model, prepare(images, model.patch_generator)))
    figures = measure_predictions(found, images.labels, read_truth(voc, images))
    assert figures["mAP"] > 75
    assert figures["CorLoc"] > 45
