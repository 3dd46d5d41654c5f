"""The teacher: crops of patches against a slow reference, and a classifier that is torchvision's."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.data.batch import collate, make_view
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.training.teacher import patch_crops, read_teacher, teach


def reference_crop(image: np.ndarray, patch: np.ndarray, side: int) -> np.ndarray:
    """The crop pixel by pixel: the mean over a grid of points, one per covered pixel, each interpolated from four pixels."""
    height, width = image.shape[:2]
    x1, y1, x2, y2 = patch
    across, down = (max(int(np.ceil(length / side)), 1) for length in (x2 - x1, y2 - y1))

    def point(y: float, x: float) -> np.ndarray:
        y, x = max(y - 0.5, 0), max(x - 0.5, 0)  # pixel 0 is centred at 0.5
        top, left = min(int(y), height - 1), min(int(x), width - 1)
        below, right = min(top + 1, height - 1), min(left + 1, width - 1)
        v, u = min(y - top, 1), min(x - left, 1)
        above = image[top, left] * (1 - u) + image[top, right] * u
        return above * (1 - v) + (image[below, left] * (1 - u) + image[below, right] * u) * v

    crop = np.zeros((side, side, 3))
    for row in range(side):
        for column in range(side):
            points = [
                point(
                    y1 + (row + (i + 0.5) / down) * (y2 - y1) / side,
                    x1 + (column + (j + 0.5) / across) * (x2 - x1) / side,
                )
                for i in range(down)
                for j in range(across)
            ]
            crop[row, column] = np.mean(points, axis=0)
    return crop.transpose(2, 0, 1)


@pytest.mark.parametrize(("scale", "flip"), [(60, False), (60, True), (90, False), (45, True)])
def test_crops_equal_a_slow_reference(scale: int, flip: bool) -> None:
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    patches = np.array([[0, 0, 60, 40], [10, 5, 17, 30], [33, 20, 60, 40], [2, 1, 5, 4]])
    view = make_view(image, patches, scale, flip)
    other = make_view(random.integers(0, 256, (60, 20, 3), dtype=np.uint8), patches[:1] // 3, scale)
    batch = collate([other, view])  # padded; the second image must not see the first
    rois = torch.cat((batch.patch_image[:, None].float(), batch.patches), dim=1)
    crops = patch_crops(batch.images, rois, 12)[len(other.patches) :]
    pixels = view.pixels.permute(1, 2, 0).numpy().astype(np.float64)
    for crop, patch in zip(crops, view.patches.numpy(), strict=True):
        inside = slice(0, 11)  # the last half pixel of a padded image fades into the padding
        expected = reference_crop(pixels, patch, 12)
        np.testing.assert_allclose(crop.numpy()[:, inside, inside], expected[:, inside, inside], atol=0.01)


def test_a_mirrored_view_gives_mirrored_crops() -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    patches = np.array([[5, 9, 30, 60], [0, 0, 64, 64]])
    crops = []
    for flip in (False, True):
        batch = collate([make_view(image, patches, 64, flip)])
        crops.append(patch_crops(batch.images, torch.cat((torch.zeros(2, 1), batch.patches), dim=1), 16))
    torch.testing.assert_close(crops[0].flip(3), crops[1], atol=1e-3, rtol=0)


def test_a_constant_image_is_constant_at_every_size() -> None:
    rois = torch.tensor([[0, 0, 0, 96, 96], [0, 3, 4, 5, 6], [0, 0, 50, 96, 52]], dtype=torch.float32)
    assert torch.allclose(patch_crops(torch.full((1, 3, 96, 96), 77.0), rois, 20), torch.tensor(77.0), atol=1e-3)


def test_a_teacher_without_its_last_layer_is_refused(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    state = {name: tensor for name, tensor in resnet50().state_dict().items() if not name.startswith("fc.")}
    save_file(state, tmp_path / "headless.safetensors")
    with pytest.raises(ModelError, match=r"headless.safetensors: lacks fc, .* Give --teacher"):
        read_teacher(str(tmp_path / "headless.safetensors"))
    with pytest.raises(ModelError, match="Did you mean 'resnet50'"):
        read_teacher("imagenet", "resnet5")


def test_the_teacher_is_torchvisions_network(tmp_path: Path) -> None:
    from torchvision.models import resnet50

    torch.manual_seed(0)
    whole = resnet50().eval()
    save_file(whole.state_dict(), tmp_path / "whole.safetensors")
    teacher = read_teacher(str(tmp_path / "whole.safetensors"))
    assert not teacher.train().training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    crops = torch.rand(2, 3, 64, 64) * 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    with torch.no_grad():
        expected = whole((crops / 255 - mean[:, None, None]) / std[:, None, None])
        torch.testing.assert_close(teacher(crops).logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.voc
def test_a_real_teacher_knows_a_dog(voc: Path) -> None:
    path = Path(os.environ.get("DPL_WEIGHTS", "")) / "resnet50_imagenet.safetensors"
    if not os.environ.get("DPL_WEIGHTS") or not path.is_file():
        pytest.skip("needs ImageNet weights: set DPL_WEIGHTS to the folder of resnet50_imagenet.safetensors")
    teacher = read_teacher(str(path), "resnet50-v1")
    images = read_tags(voc, "val")
    alone = (images.labels == 1).sum(axis=1) == 1
    hits = 0
    for index in np.flatnonzero(alone & (images.labels[:, images.classes.index("dog")] == 1))[:8]:
        image = images.read(index)
        batch = collate(
            [make_view(image, np.array([[0, 0, image.shape[1], image.shape[0]]]), 480, flip=index % 2 == 1)]
        )
        hits += 151 <= int(teach(teacher, batch, 160).logits.argmax()) <= 268
    assert hits >= 6
