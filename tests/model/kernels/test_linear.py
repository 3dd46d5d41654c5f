"""Large products by oneDNN equal torch's; small ones, and those with a gradient, are torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from deep_patch_learning.model.kernels import fused as kernel


def product(rows: int, inputs: int, outputs: int, bias: bool = True) -> tuple[nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs, bias=bias), torch.randn(rows, inputs)


@pytest.mark.parametrize("bias", [True, False])
def test_a_large_product_is_the_same_up_to_rounding(bias: bool) -> None:
    layer, features = product(300, 4096, 64, bias)
    with torch.inference_mode():
        found = kernel.linear(layer, features)
        wanted = F.linear(features.double(), layer.weight.double(), layer.bias.double() if bias else None)
    assert torch.allclose(found.double(), wanted, atol=1e-5)


def test_a_small_product_is_torchs_to_the_last_digit() -> None:
    layer, features = product(300, 100, 64)
    assert kernel.LARGE > 300 * 100 * 64
    with torch.inference_mode():
        assert torch.equal(kernel.linear(layer, features), layer(features))


def test_gradients_are_torchs() -> None:
    layer, features = product(300, 4096, 64)
    kernel.linear(layer, features).sum().backward()
    found, layer.weight.grad = layer.weight.grad, None
    layer(features).sum().backward()
    assert torch.equal(found, layer.weight.grad)  # type: ignore[arg-type]
