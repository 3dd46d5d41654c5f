"""The README and the docs against the code: names, files, settings, commands, calls and quoted lines are the real ones."""

import ast
import dataclasses
import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import deep_patch_learning as dpl

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES = [*GUIDES, *sorted((ROOT / "src").rglob("MODEL_CARD.md")), *DOCS]


def named(page: Path) -> str:
    return page.name


def test_the_api_page_has_every_public_name() -> None:
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs" / "api.md").read_text(), flags=re.DOTALL)
    shown = re.findall(r"^::: deep_patch_learning\.(?:commands\.(\w+)\.)?(\w+)$", text, re.MULTILINE)
    assert sorted(name for _, name in shown) == sorted(dpl.__all__)
    # a package has the name of these three, and would be shown instead
    assert sorted(module for module, _ in shown if module) == ["patches", "report", "review"]


@pytest.mark.parametrize("page", [*DOCS, *GUIDES], ids=named)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    package = ROOT / "src" / "deep_patch_learning"
    packages = {folder.name for folder in package.iterdir() if folder.is_dir()}
    for path in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", page.read_text()):
        first = path.split("/")[0]
        if first in packages and path.endswith(".py"):
            assert (package / path).is_file(), path
        elif first in ("tests", "tools", "benchmarks"):
            assert (ROOT / path).exists(), path


def old_names() -> dict[str, str]:
    """Return the old names of settings with their new ones, as docs/training.md lists them."""
    section = (ROOT / "docs" / "training.md").read_text().split("\n## Old names\n")[1].split("| in a file |")[0]
    return dict(re.findall(r"^\| `(\w+)`[^|]*\| `(\w+)`", section, re.MULTILINE))


def test_the_old_names_of_the_docs_are_those_that_the_code_renames() -> None:
    from deep_patch_learning.cli.options import DEPRECATED
    from deep_patch_learning.recipe.recipe import RENAMED, RENAMED_VALUES

    assert old_names() == RENAMED
    section = (ROOT / "docs" / "training.md").read_text().split("\n## Old names\n")[1]
    for (setting, old), new in RENAMED_VALUES.items():
        named = f"`{setting}={old}` | `{setting}={new}`", f"with `{old}` and `vote` | `{setting}`, with `{new}`"
        assert any(text in section for text in named), (setting, old)
    for command, options in DEPRECATED.items():
        for old, new in options.items():
            assert f"| `dpl {command} {old}` | `{new}` |" in section


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--set", "images_per_pass=2"], "deprecated: images_per_pass is now images_per_micro_batch"),
        (["--set", "kept_patches=9"], "deprecated: kept_patches is now patches_per_image"),
        (["--set", "max_patches=9"], "deprecated: max_patches is now patches_per_sample"),
        (["--set", "picking=best"], "deprecated: picking=best is now box_selection=max"),
        (["--set", "picking=vote"], "deprecated: picking is now box_selection"),
        (["--set", "seeds=given"], "deprecated: seeds=given is now seeds=pseudo-boxes"),
        (["--boxes-from", "nowhere"], "dpl: --boxes-from is deprecated, use --pseudo-boxes-from."),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_an_old_name_works_with_one_line(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """The command goes on with the new name: what ends it is that there are no tags, or no run of that name."""
    from deep_patch_learning.cli.app import main

    monkeypatch.chdir(tmp_path)
    recipe = "refined-world" if "--boxes-from" in words or "seeds=given" in words else "world"
    monkeypatch.setattr("sys.argv", ["dpl", "train", "tags.csv", "--recipe", recipe, "--out", "run", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr().err.splitlines()
    assert said[0] == line
    assert not any("deprecated" in other for other in said[1:])
    assert "there is no setting" not in said[1]
    assert ended.value.code == 2


def test_the_line_about_the_default_recipe_is_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_patch_learning.recipe import choose

    monkeypatch.setattr(choose, "usable_device", lambda device: "cpu")
    assert f"```text\n{choose.default_recipe('auto').why}\n```" in (ROOT / "docs" / "training.md").read_text()
    assert (
        f"| `{choose.default_recipe('auto').name}` (default without a GPU)"
        in (ROOT / "docs" / "how-it-works.md").read_text()
    )
    monkeypatch.setattr(choose, "usable_device", lambda device: "cuda")
    assert (
        f"| `{choose.default_recipe('auto').name}` (default with a GPU)"
        in (ROOT / "docs" / "how-it-works.md").read_text()
    )


def test_the_check_page_says_what_check_says() -> None:
    from deep_patch_learning.commands.check import consequence
    from deep_patch_learning.data.checks.findings import CheckReport, Severity

    text = (ROOT / "docs" / "check.md").read_text()
    assert consequence(CheckReport(images=1, opened=1, classes=(), findings=())) in text
    assert "| | " + " | ".join(one.words for one in sorted(Severity, reverse=True)) + " |" in text


def flat(recipe: object) -> list[str]:
    """Return the names of a recipe's settings, those of its groups one by one."""
    found = []
    for field in dataclasses.fields(recipe):  # type: ignore[arg-type]
        value = getattr(recipe, field.name)
        found += flat(value) if dataclasses.is_dataclass(value) else [field.name]
    return found


def test_the_settings_of_the_docs_are_those_of_a_recipe() -> None:
    from deep_patch_learning.recipe.recipe import Recipe

    section = (ROOT / "docs" / "training.md").read_text().split("\n## Settings\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    documented = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(documented) == len(set(documented))
    assert set(documented) == {old_names().get(name, name) for name in flat(Recipe())} - {"name"}


def test_the_seed_rules_of_the_docs_are_those_of_the_code() -> None:
    from deep_patch_learning.recipe.settings import SeedsName

    row = re.search(
        r"^\| `seeds` \|.*\| seed rule: (.*) \|$", (ROOT / "docs" / "training.md").read_text(), re.MULTILINE
    )
    assert row is not None
    assert tuple(re.findall(r"`([\w-]+)`", row[1])) == get_args(SeedsName)
    rules = (ROOT / "docs" / "how-it-works.md").read_text().split("Seed rules")[1].split("\n\n")[0]
    assert [name for name in get_args(SeedsName) if f"`{name}`, " not in rules] == []


# Commands and calls


def blocks(kind: str) -> list[tuple[str, str]]:
    """Return the code blocks of one kind, each with the name of its page."""
    found = []
    for page in PAGES:
        found += [
            (page.name, text) for text in re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.DOTALL | re.M)
        ]
    return found


def shown_commands() -> list[tuple[str, str]]:
    """Return every `dpl` command of a console block in one line, each with the name of its page."""
    return [
        (page, command)
        for page, text in blocks("console")
        for command in re.findall(r"^\$ (dpl .*)$", text.replace("\\\n", " "), re.MULTILINE)
    ]


def test_commands_of_the_docs_have_the_options_they_name() -> None:
    from typer.main import get_command

    from deep_patch_learning.cli.app import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(shown_commands()) > 30
    for page, line in shown_commands():
        words = shlex.split(line, comments=True)[1:]
        if words[0].startswith("--"):
            assert words[0] in {"--help", "--version", "--install-completion"}, (page, line)
            continue
        known = {
            option for parameter in commands[words[0]].params for option in parameter.opts + parameter.secondary_opts
        }
        asked = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
        assert asked <= known | {"--help"}, (page, line)


def test_every_command_is_on_the_api_page() -> None:
    from typer.main import get_command

    from deep_patch_learning.cli.app import app

    table = (ROOT / "docs" / "api.md").read_text().split("## Commands")[0]
    assert set(re.findall(r"`dpl (\w+)", table)) == set(get_command(app).commands)  # type: ignore[attr-defined]


def test_imports_of_the_docs_work() -> None:
    imports = 0
    for page, text in blocks("python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deep_patch_learning"):
                module = import_module(node.module or "")
                imports += len(node.names)
                assert [one.name for one in node.names if not hasattr(module, one.name)] == [], (page, node.module)
    assert imports >= 5


def accepted(name: str) -> set[str]:
    """Return the keywords that a function of the API takes, those that it hands on included."""
    from deep_patch_learning.commands.label import LabelOptions
    from deep_patch_learning.commands.options import Work
    from deep_patch_learning.commands.train import TrainOptions
    from deep_patch_learning.recipe.recipe import DEFAULTS

    found = getattr(dpl, name)
    if isinstance(found, ModuleType):  # a package of the command's name
        found = getattr(import_module(f"deep_patch_learning.commands.{name}"), name)
    signature = inspect.signature(found)
    named = {one.name for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD}
    further: dict[str, set[str]] = {
        "train": set(DEFAULTS) | {field.name for field in dataclasses.fields(TrainOptions)},
        "label": set(LabelOptions.__annotations__),
        "evaluate": set(Work.__annotations__),
    }
    return named | further.get(name, set())


def test_calls_of_the_docs_have_the_arguments_they_name() -> None:
    calls = 0
    for page, text in blocks("python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("dpl."):
                name = ast.unparse(node.func).removeprefix("dpl.")
                assert name in dpl.__all__, (page, name)
                calls += 1
                if node.keywords:
                    assert {keyword.arg for keyword in node.keywords} <= accepted(name), (page, ast.unparse(node))
    assert calls > 15
