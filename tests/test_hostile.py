"""Inputs made to do harm, given to the real commands: nothing runs, nothing leaves its folder, nothing is injected.

The attacks are those of `benchmarks/reliability/hostile.py`, which says what each of them is.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

HARNESS = Path(__file__).parent.parent / "benchmarks" / "reliability"


@pytest.fixture(scope="module")
def hostile() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HARNESS))
        yield import_module("hostile")
    for name in ("hostile", "outcomes"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", ["pickles", "entities", "bombs", "oversized", "paths", "names"])
def test_an_attack_is_refused_in_one_line_or_does_no_harm(kind: str, hostile: ModuleType, tmp_path: Path) -> None:
    attacks = hostile.kinds(tmp_path)
    assert set(attacks) == {"pickles", "entities", "bombs", "oversized", "paths", "names"}
    folder = tmp_path / "trial"
    folder.mkdir()
    result = attacks[kind](hostile.Trial(0, Random(0), folder))
    assert result.outcome in ("success", "clean_error"), result.seen
    assert kind == "names" or result.outcome == "clean_error"


def test_harm_is_seen(hostile: ModuleType, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    assert hostile._harm(tmp_path, "") == ""
    assert "escape" in hostile._harm(tmp_path, hostile.ESCAPE)
    (work / "page.html").write_text(hostile.SCRIPT)
    assert "markup" in hostile._harm(tmp_path, "")
    (tmp_path / "outside").touch()
    assert "outside" in hostile._harm(tmp_path, "")
    (work / hostile.PROOF).touch()
    assert "ran" in hostile._harm(tmp_path, "")
