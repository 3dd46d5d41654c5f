"""The architecture as a test: which package may import which, over every import in the source, lazy ones included."""

import ast
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import deep_patch_learning

PACKAGE = "deep_patch_learning"
SOURCE = Path(deep_patch_learning.__file__).parent
# From the top down. A package may import those of its own level and of levels below, never one above.
LEVELS = (
    ("cli",),
    ("commands",),
    ("research", "cluster"),
    ("review",),
    ("report", "labels"),
    ("training",),
    ("inference",),
    ("runs",),
    ("recipe",),
    ("refinement",),
    ("model",),
    ("evaluation", "patches"),
    ("data",),
    ("common",),
)
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}
LEARNS = ("training", "recipe", "refinement", "model", "commands.train")  # none of these may reach the true boxes
TRUTH = "data.truth"
ROOT_MODULES = 4
METADATA = {"__version__"}  # the only names of the root that the package itself may import

Graph = dict[str, dict[str, int]]  # importing module -> imported module -> line


def faults(root: Path) -> list[str]:
    """Return every broken rule of the package in `root`, each with the chain of imports that breaks it."""
    modules = {_module(path, root): path for path in sorted(root.rglob("*.py"))}
    found: list[str] = []
    imports: Graph = {}
    for module, path in modules.items():
        imports[module] = {}
        for target, line in _imports(path, module, modules):
            if target is None:
                found.append(
                    f"{_place(module, line)} imports a module whose name is not written out: not to be checked"
                )
            else:
                imports[module].setdefault(target, line)
    found += _too_many_at_root(root)
    found += _upward(imports)
    found += _cycles({module: targets for module, targets in imports.items() if module != ""})
    reached = _with_package_inits(imports)
    found += _forbidden(reached, ("inference",), ("training",), "inference must not import training")
    found += _forbidden(reached, LEARNS, (TRUTH,), "what trains must not reach the true boxes")
    return found


def _module(path: Path, root: Path) -> str:
    """Return the dotted name inside the package; a package's own name for its `__init__`, "" for the root's."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _place(module: str, line: int) -> str:
    return f"{module or '__init__'}:{line}"


def _imports(path: Path, module: str, modules: dict[str, Path]) -> Iterator[tuple[str | None, int]]:
    """Yield (imported module, line) for each import of this package's own modules; None for one that cannot be read."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _nodes(path.read_text()):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _named(alias.name, (), node.lineno, modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = f"{PACKAGE}.{package}".strip(".").split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            yield from _named(base, [alias.name for alias in node.names], node.lineno, modules)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and module != "":
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if name is None:
                yield None, node.lineno
            else:
                yield from _named(str(name), (), node.lineno, modules)


@cache  # the copies that are spoiled below differ in a file or two
def _nodes(text: str) -> list[ast.Import | ast.ImportFrom | ast.Call]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _named(base: str, names: Iterable[str], line: int, modules: dict[str, Path]) -> Iterator[tuple[str | None, int]]:
    if base != PACKAGE and not base.startswith(f"{PACKAGE}."):
        return
    inside = base.removeprefix(PACKAGE).removeprefix(".")
    names = list(names)
    for name in names:
        target = f"{inside}.{name}".strip(".")
        if target in modules:
            yield target, line
        elif not (inside == "" and name in METADATA):
            yield inside, line
    if not names:
        yield inside, line


def _too_many_at_root(root: Path) -> Iterator[str]:
    found = sorted(path.name for path in root.glob("*.py"))
    if len(found) > ROOT_MODULES:
        yield f"{len(found)} modules at the package's root ({', '.join(found)}); at most {ROOT_MODULES}"


def _level(module: str) -> int | None:
    """Return how far down a module is; the root's own modules are above all packages."""
    package = module.split(".")[0]
    return -1 if package in ("", "__main__", "_version") else LEVEL.get(package)


def _upward(imports: Graph) -> Iterator[str]:
    for module, targets in imports.items():
        mine = _level(module)
        if mine is None:
            yield f"{module} has no level: add its package to the order of imports"
            continue
        for target, line in targets.items():
            theirs = _level(target)
            if theirs is not None and theirs < mine:
                yield f"upward import: {_place(module, line)} -> {target or '__init__'}"


def _cycles(imports: Graph) -> Iterator[str]:
    """Yield each shortest cycle once, as a chain that ends where it starts."""
    seen: set[frozenset[str]] = set()
    for module in imports:
        chain = _shortest(imports, imports[module], module.__eq__)
        if chain and frozenset(chain) not in seen:
            seen.add(frozenset(chain))
            yield f"import cycle: {_written(imports, [module, *chain])}"


def _with_package_inits(imports: Graph) -> Graph:
    """Return the imports as Python runs them: with a module the `__init__` of each package that holds it, but the root's.

    The root's `__init__` loads its names when they are asked for, so importing a module below runs none of them.
    """
    grown: Graph = {}
    for module, targets in imports.items():
        grown[module] = {}
        for target, line in targets.items():
            parts = target.split(".") if target else []
            for length in range(len(parts), 0, -1):
                grown[module].setdefault(".".join(parts[:length]), line)
    return grown


def _forbidden(imports: Graph, sources: Iterable[str], targets: Iterable[str], rule: str) -> Iterator[str]:
    for module in imports:
        if _under(module, sources):
            chain = _shortest(imports, imports[module], lambda found: _under(found, targets))
            if chain:
                yield f"{rule}: {_written(imports, [module, *chain])}"


def _under(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _shortest(imports: Graph, starts: Iterable[str], is_goal: Callable[[str], bool]) -> list[str] | None:
    """Return the shortest chain of imports from one of `starts` to a goal, both included."""
    queue = deque([start] for start in starts)
    seen = set(starts)
    while queue:
        chain = queue.popleft()
        if is_goal(chain[-1]):
            return chain
        for target in imports.get(chain[-1], {}):
            if target not in seen:
                seen.add(target)
                queue.append([*chain, target])
    return None


def _written(imports: Graph, chain: list[str]) -> str:
    steps = [_place(one, imports[one][other]) for one, other in pairwise(chain)]
    return " -> ".join([*steps, chain[-1]])


def test_imports_point_down() -> None:
    found = faults(SOURCE)
    assert not found, "\n".join(found)


def test_every_level_is_a_package_of_the_source() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(LEVEL)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the source that a test may spoil."""
    root = tmp_path / PACKAGE
    shutil.copytree(SOURCE, root, ignore=lambda _, names: [n for n in names if "." in n and not n.endswith(".py")])
    return root


def _add(root: Path, module: str, lines: str) -> None:
    path = root / f"{module}.py"
    path.write_text(path.read_text() + lines if path.exists() else lines)


LAZY = "\n\ndef _late() -> None:\n    from deep_patch_learning.{} import {}\n"
SPOILED = [
    (
        "inference imports training",
        [("inference/extra", "import deep_patch_learning.training.loop\n")],
        ["inference must not import training: inference.extra:1 -> training.loop", "upward import: inference.extra:1"],
    ),
    (
        "inference reaches training through another module",
        [
            ("inference/extra", "from deep_patch_learning.runs import more\n"),
            ("runs/more", LAZY.format("training", "loop")),
        ],
        ["inference must not import training: inference.extra:1 -> runs.more:4 -> training.loop"],
    ),
    (
        "training imports the true boxes, inside a function",
        [("training/extra", LAZY.format("data", "truth"))],
        ["what trains must not reach the true boxes: training.extra:4 -> data.truth"],
    ),
    (
        "training reaches the true boxes through a package's __init__",
        [
            ("evaluation/__init__", "\nfrom deep_patch_learning.evaluation.discovery import corloc\n"),
            ("training/extra", "from deep_patch_learning.evaluation import classification\n"),
        ],
        ["what trains must not reach the true boxes: training.extra:1 -> evaluation:3 -> evaluation.discovery:"],
    ),
    (
        "the train command imports the true boxes",
        [("commands/train", LAZY.format("data.truth", "TrueBoxes"))],
        ["what trains must not reach the true boxes: commands.train:"],
    ),
    (
        "an upward import, relative",
        [("common/extra", "from ..data import images\n")],
        ["upward import: common.extra:1 -> data.images"],
    ),
    (
        "an upward import by its name",
        [("common/extra", "import importlib\nimportlib.import_module('deep_patch_learning.cli.app')\n")],
        ["upward import: common.extra:2 -> cli.app"],
    ),
    (
        "a public name asked of the root",
        [("model/extra", "from deep_patch_learning import load\n")],
        ["upward import: model.extra:1 -> __init__"],
    ),
    (
        "an import by a name that is not written out",
        [("data/extra", "from importlib import import_module\nimport_module('deep_patch' + '_learning.cli.app')\n")],
        ["data.extra:2 imports a module whose name is not written out"],
    ),
    (
        "a cycle of three",
        [
            ("data/one", "from deep_patch_learning.data.two import x\n"),
            ("data/two", "from deep_patch_learning.data import three\n"),
            ("data/three", LAZY.format("data.one", "x")),
        ],
        ["import cycle: data.one:1 -> data.two:1 -> data.three:4 -> data.one"],
    ),
    (
        "a package without a level",
        [("extra/__init__", '"""Extra."""\n')],
        ["extra has no level"],
    ),
    (
        "modules at the root",
        [(f"extra{number}", "") for number in range(ROOT_MODULES)],
        ["modules at the package's root (__init__.py, __main__.py, extra0.py"],
    ),
]


@pytest.mark.parametrize(("name", "added", "wanted"), SPOILED, ids=[case[0] for case in SPOILED])
def test_a_forbidden_import_is_caught(copy: Path, name: str, added: list[tuple[str, str]], wanted: list[str]) -> None:
    for module, lines in added:
        (copy / module).parent.mkdir(exist_ok=True)
        _add(copy, module, lines)
    found = faults(copy)
    for text in wanted:
        assert any(text in fault for fault in found), f"{text!r} is not in {found}"
