"""The whole way on a slice of real VOC 2007 with ImageNet weights, on the CPU.

Needs DPL_VOC, the VOC2007 folder, and DPL_WEIGHTS, a folder with `vgg16_imagenet_conv.safetensors` and
`resnet50_imagenet.safetensors` (torchvision's layer names; the latter with strides as in `resnet50-v1`).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {"vgg16": "vgg16_imagenet_conv.safetensors", "resnet50-v1": "resnet50_imagenet.safetensors"}


@pytest.fixture(scope="module")
def weights() -> Path:
    if not os.environ.get("DPL_WEIGHTS"):
        pytest.skip("needs ImageNet weights: set DPL_WEIGHTS to their folder")
    folder = Path(os.environ["DPL_WEIGHTS"])
    missing = [name for name in FILES.values() if not (folder / name).is_file()]
    if missing:
        pytest.skip(f"{folder} lacks {', '.join(missing)}")
    return folder


def dpl(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "deep_patch_learning", *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found


@pytest.mark.voc
@pytest.mark.parametrize("backbone", FILES)
def test_train_and_evaluate_a_slice(backbone: str, voc: Path, weights: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    slice_ = ("--split", "val", "--limit", 4)
    options = ("--scales", "240", "--steps", 2, "--set", "patches_per_sample=32", "--set", "batch_images=2")
    trained = dpl(
        "train",
        voc,
        *slice_,
        "--out",
        run,
        "--recipe",
        "modern",
        "--backbone",
        backbone,
        "--weights",
        weights / FILES[backbone],
        *options,
        "--json",
    )
    assert json.loads(trained.stdout.splitlines()[-1])["steps"] == 2
    layers = json.loads((run / "layers.json").read_text(encoding="utf-8"))
    # VGG16's file holds its convolutions only; ResNet-50's fills the patch layers too and leaves its fc unused
    assert ("patch_features.fc7" in layers["new"]) == (backbone == "vgg16")
    assert ("new: patch layers" in trained.stderr) == (backbone == "vgg16")
    assert (layers["unused"] == ["fc"]) == (backbone != "vgg16")
    figures = json.loads(dpl("evaluate", voc, *slice_, "--model", run, "--json").stdout.splitlines()[-1])
    assert figures["images"] == 4
    assert 0 <= figures["CorLoc"] <= 100
    assert 0 <= figures["mAP"] <= 100


@pytest.mark.voc
def test_pretrained_features_know_what_an_image_shows(voc: Path, weights: Path) -> None:
    """The ResNet-50 file with its own classifier names things in VOC photos: the strides are where its weights expect them."""
    import torch
    from safetensors.torch import load_file

    from deep_patch_learning.data.batch import collate, make_view
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.recipe.build import build_network
    from deep_patch_learning.recipe.recipe import Recipe

    network = build_network(Recipe.of(backbone="resnet50-v1", weights=str(weights / FILES["resnet50-v1"])), 20)[
        0
    ].eval()
    state = load_file(weights / FILES["resnet50-v1"])
    images = read_tags(voc, "val")
    planes = images.labels[:, images.classes.index("aeroplane")] == 1
    hits = 0
    for index in planes.nonzero()[0][:8]:
        image = images.read(index)
        whole = [[0, 0, image.shape[1], image.shape[0]]]
        batch = collate([make_view(image, torch.tensor(whole).numpy(), 448)])
        with torch.no_grad():
            maps = network.backbone(batch.images)
            features = network.patch_features.stage(maps).mean(dim=(2, 3))
            top = (features @ state["fc.weight"].float().T + state["fc.bias"].float())[0].topk(5).indices.tolist()
        hits += any(label in top for label in (403, 404, 405, 895, 908))  # carrier, airliner, airship, warplane, wing
    assert hits >= 6
