"""The plain CNN is the whole network on each whole image, whatever the batch."""

from pathlib import Path

import pytest
import torch

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers.plain_cnn import build_plain


def plain(name: str, classes: int = 5) -> torch.nn.Module:
    torch.manual_seed(0)
    parts, _ = build_network(Recipe.of(backbone=name, heads=("discovery",)), classes)
    network = build_plain(parts, parts.patch_features.width, classes)  # type: ignore[arg-type]
    torch.nn.init.normal_(network.classification.weight, std=0.5)  # type: ignore[union-attr,arg-type]
    return network.eval()


@pytest.mark.parametrize("name", ["tiny", "alexnet", "resnet50"])
def test_a_padded_batch_equals_its_images_one_by_one(name: str, batch: Batch, alone: list[Batch]) -> None:
    network = plain(name)
    with torch.no_grad():
        together = network(batch)
        for i, one in enumerate(alone):
            assert not one.padded
            torch.testing.assert_close(network(one).classification[0], together.classification[i], rtol=1e-3, atol=1e-3)
    assert together[1:4] == (None, None, None)


def test_a_residual_network_is_torchvisions_own(alone: list[Batch], tmp_path: Path) -> None:
    """From pixels to the mean over the last map, on the whole image."""
    from torchvision.models import resnet50

    torch.manual_seed(0)
    whole = resnet50().eval()
    torch.save(whole.state_dict(), tmp_path / "weights.pth")
    parts, _ = build_network(
        Recipe.of(backbone="resnet50", heads=("discovery",), weights=str(tmp_path / "weights.pth")), 3
    )
    network = build_plain(parts, 2048, 3).eval()
    whole.fc = torch.nn.Identity()
    pixels = (alone[0].images - network.backbone.mean) / network.backbone.std
    with torch.no_grad():
        torch.testing.assert_close(network.features(alone[0]), whole(pixels), rtol=1e-3, atol=1e-4)


def test_fully_connected_layers_take_the_image_as_one_patch(parts: DeepPatchNet, alone: list[Batch]) -> None:
    network = build_plain(parts, 128, 5).eval()
    one = alone[1]._replace(patches=torch.tensor([[0.0, 0.0, 180.0, 256.0]]), patch_image=torch.tensor([0]))
    maps = parts.backbone(one.images)
    expected = parts.patch_features(parts.pool(maps, one.patches, one.patch_image))
    torch.testing.assert_close(network.features(alone[1]), expected)


@pytest.mark.parametrize("name", ["tiny", "resnet50"])
def test_the_gradient_reaches_every_layer(name: str, batch: Batch) -> None:
    network = plain(name).train()
    network(batch).classification.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
    names = {n.split(".")[0] for n, _ in network.named_parameters()}
    assert names == {"backbone", "patch_features", "classification"}
