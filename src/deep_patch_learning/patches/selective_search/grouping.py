"""Hierarchical grouping of regions (Uijlings et al., 2013): the two most similar neighbours are joined in turn.

A region's colour and texture histograms are stored together in one row of uint16, each normalised to ONE, so that the
similarity of two regions is a sum of minima over whole numbers, the same on every machine.

The boxes of all hierarchies are then put in an order: the first n should be the n that cover the most objects. Two things
decide. A box that is near the top of many hierarchies comes early: its score is the sum of 1 / (1 + joins undone before it
appears). And a box close to a better one comes later: boxes fall into cells of similar place and size, and a score is divided by
a power of 1 + the number of better boxes in the cell. Two cell grids, half a cell apart, are counted together, since a single
one puts some similar boxes on two sides of a border.
"""

from typing import NamedTuple

import numpy as np

from deep_patch_learning.common.devices import compiled as njit

COLOUR_BINS = 75  # 25 per channel
STRENGTHS = 10  # of a gradient, in each direction
GREY_BINS = 8 * STRENGTHS  # textures of the quick modes
ONE = 65535  # a whole histogram
COLOUR, TEXTURE, SIZE, FILL = 1, 2, 4, 8  # the terms of a similarity; a mix is a sum of them
LAST_PAIR = 0xFFFFFFFF  # in the heap, of equal similarities the earlier pair counts as larger
OCTAVE = 0.3  # a cell is so many doublings of the width, and of the height, ...
SHIFT = 0.225  # ... and so many widths and heights wide and high
PATIENCE = 2.5  # the power; larger ones spread the first boxes more and cluster the later ones


class Regions(NamedTuple):
    """What is known of n regions: sizes (n,) in pixels, boxes (n, 4), normalised histograms (n, COLOUR_BINS + texture bins)."""

    size: np.ndarray
    box: np.ndarray
    histogram: np.ndarray


@njit(cache=True, nogil=True)
def colour_bins(image: np.ndarray) -> np.ndarray:
    """Return the three colour bins of every pixel of an image (H, W, 3) uint8: (H, W, 3) uint8."""
    height, width = image.shape[0], image.shape[1]
    bins = np.empty((height, width, 3), np.uint8)
    for y in range(height):
        for x in range(width):
            for c in range(3):
                bins[y, x, c] = c * 25 + (np.int32(image[y, x, c]) * 25 >> 8)
    return bins


@njit(cache=True, nogil=True)
def strongest_direction(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the texture bin, out of GREY_BINS, of every pixel of a gradient (H, W): (1, H, W) uint8."""
    height, width = dx.shape
    bins = np.empty((1, height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            gx, gy = np.int32(dx[y, x]), np.int32(dy[y, x])
            ax, ay = abs(gx), abs(gy)
            direction = (4 if gx < 0 else 0) + (2 if gy < 0 else 0) + (1 if ax < ay else 0)
            strength = ax + ay
            level = 0
            while strength > 0 and level < 9:  # one level per doubling
                strength >>= 1
                level += 1
            bins[0, y, x] = direction * STRENGTHS + level
    return bins


@njit(cache=True, nogil=True)
def counted(
    labels: np.ndarray, count: int, colours: np.ndarray, textures: np.ndarray, texture_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes (n,), boxes (n, 4), colours (n, COLOUR_BINS) and textures (n, texture_bins) of the regions, in pixels.

    `colours` (H, W, 3) are the colour bins of every pixel, `textures` (T, H, W) its texture bins, T of each.
    """
    several, height, width = textures.shape
    size = np.zeros(count, np.int32)
    box = np.empty((count, 4), np.int32)
    box[:, :2] = 1 << 30
    box[:, 2:] = 0
    of_colour, of_texture = np.zeros((count, COLOUR_BINS), np.int32), np.zeros((count, texture_bins), np.int32)
    for y in range(height):
        for x in range(width):
            r = labels[y, x]
            size[r] += 1
            box[r, 0] = min(box[r, 0], x)
            box[r, 1] = min(box[r, 1], y)
            box[r, 2] = max(box[r, 2], x + 1)
            box[r, 3] = max(box[r, 3], y + 1)
            row = of_colour[r]
            row[colours[y, x, 0]] += 1
            row[colours[y, x, 1]] += 1
            row[colours[y, x, 2]] += 1
            row = of_texture[r]
            for t in range(several):
                row[np.int64(textures[t, y, x])] += 1
    return size, box, of_colour, of_texture


@njit(cache=True, nogil=True)
def described(
    size: np.ndarray, box: np.ndarray, of_colour: np.ndarray, of_texture: np.ndarray, several: int
) -> Regions:
    """Return the regions with normalised histograms; `several` is the number of texture bins of each pixel."""
    count, bins = len(size), COLOUR_BINS + of_texture.shape[1]
    histogram = np.empty((count, bins), np.uint16)
    for r in range(count):
        colour, texture = np.float32(ONE / 3) / np.float32(size[r]), np.float32(ONE / several) / np.float32(size[r])
        for i in range(COLOUR_BINS):
            histogram[r, i] = np.uint16(np.float32(of_colour[r, i]) * colour)
        for i in range(COLOUR_BINS, bins):
            histogram[r, i] = np.uint16(np.float32(of_texture[r, i - COLOUR_BINS]) * texture)
    return Regions(size, box, histogram)


@njit(cache=True, nogil=True)
def neighbours(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every region's neighbours, one after the other, and where each region's start: (M,), (n + 1,)."""
    height, width = labels.shape
    capacity = 64
    while capacity < 16 * count:
        capacity *= 2
    table = np.full(capacity, -1, np.int64)
    used = 0
    for y in range(height):
        for x in range(width):
            for d in range(2):
                if (d == 0 and x + 1 == width) or (d == 1 and y + 1 == height):
                    continue
                a, b = labels[y, x], labels[y + d, x + 1 - d]
                if a == b:
                    continue
                key = np.int64(min(a, b)) * count + max(a, b)
                slot = (key * 0x9E3779B1 >> 7) & (capacity - 1)
                while table[slot] >= 0 and table[slot] != key:
                    slot = (slot + 1) & (capacity - 1)
                used += table[slot] < 0
                table[slot] = key
    pairs = table[table >= 0]
    starts = np.zeros(count + 2, np.int32)
    for key in pairs:
        starts[key // count + 2] += 1
        starts[key % count + 2] += 1
    for r in range(count):
        starts[r + 2] += starts[r + 1]
    near = np.empty(2 * used, np.int32)
    for key in pairs:
        a, b = key // count, key % count
        near[starts[a + 1]] = b
        starts[a + 1] += 1
        near[starts[b + 1]] = a
        starts[b + 1] += 1
    return near, starts[: count + 1]


@njit(cache=True, nogil=True, inline="always")
def _push(heap: np.ndarray, used: int, item: np.uint64) -> None:
    i = used
    while i > 0:
        above = (i - 1) >> 1
        if heap[above] >= item:
            break
        heap[i] = heap[above]
        i = above
    heap[i] = item


@njit(cache=True, nogil=True, inline="always")
def _drop_top(heap: np.ndarray, used: int) -> None:
    """Remove the largest of `used` items."""
    item = heap[used - 1]
    last = used - 1
    i = 0
    while True:
        below = 2 * i + 1
        if below >= last:
            break
        if below + 1 < last and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= item:
            break
        heap[i] = heap[below]
        i = below
    heap[i] = item


@njit(cache=True, nogil=True)
def _similarity(a: int, b: int, regions: Regions, pixels: int, mix: int) -> np.uint64:
    """Return the similarity of two regions in steps of 1 / ONE, the sum of the terms in `mix`."""
    size, box, histogram = regions
    total = np.int64(0)
    if mix & COLOUR:
        for i in range(COLOUR_BINS):
            total += min(histogram[a, i], histogram[b, i])
    if mix & TEXTURE:
        for i in range(COLOUR_BINS, histogram.shape[1]):
            total += min(histogram[a, i], histogram[b, i])
    both = np.int64(size[a]) + size[b]
    if mix & SIZE:  # small regions first
        total += ONE * (pixels - both) // pixels
    if mix & FILL:  # regions that fill their common box first
        w = np.int64(max(box[a, 2], box[b, 2]) - min(box[a, 0], box[b, 0]))
        h = np.int64(max(box[a, 3], box[b, 3]) - min(box[a, 1], box[b, 1]))
        total += ONE * (pixels + both - w * h) // pixels
    return np.uint64(total)


@njit(cache=True, nogil=True)
def _join(a: int, b: int, c: int, regions: Regions) -> None:
    """Fill in region c, the union of regions a and b."""
    size, box, histogram = regions
    size[c] = size[a] + size[b]
    box[c, 0], box[c, 1] = min(box[a, 0], box[b, 0]), min(box[a, 1], box[b, 1])
    box[c, 2], box[c, 3] = max(box[a, 2], box[b, 2]), max(box[a, 3], box[b, 3])
    share = np.float32(size[a]) / np.float32(size[c])
    rest = np.float32(1) - share
    for i in range(histogram.shape[1]):
        mean = np.float32(histogram[a, i]) * share + np.float32(histogram[b, i]) * rest
        histogram[c, i] = np.uint16(mean + np.float32(0.5))


@njit(cache=True, nogil=True)
def group(near: np.ndarray, starts: np.ndarray, regions: Regions, pixels: int, mix: int) -> np.ndarray:
    """Return the boxes (2n - 1, 4) of the n regions and then of the n - 1 that they are joined into, the whole last."""
    n = regions.size.size
    total = 2 * n - 1
    size, box = np.empty(total, np.int32), np.empty((total, 4), np.int32)
    histogram = np.empty((total, regions.histogram.shape[1]), np.uint16)
    size[:n], box[:n], histogram[:n] = regions
    grown = Regions(size, box, histogram)
    into = np.arange(total).astype(np.int32)  # the region that a joined region is now part of
    seen = np.full(total, -1, np.int32)
    first, last = np.zeros(total, np.int32), np.zeros(total, np.int32)  # where a region's neighbours are in `pool`
    first[:n], last[:n] = starts[:n], starts[1:]
    room = 4 * near.size + 64
    pool, pair, heap = np.empty(room, np.int32), np.empty((room, 2), np.int32), np.empty(room, np.uint64)
    pool[: near.size] = near
    pooled, pairs, heaped = near.size, 0, 0
    for a in range(n):
        for i in range(starts[a], starts[a + 1]):
            if a < near[i]:
                similarity = _similarity(a, near[i], grown, pixels, mix)
                pair[pairs, 0], pair[pairs, 1] = a, near[i]
                _push(heap, heaped, similarity << np.uint64(32) | np.uint64(LAST_PAIR - pairs))
                heaped, pairs = heaped + 1, pairs + 1
    c = n
    while heaped > 0:
        index = LAST_PAIR - np.int64(heap[0] & np.uint64(LAST_PAIR))
        _drop_top(heap, heaped)
        heaped -= 1
        a, b = pair[index, 0], pair[index, 1]
        if into[a] != a or into[b] != b:  # one of them is part of a larger region by now
            continue
        _join(a, b, c, grown)
        into[a], into[b], seen[c] = c, c, c
        most = last[a] - first[a] + last[b] - first[b]
        if max(pooled, pairs) + most > room:
            room = 2 * room + most
            pool = np.concatenate((pool, np.empty(room - pool.size, np.int32)))
            pair = np.concatenate((pair, np.empty((room - len(pair), 2), np.int32)))
            heap = np.concatenate((heap, np.empty(room - heap.size, np.uint64)))
        first[c] = pooled
        for old in (a, b):
            for i in range(first[old], last[old]):
                r = pool[i]
                while into[r] != r:
                    into[r] = into[into[r]]
                    r = into[r]
                if seen[r] == c:
                    continue
                seen[r] = c
                pool[pooled] = r
                pooled += 1
                similarity = _similarity(c, r, grown, pixels, mix)
                pair[pairs, 0], pair[pairs, 1] = c, r
                _push(heap, heaped, similarity << np.uint64(32) | np.uint64(LAST_PAIR - pairs))
                heaped, pairs = heaped + 1, pairs + 1
        last[c] = pooled
        c += 1
    return box


@njit(cache=True, nogil=True)
def _slot(table: np.ndarray, key: np.int64) -> np.int64:
    """Return where `key` is, or may be put, in an open hash table with 2^n slots."""
    mask = table.size - 1
    slot = ((key ^ (key >> 29)) * 0x9E3779B97F4A7C1 >> 20) & mask
    while table[slot] != -1 and table[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def unique_scores(boxes: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different ones of boxes (Q, 4) int32 and their scores: (P, 4), (P,) int64, in order of appearance."""
    capacity = 64
    while capacity < 2 * len(boxes):
        capacity *= 2
    table, place = np.full(capacity, -1, np.int64), np.empty(capacity, np.int32)
    found, scores = np.empty_like(boxes), np.zeros(len(boxes), np.int64)
    count = 0
    for i in range(len(boxes)):
        corner = np.int64(boxes[i, 0]) << 48 | np.int64(boxes[i, 1]) << 32
        key = (corner | np.int64(boxes[i, 2]) << 16 | np.int64(boxes[i, 3])) & 0x7FFFFFFFFFFFFFFF
        slot = _slot(table, key)
        if table[slot] == -1:
            table[slot], place[slot] = key, count
            found[count] = boxes[i]
            count += 1
        scores[place[slot]] += (1 << 20) // (1 + ranks[i])
    return found[:count], scores[:count]


@njit(cache=True, nogil=True)
def _count_better(boxes: np.ndarray, offset: float, better: np.ndarray) -> None:
    """Add to `better` how many earlier boxes share each box's cell."""
    capacity = 64
    while capacity < 2 * len(boxes):
        capacity *= 2
    table, held = np.full(capacity, -1, np.int64), np.zeros(capacity, np.int32)
    for i in range(len(boxes)):
        w, h = boxes[i, 2] - boxes[i, 0], boxes[i, 3] - boxes[i, 1]
        wide, high = np.floor(np.log2(w) / OCTAVE + offset), np.floor(np.log2(h) / OCTAVE + offset)
        across, down = SHIFT * 2.0 ** (OCTAVE * wide), SHIFT * 2.0 ** (OCTAVE * high)
        column = np.int64((boxes[i, 0] + 0.5 * w) / across + offset)
        row = np.int64((boxes[i, 1] + 0.5 * h) / down + offset)
        key = ((column << 20 | row) << 8 | np.int64(wide)) << 8 | np.int64(high)
        slot = _slot(table, key)
        table[slot] = key
        better[i] += held[slot]
        held[slot] += 1


def best_first(boxes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the different ones of boxes (Q, 4) int32, best first: (P, 4).

    `ranks` (Q,) int32 counts, from the top of its own hierarchy, the joins that are undone before the box appears.
    """
    found, scores = unique_scores(boxes, ranks)
    by_score = found[np.argsort(-scores, kind="stable")]
    better = np.zeros(len(found), np.int64)
    for offset in (0.0, 0.5):
        _count_better(by_score, offset, better)
    left = np.sort(scores)[::-1] / (1.0 + better) ** PATIENCE
    return by_score[np.argsort(-left, kind="stable")]
