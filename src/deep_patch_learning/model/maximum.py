"""The maximum over groups of patches, in which the first of equal patches wins and alone gets the gradient."""

import torch
from torch import Tensor


def grouped_argmax(values: Tensor, group: Tensor, groups: int, rows: Tensor) -> Tensor:
    """Return for each group and column the entry of `rows` whose value is greatest: (groups, N) of int64.

    `values` (R, N) holds the candidates, `group` (R,) the group of each and `rows` (R,) what to call it. Of equal values
    the smallest entry of `rows` is taken. A group without candidates gets the largest int64.
    """
    columns = values.shape[1]
    index = group[:, None].expand(-1, columns)
    lowest = torch.full((groups, columns), -torch.inf, dtype=values.dtype, device=values.device)
    greatest = lowest.scatter_reduce(0, index, values, "amax")
    # rows that do not reach the maximum are called by a number that no row can win with
    nobody = torch.iinfo(torch.int64).max
    # a score that is not a number wins too, so that it shows in the loss
    called = torch.where((values == greatest[group]) | values.isnan(), rows[:, None], nobody)
    return torch.full((groups, columns), nobody, device=values.device).scatter_reduce(0, index, called, "amin")


def grouped_maximum(values: Tensor, group: Tensor, groups: int, rows: Tensor | None = None) -> Tensor:
    """Return the maximum of each group: (groups, N); 0 without gradient for a group that has no candidates.

    Without `rows`, row r of `values` (P, N) belongs to `group[r]`. With `rows`, candidate r is row `rows[r]` of `values`, so
    that one patch can stand in several groups.
    """
    if rows is None:
        rows = torch.arange(len(values), device=values.device)
        candidates = values.detach()
    else:
        candidates = values.detach()[rows]
    if not len(values):
        return values.new_zeros(groups, values.shape[1])
    winner = grouped_argmax(candidates, group, groups, rows)  # (groups, N)
    empty = winner >= len(values)
    return values.gather(0, winner.masked_fill(empty, 0)).masked_fill(empty, 0)
