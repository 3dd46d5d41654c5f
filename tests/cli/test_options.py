"""Options of the command line: choices are those of the package, renamed ones still work, completion and version."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deep_patch_learning
from deep_patch_learning.cli import options
from deep_patch_learning.cli.app import app
from deep_patch_learning.common.devices import DEVICES
from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.labels.write import FORMATS
from deep_patch_learning.model.backbones.registry import BACKBONES
from deep_patch_learning.patches import METHODS
from deep_patch_learning.recipe.presets import RECIPES
from deep_patch_learning.research.reproduce.protocol import YEARS


@pytest.mark.parametrize(
    ("choice", "known"),
    [
        (options.RecipeName, RECIPES),
        (options.DeviceName, DEVICES),
        (options.LabelFormat, FORMATS),
        (options.PatchMethod, METHODS),
        (options.DataSetName, YEARS),
    ],
)
def test_a_choice_has_exactly_the_names_that_the_package_knows(choice: type, known: object) -> None:
    assert sorted(map(str, choice)) == sorted(known)


def test_every_search_mode_works() -> None:
    from deep_patch_learning.recipe.build import selective_search

    assert [selective_search(mode, 8).name for mode in options.SearchMode] == ["selective-search"] * 3


@pytest.mark.parametrize("form", [["--boxes-from", "r"], ["--boxes-from=r"]])
def test_an_option_of_an_earlier_version_works_and_says_its_new_name(
    form: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert " ".join(options.renamed("train", ["d", *form])).replace("=", " ") == "d --pseudo-boxes-from r"
    assert capsys.readouterr().err == "dpl: --boxes-from is deprecated, use --pseudo-boxes-from.\n"
    assert options.renamed("predict", ["d", *form]) == ["d", *form]
    assert capsys.readouterr().err == ""


def test_the_earlier_option_reaches_the_command(small_world: Path, tmp_path: Path) -> None:
    words = ["train", small_world, "--out", tmp_path / "r", "--recipe", "refined-world", "--boxes-from", "nowhere"]
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(found.exception, RunError)
    assert "nowhere: there is no such run" in str(found.exception)
    assert "--boxes-from" not in CliRunner().invoke(app, ["train", "--help"]).stdout.replace("--pseudo-boxes-from", "")


def test_settings() -> None:
    found = options.settings_of(["steps=5", " a = b=c "], steps=3, weights=None, patches=options.PatchMethod.EDGE_BOXES)
    assert found == {"steps": "5", "a": "b=c", "patches": "edge-boxes"}
    assert type(found["patches"]) is str
    with pytest.raises(SettingError, match="wanted KEY=VALUE"):
        options.settings_of(["steps"])


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"dpl {deep_patch_learning.__version__}\n"


def test_help_has_panels_with_what_everyone_needs_first() -> None:
    said = CliRunner().invoke(app, ["train", "--help"]).stdout
    places = [said.index(f"─ {name} ─") for name in ("Options", "Data", "Network", "Research")]
    assert places == sorted(places)
    first, data = said[places[0] : places[1]], said[places[1] : places[2]]
    assert all(option in first for option in ("--out", "--recipe", "--steps", "--device", "--json"))
    assert "--split" in data
    assert "--split" not in first


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("train d --recipe re", {"refined", "refined-world"}), ("label d --format l", {"label-studio"})],
)
def test_the_shell_completes_choices(typed: str, offered: set[str]) -> None:
    words = ["dpl", *typed.split()]
    asked = {"_DPL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    code = "from deep_patch_learning.cli.app import app; app(prog_name='dpl')"
    found = subprocess.run([sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True)
    assert set(found.stdout.split()) == offered


def test_every_backbone_is_completed() -> None:
    assert sorted(options.BACKBONES) == sorted([*BACKBONES, "timm:"])
