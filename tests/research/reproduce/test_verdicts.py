"""Verdicts: hand cases, and what must hold for any figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.research.reproduce.plan import Claim
from deep_patch_learning.research.reproduce.verdicts import (
    FAILS,
    HOLDS,
    ONE_SEED,
    UNMEASURED,
    WITHIN,
    Spread,
    in_words,
    judge,
    verdict,
)


@pytest.mark.parametrize(
    ("first", "second", "options", "expected"),
    [
        ([85, 86, 87], [80, 81, 82], {}, HOLDS),
        ([80, 81, 82], [85, 86, 87], {}, FAILS),
        ([85, 86, 87], [84, 86, 86], {}, WITHIN),
        ([60, 86, 99], [50, 70, 90], {}, WITHIN),
        ([85.0], [80.0], {}, ONE_SEED),
        ([85, 86], [80.0], {}, ONE_SEED),
        ([], [80, 81], {}, UNMEASURED),
        ([None, None], [80, 81], {}, UNMEASURED),
        ([0.1, 0.11], [0.9, 0.91], {"lower_is_better": True}, HOLDS),
        ([0.9, 0.91], [0.1, 0.11], {"lower_is_better": True}, FAILS),
        ([85.0, 85.2], [85.3, 85.1], {"alike": True}, HOLDS),
        ([85.0, 85.2], [80.3, 80.1], {"alike": True}, FAILS),
        ([80.0, 90.0], [79.0, 91.0], {"alike": True}, WITHIN),
        ([80.0, 90.0], [10.0, 11.0], {"alike": True}, FAILS),
        ([50, 50], [50, 50], {}, WITHIN),
    ],
)
def test_hand_cases(first: list, second: list, options: dict, expected: str) -> None:
    assert verdict(Spread.of(first), Spread.of(second), **options).words == expected


FIGURES = st.lists(st.floats(0, 100), min_size=2, max_size=5)


@given(FIGURES, FIGURES, st.booleans())
def test_swapping_the_rows_swaps_the_verdict(first: list[float], second: list[float], lower: bool) -> None:
    one = verdict(Spread.of(first), Spread.of(second), lower_is_better=lower)
    other = verdict(Spread.of(second), Spread.of(first), lower_is_better=lower)
    assert other.words == {HOLDS: FAILS, FAILS: HOLDS, WITHIN: WITHIN}[one.words]
    assert other.difference == -one.difference
    assert other.spread == pytest.approx(one.spread)


@given(FIGURES, FIGURES, st.booleans())
def test_a_wide_spread_is_never_a_verdict(first: list[float], second: list[float], alike: bool) -> None:
    noise = [-200.0, 200.0]
    wide = [value + shift for value in first for shift in noise]
    assert verdict(Spread.of(wide), Spread.of(second), alike=alike).words == WITHIN


def test_spread_leaves_out_what_is_not_measured() -> None:
    assert Spread.of([1.0, None, 3.0]) == Spread(2.0, pytest.approx(2**0.5), 2)
    assert Spread.of([4.0]) == Spread(4.0, None, 1)


def test_a_claim_is_told_in_one_line() -> None:
    claim = Claim("two tasks find objects better", "CorLoc", "both", "one")
    figures = {"both": {"CorLoc": Spread.of([43.0, 44.0])}, "one": {"CorLoc": Spread.of([40.0, 41.0])}}
    assert in_words(claim, judge(claim, figures)) == (
        "two tasks find objects better: holds here (CorLoc +3.0, spread 1.0)"
    )
    faster = Claim("one scale is faster", "seconds", "one", "both")
    figures = {"both": {"seconds": Spread.of([0.35])}, "one": {"seconds": Spread.of([0.07])}}
    assert in_words(faster, judge(faster, figures)).endswith(f"{ONE_SEED} (time -0.280 s)")
    assert in_words(claim, judge(claim, {})) == "two tasks find objects better: not measured"
