"""Graph-based segmentation (Felzenszwalb and Huttenlocher, 2004) on whole-number edge weights.

Every pixel is a vertex, joined to its eight neighbours by edges weighted with the colour difference. Edges are
taken from light to heavy; an edge joins two components when it is no heavier than the heaviest edge inside either
one plus k / size. Weights are whole numbers, so that sorting is counting. One sorted list serves every k, and a
larger k samples only the edges that met two different components at the smaller one. The others lie inside a
component of the smaller k, and nearly always of the larger one too: close to a segmentation from scratch, for half the edges.
"""

import numpy as np

from deep_patch_learning.common.devices import compiled as njit

WEIGHT_STEPS = 16  # edge weights are counted in 1/16 of a grey level
WEIGHTS = 7100  # above the largest weight, 16 * 255 * sqrt(3)
EDGE_BITS = np.uint64(0xFFFFFFFF)  # a sorted edge is weight << 32 | 4 * pixel + direction


@njit(cache=True, nogil=True)
def edge_weights(image: np.ndarray) -> np.ndarray:
    """Return the edge weights (4, H, W) uint16 of an image (H, W, 3) uint16 in grey levels x 16.

    Directions 0 to 3 join a pixel to its right, lower right, lower and lower left neighbour;
    where there is none, the weight is WEIGHTS.
    """
    height, width = image.shape[0], image.shape[1]
    weights = np.full((4, height, width), WEIGHTS, np.uint16)
    for y in range(height):
        for direction in range(4):
            down = 0 if direction == 0 else 1
            if y + down >= height:
                continue
            first = 1 if direction == 3 else 0
            stop = width if direction >= 2 else width - 1
            here, there = image[y], image[y + down]
            row = weights[direction, y]
            aside = 1 - max(direction - 1, 0)
            for x in range(first, stop):
                p, q = np.uint64(x), np.uint64(x + aside)
                c0 = np.int32(here[p, 0]) - np.int32(there[q, 0])
                c1 = np.int32(here[p, 1]) - np.int32(there[q, 1])
                c2 = np.int32(here[p, 2]) - np.int32(there[q, 2])
                squared = np.float32(c0 * c0 + c1 * c1 + c2 * c2)
                row[p] = np.uint16(np.sqrt(squared) + np.float32(0.5))
    return weights


@njit(cache=True, nogil=True)
def sorted_edges(weights: np.ndarray) -> np.ndarray:
    """Return the edges (E,) uint64 from light to heavy; equal weights stay in order of direction, row and column."""
    flat = weights.reshape(-1)
    pixels = flat.size // 4
    starts = np.zeros(WEIGHTS + 2, np.int64)
    for i in range(flat.size):
        starts[np.uint64(flat[i] + 1)] += 1
    for weight in range(WEIGHTS):
        starts[weight + 1] += starts[weight]
    edges = np.empty(starts[WEIGHTS], np.uint64)
    for direction in range(4):
        for pixel in range(pixels):
            level = np.uint64(flat[direction * pixels + pixel])
            if level < WEIGHTS:
                edges[np.uint64(starts[level])] = level << np.uint64(32) | np.uint64(4 * pixel + direction)
                starts[level] += 1
    return edges


@njit(cache=True, nogil=True, inline="always")
def _root(parent: np.ndarray, vertex: np.uint32) -> np.uint32:
    """Return the vertex that stands for the component, halving the way to it."""
    above = parent[vertex]
    while above != vertex:
        further = parent[above]
        parent[vertex] = further
        vertex = above
        above = further
    return vertex


@njit(cache=True, nogil=True)
def segment(edges: np.ndarray, height: int, width: int, k: float, min_size: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Return the label of every pixel (H, W) int32, the number of labels, and the edges that a larger k still needs.

    Labels are numbered in reading order. Components under `min_size` pixels are joined over their lightest edges.
    """
    pixels = height * width
    parent = np.arange(pixels).astype(np.uint32)
    size = np.ones(pixels, np.int32)
    scaled_k = np.float32(k * WEIGHT_STEPS)
    limit = np.full(pixels, scaled_k, np.float32)
    steps = np.array([1, width + 1, width, width - 1], np.uint32)
    met = np.empty(edges.size, np.uint64)  # edges that met two components
    apart = np.empty(edges.size, np.uint32)  # those of them that left the two apart
    used, kept = 0, 0
    for i in range(edges.size):
        number = np.uint32(edges[i] & EDGE_BITS)
        p = np.uint32(number >> np.uint32(2))
        q = np.uint32(p + steps[number & np.uint32(3)])
        a, b = parent[p], parent[q]
        if a == b:
            continue
        a, b = _root(parent, a), _root(parent, b)
        parent[p], parent[q] = a, b
        if a == b:
            continue
        met[used] = edges[i]
        used += 1
        weight = np.float32(edges[i] >> np.uint64(32))
        if weight <= limit[a] and weight <= limit[b]:
            both = size[a] + size[b]
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] = both
            limit[a] = weight + scaled_k / np.float32(both)
        else:
            apart[kept] = number
            kept += 1
    for i in range(kept):
        p = np.uint32(apart[i] >> np.uint32(2))
        q = np.uint32(p + steps[apart[i] & np.uint32(3)])
        a, b = _root(parent, p), _root(parent, q)
        if a != b and (size[a] < min_size or size[b] < min_size):
            both = size[a] + size[b]
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] = both
    labels = np.empty(pixels, np.int32)
    number_of = np.full(pixels, -1, np.int32)
    count = 0
    for pixel in range(pixels):
        root = _root(parent, np.uint32(pixel))
        if number_of[root] < 0:
            number_of[root] = count
            count += 1
        labels[pixel] = number_of[root]
    return labels.reshape(height, width), count, met[:used]
