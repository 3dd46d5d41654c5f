"""The maximum over groups of patches against a slow loop: empty groups, ties, several groups per patch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.model.maximum import grouped_argmax, grouped_maximum


def slow_maximum(values: torch.Tensor, group: torch.Tensor, groups: int, rows: torch.Tensor) -> tuple:
    """Return maxima and winners by walking the candidates one by one, the first of equal ones winning."""
    result, winner = torch.zeros(groups, values.shape[1], dtype=values.dtype), {}
    for place, (g, row) in enumerate(zip(group.tolist(), rows.tolist(), strict=True)):
        for column in range(values.shape[1]):
            held = winner.get((g, column))
            if held is None or values[row, column] > values[held, column]:
                winner[g, column] = row
                result[g, column] = values[row, column]
        assert place >= 0
    return result, winner


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(1, 4), st.integers(1, 5), st.integers(0, 10_000))
def test_equals_the_slow_loop_with_ties_and_empty_groups(patches: int, columns: int, groups: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-2, 3, (patches, columns), generator=generator).double().requires_grad_()
    group = torch.randint(groups, (patches,), generator=generator)
    expected, winner = slow_maximum(values.detach(), group, groups, torch.arange(patches))
    found = grouped_maximum(values, group, groups)
    assert torch.equal(found, expected)
    weight = torch.rand(found.shape, generator=generator, dtype=torch.float64)
    if patches:
        (gradient,) = torch.autograd.grad((found * weight).sum(), values)
        slow_gradient = torch.zeros_like(values)
        for (g, column), row in winner.items():
            slow_gradient[row, column] += weight[g, column]
        assert torch.equal(gradient, slow_gradient)


def test_one_patch_in_several_groups() -> None:
    values = torch.tensor([[1.0], [3.0], [2.0]])
    found = grouped_maximum(values, torch.tensor([0, 1, 1, 2]), 4, rows=torch.tensor([0, 0, 2, 1]))
    assert found.tolist() == [[1.0], [2.0], [3.0], [0.0]]


def test_negative_maximum_is_not_replaced_by_the_zero_of_empty_groups() -> None:
    found = grouped_maximum(torch.tensor([[-5.0], [-7.0]]), torch.tensor([1, 1]), 2)
    assert found.tolist() == [[0.0], [-5.0]]


def test_first_of_equal_wins() -> None:
    values = torch.ones(4, 1)
    rows = torch.tensor([3, 1, 2, 0])
    assert grouped_argmax(values[rows], torch.zeros(4, dtype=torch.long), 1, rows).item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keeps_the_kind_of_number(dtype: torch.dtype) -> None:
    assert grouped_maximum(torch.ones(2, 3, dtype=dtype), torch.tensor([0, 0]), 1).dtype == dtype


def test_what_is_not_a_number_is_not_hidden() -> None:
    values = torch.tensor([[1.0], [float("nan")], [2.0]])
    found = grouped_maximum(values, torch.tensor([0, 0, 1]), 2)
    assert found[0].isnan()
    assert found[1] == 2
