"""Recipes: the paper's numbers, the schedule, TOML there and back, bad settings."""

import pytest

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import RECIPES, choose, modern, paper
from deep_patch_learning.recipe.recipe import Recipe


def test_the_papers_numbers() -> None:
    recipe = paper("vgg16")
    assert (recipe.batch_images, recipe.images_per_micro_batch) == (2, 1)
    assert recipe.scales == (480, 576, 688, 864, 1200)
    assert (recipe.optimiser, recipe.momentum, recipe.weight_decay) == ("sgd", 0.9, 5e-4)
    assert (recipe.head_first_steps, recipe.steps, recipe.total_steps) == (5_000, 40_000, 45_000)
    assert (recipe.reduction, recipe.unknown, recipe.patches_per_sample, recipe.filters) == ("mean", "absent", 0, 256)
    assert recipe.box_selection == "best"
    assert paper("caffenet").head_first_steps == 0


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 1e-3), (4_999, 1e-3), (5_000, 1e-3), (34_999, 1e-3), (35_000, 1e-4), (44_999, 1e-4)]
)
def test_the_papers_schedule_with_the_first_phase(step: int, rate: float) -> None:
    assert paper("vgg16").rate_at(step) == pytest.approx(rate)


def test_warm_up_and_cosine() -> None:
    recipe = modern(steps=1000)
    rates = [recipe.rate_at(step) for step in range(1000)]
    assert rates[0] == pytest.approx(recipe.learning_rate / recipe.warmup_steps)
    assert max(rates) == pytest.approx(recipe.learning_rate)
    assert rates[recipe.warmup_steps :] == sorted(rates[recipe.warmup_steps :], reverse=True)
    assert rates[-1] < recipe.learning_rate / 1000


@pytest.mark.parametrize("name", RECIPES)
def test_toml_there_and_back(name: str) -> None:
    recipe = RECIPES[name]().replace(weights='a "quoted" \\ path.pth', heads=("discovery",))
    assert Recipe.from_toml(recipe.to_toml()) == recipe


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stepps = 3", "there is no setting 'stepps'. Did you mean 'steps'"),
        ("steps = 'many'", "steps = 'many' should be a int"),
        ("steps = 0", "steps = 0; it must be at least 1"),
        ("optimiser = 'adamwx'", "Did you mean 'adamw'"),
        ("scales = [4]", "none below 16"),
        ("learning_rate = -1.0", "must be above 0"),
        ("steps = ", "not readable as TOML"),
        ("bands = 'thirds'", "bands = 'thirds' is not known"),
        ("patches_per_sample = -1", "patches_per_sample = -1; it must be 0 or more"),
        ("seed = -1", "seed = -1; it must be 0 or more"),
        ("clip_norm = nan", "clip_norm = nan; it must be 0 or more"),
    ],
)
def test_bad_settings(text: str, words: str) -> None:
    with pytest.raises(RunError) as caught:
        Recipe.from_toml(text)
    assert words in str(caught.value)


def test_settings_from_the_command_line() -> None:
    recipe = choose(
        "modern",
        "discovery",
        3,
        ["learning_rate=1e-4", "flips=false", "scales=480,688"],
        {"backbone": "vgg16", "steps": 50, "weights": "none"},
    )
    assert (recipe.backbone, recipe.steps, recipe.weights, recipe.seed) == ("vgg16", 50, "", 3)
    assert (recipe.learning_rate, recipe.flips, recipe.scales, recipe.heads) == (
        1e-4,
        False,
        (480, 688),
        ("discovery",),
    )


def test_steps_by_set_are_steps_by_option() -> None:
    assert choose("modern", "both", 0, ["steps=50"], {}) == choose("modern", "both", 0, [], {"steps": 50})
    assert choose("paper", "both", 0, ["backbone=vgg16"], {}).head_first_steps == 5_000


def test_pretrained_weights_unless_said_otherwise() -> None:
    assert modern("resnet50").weights == modern("vgg16").weights == "imagenet"
    assert choose("modern", "both", 0, [], {"weights": "none"}).weights == ""


def test_the_paper_searches_as_the_original() -> None:
    assert "mode=original max_side=500 max_boxes=None min_side=1" in recipe_patches(paper()).key()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("papr", "both", 0, [], {}), "Did you mean 'paper'"),
        (("paper", "discovry", 0, [], {}), "Did you mean 'discovery'"),
        (("paper", "both", 0, ["steps"], {}), "wanted KEY=VALUE"),
        (("paper", "both", 0, ["steps=few"], {}), "steps = few: should be like"),
        (("paper", "both", 0, ["stps=1"], {}), "Did you mean 'steps'"),
    ],
)
def test_bad_command_line(arguments: tuple, words: str) -> None:
    with pytest.raises(RunError) as caught:
        choose(*arguments)
    assert words in str(caught.value)
