"""The README and the docs: tables and sentences say what was measured, links lead somewhere, names are those of the code."""

import ast
import csv
import dataclasses
import importlib.util
import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import get_args

import pytest
from PIL import Image

import deep_patch_learning as dpl

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
CARDS = sorted((ROOT / "src").rglob("MODEL_CARD.md"))
GUIDES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md")]
PAGES = [ROOT / "README.md", *CARDS, *DOCS]
TABLES = {
    "README.md": 1,
    "patches.md": 4,
    "speed.md": 6,
    "results.md": 3,
    "reproduce.md": 4,
    "boxes.md": 1,
    "labels.md": 1,
    "quickstart.md": 1,
    "better-boxes.md": 2,
    "shipped-model.md": 2,
    "MODEL_CARD.md": 2,
}


def named(page: Path) -> str:
    return page.name


def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose(page: Path) -> str:
    """Return a page's text without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_tables_are_the_measured_ones(page: Path) -> None:
    text = page.read_text()
    assert tables().page(text) == text  # else: python benchmarks/tables.py
    assert text.count("<!-- end of ") == TABLES.get(page.name, 0)


def test_the_model_card_is_found() -> None:
    assert len(CARDS) == 1


# Sentences with a figure


def values(name: str, column: str, **wanted: str) -> list[float]:
    """Return a column of a results file, of the rows that have the wanted values."""
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]
    assert rows, (name, wanted)
    return [float(row[column]) for row in rows]


def of_shipped(column: str) -> float:
    return values("shipped_model", column)[0]


def gains(column: str) -> list[str]:
    """Return what the seed rule `votes` adds to `vote`, by seed."""
    pairs = zip(SEED_RULES["vote", column], SEED_RULES["votes", column], strict=True)
    return [f"{more - less:.1f}" for less, more in pairs]


def gain_and_spread(column: str) -> tuple[str, str]:
    """Return the gain of the mean of `votes` over `vote`, and the root of the sum of the two variances."""
    less, more = SEED_RULES["vote", column], SEED_RULES["votes", column]
    return f"{mean(more) - mean(less):.1f}", f"{(stdev(more) ** 2 + stdev(less) ** 2) ** 0.5:.1f}"


def of_synthetic(boxes: str) -> float:
    return mean(values("world_boxes", "CorLoc", world="ordinary", boxes=boxes))


ROUNDS = {
    number: values("voc2007_parts", "CorLoc", row=row, measured_on="trainval")
    for number, row in {2: "long third round", 3: "fourth round of three"}.items()
}
TWO_HEADS = values("voc2007_main", "CorLoc", measured_on="trainval")
TRAINED_PHOTOS, OTHER_PHOTOS = values("own_photos", "CorLoc", layers="ImageNet's")
SELF_TRAINED = values(
    "own_photos", "CorLoc", layers="the shipped model's, second round of ImageNet's", measured_on="others"
)[0]
SHARE = values("detector_on_labels", "share_of_full", trained_on="tags")[0]
OPENCV = values("patches_against_opencv", "times_opencv", method="ours fast", first="all")[0]
BINS = "last stage on 7 x 7 bins (resnet50-v1)"
SEED_RULES = {
    (rule, column): values("voc2007_seeds", column, seed_rule=rule, trained_on="train", neck=BINS)
    for rule in ("vote", "votes")
    for column in ("CorLoc_vote", "CorLoc_evidence", "detection_mAP")
}
SYNTHETIC = tuple(f"{of_synthetic(boxes):.1f}" for boxes in ("the paper's", "elected"))


def of_memory(column: str, task: str) -> tuple[float, float]:
    """Return a column of the allocator's measurement: with freed blocks given back, and kept."""
    given, kept = (values("memory_allocator", column, task=task, freed_blocks=way)[0] for way in ("given back", "kept"))
    return given, kept


SYSTEM_TIME, PEAK = (of_memory(column, "train, 60 steps") for column in ("system_percent_of_user", "peak_mib"))
SYSTEM_PREDICT, PEAK_PREDICT = (
    of_memory(column, "predict, 40 images") for column in ("system_percent_of_user", "peak_mib")
)

SENTENCES = [
    ("docs/speed.md", f"falls from {SYSTEM_TIME[0]:.0f} % of user time to {SYSTEM_TIME[1]:.0f} %, and peak memory"),
    ("docs/speed.md", f"peak memory from {PEAK[0] / 1024:.1f} to {PEAK[1] / 1024:.1f} GiB"),
    ("docs/speed.md", f"falls from {SYSTEM_PREDICT[0]:.0f} % to {SYSTEM_PREDICT[1]:.0f} %, and peak memory rises"),
    ("docs/speed.md", f"peak memory rises by {PEAK_PREDICT[1] - PEAK_PREDICT[0]:.0f} MiB"),
    ("README.md", f"a mAP of {of_shipped('mAP'):.1f}"),
    ("README.md", f"correct for {of_shipped('CorLoc'):.0f} % of the tags (CorLoc {of_shipped('CorLoc'):.1f})"),
    ("README.md", f"{of_shipped('megabytes'):.0f} MB, 20 classes"),
    ("README.md", f"{values('shipped_speed', 'seconds', what='shipped model')[0]:.2f} s per photo"),
    ("README.md", f"its two heads reach {mean(TWO_HEADS):.1f} here"),
    ("README.md", f"± {stdev(ROUNDS[3]):.1f} is the spread of the last round"),
    ("README.md", f"the round before it spreads by {stdev(ROUNDS[2]):.1f}"),
    ("README.md", f"raises CorLoc from {SYNTHETIC[0]} (arg-max, the paper) to {SYNTHETIC[1]}"),
    ("README.md", f"reaches {100 * SHARE:.0f} % of the detection mAP"),
    ("docs/results.md", f"it reaches {mean(TWO_HEADS):.1f}; the paper reports"),
    ("docs/results.md", f"The spread of {stdev(ROUNDS[3]):.1f} is that of the last round"),
    ("docs/results.md", f"the round before it spreads by {stdev(ROUNDS[2]):.1f}"),
    ("docs/results.md", f"a CorLoc of {SYNTHETIC[0]} and the vote {SYNTHETIC[1]}"),
    ("docs/results.md", f"{100 * SHARE:.0f} % of full supervision"),
    ("docs/results.md", f"{OPENCV:.1f} times OpenCV's speed"),
    ("docs/boxes.md", f"the vote raises CorLoc from {SYNTHETIC[0]} to {SYNTHETIC[1]}"),
    ("docs/labels.md", f"reaches {100 * SHARE:.0f} % of the detection mAP"),
    ("docs/shipped-model.md", f"(CorLoc {of_shipped('CorLoc'):.2f}, mean over classes)"),
    ("docs/shipped-model.md", f"correct for {of_shipped('CorLoc'):.0f} % of the tags"),
    ("docs/quickstart.md", f"(CorLoc {OTHER_PHOTOS:.2f}) and for {TRAINED_PHOTOS:.0f} %"),
    ("docs/quickstart.md", f"CorLoc on new images is then {SELF_TRAINED:.2f}"),
    ("docs/better-boxes.md", f"The round before it spreads by {stdev(ROUNDS[2]):.1f}"),
    ("docs/better-boxes.md", "CorLoc by vote rises by {} and {} points".format(*gains("CorLoc_vote"))),
    ("docs/better-boxes.md", "detection mAP by {} and {}".format(*gains("detection_mAP"))),
    ("docs/better-boxes.md", "gain of {} is little above the spread of {}".format(*gain_and_spread("CorLoc_vote"))),
    ("docs/better-boxes.md", "gain of {} is within the spread of {}".format(*gain_and_spread("CorLoc_evidence"))),
    ("docs/patches.md", f"{OPENCV:.1f} times is our default against OpenCV's"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES, ids=lambda text: text[:40])
def test_sentences_say_what_was_measured(page: str, sentence: str) -> None:
    assert sentence in " ".join((ROOT / page).read_text().split())


def test_a_figure_on_val_is_called_that() -> None:
    rows = [line.split(" | ") for line in tables().summary().splitlines()[2:] if line.startswith("|")]
    assert {row[2] for row in rows} == {"val", "trainval"}
    assert "not test figures" in (ROOT / "README.md").read_text()


# Links and names


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        if target.endswith(".png"):
            Image.open(place).verify()
        if anchor:
            assert anchor in anchors(place), f"{target}#{anchor}"


@pytest.mark.parametrize("page", DOCS, ids=named)
def test_a_page_of_the_site_links_to_pages_of_the_site_only(page: Path) -> None:
    assert "](../" not in page.read_text()


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = re.findall(r"^ +- [^:]+: (\S+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    notebooks = [f"notebooks/{path.name}" for path in (ROOT / "docs" / "notebooks").iterdir()]
    assert sorted(navigation) == sorted([page.name for page in DOCS] + notebooks)


def test_the_site_asks_nothing_of_the_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert "http" not in settings
    assert "http" not in (ROOT / "docs" / "stylesheets" / "extra.css").read_text()


def test_the_readme_is_short_before_its_first_table() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert first <= 100
    assert sum(line.startswith("|---") for line in lines) <= 2  # results, and the list of pages


def test_the_api_page_has_every_public_name() -> None:
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs" / "api.md").read_text(), flags=re.DOTALL)
    shown = re.findall(r"^::: deep_patch_learning\.(?:commands\.(\w+)\.)?(\w+)$", text, re.MULTILINE)
    assert sorted(name for _, name in shown) == sorted(dpl.__all__)
    # a package has the name of these two, and would be shown instead
    assert sorted(module for module, _ in shown if module) == ["patches", "report"]


@pytest.mark.parametrize("page", [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=named)
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
    from deep_patch_learning.recipe.names import RENAMED, RENAMED_VALUES

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
    from deep_patch_learning.refinement.seeds import SeedsName

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
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
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
    from deep_patch_learning.commands.load import Work
    from deep_patch_learning.commands.train import TrainOptions
    from deep_patch_learning.recipe.names import DEFAULTS

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


# Words

PRIVATE = re.compile(
    r"picture|visit|\bmend|committee|heard|\btold\b|embedded world|second round|given boxes", re.IGNORECASE
)


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS, *GUIDES], ids=named)
def test_the_words_are_those_of_the_field(page: Path) -> None:
    text = page.read_text().split("\n## Old names\n")[0] if page.name == "training.md" else page.read_text()
    found = [line for line in text.splitlines() if PRIVATE.search(line)]
    assert found == []
