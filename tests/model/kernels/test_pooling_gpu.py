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
