"""`dpl demo` on few images: which trainings it does, and that its figures are those of the runs it leaves."""

import json
from pathlib import Path

import pytest

from deep_patch_learning.commands.demo import SHOWN, demo, rows, ways
from deep_patch_learning.commands.evaluate import evaluate
from deep_patch_learning.common.errors import DplError


def test_the_single_heads_come_with_all() -> None:
    assert list(ways("refined-world", 0)) == ["refined", "both", "second"]
    assert list(ways("refined-world", 0, all_heads=True)) == [
        "refined", "both", "second", "classification", "discovery",
    ]  # fmt: skip
    assert list(ways("world", 0)) == ["both"]
    assert list(ways("world", 0, all_heads=True)) == ["both", "classification", "discovery"]
    assert all(recipe.machine.seed == 4 for recipe in ways("refined-world", 4, all_heads=True).values())


def test_end_to_end_on_few_images(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "demo"
    figures = demo(out, seed=3, images=(16, 6), steps=2, all_heads=True)
    for name in ("second", "refined", "both", "classification", "discovery"):
        measured = evaluate(out / "world" / "world.jsonl", out / "runs" / name, split="test")
        wanted = {key: measured[key] for key in SHOWN if key in measured}
        assert figures[name] == pytest.approx(wanted)
        assert ("CorLoc" in figures[name]) == (name != "classification")
    naive = figures["naive"]
    assert naive["CorLoc"] == max(naive["whole_image"], naive["centre_box"], naive["best_single_size"])
    assert figures["seed"] == 3
    assert "runs/second" in Path(figures["report"]).read_text()
    assert [row["name"] for row in rows(figures)][:3] == [
        "self-training round", "both heads and refinement", "both heads (the paper)",
    ]  # fmt: skip
    assert len(rows(figures)) == 8
    assert json.loads(json.dumps(figures)) == figures
    said = capsys.readouterr().err
    assert f"both heads and refinement: mAP {figures['refined']['mAP']:.1f}" in said


def test_a_page_that_is_not_the_demos_stays(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    with pytest.raises(DplError, match="is no report that dpl wrote"):
        demo(tmp_path, images=(8, 4), steps=1, recipe="world")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert page.read_text() == "mine"


def test_the_papers_two_heads(tmp_path: Path) -> None:
    figures = demo(tmp_path / "demo", seed=3, images=(8, 4), steps=1, recipe="world")
    assert figures.keys() == {"both", "naive", "report", "seed", "seconds"}
    assert len(rows(figures)) == 4
