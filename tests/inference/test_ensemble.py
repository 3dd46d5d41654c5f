"""Several networks asked as one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.inference.ensemble import Ensemble
from deep_patch_learning.model.network import ALL_HEADS, HEADS, DeepPatchNet
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe


def network(seed: int, heads: tuple[str, ...] = ALL_HEADS, refinements: int = 2, moves: bool = True) -> DeepPatchNet:
    torch.manual_seed(seed)
    return build_network(
        Recipe.of(
            backbone="tiny", heads=heads, filters=8, refinements=refinements, refinement_width=16, regression=moves
        ),
        3,
    )[0].eval()


@pytest.fixture
def batch() -> Batch:
    torch.manual_seed(0)
    patches = torch.tensor([[0.0, 0, 40, 40], [10, 10, 60, 50], [5, 5, 30, 60]])
    return Batch(torch.rand(2, 3, 64, 64) * 255, torch.tensor([[64, 64], [64, 64]]), patches, torch.tensor([0, 0, 1]))


def test_the_mean_of_what_its_members_say(batch: Batch) -> None:
    members = [network(0), network(1, refinements=1)]
    together = Ensemble(members)(batch)
    first, second = (member(batch) for member in members)
    for name in ("classification", "discovery", "patches"):
        wanted = (getattr(first, name) + getattr(second, name)) / 2
        torch.testing.assert_close(getattr(together, name), wanted)
    assert together.parts is None
    for name in ("image", "shares", "probabilities", "offsets"):
        wanted = (getattr(first.refinement, name) + getattr(second.refinement, name)) / 2
        torch.testing.assert_close(getattr(together.refinement, name), wanted)
    assert together.refinement is not None
    assert together.refinement.heads.shape == (3, 3, 4)  # all their classifiers


def test_heads_that_a_member_lacks_are_not_heard(batch: Batch) -> None:
    plain = Ensemble([network(0), network(1, HEADS)])(batch)
    assert plain.refinement is None
    assert plain.patches is not None
    unmoved = Ensemble([network(0), network(1, moves=False)])(batch)
    assert unmoved.refinement is not None
    assert unmoved.refinement.offsets is None
    assert Ensemble([network(0), network(1, ("refinement",))])(batch).patches is None
    with pytest.raises(ValueError, match="at least one"):
        Ensemble([])


def test_runs_are_loaded_together(small_run: Path, tmp_path: Path) -> None:
    import shutil

    from deep_patch_learning.inference.loading import load

    image = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
    alone, twice = load(small_run, "cpu"), load([small_run, small_run], "cpu")
    assert isinstance(twice.network, Ensemble)
    assert load([small_run], "cpu").classes == alone.classes
    one, other = alone.predict(image), twice.predict(image)
    np.testing.assert_allclose(one.image_scores, other.image_scores, rtol=1e-5)
    np.testing.assert_array_equal(one.found_boxes, other.found_boxes)
    changed = tmp_path / "changed"
    shutil.copytree(small_run, changed)
    described = (changed / "data.json").read_text()
    classes = alone.classes
    (changed / "data.json").write_text(described.replace(f'"{classes[0]}"', '"lion"'))
    with pytest.raises(RunError, match="knows other classes"):
        load([small_run, changed], "cpu")
    shutil.copyfile(small_run / "data.json", changed / "data.json")
    alone_again = (changed / "config.toml").read_text()
    (changed / "config.toml").write_text(alone_again.replace('"classification", "discovery"', '"discovery"'))
    with pytest.raises(RunError, match="has the heads discovery, but"):
        load([small_run, changed], "cpu")
    with pytest.raises(RunError, match="no run was named"):
        load([], "cpu")
