"""RoI max-pooling on the CPU against torchvision's: the same bits forward, the same sums backward, whatever the patches."""

import itertools
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.ops import roi_pool

from deep_patch_learning.model.kernels.pooling_cpu import pays, roi_max_pool
from deep_patch_learning.model.kernels.pooling_loops import table_levels

KINDS = (torch.float32, torch.float64)


def bits(values: Tensor) -> Tensor:
    """Return the numbers as whole numbers, in which -0.0 is not 0.0."""
    return values.contiguous().view(torch.int32 if values.dtype == torch.float32 else torch.int64)


def check(maps: Tensor, rois: Tensor, size: int, scale: float, seed: int = 0) -> Tensor:
    """Return what was pooled, having seen that it and its gradient have the bits of torchvision's."""
    generator = torch.Generator().manual_seed(seed)
    ours, theirs = maps.detach().clone().requires_grad_(), maps.detach().clone().requires_grad_()
    found, expected = roi_max_pool(ours, rois, size, scale), roi_pool(theirs, rois, size, scale)
    assert found.shape == expected.shape
    assert found.is_contiguous()
    assert torch.equal(bits(found), bits(expected))
    weight = torch.randn(found.shape, generator=generator, dtype=maps.dtype)
    (gradient,) = torch.autograd.grad(found, ours, weight)
    (expected_gradient,) = torch.autograd.grad(expected, theirs, weight)
    assert torch.equal(gradient, expected_gradient)
    return found.detach()


def some_maps(shape: tuple[int, ...], kind: str, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Return maps of a kind: any numbers, many ties, or both zeros, infinities and what is not a number among them."""
    if kind == "any":
        return torch.randn(shape, generator=generator, dtype=dtype)
    if kind == "ties":
        return torch.randint(-2, 2, shape, generator=generator).to(dtype)
    if kind == "after a ReLU":
        return torch.randn(shape, generator=generator, dtype=dtype).relu()
    odd = torch.tensor([0.0, -0.0, -1.0, 1.0, torch.nan, torch.inf, -torch.inf, -3.4028234663852886e38], dtype=dtype)
    choice = torch.randint(0, 3 if kind == "zeros" else len(odd), shape, generator=generator)
    return odd[choice]


def some_rois(count: int, maps: Tensor, stride: int, generator: torch.Generator) -> Tensor:
    """Return patches in the image, across its border, outside it, turned round, of one pixel, and on halves of cells."""
    images, _, height, width = maps.shape
    span = torch.tensor([width, height, width, height]) * stride
    boxes = (torch.rand(count, 4, generator=generator, dtype=maps.dtype) * 2 - 0.5) * span
    inside = torch.rand(count, 2, 2, generator=generator, dtype=maps.dtype).sort(1).values.reshape(count, 4) * span
    way = torch.randint(0, 5, (count, 1), generator=generator)
    boxes = torch.where(way <= 1, inside, boxes)
    boxes = torch.where(way == 2, boxes[:, [0, 1, 0, 1]], boxes)
    boxes = torch.where(way == 3, (boxes * 2 / stride).round() * stride / 2, boxes)
    image = torch.randint(0, images, (count, 1), generator=generator).to(maps.dtype)
    return torch.cat((image, boxes), dim=1)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(("any", "ties", "after a ReLU", "zeros", "odd")),
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 3), st.sampled_from((1, 5, 32, 37)), st.integers(1, 19), st.integers(1, 23)),
    st.sampled_from((1, 3, 40, 300)),
    st.integers(1, 8),
    st.sampled_from((1, 3, 4, 16)),
    st.integers(0, 10_000),
)
def test_has_the_bits_of_torchvision(
    kind: str, dtype: torch.dtype, shape: tuple[int, ...], patches: int, size: int, stride: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    maps = some_maps(shape, kind, dtype, generator)
    check(maps, some_rois(patches, maps, stride, generator), size, 1 / stride, seed)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("size", [1, 6, 7])
def test_every_patch_of_a_small_map(dtype: torch.dtype, size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    maps = torch.randint(0, 3, (1, 3, 9, 7), generator=generator).to(dtype)
    corners = itertools.product(range(-1, 9), range(-1, 10), range(-1, 9), range(-1, 10))
    rois = torch.tensor([(0, *c) for c in corners if c[2] >= c[0] and c[3] >= c[1]], dtype=dtype)
    check(maps, rois, size, 1.0)


@pytest.mark.parametrize("dtype", KINDS)
def test_quotients_round_as_torchvision_rounds_them(dtype: torch.dtype) -> None:
    # with every width and size, some products of a bin's number and the bin's width fall just beside a whole number
    maps = torch.arange(4.0 * 130, dtype=dtype).reshape(1, 1, 4, 130)
    rois = torch.tensor([(0, 0, 0, end, 3) for end in range(130)], dtype=dtype)
    for size in range(1, 16):
        check(maps, rois, size, 1.0)


def test_corners_beside_a_half() -> None:
    half = torch.tensor(0.5)
    below, above = torch.nextafter(half, half - 1).item(), torch.nextafter(half, half + 1).item()
    starts = [sign * (whole + part) for sign in (-1, 1) for whole in (0, 1, 2) for part in (below, 0.5, above)]
    rois = torch.tensor([(0, x, y, x + 3, y + 2) for x in starts for y in starts])
    check(torch.arange(48.0).reshape(1, 1, 6, 8), rois, 2, 1.0)
    check(torch.arange(48.0).reshape(1, 1, 6, 8), rois * torch.tensor([1, 3, 3, 3, 3]), 2, 1 / 3)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("scale", [1 / 3, 1 / 7, 0.1, 0.3, 0.7])
def test_products_of_corner_and_scale_round_as_torchvision_rounds_them(dtype: torch.dtype, scale: float) -> None:
    halves = (torch.arange(60, dtype=torch.float64) + 0.5) / scale
    corners = halves.to(dtype)
    rois = torch.stack((torch.zeros_like(corners), corners, torch.zeros_like(corners), corners, corners), dim=1)
    check(torch.arange(3600.0, dtype=dtype).reshape(1, 1, 60, 60), rois, 1, scale)


def test_first_of_equal_cells_gets_the_gradient() -> None:
    # the greatest stand in the top right and in the bottom left: rows come before columns
    maps = torch.zeros(1, 1, 3, 3, requires_grad=True)
    with torch.no_grad():
        maps[0, 0, 0, 2] = maps[0, 0, 2, 0] = maps[0, 0, 2, 2] = 1
    roi_max_pool(maps, torch.tensor([[0.0, 0, 0, 2, 2]]), 1, 1.0).sum().backward()
    assert maps.grad is not None
    assert maps.grad.nonzero().tolist() == [[0, 0, 0, 2]]


def test_a_bin_that_holds_nothing_is_zero_and_gives_no_gradient() -> None:
    maps = torch.full((1, 2, 4, 4), -1.0, requires_grad=True)
    pooled = roi_max_pool(maps, torch.tensor([[0.0, 50, 50, 60, 60]]), 3, 1.0)
    assert torch.equal(pooled, torch.zeros(1, 2, 3, 3))
    pooled.sum().backward()
    assert maps.grad is not None
    assert not maps.grad.any()


def test_gradient_is_that_of_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randperm(2 * 3 * 6 * 5, generator=generator).double().reshape(2, 3, 6, 5).requires_grad_()
    rois = some_rois(9, maps, 4, generator)
    assert torch.autograd.gradcheck(lambda m: roi_max_pool(m, rois, 3, 0.25), (maps,))


@pytest.mark.parametrize("shape", [(0, 4, 5, 6), (2, 4, 5, 6), (2, 0, 5, 6)])
def test_no_patches(shape: tuple[int, ...]) -> None:
    maps = torch.randn(shape, requires_grad=True)
    pooled = roi_max_pool(maps, torch.zeros(0, 5), 7, 1 / 16)
    assert pooled.shape == (0, shape[1], 7, 7)
    pooled.sum().backward()
    assert maps.grad is not None
    assert maps.grad.shape == shape
    assert not maps.grad.any()


@pytest.mark.parametrize("dtype", KINDS)
def test_any_order_in_memory(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    whole = torch.randn(4, 80, 11, 26, generator=generator, dtype=dtype)
    rois = some_rois(60, whole[:2], 4, generator)
    ways = {
        "channels last": whole[:2].contiguous(memory_format=torch.channels_last),
        "a part": whole[::2, 3:43, 1:, ::2],
        "turned": whole.transpose(2, 3)[:2],
        "spread from one": whole[:1, :1].expand(2, 7, 11, 26),
    }
    for name, maps in ways.items():
        leaf = maps.detach().requires_grad_()
        found = roi_max_pool(leaf, rois, 5, 0.25)
        assert torch.equal(found, roi_pool(maps, rois, 5, 0.25)), name
        weight = torch.randn(found.shape[0], 1, 5, 5, dtype=dtype).expand(found.shape)  # a gradient with strides of 0
        (gradient,) = torch.autograd.grad(found, leaf, weight)
        twin = maps.detach().clone().requires_grad_()
        (expected,) = torch.autograd.grad(roi_pool(twin, rois, 5, 0.25), twin, weight)
        assert torch.equal(gradient, expected), name


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: type) -> None:
    generator = torch.Generator().manual_seed(2)
    with mode():
        maps = torch.randn(1, 8, 9, 9, generator=generator)
        rois = some_rois(20, maps, 4, generator)
        found = roi_max_pool(maps, rois, 7, 0.25)
        assert not found.requires_grad
        assert torch.equal(found, roi_pool(maps, rois, 7, 0.25))


def test_number_of_threads_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    maps = torch.randn(3, 70, 12, 12, generator=generator)
    rois = some_rois(200, maps, 4, generator)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            check(maps, rois, 7, 0.25)
    finally:
        torch.set_num_threads(before)


def test_several_callers_at_once() -> None:
    generator = torch.Generator().manual_seed(4)
    maps = torch.randn(2, 64, 12, 12, generator=generator)
    rois = some_rois(100, maps, 4, generator)
    expected, found = roi_pool(maps, rois, 7, 0.25), []
    callers = [threading.Thread(target=lambda: found.append(roi_max_pool(maps, rois, 7, 0.25))) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 6
    assert all(torch.equal(one, expected) for one in found)


def test_table_grows_with_the_number_of_patches() -> None:
    # both ends of the choice must be among the cases above: no table beside the map, and every level of it
    bins = torch.tensor([[0, 9], [9, 18]])
    few = bins.expand(1, 2, 2, 2).contiguous().numpy()
    many = bins.expand(500, 2, 2, 2).contiguous().numpy()
    assert table_levels(few, 18 * 18 * 4).tolist() == [1, 1]
    assert table_levels(many, 18 * 18).tolist() == [4, 4]


def test_pays_for_many_patches_and_not_for_few() -> None:
    maps = torch.zeros(16, 48, 40, 40, requires_grad=True)
    assert pays(maps, 16 * 32, 6)
    assert not pays(maps, 16 * 8, 6)
    assert pays(maps.detach(), 16 * 8, 6)
    assert not pays(maps.detach(), 16, 6)
    with torch.no_grad():
        assert pays(maps, 16 * 8, 6)


@pytest.mark.parametrize(
    ("maps", "rois", "message"),
    [
        (torch.zeros(2, 3, 4, 4), torch.tensor([[0.0, 0, 0, 1, 1], [2, 0, 0, 1, 1]]), "row 1 of rois is of image 2"),
        (torch.zeros(2, 3, 4, 4), torch.tensor([[-1.0, 0, 0, 1, 1]]), "row 0 of rois is of image -1"),
        (torch.zeros(2, 3, 4, 4), torch.zeros(3, 4), r"wanted \(P, 5\)"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.float16), torch.zeros(3, 5), "float16"),
        (torch.zeros(3, 4, 4), torch.zeros(3, 5), r"wanted \(I, D, h, w\)"),
    ],
)
def test_says_what_is_wrong(maps: Tensor, rois: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        roi_max_pool(maps, rois, 7, 1 / 16)


def test_patches_infinitely_far_away_hold_nothing() -> None:
    far = [1e30, -1e30, float("inf"), -float("inf")]
    rois = torch.tensor([(0, x, x, x, x) for x in far])
    assert not roi_max_pool(torch.ones(1, 1, 4, 4), rois, 2, 1.0).any()
