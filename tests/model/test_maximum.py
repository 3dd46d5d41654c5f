"""The maximum over the patches of images against a slow loop: empty cells, ties, several cells per patch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.model.by_image import maximum_over_patches, patch_rows


def slow_maximum(values: torch.Tensor, image: torch.Tensor, images: int, inside: torch.Tensor) -> tuple:
    """Return maxima and winners by walking the patches one by one, the first of equal ones winning."""
    result, winner = torch.zeros(images, inside.shape[1], values.shape[1], dtype=values.dtype), {}
    for row, i in enumerate(image.tolist()):
        for cell in inside[row].nonzero().flatten().tolist():
            for column in range(values.shape[1]):
                held = winner.get((i, cell, column))
                if held is None or values[row, column] > values[held, column]:
                    winner[i, cell, column] = row
                    result[i, cell, column] = values[row, column]
    return result, winner


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 12), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(0, 10_000))
def test_equals_the_slow_loop_with_ties_and_empty_cells(
    patches: int, columns: int, images: int, cells: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-2, 3, (patches, columns), generator=generator).double().requires_grad_()
    image = torch.randint(images, (patches,), generator=generator)
    inside = torch.rand((patches, cells), generator=generator) < 0.6
    expected, winner = slow_maximum(values.detach(), image, images, inside)
    found = maximum_over_patches(values, patch_rows(image, images), inside)
    assert torch.equal(found, expected)
    weight = torch.rand(found.shape, generator=generator, dtype=torch.float64)
    if patches:
        (gradient,) = torch.autograd.grad((found * weight).sum(), values)
        slow_gradient = torch.zeros_like(values)
        for (i, cell, column), row in winner.items():
            slow_gradient[row, column] += weight[i, cell, column]
        torch.testing.assert_close(gradient, slow_gradient)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 10_000))
def test_the_short_way_of_images_with_as_many_patches_each(each: int, images: int, whole: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-2, 3, (images * each, 3), generator=generator).double().requires_grad_()
    image = torch.arange(images).repeat_interleave(each)
    inside = None if whole else torch.rand((len(values), 2), generator=generator) < 0.6
    rows = patch_rows(image, images, [each] * images)
    assert rows.full
    short, long = (maximum_over_patches(values, own, inside) for own in (rows, rows._replace(full=False)))
    assert torch.equal(short, long)
    weight = torch.rand(short.shape, generator=generator, dtype=torch.float64)
    gradients = [torch.autograd.grad((found * weight).sum(), values)[0] for found in (short, long)]
    assert torch.equal(*gradients)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_rows_from_counts_equal_rows_from_the_patches_images(counts: list[int]) -> None:
    image = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    rows = patch_rows(image, len(counts), counts)
    assert torch.equal(rows.places, patch_rows(image, len(counts)).places)
    assert rows.full == (len(set(counts)) == 1)
    assert not patch_rows(image, len(counts)).full  # who knows how they lie
    for i, own in enumerate(rows.places):
        assert own[own >= 0].tolist() == (image == i).nonzero().flatten().tolist()


def test_a_negative_maximum_is_not_replaced_by_the_zero_of_an_image_without_patches() -> None:
    found = maximum_over_patches(torch.tensor([[-5.0], [-7.0]]), patch_rows(torch.tensor([1, 1]), 2))
    assert found.flatten().tolist() == [0.0, -5.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keeps_the_kind_of_number(dtype: torch.dtype) -> None:
    assert maximum_over_patches(torch.ones(2, 3, dtype=dtype), patch_rows(torch.tensor([0, 0]), 1)).dtype == dtype


def test_what_is_not_a_number_is_not_hidden() -> None:
    values = torch.tensor([[1.0], [float("nan")], [2.0]])
    found = maximum_over_patches(values, patch_rows(torch.tensor([0, 0, 1]), 2))
    assert found[0].isnan()
    assert found[1] == 2
