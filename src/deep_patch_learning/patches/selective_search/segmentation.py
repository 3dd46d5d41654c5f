"""Graph-based segmentation (Felzenszwalb and Huttenlocher, 2004), exactly, and quickly on whole-number edge weights.

Every pixel is a vertex, joined to its neighbours by edges weighted with the colour difference. Edges are
taken from light to heavy; an edge joins two components when it is no heavier than the heaviest edge inside either
one plus k / size.

Exactly: weights are float32, edges join the four nearest pixels as in OpenCV, and each k sees every edge (`exact_edges`).

Quickly: weights are whole numbers, so that sorting is counting (`edge_weights`, `sorted_edges`). One sorted list serves every k,
and a larger k sees only the edges that met two different components at the smaller one: the others lie inside a component
of the smaller k, and nearly always of the larger one too. The regions are others than the exact ones, and more: a large component
grows over ever slightly heavier edges, and steps of 1/16 of a grey level stop it early.
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


@njit(cache=True, nogil=True)
def exact_edges(image: np.ndarray) -> np.ndarray:
    """Return the edges (E,) uint64 of an image (H, W, 3) float32 from light to heavy, those of equal weight in reading order.

    An edge holds the bits of its weight, float32, where `sorted_edges` has a whole number; there are only directions 0 and 2.
    """
    height, width = image.shape[:2]
    count = height * (width - 1) + (height - 1) * width
    weights, numbers = np.empty(count, np.float32), np.empty(count, np.uint32)
    used = 0
    for y in range(height):
        for x in range(width):
            for down in range(2):
                v, u = y + down, x + 1 - down
                if v < height and u < width:
                    c0, c1, c2 = (
                        image[y, x, 0] - image[v, u, 0],
                        image[y, x, 1] - image[v, u, 1],
                        image[y, x, 2] - image[v, u, 2],
                    )
                    weights[used] = np.sqrt(c0 * c0 + c1 * c1 + c2 * c2)
                    numbers[used] = 4 * (y * width + x) + 2 * down
                    used += 1
    edges, bits = np.empty(count, np.uint64), weights.view(np.uint32)
    for i in range(count):
        edges[i] = np.uint64(bits[i]) << np.uint64(32) | np.uint64(numbers[i])
    spare = np.empty_like(edges)
    for shift in (32, 43, 54):  # by 11 bits of the weight at a time; as bits, floats from 0 on are in order
        starts = np.zeros(2049, np.int64)
        for i in range(count):
            starts[np.int64(edges[i] >> np.uint64(shift) & np.uint64(2047)) + 1] += 1
        for i in range(2048):
            starts[i + 1] += starts[i]
        for i in range(count):
            level = np.int64(edges[i] >> np.uint64(shift) & np.uint64(2047))
            spare[starts[level]] = edges[i]
            starts[level] += 1
        edges, spare = spare, edges
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
def segment(
    edges: np.ndarray, height: int, width: int, k: float, min_size: int, exact: bool = False
) -> tuple[np.ndarray, int, np.ndarray]:
    """Return the label of every pixel (H, W) int32, the number of labels, and the edges that met two components.

    `exact` edges are those of `exact_edges`. Labels are numbered in reading order. Components under `min_size` pixels are
    joined over their lightest edges.
    """
    pixels = height * width
    parent = np.arange(pixels).astype(np.uint32)
    scaled_k = np.float32(k if exact else k * WEIGHT_STEPS)
    known = np.empty(
        (pixels, 2), np.float32
    )  # of a component: the heaviest edge that may join it, and its pixels, side by side
    known[:, 0], known[:, 1] = scaled_k, 1
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
        bits = np.uint32(edges[i] >> np.uint64(32))
        weight = bits.view(np.float32) if exact else np.float32(bits)
        if weight <= known[a, 0] and weight <= known[b, 0]:
            both = known[a, 1] + known[b, 1]
            if known[a, 1] < known[b, 1]:
                a, b = b, a
            parent[b] = a
            known[a, 0], known[a, 1] = weight + scaled_k / both, both
        else:
            apart[kept] = number
            kept += 1
    for i in range(kept):
        p = np.uint32(apart[i] >> np.uint32(2))
        q = np.uint32(p + steps[apart[i] & np.uint32(3)])
        a, b = _root(parent, p), _root(parent, q)
        if a != b and (known[a, 1] < min_size or known[b, 1] < min_size):
            both = known[a, 1] + known[b, 1]
            if known[a, 1] < known[b, 1]:
                a, b = b, a
            parent[b] = a
            known[a, 1] = both
    labels = np.empty(pixels, np.int32)
    number_of = np.full(pixels, -1, np.int32)
    count, same, label = 0, parent[0], -1
    for pixel in range(pixels):
        if label < 0 or parent[pixel] != same:
            same = parent[pixel]
            root = _root(parent, np.uint32(pixel))
            if number_of[root] < 0:
                number_of[root] = count
                count += 1
            label = number_of[root]
        labels[pixel] = label
    return labels.reshape(height, width), count, met[:used]
