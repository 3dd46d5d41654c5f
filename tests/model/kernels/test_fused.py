"""Folded norms and fused convolutions against the layers they stand for."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from deep_patch_learning.model.backbones.registry import trunk
from deep_patch_learning.model.kernels import fused
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe


def settle(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every norm statistics and factors of its own, as if it had been trained."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1, generator=generator)
            layer.running_var.uniform_(0.5, 2, generator=generator)
            with torch.no_grad():
                layer.weight.uniform_(0.5, 1.5, generator=generator)
                layer.bias.normal_(0, 0.1, generator=generator)
    return module.eval()


@pytest.mark.parametrize("name", ["resnet50", "resnet50-v1", "resnet50-near"])
def test_folding_changes_nothing_that_is_computed(name: str) -> None:
    torch.manual_seed(0)
    parts = trunk(name)
    body, stage = settle(parts.backbone), settle(parts.patch_features)
    images = torch.rand(1, 3, 64, 96) * 255
    with torch.no_grad():
        before = stage(body(images))
        fused.fold_norms(body)
        fused.fold_norms(stage)
        after = stage(body(images))
    assert not any(isinstance(m, nn.BatchNorm2d) for m in (*body.modules(), *stage.modules()))
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)


@pytest.fixture
def plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's two kernels by their definition, for a machine without a GPU: what is tested is how they are strung together."""

    def relu(x, w, b, stride, padding, dilation, groups):  # type: ignore[no-untyped-def]
        return F.conv2d(x, w, b, stride, padding, dilation, groups).relu()

    def add_relu(x, w, z, alpha, b, stride, padding, dilation, groups):  # type: ignore[no-untyped-def]
        return (F.conv2d(x, w, b, stride, padding, dilation, groups) + alpha * z).relu()

    monkeypatch.setattr(torch, "cudnn_convolution_relu", relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", add_relu)


@pytest.mark.parametrize("name", ["resnet50-v1", "vgg16", "alexnet"])
def test_a_fused_body_equals_its_layers_and_so_do_its_gradients(name: str, plain_kernels: None) -> None:
    torch.manual_seed(1)
    body = settle(trunk(name).backbone).body.double()
    fused.fold_norms(body)
    images = torch.randn(2, 3, 64, 80, dtype=torch.float64, requires_grad=True)
    found, expected = fused.run_fused(body, images * 1.0), body(images * 1.0)
    torch.testing.assert_close(found, expected)
    wanted = [images, *body.parameters()]
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), wanted),
        torch.autograd.grad(expected.square().sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_stages_within_a_stage_are_fused_too(plain_kernels: None) -> None:
    torch.manual_seed(2)
    stage = settle(trunk("resnet50-near").patch_features).stage
    fused.fold_norms(stage)
    pooled = torch.randn(2, 512, 14, 14)
    with torch.no_grad():
        torch.testing.assert_close(fused.run_fused(stage, pooled), stage(pooled), rtol=1e-3, atol=1e-4)


def test_copies_follow_weights_that_move_to_other_memory(plain_kernels: None) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
    images = torch.randn(2, 8, 9, 9)
    with torch.no_grad():
        fused.run_fused(body, images)
        body[0].weight.data = torch.randn(8, 8, 3, 3)
        torch.testing.assert_close(fused.run_fused(body, images), body(images))
        body.double()
        torch.testing.assert_close(fused.run_fused(body, images.double()), body(images.double()))


def test_a_network_that_was_asked_first_can_learn(plain_kernels: None) -> None:
    body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
    images = torch.randn(2, 8, 9, 9)
    with torch.inference_mode():
        fused.run_fused(body, images)
    fused.run_fused(body, images).sum().backward()
    assert body[0].weight.grad is not None


def test_a_second_forward_pass_leaves_the_first_one_its_gradient(plain_kernels: None) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
    one, other = torch.randn(2, 2, 8, 9, 9)
    (fused.run_fused(body, one).sum() + fused.run_fused(body, other).sum()).backward()
    found = body[0].weight.grad.clone()
    body.zero_grad()
    (body(one).sum() + body(other).sum()).backward()
    torch.testing.assert_close(found, body[0].weight.grad)


@pytest.mark.parametrize("way", [{"fused": True}, {"foreach": True}, {}])
def test_every_step_of_an_optimiser_is_seen_by_the_next_pass(way: dict, plain_kernels: None) -> None:
    """A fused optimiser changes weights without raising their version; training on old copies looks much like training."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
    images = torch.randn(2, 8, 9, 9)
    optimiser = torch.optim.AdamW(body.parameters(), lr=0.1, **way)
    for _ in range(3):
        fused.run_fused(body, images).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        with torch.no_grad():
            torch.testing.assert_close(fused.run_fused(body, images), body(images))


def test_weights_of_our_own_runs_fill_a_folded_network(tmp_path: Path) -> None:
    first = build_network(Recipe.of(backbone="resnet50"), 3)[0]
    with torch.no_grad():
        first.backbone.body.conv1.bias.fill_(0.25)
    kept = {name: t for name, t in first.state_dict().items() if name.startswith(("backbone.", "patch_features."))}
    save_file(kept, tmp_path / "own.safetensors")
    second, report = build_network(Recipe.of(backbone="resnet50", weights=str(tmp_path / "own.safetensors")), 3)
    assert all(torch.equal(second.state_dict()[name], tensor) for name, tensor in kept.items())
    assert report is not None
    assert all(name.startswith(("classification", "discovery")) for name in report.new)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["resnet50-v1", "resnet50-near", "vgg16"])
def test_on_a_gpu_the_fused_body_is_as_near_to_single_precision_as_the_layers_are(name: str) -> None:
    torch.manual_seed(1)
    body = settle(trunk(name).backbone).body.cuda().to(memory_format=torch.channels_last)
    fused.fold_norms(body)
    images = torch.randn(2, 3, 96, 128, device="cuda")
    exact = body(images.clone())
    with torch.autocast("cuda", torch.bfloat16):
        layers, found = body(images.clone()), fused.run(body, images)
    assert (found - exact).norm() <= 1.5 * (layers - exact).norm()
