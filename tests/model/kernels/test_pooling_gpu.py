"""The GPU's pooling kernels, run by Triton's interpreter (or on a GPU where there is one), against torchvision's."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

COMPARE = """
import torch
from torchvision.ops import roi_pool
from deep_patch_learning.model.kernels.pooling_gpu import roi_max_pool
device = "{device}"
generator = torch.Generator().manual_seed(0)
def number(low, high):
    return int(torch.randint(low, high, (1,), generator=generator))
for trial in range(8):
    depth, height, width = number(3, 20), number(3, 14), number(3, 14)
    # whole numbers give ties, which decide who gets the gradient
    maps = torch.randint(-3, 4, (2, depth, height, width), generator=generator).float().to(device).requires_grad_()
    edge = torch.tensor([width * 16.0, height * 16.0])
    corner = torch.rand(9, 2, generator=generator) * edge
    far = torch.minimum(corner + torch.rand(9, 2, generator=generator) * edge, edge)
    patches = torch.cat((corner, far), 1).to(device)
    image = torch.randint(2, (9,), generator=generator).to(device)
    for size in (6, 7):
        rois = torch.cat((image[:, None].float(), patches), 1)
        expected, found = roi_pool(maps, rois, (size, size), 1 / 16), roi_max_pool(maps, patches, image, size, 1 / 16)
        assert torch.equal(found, expected)
        weight = torch.randn(found.shape, generator=generator).to(device)
        first, second = (torch.autograd.grad((f * weight).sum(), maps)[0] for f in (found, expected))
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)
empty = roi_max_pool(maps, patches[:0], image[:0], 7, 1 / 16)
assert empty.shape == (0, depth, 7, 7)
print("equal")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which comes with torch on Linux")
def test_equals_torchvision_with_ties_and_gradients() -> None:
    on_gpu = torch.cuda.is_available()
    environment = os.environ | ({} if on_gpu else {"TRITON_INTERPRET": "1"})
    script = COMPARE.replace("{device}", "cuda" if on_gpu else "cpu")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "equal", done.stderr[-2000:]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which comes with torch on Linux")
@pytest.mark.parametrize("size", [6, 7])
def test_bins_are_those_of_the_cpu_also_just_beside_a_half(size: int) -> None:
    from deep_patch_learning.model.kernels.pooling_gpu import bin_edges
    from deep_patch_learning.model.kernels.pooling_loops import bin_bounds

    halves = torch.arange(-3, 31).float() + 0.5
    below, above = (torch.nextafter(halves, torch.full_like(halves, side)) for side in (-100.0, 100.0))
    low = torch.cat((below, halves, above))
    high = low.flip(0)
    rois = torch.stack((torch.zeros_like(low), low, low, high, high), dim=1).numpy()
    expected = bin_bounds(rois, rois.dtype.type(1), size, 31, 31)[:, 0]  # (P, size, 2)
    begin, finish = bin_edges(low, high, size, 31)
    assert begin.tolist() == expected[..., 0].tolist()
    assert finish.tolist() == expected[..., 1].tolist()
