"""Grouping and ordering equal slow, obvious references."""

import itertools

import cv2
import numpy as np
import pytest

from deep_patch_learning.patches.selective_search import grouping, texture


def an_image(seed, height=24, width=32, several=1):
    """Labels of random blocks, and bins, as the search makes them; `several` histograms of texture."""
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 4, (height // 8, width // 8)).repeat(8, 0).repeat(8, 1)
    _, labels = np.unique(
        blocks * 1000 + np.arange(width) // 8 * 10 + (np.arange(height) // 8)[:, None], return_inverse=True
    )
    labels = labels.reshape(height, width).astype(np.int32)
    colours = random.integers(0, 25, (height, width, 3)).astype(np.uint8) // (1 + labels[..., None] % 3).astype(
        np.uint8
    )
    textures = random.integers(0, 80, (height, width, several)).transpose(2, 0, 1) // (1 + labels % 2)
    textures = (textures * 3 // several if several > 1 else textures).astype(np.uint8)
    return labels, int(labels.max()) + 1, colours + np.array([0, 25, 50], np.uint8), textures


def obvious_similarity(first, second, mix, pixels):
    (size_a, box_a, histogram_a), (size_b, box_b, histogram_b) = first, second
    shared = np.minimum(histogram_a, histogram_b).astype(int)
    total = 0
    if mix & grouping.COLOUR:
        total += shared[: grouping.COLOUR_BINS].sum()
    if mix & grouping.TEXTURE:
        total += shared[grouping.COLOUR_BINS :].sum()
    both = size_a + size_b
    if mix & grouping.SIZE:
        total += grouping.ONE * (pixels - both) // pixels
    if mix & grouping.FILL:
        w = max(box_a[2], box_b[2]) - min(box_a[0], box_b[0])
        h = max(box_a[3], box_b[3]) - min(box_a[1], box_b[1])
        total += grouping.ONE * (pixels + both - w * h) // pixels
    return total


def obvious_grouping(labels, regions, mix):
    """Join the two most similar neighbours until one region is left, looking at every pair each time."""
    pixels = labels.size
    masks = [labels == label for label in range(labels.max() + 1)]
    alive = dict(enumerate(zip(*regions, strict=True)))
    boxes = [box for _, box, _ in alive.values()]
    while len(alive) > 1:
        pairs = [pair for pair in itertools.combinations(alive, 2) if touch(masks[pair[0]], masks[pair[1]])]
        best = max(pairs, key=lambda pair: obvious_similarity(alive[pair[0]], alive[pair[1]], mix, pixels))
        (size_a, box_a, histogram_a), (size_b, box_b, histogram_b) = alive.pop(best[0]), alive.pop(best[1])
        share = np.float32(size_a) / np.float32(size_a + size_b)
        mean = histogram_a.astype(np.float32) * share + histogram_b.astype(np.float32) * (np.float32(1) - share)
        box = np.concatenate([np.minimum(box_a[:2], box_b[:2]), np.maximum(box_a[2:], box_b[2:])])
        alive[len(masks)] = size_a + size_b, box, (mean + np.float32(0.5)).astype(np.uint16)
        masks.append(masks[best[0]] | masks[best[1]])
        boxes.append(box)
    return np.array(boxes)


def touch(first, second):
    return bool((first[:, :-1] & second[:, 1:]).any() or (second[:, :-1] & first[:, 1:]).any()
                or (first[:-1] & second[1:]).any() or (second[:-1] & first[1:]).any())  # fmt: skip


KINDS = {1: grouping.GREY_BINS, texture.DIRECTIONS: texture.CHANNEL_BINS}  # bins of a pixel: bins of a region


@pytest.mark.parametrize("several", KINDS)
@pytest.mark.parametrize("mix", [1, 2, 3, 9, 13, 14, 15])
@pytest.mark.parametrize("seed", range(3))
def test_hierarchy_equals_the_obvious_one(seed, mix, several):
    labels, count, colours, textures = an_image(seed, several=several)
    regions = grouping.described(*grouping.counted(labels, count, colours, textures, KINDS[several]), several)
    near, starts = grouping.neighbours(labels, count)
    boxes = grouping.group(near, starts, regions, labels.size, mix)
    assert boxes[-1].tolist() == [0, 0, labels.shape[1], labels.shape[0]]
    np.testing.assert_array_equal(boxes, obvious_grouping(labels, regions, mix))


@pytest.mark.parametrize("several", KINDS)
def test_regions_are_described(several):
    labels, count, colours, textures = an_image(1, several=several)
    counted = grouping.counted(labels, count, colours, textures, KINDS[several])
    sizes, boxes, histograms = grouping.described(*counted, several)
    for label in range(count):
        y, x = np.nonzero(labels == label)
        assert sizes[label] == len(y)
        assert boxes[label].tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
        counts = np.bincount(textures[:, labels == label].ravel(), minlength=KINDS[several])
        shares = histograms[label, grouping.COLOUR_BINS :] / grouping.ONE
        np.testing.assert_allclose(shares, counts / len(y) / several, atol=2 / grouping.ONE)
        assert histograms[label].astype(int).sum() == pytest.approx(2 * grouping.ONE, rel=0.01)


def directions_of(image):
    """Return the strength (H, W, 24) of the gradient of every pixel along each direction and channel."""
    height, width = image.shape[:2]
    labels = np.arange(height * width, dtype=np.int32).reshape(height, width)  # a region of each pixel
    colours = np.zeros((height, width, 3), np.uint8)
    *known, on_axes = grouping.counted(labels, labels.size, colours, texture.all_directions(image), texture.AXIS_BINS)
    counts = texture.both_ways(on_axes, known[0]).reshape(height, width, texture.DIRECTIONS, grouping.STRENGTHS)
    assert (counts.sum(axis=3) == 1).all()
    return counts.argmax(axis=3)


def test_textures_are_counted_along_eight_directions():
    image = np.random.default_rng(0).integers(0, 256, (9, 11, 3)).astype(np.uint8)
    image[2:7, 3:8, 1] = 90  # no gradient here
    found = directions_of(image)
    for channel in range(3):
        dx, dy = (cv2.Scharr(image[..., channel], cv2.CV_64F, *order) for order in ((1, 0), (0, 1)))
        for direction, along in enumerate([dx, -dx, dy, -dy, dx + dy, -dx - dy, dx - dy, dy - dx]):
            tenths = np.minimum(10 * np.maximum(along, 0) / along.max(), 9)
            strengths = found[..., 8 * channel + direction]
            whole = np.abs(tenths - np.rint(tenths)) < 1e-4  # where rounding decides
            np.testing.assert_array_equal(strengths[~whole], np.floor(tenths[~whole]))
            assert (np.abs(strengths - tenths)[whole] < 1.01).all()


def test_counts_on_axes_add_up_over_a_region():
    image = np.random.default_rng(1).integers(0, 256, (12, 15, 3)).astype(np.uint8)
    labels = np.random.default_rng(2).integers(0, 4, (12, 15)).astype(np.int32)
    colours = np.zeros((12, 15, 3), np.uint8)
    *known, on_axes = grouping.counted(labels, 4, colours, texture.all_directions(image), texture.AXIS_BINS)
    counts = texture.both_ways(on_axes, known[0]).reshape(4, texture.DIRECTIONS, grouping.STRENGTHS)
    strengths = directions_of(image)
    for label in range(4):
        for direction in range(texture.DIRECTIONS):
            wanted = np.bincount(strengths[labels == label, direction], minlength=grouping.STRENGTHS)
            np.testing.assert_array_equal(counts[label, direction], wanted)


def test_an_image_without_gradient_has_no_texture():
    assert (directions_of(np.full((4, 5, 3), 77, np.uint8)) == 0).all()


def test_neighbours_are_those_that_touch():
    labels, count, _, _ = an_image(2)
    near, starts = grouping.neighbours(labels, count)
    for label in range(count):
        wanted = {other for other in range(count) if other != label and touch(labels == label, labels == other)}
        found = near[starts[label] : starts[label + 1]].tolist()
        assert sorted(found) == sorted(wanted)


def test_boxes_seen_high_and_often_come_first():
    boxes = np.array([[0, 0, 9, 9], [20, 0, 99, 30], [50, 50, 60, 99], [20, 0, 99, 30]], np.int32)
    ranks = np.array([5, 7, 2, 3], np.int32)
    # 1/6 for the first, 1/8 + 1/4 for the second, seen twice, 1/3 for the third
    assert grouping.best_first(boxes, ranks).tolist() == [boxes[1].tolist(), boxes[2].tolist(), boxes[0].tolist()]


def test_near_twins_wait_for_other_places():
    twin = [[10, 10, 110, 110], [10, 10, 111, 110], [10, 10, 110, 111]]
    other = [[200, 200, 240, 240], [50, 150, 60, 180]]
    boxes = np.array(twin + other, np.int32)
    order = grouping.best_first(boxes, np.arange(5, dtype=np.int32)).tolist()
    assert order[0] == twin[0]
    assert order[1:3] == other
    assert sorted(order) == sorted(twin + other)
