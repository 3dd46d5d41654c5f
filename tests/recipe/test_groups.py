"""Settings in groups: flat and dotted names, files and names of earlier versions, the default of a machine."""

import dataclasses
from pathlib import Path
from typing import get_args

import pytest
import torch

from deep_patch_learning.common.errors import ModelError, SettingError
from deep_patch_learning.model import losses
from deep_patch_learning.recipe.choose import ask, choose, default_recipe
from deep_patch_learning.recipe.presets import RECIPES, modern, refined, world
from deep_patch_learning.recipe.recipe import DEFAULTS, GROUP_OF, GROUPS, Recipe, full_name
from deep_patch_learning.recipe.settings import Reduction, RoundSettings, SeedsName, Unknown
from deep_patch_learning.refinement.seeds import seed_rule

# as an earlier version wrote it into config.toml
FLAT = """name = "refined"
backbone = "resnet50"
heads = ["classification", "discovery", "refinement"]
scales = [480, 688]
max_patches = 256
kept_patches = 1000
picking = "best"
seeds = "given"
optimiser = "adamw"
images_per_pass = 4
seed = 3
"""


def test_every_setting_has_one_group() -> None:
    names = [field.name for kind in GROUPS.values() for field in dataclasses.fields(kind)]
    assert len(names) == len(set(names)) == len(GROUP_OF)
    assert set(names) | {"name"} == set(DEFAULTS) == set(Recipe().settings())


def test_choices_are_those_of_the_parts() -> None:
    with pytest.raises(ModelError) as unknown:
        seed_rule("zzzz")
    assert str(unknown.value).endswith(f"Choose one of: {', '.join(get_args(SeedsName))}.")
    for setting, part in ((Reduction, losses.Reduction), (Unknown, losses.Unknown)):
        assert get_args(setting) == get_args(part)


def test_a_change_reaches_its_group_and_no_other() -> None:
    recipe = modern().replace(scales=(480,), seed=7)
    assert (recipe.data.scales, recipe.machine.seed) == ((480,), 7)
    assert recipe.replace(scales=modern().data.scales, seed=0) == modern()


def test_dotted_names_are_flat_names() -> None:
    assert modern().replace(**{"data.scales": (480,)}) == modern().replace(scales=(480,))
    assert choose("modern", "", 0, ["data.scales=480,688"], {}) == choose("modern", "", 0, ["scales=480,688"], {})
    assert choose("modern", "", 0, ["optimiser.optimiser=sgd"], {}).optimiser.optimiser == "sgd"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("dta.scales", "there is no group 'dta' of settings. Did you mean 'data'"),
        ("model.scales", "Did you mean 'data.scales'"),
        ("data.scale", "there is no setting 'data.scale'. Did you mean 'scales'"),
    ],
)
def test_wrong_dotted_names_name_the_right_one(key: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        choose("modern", "", 0, [f"{key}=480"], {})
    assert words in str(caught.value)


@pytest.mark.parametrize("name", RECIPES)
def test_the_file_has_a_table_for_each_group(name: str) -> None:
    text = RECIPES[name]().to_toml()
    assert [line[1:-1] for line in text.splitlines() if line.startswith("[")] == list(GROUPS)
    flat = "".join(line for line in text.splitlines(keepends=True) if " = " in line)
    assert Recipe.from_toml(flat) == Recipe.from_toml(text) == RECIPES[name]()


def test_a_flat_file_of_an_earlier_version_loads_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "config.toml").write_text(FLAT)
    recipe = Recipe.load(tmp_path / "config.toml")
    assert (recipe.data.patches_per_sample, recipe.data.patches_per_image) == (256, 1000)
    assert (recipe.test.box_selection, recipe.refinement.seeds) == ("max", "pseudo-boxes")
    assert (recipe.optimiser.optimiser, recipe.optimiser.images_per_micro_batch, recipe.machine.seed) == ("adamw", 4, 3)
    assert capsys.readouterr().err == ""


def test_a_file_without_rounds_is_one_training() -> None:
    tables = refined().to_toml().split("\n[")
    before = "\n[".join(table for table in tables if not table.startswith("rounds]"))
    assert "first_networks" not in before
    assert Recipe.from_toml(before) == refined()
    assert Recipe.from_toml(before).rounds.rounds == Recipe.from_toml(FLAT).rounds.rounds == 0


def test_rounds_by_flat_and_dotted_names() -> None:
    typed = ["rounds=2", "rounds.first_networks=3", "box_scales=480,600", "stop_rounds=false", "round_teachers=all"]
    assert choose("refined", "", 0, typed, {}).rounds == RoundSettings(
        2, 3, box_scales=(480, 600), stop_rounds=False, round_teachers="all"
    )


@pytest.mark.parametrize(
    ("typed", "new", "line"),
    [
        ("max_patches=32", {"patches_per_sample": 32}, "deprecated: max_patches is now patches_per_sample"),
        ("kept_patches=9", {"patches_per_image": 9}, "deprecated: kept_patches is now patches_per_image"),
        ("images_per_pass=2", {"images_per_micro_batch": 2}, "is now images_per_micro_batch"),
        ("picking=best", {"box_selection": "max"}, "deprecated: picking=best is now box_selection=max"),
        ("data.max_patches=32", {"patches_per_sample": 32}, "deprecated: data.max_patches is now patches_per_sample"),
    ],
)
def test_names_of_earlier_versions_work_with_one_line(
    typed: str, new: dict, line: str, capsys: pytest.CaptureFixture
) -> None:
    asked = ask("modern", "", 0, [typed])
    recipe, _ = asked.sized(500)
    assert {key: recipe.settings()[key] for key in new} == new
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert line in said[0]


def test_seeds_given_are_pseudo_boxes(capsys: pytest.CaptureFixture) -> None:
    assert choose("refined", "", 0, ["seeds=given"], {}).refinement.seeds == "pseudo-boxes"
    assert "seeds=given is now seeds=pseudo-boxes" in capsys.readouterr().err


def test_names_of_today_say_nothing(capsys: pytest.CaptureFixture) -> None:
    choose("refined", "all", 1, ["patches_per_sample=3", "data.flips=false", "seeds=best"], {"scales": "480"})
    assert capsys.readouterr().err == ""


def test_a_misspelt_backbone_names_the_right_one() -> None:
    with pytest.raises(ModelError, match="Did you mean 'vgg16'"):
        ask("fast", options={"backbone": "vgg61"})


def test_full_names() -> None:
    assert (full_name("scales"), full_name("name")) == ("data.scales", "name")


def test_the_default_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    small = default_recipe()
    assert small.name == "fast"
    assert "no GPU" in small.why
    assert "in the package" in small.why
    assert RECIPES[small.name]().model.weights == "shipped"  # nothing is fetched
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    large = default_recipe()
    assert large.name == "refined"
    assert "GPU" in large.why
    assert RECIPES[large.name]().model.backbone == "resnet50"
    assert default_recipe("cpu").name == "fast"
    assert "\n" not in small.why + large.why


def test_a_run_that_was_begun_keeps_its_recipe() -> None:
    assert default_recipe("cpu", begun=refined()).name == "refined"
    assert default_recipe("cpu", begun=world()).name == "world"
    assert default_recipe("cpu", begun=Recipe(name="of my own")).name == "fast"
