"""Recipes: the paper's numbers, the schedule, TOML there and back, bad settings."""

import pytest

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.choose import choose
from deep_patch_learning.recipe.presets import RECIPES, modern, paper
from deep_patch_learning.recipe.recipe import Recipe


def test_the_papers_numbers() -> None:
    recipe = paper("vgg16")
    assert (recipe.optimiser.batch_images, recipe.optimiser.images_per_micro_batch) == (2, 1)
    assert recipe.data.scales == (480, 576, 688, 864, 1200)
    assert (recipe.optimiser.optimiser, recipe.optimiser.momentum, recipe.optimiser.weight_decay) == ("sgd", 0.9, 5e-4)
    assert (recipe.optimiser.head_first_steps, recipe.optimiser.steps, recipe.total_steps) == (5_000, 40_000, 45_000)
    assert (
        recipe.optimiser.reduction,
        recipe.optimiser.unknown,
        recipe.data.patches_per_sample,
        recipe.model.filters,
    ) == ("mean", "absent", 0, 256)
    assert recipe.test.box_selection == "max"
    assert paper("caffenet").optimiser.head_first_steps == 0


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 1e-3), (4_999, 1e-3), (5_000, 1e-3), (34_999, 1e-3), (35_000, 1e-4), (44_999, 1e-4)]
)
def test_the_papers_schedule_with_the_first_phase(step: int, rate: float) -> None:
    assert paper("vgg16").rate_at(step) == pytest.approx(rate)


def test_warm_up_and_cosine() -> None:
    recipe = modern(steps=1000)
    rates = [recipe.rate_at(step) for step in range(1000)]
    assert rates[0] == pytest.approx(recipe.optimiser.learning_rate / recipe.optimiser.warmup_steps)
    assert max(rates) == pytest.approx(recipe.optimiser.learning_rate)
    assert rates[recipe.optimiser.warmup_steps :] == sorted(rates[recipe.optimiser.warmup_steps :], reverse=True)
    assert rates[-1] < recipe.optimiser.learning_rate / 1000


@pytest.mark.parametrize("name", RECIPES)
def test_toml_there_and_back(name: str) -> None:
    recipe = RECIPES[name]().replace(weights='a "quoted" \\ path.pth', heads=("discovery", "refinement"))
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
    with pytest.raises(SettingError) as caught:
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
    assert (recipe.model.backbone, recipe.optimiser.steps, recipe.model.weights, recipe.machine.seed) == (
        "vgg16",
        50,
        "",
        3,
    )
    assert (recipe.optimiser.learning_rate, recipe.data.flips, recipe.data.scales, recipe.model.heads) == (
        1e-4,
        False,
        (480, 688),
        ("discovery",),
    )


def test_steps_by_set_are_steps_by_option() -> None:
    assert choose("modern", "both", 0, ["steps=50"], {}) == choose("modern", "both", 0, [], {"steps": 50})
    assert choose("paper", "both", 0, ["backbone=vgg16"], {}).optimiser.head_first_steps == 5_000


def test_pretrained_weights_unless_said_otherwise() -> None:
    assert modern("resnet50").model.weights == modern("vgg16").model.weights == "imagenet"
    assert choose("modern", "both", 0, [], {"weights": "none"}).model.weights == ""


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
    with pytest.raises(SettingError) as caught:
        choose(*arguments)
    assert words in str(caught.value)


def test_any_text_can_be_read_back() -> None:
    for name in ("a\x00b", "\x1b[31m", "tab\there", 'quote " and \\', "line\nbreak", "\x7f", "père", "\U0001f600"):
        recipe = Recipe.of(name)
        assert Recipe.from_toml(recipe.to_toml()) == recipe
    with pytest.raises(SettingError, match="not UTF-8"):
        Recipe().replace(name="a\udcff")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"head_bias": 1e308}, "head_bias = 1e\\+308; it must be a number of at most"),
        ({"learning_rate": 1e300}, "at most 1e\\+30"),
        ({"seed": 10**22}, "below 2 to the power of 63"),
        ({"scales": (100_000,)}, "none may be above 16384"),
    ],
)
def test_absurd_numbers(settings: dict, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Recipe().replace(**settings)
