"""Every row of results/*.csv says where it comes from, and its command names programs and options that exist."""

import argparse
import ast
import csv
import datetime
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer

from deep_patch_learning.cli.app import app

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path for path in (ROOT / "results").glob("*.csv") if not path.stem.endswith("_judged")
)  # those are filled in by eye
CANNOT = "cannot be run again"  # a note that excuses a row from a command: what it measured was dropped


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_there_are_results() -> None:
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rows_say_where_they_come_from(path: Path) -> None:
    found = rows(path)
    assert found, f"{path.name}: has no rows"
    for column in ("command", "seed", "machine", "date"):
        assert column in found[0], f"{path.name}: has no column '{column}'. Let its benchmark write one."
    for number, row in enumerate(found, start=2):
        where = f"{path.name}, line {number}"
        assert row["seed"], f"{where}: no seed. Write 'none' where nothing is random."
        assert row["machine"], f"{where}: no machine. Write machine_name() of common/devices.py."
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"] or ""), (
            f"{where}: the date is '{row['date']}', not YYYY-MM-DD"
        )
        datetime.date.fromisoformat(row["date"])
        assert row["command"] or CANNOT in row.get("note", ""), f"{where}: no command, and no note that it {CANNOT}"


@cache
def commands(path: Path) -> dict[str, str]:
    """Each different command of a file and the line it is first in."""
    found: dict[str, str] = {}
    for number, row in enumerate(rows(path), start=2):
        for command in re.split(r";|&&", row.get("command", "")):
            if command.strip():
                found.setdefault(command.strip(), f"{path.name}, line {number}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_commands_can_be_run_as_they_stand(path: Path) -> None:
    for command, where in commands(path).items():
        problem = wrong_with(command)
        assert problem is None, f"{where}: `{command}` {problem}"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("dpl train photos --recipe fast --out RUN", None),
        ("dpl train photos --recipe fast --speed 3 --out RUN", "--speed"),
        ("dpl trian photos", "trian"),
        ("dpl evaluate", "required: data"),
        ("dpl train photos --set erased_region=2", "erased_region"),
        ("python benchmarks/patches_voc.py --workers 1", None),
        ("python benchmarks/patches_voc.py --threads 1", "--threads"),
        ("python benchmarks/corners.py VOC2007 --limit", "expected one argument"),
        ("python benchmarks/nothing.py", "there is no benchmarks/nothing.py"),
        ("make figures", "starts with neither"),
    ],
)
def test_wrong_commands_are_told(command: str, problem: str | None) -> None:
    found = wrong_with(command)
    assert found is None if problem is None else problem.lower() in (found or "").lower()


def wrong_with(command: str) -> str | None:
    """What keeps a command from running as it stands, but for the data that it names; None if nothing does."""
    words = shlex.split(command)
    if words[0] == "dpl":
        return wrong_with_dpl(words[1:])
    if words[0] == "python" and len(words) > 1:
        return wrong_with_script(words[1], words[2:])
    return "starts with neither dpl nor python"


def wrong_with_dpl(words: list[str]) -> str | None:
    group = typer.main.get_command(app)
    command = getattr(group, "commands", {}).get(words[0]) if words else None
    if command is None:
        return f"names no command of dpl: {words[:1]}"
    parser = Strict(add_help=False)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parser.add_argument(parameter.name, nargs=None if parameter.required else "*")
            continue
        action = "store_true" if parameter.is_flag else "append" if parameter.multiple else "store"
        parser.add_argument(*parameter.opts, *parameter.secondary_opts, dest=parameter.name, action=action)
    try:
        given = vars(parser.parse_args(words[1:]))
    except argparse.ArgumentError as error:
        return str(error)
    return wrong_settings(given)


def wrong_settings(values: dict[str, object]) -> str | None:
    """What is wrong with the recipe and the changes of a training."""
    from deep_patch_learning.common.errors import DplError
    from deep_patch_learning.recipe.choose import choose

    changes = values.get("changes") or []
    assert isinstance(changes, list)
    recipe = values.get("recipe")
    if not changes and not recipe:
        return None
    try:
        choose(str(recipe or "modern"), str(values.get("heads") or "all"), 0, changes, {})
    except DplError as error:
        return str(error)
    return None


def wrong_with_script(name: str, words: list[str]) -> str | None:
    path = ROOT / name / "__main__.py" if (ROOT / name).is_dir() else ROOT / name
    if not path.is_file():
        return f"cannot run: there is no {name}"
    try:
        parser_of(path).parse_args(words)
    except argparse.ArgumentError as error:
        return str(error)
    except SystemExit:
        return "is refused by the parser of its script"
    return None


class Strict(argparse.ArgumentParser):
    """A parser that says what is wrong in an exception."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise argparse.ArgumentError(None, message)


@cache
def parser_of(path: Path) -> argparse.ArgumentParser:
    """The parser of a script, put together from its `add_argument` and `add_parser` calls; nothing of it is run or imported."""
    parser = Strict(prog=path.name, add_help=False)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    names = [
        call.args[0].value
        for call in calls
        if call.func.attr == "add_parser" and isinstance(call.args[0], ast.Constant)
    ]  # type: ignore[attr-defined]
    if names:
        parser.add_argument("verb", choices=names)
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        if call.func.attr != "add_argument":  # type: ignore[attr-defined]
            continue
        flags = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        named = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
        kept = {key: named[key] for key in ("nargs", "action", "dest", "required") if key in named}
        if names:  # its other verbs need other options
            kept.pop("required", None)
            kept |= {} if flags[0].startswith("-") else {"nargs": "?"}
        if any(flag == action.dest or flag in action.option_strings for flag in flags for action in parser._actions):
            continue  # of another verb
        parser.add_argument(*flags, **kept)
    return parser


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_use_the_options_they_declare(path: Path) -> None:
    """A renamed option that is still read by its old name fails only when the benchmark is run, an hour later."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    declared = {
        (flag.lstrip("-").replace("-", "_"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
        for flag in [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    }
    verbs = {  # of several verbs, where the chosen one goes
        word.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_subparsers"
        for word in node.keywords
        if word.arg == "dest" and isinstance(word.value, ast.Constant)
    }
    parsed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "parse_args"
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # fmt: skip
    of_parsed = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in parsed
    ]  # fmt: skip
    declared |= {node.attr for node in of_parsed if isinstance(node.ctx, ast.Store)}
    used = {node.attr for node in of_parsed}
    set_by_verbs = {
        word.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_defaults"
        for word in node.keywords
    }
    declared |= verbs | set_by_verbs
    assert used <= declared, f"{path.name} reads {sorted(used - declared)}, which no add_argument declares"
