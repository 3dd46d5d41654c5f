"""`dpl review --others`: boxes that another run finds elsewhere are doubted, and the page says so."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deep_patch_learning.commands.review import opened_review
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import train_prepared


def doubts(world: Path, run: Path, store: Path, *others: Path) -> list[tuple[float, str]]:
    """Return usefulness and reason of each box of a new review, as the store keeps them."""
    served = opened_review(
        world, run, store, "train", {"port": 0, "device": "cpu", "workers": 1, "others": others, "limit": 12}
    )
    served.sock.close()
    served.store.close()
    with closing(sqlite3.connect(store)) as file:
        return file.execute("SELECT usefulness, why FROM boxes ORDER BY id").fetchall()


def test_boxes_that_another_run_finds_elsewhere_are_doubted(
    small_world: Path, small_run: Path, small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    train_prepared(
        small_prepared, small_recipe.replace(seed=7, steps=150, head_learning_rate=10.0), other, device="cpu"
    )
    alone = doubts(small_world, small_run, tmp_path / "alone.sqlite")
    beside = doubts(small_world, small_run, tmp_path / "beside.sqlite", small_run, other)
    doubted = ["of 2 other runs find it elsewhere" in why for _, why in beside]
    assert any(doubted), beside
    assert not any("other runs" in why for _, why in alone)
    for (before, _), (after, _), is_doubted in zip(alone, beside, doubted, strict=True):
        assert after > before if is_doubted and before < 1 else after == pytest.approx(before)
    itself = doubts(small_world, small_run, tmp_path / "itself.sqlite", small_run)
    assert itself == alone  # a run agrees with itself


def test_a_run_of_other_classes_is_refused(small_world: Path, small_run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"classes are others.*Leave it out"):
        opened_review(
            small_world, small_run, tmp_path / "store.sqlite", "train", {"port": 0, "device": "cpu", "others": [None]}
        )
    assert not (tmp_path / "store.sqlite").exists()
