"""Segmentation equals a slow, obvious reference."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deep_patch_learning.patches.selective_search import search, segmentation

STEPS = ((0, 1), (1, 1), (1, 0), (1, -1))  # (down, right) of directions 0 to 3


def obvious_edges(image):
    """Every edge as (weight, direction, pixel, other pixel), light to heavy."""
    height, width = image.shape[:2]
    edges = []
    for direction, (down, right) in enumerate(STEPS):
        for y in range(height):
            for x in range(width):
                v, u = y + down, x + right
                if 0 <= v < height and 0 <= u < width:
                    squared = int(((image[y, x].astype(int) - image[v, u].astype(int)) ** 2).sum())
                    weight = int(np.float32(np.sqrt(np.float32(squared))) + np.float32(0.5))
                    edges.append((weight, direction, y * width + x, v * width + u))
    return sorted(edges, key=lambda edge: edge[0])  # stable


def obvious_exact_edges(image):
    """The edges to the right and lower neighbours with float32 weights, light to heavy."""
    height, width = image.shape[:2]
    edges = []
    for y in range(height):
        for x in range(width):
            for direction in (0, 2):
                v, u = y + STEPS[direction][0], x + STEPS[direction][1]
                if v < height and u < width:
                    c0, c1, c2 = image[y, x] - image[v, u]
                    edges.append((np.sqrt(c0 * c0 + c1 * c1 + c2 * c2), direction, y * width + x, v * width + u))
    return sorted(edges, key=lambda edge: edge[0])  # stable


def obvious_segments(edges, pixels, k, min_size, steps=16):
    """Labels in reading order, and the edges that met two components, with sets of pixels in place of a union-find."""
    component = {pixel: pixel for pixel in range(pixels)}
    members = {pixel: {pixel} for pixel in range(pixels)}
    heaviest = {pixel: np.float32(0) for pixel in range(pixels)}

    def join(a, b, weight):
        for pixel in members[b]:
            component[pixel] = a
        members[a] |= members.pop(b)
        heaviest[a] = np.float32(weight)

    def limit(a):
        return heaviest[a] + np.float32(k * steps) / np.float32(len(members[a]))

    met, apart = [], []
    for edge in edges:
        weight, _, p, q = edge
        a, b = component[p], component[q]
        if a == b:
            continue
        met.append(edge)
        if weight <= limit(a) and weight <= limit(b):
            join(a, b, weight)
        else:
            apart.append(edge)
    for weight, _, p, q in apart:
        a, b = component[p], component[q]
        if a != b and min(len(members[a]), len(members[b])) < min_size:
            join(a, b, weight)
    numbers = {}
    return [numbers.setdefault(component[pixel], len(numbers)) for pixel in range(pixels)], met


def packed(edges):
    return np.array([weight << 32 | 4 * p + direction for weight, direction, p, _ in edges], np.uint64)


images = hnp.arrays(
    np.uint16,
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)),
    elements=st.one_of(st.integers(0, 60), st.integers(0, 4080)),
)


@settings(max_examples=60, deadline=None)
@given(images, st.sampled_from([1.0, 5.0, 40.0, 300.0]), st.integers(1, 12))
def test_labels_equal_the_obvious_ones(image, k, min_size):
    height, width = image.shape[:2]
    wanted_edges = obvious_edges(image)
    edges = segmentation.sorted_edges(segmentation.edge_weights(image))
    np.testing.assert_array_equal(edges, packed(wanted_edges))
    for scale in (k, 2 * k, 5 * k):  # each scale samples the edges that the one before has left
        wanted, wanted_edges = obvious_segments(wanted_edges, height * width, scale, min_size)
        labels, count, edges = segmentation.segment(edges, height, width, scale, min_size)
        assert labels.ravel().tolist() == wanted
        assert count == max(wanted) + 1
        np.testing.assert_array_equal(edges, packed(wanted_edges))


@settings(max_examples=60, deadline=None)
@given(images, st.sampled_from([0.3, 5.0, 40.0, 300.0]), st.integers(1, 12))
def test_exact_labels_equal_the_obvious_ones(image, k, min_size):
    image = image.astype(np.float32) / np.float32(16.3)
    height, width = image.shape[:2]
    wanted_edges = obvious_exact_edges(image)
    edges = segmentation.exact_edges(image)
    bits = [int(np.float32(weight).view(np.uint32)) for weight, *_ in wanted_edges]
    wanted_numbers = [4 * p + direction for _, direction, p, _ in wanted_edges]
    assert edges.tolist() == [b << 32 | number for b, number in zip(bits, wanted_numbers, strict=True)]
    wanted, _ = obvious_segments(wanted_edges, height * width, k, min_size, steps=1)
    labels, count, _ = segmentation.segment(edges, height, width, k, min_size, True)
    assert labels.ravel().tolist() == wanted
    assert count == max(wanted) + 1


def test_original_mode_segments_from_every_edge():
    """A scale gives the same boxes after smaller ones and alone, on Felzenszwalb and Huttenlocher's own weights."""
    random = np.random.default_rng(5)
    image = cv2.resize(random.integers(0, 256, (12, 16, 3)).astype(np.uint8), (160, 120))
    image = (image + random.integers(0, 30, image.shape)).clip(0, 255).astype(np.uint8)
    scales = search.MODES["original"].scales
    together = list(search._hierarchies(image, search.MODES["original"]))
    alone = [
        one
        for scale in scales
        for one in search._hierarchies(image, search.MODES["original"]._replace(scales=(scale,)))
    ]
    assert len(together) == len(alone) == 12
    for boxes in together:
        assert any(np.array_equal(boxes, one) for one in alone)
    blurred = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2Lab).astype(np.float32), (0, 0), 0.8)
    wanted, _ = obvious_segments(obvious_exact_edges(blurred), 120 * 160, scales[-1][0], 100, steps=1)
    assert len(together[-1]) == 2 * (max(wanted) + 1) - 1


def test_two_halves_are_two_segments():
    image = np.zeros((20, 30, 3), np.uint16)
    image[:, 15:] = 200 * 16
    edges = segmentation.sorted_edges(segmentation.edge_weights(image))
    labels, count, _ = segmentation.segment(edges, 20, 30, 50.0, 20)
    assert count == 2
    assert (labels[:, :15] == 0).all()
    assert (labels[:, 15:] == 1).all()


def test_the_heaviest_edge_has_a_bucket():
    image = np.zeros((1, 2, 3), np.uint16)
    image[0, 1] = 255 * 16
    weights = segmentation.edge_weights(image)
    assert weights[0, 0, 0] == round(16 * 255 * 3**0.5) < segmentation.WEIGHTS
    assert len(segmentation.sorted_edges(weights)) == 1


@pytest.mark.parametrize("min_size", [2, 10, 50])
def test_no_segment_is_smaller_than_asked(min_size):
    image = np.random.default_rng(0).integers(0, 4080, (30, 40, 3)).astype(np.uint16)
    edges = segmentation.sorted_edges(segmentation.edge_weights(image))
    labels, count, _ = segmentation.segment(edges, 30, 40, 1.0, min_size)
    assert np.bincount(labels.ravel()).min() >= min_size
    assert count > 1
