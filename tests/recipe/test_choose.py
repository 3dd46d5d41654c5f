"""How many steps a number of images calls for, and who decides: the command, the run that was begun, or the images."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.choose import (
    MOST_SAMPLES,
    ask,
    choose,
    in_words,
    samples_for,
    samples_for_best,
    seed_numbers,
    steps_for,
)
from deep_patch_learning.recipe.presets import best, modern
from deep_patch_learning.runs.folder import RunFolder

ASKED = ("modern", "", 0)


@pytest.mark.parametrize(
    ("images", "steps"), [(1, 300), (300, 350), (2_501, 1_000), (5_011, 1_400), (100_000, 12_000), (10**7, 20_000)]
)
def test_steps_of_eight_images(images: int, steps: int) -> None:
    assert steps_for(images, 8) == steps


def test_the_size_in_words() -> None:
    said = "2,501 images: 1,000 steps of 8 images, 3.2 samples of each; --steps changes it"
    assert in_words(2_501, modern(steps=1_000)) == said


@pytest.mark.parametrize(
    ("images", "samples"),
    [(1, 8_000), (400, 8_000), (2_500, 20_000), (10_000, 40_000), (10**7, 160_000)],
)
def test_samples_of_the_best_recipe(images: int, samples: int) -> None:
    assert samples_for_best(images) == samples
    recipe, said = ask("best").sized(images)
    assert recipe == best(steps=recipe.optimiser.steps)
    assert recipe.total_steps * recipe.optimiser.batch_images == pytest.approx(samples, rel=0.05)
    assert f"{images:,} images: 4 trainings of {recipe.total_steps:,} steps of 8 images" in said


def test_rounds_of_their_own_length_are_not_counted_in_words() -> None:
    _, said = ask("best", changes=["round_steps=100"]).sized(1_000)
    assert said.startswith("1,000 images: 3 first networks of 1,600 steps of 8 images")


@given(st.integers(1, 10**8), st.integers(1, 10**6), st.integers(1, 512))
def test_more_images_never_take_fewer_samples_nor_more_of_each(images: int, more: int, batch: int) -> None:
    assert samples_for(images) <= samples_for(images + more) <= MOST_SAMPLES
    assert samples_for(images) / images >= (samples_for(images + more) - 0.5) / (images + more) - 0.5 / images
    # rounding to two digits moves the samples by a twentieth at most, and to whole steps by half a step
    assert abs(steps_for(images, batch) * batch - samples_for(images)) <= samples_for(images) / 20 + batch / 2


def test_the_images_decide_where_nobody_else_does(tmp_path: Path) -> None:
    recipe, said = ask(*ASKED, [], {}).sized(2_501)
    assert recipe == modern(steps=1_000)  # warm-up and all else fit the steps
    assert said.startswith("2,501 images: 1,000 steps")
    smaller, _ = ask(*ASKED, ["batch_images=4"], {}).sized(2_501)
    assert (smaller.optimiser.steps, smaller.optimiser.batch_images) == (2_000, 4)


@pytest.mark.parametrize(("changes", "options"), [([], {"steps": 70}), (["steps = 70"], {})])
def test_given_steps_win(changes: list[str], options: dict[str, int], tmp_path: Path) -> None:
    recipe, said = ask(*ASKED, changes, options).sized(2_501)
    assert recipe == modern(steps=70)
    assert said == ""


@pytest.mark.parametrize("name", ["paper", "world"])
def test_recipes_with_steps_of_their_own_keep_them(name: str, tmp_path: Path) -> None:
    options = {"weights": "none"} if name == "paper" else {}
    recipe, said = ask(name, options=options).sized(2_501)
    assert recipe == choose(name, "", 0, [], options)
    assert said == ""


@pytest.mark.parametrize(
    ("backbone", "file"), [("caffenet", "bvlc_reference_caffenet.caffemodel"), ("vgg16-caffe", "16_layers.caffemodel")]
)
def test_the_paper_does_not_start_at_random_by_accident(backbone: str, file: str) -> None:
    with pytest.raises(
        SettingError, match=f"{file}.* --patch-layers distil. --weights none starts at random"
    ) as caught:
        ask("paper", options={"backbone": backbone})
    assert "\n" not in str(caught.value)
    for changes, options in (([], {"weights": "none"}), (["weights=none"], {}), (["model.weights=none"], {})):
        assert ask("paper", "", 0, changes, {"backbone": backbone} | options).recipe().model.weights == ""
    assert ask("paper", options={"backbone": "vgg16"}).recipe().model.weights == "imagenet"
    assert ask("paper", options={"backbone": backbone, "weights": "x.caffemodel"}).recipe().model.weights


def test_a_run_that_was_begun_keeps_its_steps(tmp_path: Path, small_prepared: Prepared) -> None:
    run = RunFolder(tmp_path / "run")
    run.begin(modern(steps=123), small_prepared.images, {})
    recipe, said = ask(*ASKED, [], {}).sized(len(small_prepared.images), run.begun_with())
    run.check(recipe)
    assert recipe.optimiser.steps == 123
    assert said == ""


@pytest.mark.parametrize("text", ["\u00b2", "\u0663", "1,\u00b2", "9" * 5000, "9" * 19, "", "-1", "0,,1"])
def test_seeds_that_are_no_numbers(text: str) -> None:
    with pytest.raises(SettingError, match="wanted whole numbers with commas"):
        seed_numbers(text)


def test_seeds_are_kept_once() -> None:
    assert seed_numbers("3, 0,3,007") == (3, 0, 7)
