"""RoI max-pooling on the CPU: the numbers and gradients of `torchvision.ops.roi_pool`, several times sooner.

Patches overlap, so that one part of the map is searched again and again. A maximum may count a cell twice, so that of any
rectangle is that of four rectangles whose sides are powers of two, laid into its corners. The maxima of all such
rectangles (a sparse table) are made once for each image and group of channels; a bin then costs four look-ups, however
large it is. Where patches are few, the table stops at smaller rectangles, of which a bin takes more. Channels lie side by
side in memory, where one instruction takes the maximum of several.

The gradient goes to the winner of each bin: the first of its greatest cells, rows before columns. Winners are looked for
anew on the way back, which takes less than keeping them: only the maps, as they were given, and the patches are held.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_patch_learning.model.kernels.pooling_loops import Plan, bin_bounds, look_ups, pool, spread, table_levels

CHANNELS = 32  # to a group: enough to keep the processor's vectors full, few enough for the table to stay in its cache
SHARE = 2**21  # numbers to write or look up: a thread with fewer is not worth starting
PIECES = 4  # for each thread: a thread that another program held up leaves its share to the others
BINS_WITH_GRADIENT, BINS_WITHOUT = 0.6, 0.15  # to a cell of the maps: with fewer, torchvision is done sooner


def roi_max_pool(maps: Tensor, rois: Tensor, size: int, scale: float) -> Tensor:
    """Return the maximum of each bin of each patch, (P, D, size, size), from maps (I, D, h, w) in float32 or float64.

    A row of `rois` (P, 5) is the index of an image and x1, y1, x2, y2, which `scale` turns into cells of the map. Equal to
    `torchvision.ops.roi_pool(maps, rois, size, scale)` bit for bit, gradients too: a bin that holds nothing is 0, of equal
    cells the first gets the gradient, and a cell that is not a number never wins.
    """
    _check(maps, rois)
    return _RoiMaxPool.apply(maps, rois.to(maps.dtype), size, scale)


def pays(maps: Tensor, patches: int, size: int) -> bool:
    """Return whether `roi_max_pool` is the faster way: whether there are enough bins for the cells that it lays out anew.

    The shares are where both took as long on one thread, which is what torchvision uses (benchmarks/pooling_cpu.py).
    """
    cells = len(maps) * maps.shape[2] * maps.shape[3]
    share = BINS_WITH_GRADIENT if maps.requires_grad and torch.is_grad_enabled() else BINS_WITHOUT
    return patches * size**2 > share * cells


def _check(maps: Tensor, rois: Tensor) -> None:
    """Return nothing; raise ValueError where the kernels would read what is not there."""
    if maps.dim() != 4 or maps.dtype not in (torch.float32, torch.float64) or maps.device.type != "cpu":
        found = f"{tuple(maps.shape)} of {maps.dtype} on {maps.device}"
        raise ValueError(f"maps are {found}; wanted (I, D, h, w) of float32 or float64 on the CPU")
    if rois.dim() != 2 or rois.shape[1] != 5 or rois.device.type != "cpu":
        raise ValueError(f"rois are {tuple(rois.shape)} on {rois.device}; wanted (P, 5) on the CPU")
    index = rois[:, 0]
    wrong = ~((index >= 0) & (index < len(maps)))
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(f"row {row} of rois is of image {index[row].item():g}; there are images 0 to {len(maps) - 1}")


class _RoiMaxPool(torch.autograd.Function):
    @staticmethod
    def forward(maps: Tensor, rois: Tensor, size: int, scale: float) -> Tensor:
        return _pooled(maps, rois, size, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        maps, rois, ctx.size, ctx.scale = inputs
        ctx.save_for_backward(maps, rois)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        maps, rois = ctx.saved_tensors
        return _gradient(gradient, maps, rois, ctx.size, ctx.scale), None, None, None


def _pooled(maps: Tensor, rois: Tensor, size: int, scale: float) -> Tensor:
    """Return the maxima of the bins: (P, D, size, size)."""
    depth = maps.shape[1]
    if not len(rois) or not maps.numel():
        return maps.new_zeros(len(rois), depth, size, size)
    pooled = maps.new_empty(len(rois), depth, size * size)
    plan = _plan(rois, size, scale, maps.shape)
    groups, result = _grouped(maps), pooled.numpy()
    # only the winner's place tells which sign a zero has where both are in a bin
    _in_threads(partial(pool, groups, result, plan), groups, plan, with_cells=_has_negative_zero(maps))
    return pooled.view(len(rois), depth, size, size)


def _gradient(gradient: Tensor, maps: Tensor, rois: Tensor, size: int, scale: float) -> Tensor:
    """Return the gradient with respect to maps, (I, D, h, w), from that with respect to the bins."""
    images, depth, height, width = maps.shape
    to_maps = maps.new_zeros(images, depth, height * width)
    if len(rois) and maps.numel():
        plan = _plan(rois, size, scale, maps.shape)
        groups, result = _grouped(maps), to_maps.numpy()
        given = gradient.detach().reshape(len(rois), depth, size * size).contiguous().numpy()
        _in_threads(partial(spread, groups, given, result, plan), groups, plan, with_cells=True)
    return to_maps.view(images, depth, height, width)


def _plan(rois: Tensor, size: int, scale: float, shape: torch.Size) -> Plan:
    """Return the plan for patches on maps of `shape` (I, D, h, w)."""
    images, _, height, width = shape
    array = rois.detach().contiguous().numpy()
    image = array[:, 0].astype(np.int64)
    order = np.argsort(image, kind="stable")  # in an image patches keep their order, and with it sums keep theirs
    starts = np.searchsorted(image[order], np.arange(images + 1))
    bounds = bin_bounds(array, array.dtype.type(scale), size, height, width)
    levels = table_levels(bounds, int((np.diff(starts) > 0).sum()) * height * width)
    begin, quads = look_ups(bounds, levels, height, width)
    return Plan(width, levels, order, starts, begin, quads)


def _grouped(maps: Tensor) -> np.ndarray:
    """Return the maps with the channels of a group side by side: (I * groups, h * w, channels), zeros where D runs out."""
    images, depth, height, width = maps.shape
    groups = -(-depth // CHANNELS)
    channels = -(-depth // groups)
    maps = maps.detach()
    if missing := groups * channels - depth:
        maps = torch.cat((maps, maps.new_zeros(images, missing, height, width)), dim=1)
    apart = maps.reshape(images * groups, channels, height * width)
    return apart.transpose(1, 2).contiguous().numpy()


def _has_negative_zero(maps: Tensor) -> bool:
    """Return whether a cell is -0.0, whose bits are those of the least whole number."""
    whole = torch.int32 if maps.dtype == torch.float32 else torch.int64
    return bool(maps.detach().view(whole).min() == torch.iinfo(whole).min)


def _in_threads(work: Callable[..., None], groups: np.ndarray, plan: Plan, with_cells: bool) -> None:
    """Return when `work(first, last, table, cells)` has been called for all groups, by as many threads as torch has.

    The threads are made for the call: they cost little beside it, and none is left to be missed after a fork.
    """
    tasks, cells_of_map, channels = groups.shape
    rows = int(plan.levels.prod()) * cells_of_map
    work_in_all = rows * channels * tasks + plan.quads.size * channels * tasks // (len(plan.starts) - 1)
    threads = min(torch.get_num_threads(), tasks, 1 + work_in_all // SHARE)
    pieces = min(PIECES * threads, tasks) if threads > 1 else 1
    taken = count()

    def worker() -> None:
        table = np.empty((rows, channels), groups.dtype)
        cells = np.empty((rows if with_cells else 0, channels), np.int32)
        while (piece := next(taken)) < pieces:
            work(piece * tasks // pieces, (piece + 1) * tasks // pieces, table, cells)

    if threads == 1:
        worker()
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(worker) for _ in range(threads - 1)]
        worker()
    for other in others:
        other.result()
