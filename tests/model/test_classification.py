"""The spatial pyramid against a slow loop that follows the authors' program line by line."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.model.by_image import patch_rows
from deep_patch_learning.model.classification import PAPER_BANDS, PROGRAM_BANDS, ClassificationHead, SpatialPyramid


def slow_pyramid(encoded: torch.Tensor, centres: torch.Tensor, bands: tuple[float, float]) -> torch.Tensor:
    """Return one image's representation: cells in the program's order, half-open, 0 where empty, the first of equals."""
    low, high = bands
    cells = [(0, 1, 0, 1)]
    cells += [(x, x + 0.5, y, y + 0.5) for x in (0, 0.5) for y in (0, 0.5)]  # x outermost
    cells += [(0, 1, 0, low), (0, 1, low, high), (0, 1, high, 1)]
    filters = encoded.shape[1]
    out = torch.zeros(len(cells) * filters, dtype=encoded.dtype)
    for cell, (x1, x2, y1, y2) in enumerate(cells):
        for n in range(filters):
            best = None
            for j, (x, y) in enumerate(centres.tolist()):
                if x1 <= x < x2 and y1 <= y < y2 and (best is None or encoded[j, n] > encoded[best, n]):
                    best = j
            if best is not None:
                out[cell * filters + n] = encoded[best, n]
    return out


# centres on cell edges are the interesting ones
places = st.sampled_from([0.0, 0.1, 0.33, 1 / 3, 0.4999, 0.5, 0.6, 2 / 3, 0.67, 0.9999])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(places, places), min_size=0, max_size=12), st.integers(0, 1000), st.booleans())
def test_equals_the_slow_loop(found: list[tuple[float, float]], seed: int, thirds: bool) -> None:
    bands = PAPER_BANDS if thirds else PROGRAM_BANDS
    centres = torch.tensor(found, dtype=torch.float64).view(-1, 2)
    generator = torch.Generator().manual_seed(seed)
    encoded = torch.randint(-2, 3, (len(found), 3), generator=generator).double()
    pooled = SpatialPyramid(bands)(encoded, centres, patch_rows(torch.zeros(len(found), dtype=torch.long), 1))
    assert torch.equal(pooled[0], slow_pyramid(encoded, centres, bands))


@pytest.mark.parametrize(
    ("centre", "cells"),
    [
        ((0.0, 0.0), [0, 1, 5]),
        ((0.0, 0.5), [0, 2, 6]),
        ((0.5, 0.0), [0, 3, 5]),
        ((0.5, 0.5), [0, 4, 6]),
        ((0.2, 0.33), [0, 1, 6]),
        ((0.2, 0.3299), [0, 1, 5]),
        ((0.7, 0.67), [0, 4, 7]),
        ((0.7, 0.6699), [0, 4, 6]),
    ],
)
def test_cells_are_half_open(centre: tuple[float, float], cells: list[int]) -> None:
    assert SpatialPyramid().cells_of(torch.tensor([centre], dtype=torch.float64))[0].tolist() == cells


def test_ties_give_the_gradient_to_the_first_patch_alone() -> None:
    encoded = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    centres = torch.full((3, 2), 0.25, dtype=torch.float64)
    SpatialPyramid()(encoded, centres, patch_rows(torch.zeros(3, dtype=torch.long), 1)).sum().backward()
    assert encoded.grad.tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]  # whole, quarter and band


def test_new_layers_start_as_the_paper_says() -> None:
    torch.manual_seed(0)
    head = ClassificationHead(4096, 20)
    assert head.part_filters.weight.shape == (256, 4096)
    assert head.classifier.weight.shape == (20, 2048)
    for layer in (head.part_filters, head.classifier):
        assert layer.weight.std().item() == pytest.approx(0.01, rel=0.02)
        assert layer.bias.abs().max().item() == 0
