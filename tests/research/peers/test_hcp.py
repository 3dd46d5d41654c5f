"""Hypotheses pass the whole network one by one; their maximum is the image's score."""

import pytest
import torch
import torch.nn.functional as F
from torchvision.ops import roi_align

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers.hcp import HypothesesCnn, build_hcp, cropped


@pytest.fixture
def network(parts: DeepPatchNet) -> HypothesesCnn:
    made = build_hcp(parts, 128, 5).eval()
    torch.nn.init.normal_(made.discovery.patch_classifier.weight, std=0.5)
    return made


def test_it_is_a_loop_over_hypotheses(network: HypothesesCnn, alone: list[Batch]) -> None:
    for one in alone:
        scores = []
        for box in one.patches:
            crop = roi_align(one.images, [box[None].float()], 56, aligned=True)
            maps = network.backbone.body((crop - network.backbone.mean) / network.backbone.std)
            hidden = F.adaptive_max_pool2d(maps, 6)
            layers = network.patch_features
            features = torch.relu(layers.fc7(torch.relu(layers.fc6(hidden.flatten(1)))))  # type: ignore[operator]
            scores.append(network.discovery.patch_classifier(features)[0])
        found = network(one)
        torch.testing.assert_close(found.patches, torch.stack(scores))
        torch.testing.assert_close(found.discovery[0], torch.stack(scores).amax(dim=0))
        assert found.classification is None


def test_a_padded_batch_equals_its_images_one_by_one(network: HypothesesCnn, batch: Batch, alone: list[Batch]) -> None:
    together = network(batch)
    for i, one in enumerate(alone):
        found = network(one)
        torch.testing.assert_close(found.patches, together.patches[batch.patch_image == i], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found.discovery[0], together.discovery[i], rtol=1e-4, atol=1e-4)


def test_chunks_change_nothing(network: HypothesesCnn, batch: Batch) -> None:
    for a, b in zip(network(batch), network(batch, chunk=2), strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_crop_is_the_bilinear_warp_of_its_pixels() -> None:
    image = torch.rand(1, 3, 40, 60) * 255
    box = torch.tensor([[10.0, 5.0, 30.0, 25.0]])
    same = cropped(image, box, torch.tensor([0]), 20)
    torch.testing.assert_close(same[0], image[0, :, 5:25, 10:30])
    whole = torch.tensor([[0.0, 0.0, 60.0, 40.0]])
    grown = cropped(image, whole, torch.tensor([0]), 80)
    torch.testing.assert_close(grown, F.interpolate(image, (80, 80), mode="bilinear", align_corners=False))


def test_nothing_is_shared_between_hypotheses(network: HypothesesCnn, alone: list[Batch]) -> None:
    """Pixels outside a patch change nothing, which a shared map could not promise."""
    one = alone[2]
    x1, y1, x2, y2 = (int(value) for value in one.patches[0])
    blank = torch.zeros_like(one.images)
    blank[..., y1:y2, x1:x2] = one.images[..., y1:y2, x1:x2]
    inner = one.patches + torch.tensor([1.0, 1.0, -1.0, -1.0])
    a, b = (network(one._replace(images=images, patches=inner)).patches for images in (one.images, blank))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["alexnet", "resnet50"])
def test_larger_backbones_crop_at_224_and_learn_in_every_layer(name: str, alone: list[Batch]) -> None:
    torch.manual_seed(0)
    built, _ = build_network(Recipe.of(backbone=name, heads=("discovery",)), 3)
    network = build_hcp(built, built.patch_features.width, 3).train()  # type: ignore[arg-type]
    assert network.side == 224
    torch.nn.init.normal_(network.discovery.patch_classifier.weight, std=0.5)
    network(alone[1]).discovery.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
