"""The score of a box by the edges wholly inside it (Zitnick and Dollar, 2014), its refinement, and NMS."""

from typing import NamedTuple

import numpy as np

from deep_patch_learning.common.devices import compiled as njit

NORM = 1.5  # the exponent of a box's perimeter in its score
FAINT = 0.2  # paths of a lower affinity are not followed
ROUNDS = 2  # halvings of the step while a box is refined


class Scene(NamedTuple):
    """The edges of an image as the score of a box reads them.

    `whole` and `single` as of `edge_sums`; `rows` and `columns` as of `lines`, for the groups and for the transposed ones;
    `graph` as of `edges.affinities`; `facts` (n, 4) as of `edges.link`.
    """

    whole: np.ndarray
    single: np.ndarray
    rows: tuple[np.ndarray, np.ndarray]
    columns: tuple[np.ndarray, np.ndarray]
    graph: tuple[np.ndarray, np.ndarray, np.ndarray]
    facts: np.ndarray


@njit(cache=True, nogil=True)
def edge_sums(ridge: np.ndarray, group: np.ndarray, facts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two integral images (H + 1, W + 1): of the groups' strengths at their centres, and of the single edges."""
    height, width = ridge.shape
    whole, single = np.zeros((height + 1, width + 1), np.float64), np.zeros((height + 1, width + 1), np.float64)
    for i in range(len(facts)):
        whole[int(facts[i, 2]) + 1, int(facts[i, 1]) + 1] += facts[i, 0]
    single[1:, 1:] = ridge
    for table in (whole, single):
        for y in range(1, height + 1):
            row = 0.0
            for x in range(1, width + 1):
                row += table[y, x]
                table[y, x] = row + table[y - 1, x]
    return whole, single


@njit(cache=True, nogil=True)
def lines(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups along every row, one after the other, and how many edges come before each pixel: (H, W + 1)."""
    height, width = group.shape
    before = np.zeros((height, width + 1), np.int32)
    along = np.empty(height * width, np.int32)
    used = 0
    for y in range(height):
        for x in range(width):
            before[y, x] = used
            if group[y, x] >= 0:
                along[used] = group[y, x]
                used += 1
        before[y, width] = used
    return along[:used], before


@njit(cache=True, nogil=True, inline="always")
def _inside(table: np.ndarray, x1: int, y1: int, x2: int, y2: int) -> float:
    return table[y2, x2] - table[y1, x2] - table[y2, x1] + table[y1, x1]


@njit(cache=True, nogil=True)
def upper_bounds(boxes: np.ndarray, whole: np.ndarray, single: np.ndarray) -> np.ndarray:
    """Return the score each box (P, 4) would have if no edge crossed its sides: (P,) float32."""
    bounds = np.empty(len(boxes), np.float32)
    for i in range(len(boxes)):
        bounds[i] = _bound(boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3], whole, single)
    return bounds


@njit(cache=True, nogil=True)
def _bound(x1: int, y1: int, x2: int, y2: int, whole: np.ndarray, single: np.ndarray) -> float:
    w, h = x2 - x1, y2 - y1
    middle = _inside(single, x1 + w // 4, y1 + h // 4, x2 - w // 4, y2 - h // 4)
    return (_inside(whole, x1, y1, x2, y2) - middle) / (2.0 * (w + h) ** NORM)


@njit(cache=True, nogil=True)
def _touch(along: np.ndarray, first: int, last: int, leak: np.ndarray, queue: np.ndarray, queued: int) -> int:
    """Mark the groups of `along[first:last]` as crossing the box, and return the new length of the queue."""
    for i in range(first, last):
        g = along[i]
        if leak[g] == 0:
            queue[queued] = g
            queued += 1
        leak[g] = 1
    return queued


@njit(cache=True, nogil=True)
def score(box: tuple[int, int, int, int], floor: float, scene: Scene, leak: np.ndarray, queue: np.ndarray) -> float:
    """Return the score of one box: the strength of the groups inside that no path of similar groups connects to its sides.

    Counting stops once the score cannot exceed `floor`. `leak` (n,) holds how strongly each group is connected to the
    sides; it must be all zeros and is left so. `queue` (n,) is scratch.
    """
    x1, y1, x2, y2 = box
    rows, columns, facts = scene.rows, scene.columns, scene.facts
    near, closeness, starts = scene.graph
    best = _bound(x1, y1, x2, y2, scene.whole, scene.single)
    if best <= floor:
        return best
    norm = 2.0 * (x2 - x1 + y2 - y1) ** NORM
    queued = _touch(rows[0], rows[1][y1, x1], rows[1][y1, x2], leak, queue, 0)
    queued = _touch(rows[0], rows[1][y2 - 1, x1], rows[1][y2 - 1, x2], leak, queue, queued)
    queued = _touch(columns[0], columns[1][x1, y1], columns[1][x1, y2], leak, queue, queued)
    queued = _touch(columns[0], columns[1][x2 - 1, y1], columns[1][x2 - 1, y2], leak, queue, queued)
    lost = 0.0
    for i in range(queued):
        g = queue[i]
        if x1 <= int(facts[g, 1]) < x2 and y1 <= int(facts[g, 2]) < y2:
            lost += facts[g, 0]
    head = 0
    while head < queued and best - lost / norm > floor:
        g = queue[head]
        head += 1
        for i in range(starts[g], starts[g + 1]):
            s = near[i]
            through = leak[g] * closeness[i]
            if through <= leak[s] or through <= FAINT:
                continue
            if x1 <= int(facts[s, 1]) < x2 and y1 <= int(facts[s, 2]) < y2:
                if leak[s] == 0:
                    queue[queued] = s
                    queued += 1
                lost += (through - leak[s]) * facts[s, 0]
                leak[s] = through
    for i in range(queued):
        leak[queue[i]] = 0
    return best - lost / norm


@njit(cache=True, nogil=True)
def score_all(boxes: np.ndarray, scene: Scene) -> np.ndarray:
    """Return the scores (P,) float32 of boxes (P, 4)."""
    leak, queue = np.zeros(len(scene.facts), np.float32), np.empty(len(scene.facts), np.int32)
    scores = np.empty(len(boxes), np.float32)
    for i in range(len(boxes)):
        box = (boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3])
        scores[i] = score(box, -1.0e9, scene, leak, queue)
    return scores


@njit(cache=True, nogil=True)
def refine(boxes: np.ndarray, scores: np.ndarray, scene: Scene) -> None:
    """Move each side of each box (P, 4), in place, to where the score is best; steps are halved in each round."""
    leak, queue = np.zeros(len(scene.facts), np.float32), np.empty(len(scene.facts), np.int32)
    height, width = scene.whole.shape[0] - 1, scene.whole.shape[1] - 1
    for i in range(len(boxes)):
        for turn in range(ROUNDS):
            for side in range(4):
                length = boxes[i, 2] - boxes[i, 0] if side % 2 == 0 else boxes[i, 3] - boxes[i, 1]
                step = max(1, length >> (3 + turn))
                for move in (-step, step):
                    x1 = boxes[i, 0] + (move if side == 0 else 0)
                    y1 = boxes[i, 1] + (move if side == 1 else 0)
                    x2 = boxes[i, 2] + (move if side == 2 else 0)
                    y2 = boxes[i, 3] + (move if side == 3 else 0)
                    if x1 < 0 or y1 < 0 or x2 > width or y2 > height or x2 - x1 < 4 or y2 - y1 < 4:
                        continue
                    box = (x1, y1, x2, y2)
                    better = score(box, scores[i], scene, leak, queue)
                    if better > scores[i]:
                        scores[i] = better
                        boxes[i, side] += move
                        break


@njit(cache=True, nogil=True)
def spread(boxes: np.ndarray, order: np.ndarray, overlap: float, most: int) -> np.ndarray:
    """Return up to `most` of `order`, skipping each box whose IoU with an earlier kept one is above `overlap`."""
    kept = np.empty(min(most, len(order)), np.int64)
    count = 0
    for i in order:
        x1, y1, x2, y2 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        area = (x2 - x1) * (y2 - y1)
        free = True
        for j in range(count):
            other = boxes[kept[j]]
            w = min(x2, other[2]) - max(x1, other[0])
            h = min(y2, other[3]) - max(y1, other[1])
            if w > 0 and h > 0:
                union = area + (other[2] - other[0]) * (other[3] - other[1]) - w * h
                if w * h > overlap * union:
                    free = False
                    break
        if free:
            kept[count] = i
            count += 1
            if count == kept.size:
                break
    return kept[:count]
