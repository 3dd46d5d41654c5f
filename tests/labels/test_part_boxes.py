"""A box looks like a part where much is said for larger boxes that hold it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.labels.select import INSIDE, MUCH_LARGER, looks_like_a_part, share_of_wholes

PERSON, FACE, DOG = [10, 10, 60, 110], [25, 12, 45, 35], [70, 60, 120, 100]


@pytest.mark.parametrize(
    ("box", "others", "scores", "part"),
    [
        (FACE, [FACE, PERSON], [2.0, 1.0], True),
        (FACE, [FACE, PERSON], [2.0, -1.0], False),  # hardly anything is said for the person
        (FACE, [FACE, DOG], [2.0, 1.9], False),  # the other does not hold it
        (PERSON, [PERSON, FACE], [2.0, 1.9], False),  # the other is the smaller one
        (PERSON, [PERSON, [8, 8, 64, 112]], [2.0, 1.9], False),  # hardly larger
        (FACE, [], [], False),
    ],
)
def test_what_looks_like_a_part(box: list, others: list, scores: list, part: bool) -> None:
    assert looks_like_a_part(np.array([box]), np.array(others).reshape(-1, 4), np.array(scores)).tolist() == [part]


def test_no_boxes() -> None:
    assert looks_like_a_part(np.zeros((0, 4)), np.array([FACE]), np.array([1.0])).shape == (0,)


@st.composite
def boxes(draw: st.DrawFn, most: int = 6) -> np.ndarray:
    corners = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 20), st.integers(1, 20))
    drawn = draw(st.lists(corners, min_size=1, max_size=most))
    return np.array([[x, y, x + wide, y + high] for x, y, wide, high in drawn])


@settings(deadline=None)
@given(boxes(), boxes(), st.integers(0, 1000), st.floats(-50, 50))
def test_the_share_is_the_slow_count_of_pixels(own: np.ndarray, others: np.ndarray, seed: int, added: float) -> None:
    scores = np.random.default_rng(seed).normal(0, 2, len(others))

    def pixels(box: np.ndarray) -> set:
        return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}

    for box, share in zip(own, share_of_wholes(own, others, scores), strict=True):
        mine, wholes = pixels(box), 0.0
        for other, score in zip(others, scores, strict=True):
            theirs = pixels(other)
            held, overlap = len(mine & theirs) / len(mine), len(mine & theirs) / len(mine | theirs)
            if min(abs(held - INSIDE), abs(overlap - MUCH_LARGER)) < 1e-9:
                return  # on the edge rounding decides
            if held > INSIDE and overlap < MUCH_LARGER:
                wholes += np.exp(score)
        assert share == pytest.approx(wholes / np.exp(scores).sum(), abs=1e-9)
    # only differences of scores count
    np.testing.assert_allclose(share_of_wholes(own, others, scores + added), share_of_wholes(own, others, scores))
