"""How many steps a number of pictures calls for, and who decides: the command, the run that was begun, or the pictures."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import choose, modern
from deep_patch_learning.recipe.sizing import MOST_VISITS, choose_sized, in_words, steps_for, visits_for
from deep_patch_learning.runs.folder import RunFolder

ASKED = ("modern", "", 0)


@pytest.mark.parametrize(
    ("pictures", "steps"), [(1, 300), (300, 350), (2_501, 1_000), (5_011, 1_400), (100_000, 12_000), (10**7, 20_000)]
)
def test_steps_of_eight_pictures(pictures: int, steps: int) -> None:
    assert steps_for(pictures, 8) == steps


def test_the_size_in_words() -> None:
    said = "2,501 pictures: 1,000 steps of 8 pictures, 3.2 visits of each; --steps changes it"
    assert in_words(2_501, modern(steps=1_000)) == said


@given(st.integers(1, 10**8), st.integers(1, 10**6), st.integers(1, 512))
def test_more_pictures_never_take_fewer_visits_nor_more_of_each(pictures: int, more: int, batch: int) -> None:
    assert visits_for(pictures) <= visits_for(pictures + more) <= MOST_VISITS
    assert visits_for(pictures) / pictures >= (visits_for(pictures + more) - 0.5) / (pictures + more) - 0.5 / pictures
    # rounding to two digits moves the visits by a twentieth at most, and to whole steps by half a step
    assert abs(steps_for(pictures, batch) * batch - visits_for(pictures)) <= visits_for(pictures) / 20 + batch / 2


def test_the_pictures_decide_where_nobody_else_does(tmp_path: Path) -> None:
    recipe, said = choose_sized(*ASKED, [], {}, 2_501, None)
    assert recipe == modern(steps=1_000)  # warm-up and all else fit the steps
    assert said.startswith("2,501 pictures: 1,000 steps")
    smaller, _ = choose_sized(*ASKED, ["batch_images=4"], {}, 2_501, None)
    assert (smaller.steps, smaller.batch_images) == (2_000, 4)


@pytest.mark.parametrize(("changes", "options"), [([], {"steps": 70}), (["steps = 70"], {})])
def test_given_steps_win(changes: list[str], options: dict[str, int], tmp_path: Path) -> None:
    recipe, said = choose_sized(*ASKED, changes, options, 2_501, None)
    assert recipe == modern(steps=70)
    assert said == ""


@pytest.mark.parametrize("name", ["paper", "world"])
def test_recipes_with_steps_of_their_own_keep_them(name: str, tmp_path: Path) -> None:
    recipe, said = choose_sized(name, "", 0, [], {}, 2_501, None)
    assert recipe == choose(name, "", 0, [], {})
    assert said == ""


def test_a_run_that_was_begun_keeps_its_steps(tmp_path: Path, small_prepared: Prepared) -> None:
    run = RunFolder(tmp_path / "run")
    run.begin(modern(steps=123), small_prepared.pictures, {})
    recipe, said = choose_sized(*ASKED, [], {}, len(small_prepared.pictures), run.begun_with())
    run.check(recipe)
    assert recipe.steps == 123
    assert said == ""
