"""The compiled loops of RoI max-pooling on the CPU: where bins lie, the table of maxima, and look-ups in it."""

from typing import NamedTuple

import numpy as np

from deep_patch_learning.common.devices import compiled as njit

LOWEST = float(np.finfo(np.float32).min)  # what a bin starts from, in double precision too; nothing below it can win
NOBODY = -1  # the winner of a bin that has none
FAR = 2**30  # cells; a patch beyond it is as good as there


class LookUps(NamedTuple):
    """What each bin looks up: rows of a table of levels[0] x levels[1] maps, `quads` (Q, 4) of them at a time.

    Bin b of patch p takes the quads from `begin[p * bins + b]` to before the next entry; none if it holds nothing. `order`
    lists the patches image by image, and those of image i are at `starts[i]` to before `starts[i + 1]`.
    """

    width: int  # of the maps
    levels: np.ndarray  # (2,)
    order: np.ndarray  # (P,)
    starts: np.ndarray  # (I + 1,)
    begin: np.ndarray  # (P * bins + 1,)
    quads: np.ndarray  # (Q, 4)


class Workspace(NamedTuple):
    """What one thread works in: the table of maxima and, where winners are asked for, the cells that hold them."""

    table: np.ndarray  # (levels * h * w, channels)
    cells: np.ndarray  # the same, or (0, channels)


@njit(cache=True, nogil=True)
def _rounded(value: float) -> int:
    """Return the nearest whole number, halves away from zero."""
    if not abs(value) < FAR:
        return FAR if value > 0 else -FAR
    whole = np.trunc(value)
    rest = value - whole  # without error, which adding a half would not be
    return int(whole) + (1 if rest >= 0.5 else 0) - (1 if rest <= -0.5 else 0)


@njit(cache=True, nogil=True)
def bin_bounds(rois: np.ndarray, scale: float, size: int, height: int, width: int) -> np.ndarray:
    """Return the first cell of each bin and the one after its last, down and across: (P, 2, size, 2)."""
    bounds = np.empty((len(rois), 2, size, 2), np.int64)
    for p in range(len(rois)):
        for axis in range(2):
            most = height if axis == 0 else width
            start = _rounded(rois[p, 2 - axis] * scale)
            end = _rounded(rois[p, 4 - axis] * scale)
            # in the precision of the maps, as torchvision: the rounding of a quotient decides what a bin takes in
            step = rois.dtype.type(max(end - start + 1, 1)) / rois.dtype.type(size)
            for k in range(size):
                first = start + int(np.floor(rois.dtype.type(k) * step))
                after = start + int(np.ceil(rois.dtype.type(k + 1) * step))
                bounds[p, axis, k, 0] = min(max(first, 0), most)
                bounds[p, axis, k, 1] = min(max(after, 0), most)
    return bounds


@njit(cache=True, nogil=True)
def _level(length: int, levels: int) -> int:
    """Return the exponent of the greatest power of two that is not above `length`, but less than `levels`."""
    level = 0
    while level + 1 < levels and 2 << level <= length:
        level += 1
    return level


@njit(cache=True, nogil=True)
def _tiles(first: int, after: int, levels: int) -> int:
    """Return how many lengths of the table a bin from `first` to before `after` takes; the last may overlap."""
    level = _level(after - first, levels)
    return max(after - first + (1 << level) - 1 >> level, 0)


@njit(cache=True, nogil=True)
def table_levels(bounds: np.ndarray, cells: int) -> np.ndarray:
    """Return how many levels the table has, down and across: as many as make its rows plus all look-ups fewest."""
    patches, _, size, _ = bounds.shape
    most, tiles = np.ones(2, np.int64), np.empty((2, size), np.int64)
    for p in range(patches):
        for axis in range(2):
            for k in range(size):
                most[axis] = max(most[axis], _level(bounds[p, axis, k, 1] - bounds[p, axis, k, 0], 62) + 1)
    best, least = most, -1
    for limit in range(most.max(), 0, -1):
        levels = np.minimum(most, limit)
        work = cells * levels[0] * levels[1]
        for p in range(patches):
            _count(bounds[p], levels, tiles)
            work += tiles[0].sum() * tiles[1].sum()
        if least < 0 or work < least:
            best, least = levels, work
    return best


@njit(cache=True, nogil=True)
def look_ups(bounds: np.ndarray, levels: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the quads of each bin begin (P * bins + 1,), and the quads (Q, 4), filled up with what they hold."""
    patches, _, size, _ = bounds.shape
    begin = np.zeros(patches * size * size + 1, np.int64)
    tiles = np.empty((2, size), np.int64)
    for p in range(patches):
        _count(bounds[p], levels, tiles)
        for i in range(size):
            for j in range(size):
                b = (p * size + i) * size + j
                begin[b + 1] = begin[b] + (tiles[0, i] * tiles[1, j] + 3) // 4
    quads = np.empty((begin[-1], 4), np.int32)
    flat = quads.reshape(quads.size)
    for p in range(patches):
        _count(bounds[p], levels, tiles)
        for i in range(size):
            top, bottom = bounds[p, 0, i]
            down = _level(bottom - top, levels[0])
            for j in range(size):
                left, right = bounds[p, 1, j]
                across = _level(right - left, levels[1])
                b = (p * size + i) * size + j
                placed, end, row = 4 * begin[b], 4 * begin[b + 1], 0
                for y in range(tiles[0, i]):
                    line = (down * levels[1] + across) * height + min(top + (y << down), bottom - (1 << down))
                    for x in range(tiles[1, j]):
                        row = line * width + min(left + (x << across), right - (1 << across))
                        flat[placed] = row
                        placed += 1
                flat[placed:end] = row
    return begin, quads


@njit(cache=True, nogil=True)
def _count(bounds: np.ndarray, levels: np.ndarray, tiles: np.ndarray) -> None:
    """Return nothing; write how many lengths of the table each bin of a patch takes, down and across: (2, size)."""
    for axis in range(2):
        for k in range(tiles.shape[1]):
            tiles[axis, k] = _tiles(bounds[axis, k, 0], bounds[axis, k, 1], levels[axis])


@njit(cache=True, nogil=True)
def _fill(group: np.ndarray, width: int, levels: np.ndarray, table: np.ndarray, cells: np.ndarray) -> None:
    """Return nothing; make `table`, and `cells` unless it is empty: the first cell that holds each maximum.

    Row (down * levels[1] + across) * h * w + y * w + x is of the 2 ** down x 2 ** across cells that begin at y, x; where
    they leave the map, it holds anything.
    """
    map_rows, channels = group.shape
    for i in range(map_rows):
        values, here = group[i], table[i]
        for c in range(channels):
            here[c] = values[c] if values[c] > LOWEST else LOWEST
    for i in range(map_rows if len(cells) else 0):
        values, places = table[i], cells[i]
        for c in range(channels):
            places[c] = i if values[c] > LOWEST else NOBODY
    for level in range(1, levels[0] * levels[1]):
        down, across = level // levels[1], level % levels[1]
        source = level - levels[1] if down else level - 1
        shift = width << (down - 1) if down else 1 << (across - 1)
        _join(table.reshape(table.size), source, level, group.size, shift * channels)
        if len(cells):
            _join_cells(
                table.reshape(table.size), cells.reshape(cells.size), source, level, group.size, shift * channels
            )


@njit(cache=True, nogil=True)
def _join(table: np.ndarray, source: int, target: int, length: int, shift: int) -> None:
    """Return nothing; write the level `target`: the maxima of the level `source` and of itself `shift` further."""
    here, there = table[source * length :], table[source * length + shift :]
    joined = table[target * length :]
    for i in range(length - shift):
        joined[i] = _greater(here[i], there[i])


@njit(cache=True, nogil=True)
def _join_cells(table: np.ndarray, cells: np.ndarray, source: int, target: int, length: int, shift: int) -> None:
    """Return nothing; write the cells of the level `target`. What is `shift` further comes later, so equals stay."""
    here, there = table[source * length :], table[source * length + shift :]
    cell, other = cells[source * length :], cells[source * length + shift :]
    joined = cells[target * length :]
    for i in range(length - shift):
        stays, comes = cell[i], other[i]  # both are read, so that the choice is no branch
        joined[i] = comes if there[i] > here[i] else stays


@njit(cache=True, nogil=True)
def _greater(value: float, other: float) -> float:
    """Return the greater of two numbers."""
    return other if other > value else value


@njit(cache=True, nogil=True)
def _first(value: float, cell: int, other: float, other_cell: int) -> tuple[float, int]:
    """Return the greater value and its cell, of equal ones that whose cell is the first."""
    wins = (other > value) | ((other == value) & (other_cell < cell))
    return other if wins else value, other_cell if wins else cell


@njit(cache=True, nogil=True)
def _find_greatest(table: np.ndarray, quads: np.ndarray, greatest: np.ndarray) -> None:
    """Return nothing; write the maximum of a bin, (channels,), 0 if it holds nothing."""
    if len(quads) != 1:
        greatest[:] = LOWEST if len(quads) else 0
    for q in range(len(quads)):
        a, b, c, d = table[quads[q, 0]], table[quads[q, 1]], table[quads[q, 2]], table[quads[q, 3]]
        if len(quads) == 1:
            for k in range(len(greatest)):
                greatest[k] = _greater(_greater(a[k], b[k]), _greater(c[k], d[k]))
        else:
            for k in range(len(greatest)):
                greatest[k] = _greater(greatest[k], _greater(_greater(a[k], b[k]), _greater(c[k], d[k])))


@njit(cache=True, nogil=True)
def _find_winner(
    table: np.ndarray, cells: np.ndarray, quads: np.ndarray, greatest: np.ndarray, winner: np.ndarray
) -> None:
    """Return nothing; write the first cell that holds the maximum of a bin, (channels,), NOBODY if it holds nothing.

    `greatest` (channels,) is scratch, left alone where one quad is all: one array to write to is twice as fast as two.
    """
    if len(quads) != 1:
        greatest[:] = -np.inf
        winner[:] = NOBODY
    for q in range(len(quads)):
        a, b, c, d = table[quads[q, 0]], table[quads[q, 1]], table[quads[q, 2]], table[quads[q, 3]]
        i, j, m, n = cells[quads[q, 0]], cells[quads[q, 1]], cells[quads[q, 2]], cells[quads[q, 3]]
        if len(quads) == 1:
            for k in range(len(winner)):
                one, one_cell = _first(a[k], i[k], b[k], j[k])
                two, two_cell = _first(c[k], m[k], d[k], n[k])
                winner[k] = _first(one, one_cell, two, two_cell)[1]
        else:
            for k in range(len(winner)):
                one, one_cell = _first(a[k], i[k], b[k], j[k])
                two, two_cell = _first(c[k], m[k], d[k], n[k])
                one, one_cell = _first(one, one_cell, two, two_cell)
                greatest[k], winner[k] = _first(greatest[k], winner[k], one, one_cell)


@njit(cache=True, nogil=True)
def pool(groups: np.ndarray, pooled: np.ndarray, plan: LookUps, tasks: tuple[int, int], room: Workspace) -> None:
    """Return nothing; write the maxima of the bins for the groups of channels in `tasks`, first to before last.

    If the workspace has cells, by way of the winners.
    """
    table, cells = room
    channels, depth, bins = groups.shape[2], pooled.shape[1], pooled.shape[2]
    in_image = -(-depth // channels)
    greatest, winner = np.empty((bins, channels), groups.dtype), np.empty(channels, np.int32)
    for task in range(tasks[0], tasks[1]):
        image, skipped = task // in_image, task % in_image * channels
        patches = plan.order[plan.starts[image] : plan.starts[image + 1]]
        if len(patches):
            _fill(groups[task], plan.width, plan.levels, table, cells)
        for p in patches:
            for b in range(bins):
                quads = plan.quads[plan.begin[p * bins + b] : plan.begin[p * bins + b + 1]]
                if not len(cells) or not len(quads):
                    _find_greatest(table, quads, greatest[b])
                    continue
                _find_winner(table, cells, quads, greatest[b], winner)
                for c in range(channels):
                    greatest[b, c] = table[winner[c], c] if winner[c] >= 0 else LOWEST
            for c in range(min(channels, depth - skipped)):
                line = pooled[p, skipped + c]
                for b in range(bins):
                    line[b] = greatest[b, c]


@njit(cache=True, nogil=True)
def spread(
    groups: np.ndarray,
    gradient: np.ndarray,
    to_maps: np.ndarray,
    plan: LookUps,
    tasks: tuple[int, int],
    room: Workspace,
) -> None:
    """Return nothing; add each bin's gradient to its winner's, for the groups of channels in `tasks`, first to before last.

    A group of an image belongs to one thread, and its patches come in order: sums are those of torchvision to the last bit.
    """
    table, cells = room
    channels, depth, bins = groups.shape[2], gradient.shape[1], gradient.shape[2]
    in_image = -(-depth // channels)
    scratch, winners = np.empty(channels, groups.dtype), np.empty((bins, channels), np.int32)
    for task in range(tasks[0], tasks[1]):
        image, skipped = task // in_image, task % in_image * channels
        patches = plan.order[plan.starts[image] : plan.starts[image + 1]]
        if len(patches):
            _fill(groups[task], plan.width, plan.levels, table, cells)
        for p in patches:
            for b in range(bins):
                quads = plan.quads[plan.begin[p * bins + b] : plan.begin[p * bins + b + 1]]
                _find_winner(table, cells, quads, scratch, winners[b])
            for c in range(min(channels, depth - skipped)):
                line, target = gradient[p, skipped + c], to_maps[image, skipped + c]
                for b in range(bins):
                    cell = winners[b, c]
                    if cell >= 0:
                        target[cell] += line[b]
