"""Edges of an image without a trained model, linked into groups of similar direction, for EdgeBoxes."""

import numpy as np

from deep_patch_learning.common.devices import compiled as njit

TURN = np.pi / 2  # a group ends when its edges have turned by this much in all
SHARPNESS = 2.0  # the exponent of the affinity of two groups
WEAKEST = 0.05  # affinities below this count as none


@njit(cache=True, nogil=True)
def gradient(dx: np.ndarray, dy: np.ndarray, strength: np.ndarray, angle: np.ndarray) -> None:
    """Raise `strength` (H, W) float32 to the largest gradient of the channels, and set `angle` to the edge's there."""
    height, width, channels = dx.shape
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                gx, gy = np.float32(dx[y, x, c]), np.float32(dy[y, x, c])
                length = np.sqrt(gx * gx + gy * gy)
                if length > strength[y, x]:
                    strength[y, x] = length
                    angle[y, x] = np.arctan2(gx, -gy)  # along the edge, across the gradient


@njit(cache=True, nogil=True)
def thin(strength: np.ndarray, angle: np.ndarray, least: float) -> np.ndarray:
    """Return the strengths (H, W) that are at least `least` and the largest across their edge; the others are 0."""
    height, width = strength.shape
    ridge = np.zeros_like(strength)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            here = strength[y, x]
            if here < least:
                continue
            nx, ny = -np.sin(angle[y, x]), np.cos(angle[y, x])
            ax, ay = int(np.rint(nx)), int(np.rint(ny))
            if here >= strength[y + ay, x + ax] and here > strength[y - ay, x - ax]:
                ridge[y, x] = min(here, np.float32(1))
    return ridge


@njit(cache=True, nogil=True)
def _turn(first: float, second: float) -> float:
    """Return the angle between two undirected lines, 0 to pi / 2."""
    difference = abs(first - second) % np.pi
    return min(difference, np.pi - difference)


@njit(cache=True, nogil=True)
def link(ridge: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of every pixel (H, W) int32, -1 where there is no edge, and (n, 4): strength, x, y, direction.

    A group grows by the neighbouring edge pixel that turns the least, until it has turned by a right angle in all. Its
    place is the edge pixel nearest to its mean, so that a box that holds the place but not the group is crossed by it.
    """
    height, width = ridge.shape
    group = np.full((height, width), -1, np.int32)
    edges = np.count_nonzero(ridge)
    facts, members = np.zeros((edges + 1, 4), np.float64), np.empty((edges + 1, 2), np.int32)
    count = 0
    for y0 in range(1, height - 1):
        for x0 in range(1, width - 1):
            if ridge[y0, x0] <= 0 or group[y0, x0] >= 0:
                continue
            y, x, turned, pixels = y0, x0, 0.0, 0
            cosine, sine, total, mx, my = 0.0, 0.0, 0.0, 0.0, 0.0
            while True:
                group[y, x] = count
                members[pixels, 0], members[pixels, 1] = x, y
                strength = np.float64(ridge[y, x])
                total, mx, my, pixels = total + strength, mx + strength * x, my + strength * y, pixels + 1
                cosine += strength * np.cos(2 * angle[y, x])
                sine += strength * np.sin(2 * angle[y, x])
                least, ny, nx = 10.0, 0, 0
                for v in range(max(1, y - 1), min(height - 1, y + 2)):
                    for u in range(max(1, x - 1), min(width - 1, x + 2)):
                        if ridge[v, u] > 0 and group[v, u] < 0:
                            turn = _turn(angle[v, u], angle[y, x])
                            if turn < least:
                                least, ny, nx = turn, v, u
                turned += least
                if turned > TURN:
                    break
                y, x = ny, nx
            nearest, least = 0, 1.0e9
            for i in range(pixels):
                distance = (members[i, 0] - mx / total) ** 2 + (members[i, 1] - my / total) ** 2
                if distance < least:
                    nearest, least = i, distance
            facts[count, 0], facts[count, 1], facts[count, 2] = total, members[nearest, 0], members[nearest, 1]
            facts[count, 3] = 0.5 * np.arctan2(sine, cosine)
            count += 1
    return group, facts[:count]


@njit(cache=True, nogil=True)
def affinities(group: np.ndarray, facts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each group's neighbours, the affinities to them, and where they start: (M,), (M,), (n + 1,).

    Two groups within two pixels are close in the sense of the paper when both run along the line between their centres.
    """
    height, width = group.shape
    n = len(facts)
    most = 16
    near, value, held = np.empty((n, most), np.int32), np.empty((n, most), np.float32), np.zeros(n, np.int32)
    for y in range(2, height - 2):
        for x in range(2, width - 2):
            a = group[y, x]
            if a < 0:
                continue
            for v in range(y - 2, y + 3):
                for u in range(x - 2, x + 3):
                    b = group[v, u]
                    if b < 0 or b == a or held[a] == most:
                        continue
                    known = False
                    for i in range(held[a]):
                        known |= near[a, i] == b
                    if known:
                        continue
                    between = np.arctan2(facts[b, 2] - facts[a, 2], facts[b, 1] - facts[a, 1])
                    close = np.cos(facts[a, 3] - between) * np.cos(facts[b, 3] - between)
                    near[a, held[a]], value[a, held[a]] = b, abs(close) ** SHARPNESS
                    held[a] += 1
    starts = np.zeros(n + 1, np.int32)
    neighbours, closeness = np.empty(held.sum(), np.int32), np.empty(held.sum(), np.float32)
    used = 0
    for a in range(n):
        for i in range(held[a]):
            if value[a, i] > WEAKEST:
                neighbours[used], closeness[used] = near[a, i], value[a, i]
                used += 1
        starts[a + 1] = used
    return neighbours[:used], closeness[:used], starts
