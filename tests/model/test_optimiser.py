"""Caffe's momentum has the learning rate inside: torch's at a constant rate, and at a drop what the equations say."""

import pytest
import torch
from torch import nn

from deep_patch_learning.model.optimiser import CaffeSGD
from deep_patch_learning.recipe.build import build_network, recipe_optimiser
from deep_patch_learning.recipe.presets import RECIPES
from deep_patch_learning.recipe.recipe import Recipe

MOMENTUM, DECAY = 0.9, 5e-4


def run(kind: type, rates: list[float], gradients: list[float]) -> list[float]:
    """Return the weight after each step."""
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimiser = kind([weight], lr=1.0, momentum=MOMENTUM, weight_decay=DECAY)
    found = []
    for rate, gradient in zip(rates, gradients, strict=True):
        optimiser.param_groups[0]["lr"] = rate
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimiser.step()
        found.append(weight.item())
    return found


GRADIENTS = [0.5, -1.0, 2.0, 0.25, 3.0, -0.75]


def test_at_a_constant_rate_both_conventions_agree() -> None:
    rates = [1e-2] * 6
    assert run(CaffeSGD, rates, GRADIENTS) == pytest.approx(run(torch.optim.SGD, rates, GRADIENTS), abs=1e-14)


def test_at_a_drop_of_the_rate_each_follows_its_own_equation() -> None:
    rates = [1e-2] * 3 + [1e-3] * 3
    caffe, torchs = run(CaffeSGD, rates, GRADIENTS), run(torch.optim.SGD, rates, GRADIENTS)
    inside, outside, weights = 0.0, 0.0, [2.0, 2.0]
    for step, (rate, gradient) in enumerate(zip(rates, GRADIENTS, strict=True)):
        inside = MOMENTUM * inside + rate * (gradient + DECAY * weights[0])
        weights[0] -= inside
        outside = MOMENTUM * outside + (gradient + DECAY * weights[1])
        weights[1] -= rate * outside
        assert caffe[step] == pytest.approx(weights[0], abs=1e-14)
        assert torchs[step] == pytest.approx(weights[1], abs=1e-14)
    assert caffe[2] == pytest.approx(torchs[2], abs=1e-14)
    # at the drop the old momentum goes on at the old rate here, at a tenth of it there
    before = (torchs[1] - torchs[2]) / 1e-2
    assert torchs[3] - caffe[3] == pytest.approx((1e-2 - 1e-3) * MOMENTUM * before, abs=1e-12)


def test_weights_without_a_gradient_stay_and_the_state_goes_there_and_back() -> None:
    first, second = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    optimiser = CaffeSGD([first, second], lr=0.1)
    first.grad = torch.ones(3)
    optimiser.step()
    assert second.tolist() == [1, 1]
    again = CaffeSGD([first, second], lr=0.1)
    again.load_state_dict(optimiser.state_dict())
    again.step()
    assert first.tolist() == pytest.approx([1 - 0.1 - 0.19] * 3)


@pytest.mark.parametrize("name", RECIPES)
def test_the_paper_alone_uses_caffes_convention(name: str) -> None:
    recipe = RECIPES[name]()
    assert (recipe.optimiser.momentum_convention == "caffe") == (name == "paper")
    network = build_network(Recipe.of(backbone="tiny"), 2)[0]
    assert isinstance(recipe_optimiser(network, recipe), CaffeSGD) == (name == "paper")
    plain = recipe_optimiser(network, RECIPES["paper"]().replace(momentum_convention="torch"))
    assert type(plain) is torch.optim.SGD
