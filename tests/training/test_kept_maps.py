"""Maps of a frozen backbone: rounding, bounded memory, the same weights whatever is kept and whenever a run was stopped."""

import os
import signal
from pathlib import Path

import pytest
import torch
from trainers import trainer

from deep_patch_learning.model.network import Scores
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.training import kept_maps
from deep_patch_learning.training.kept_maps import RoundedMap


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(run / "weights.safetensors")[1]


def same(first: Path, second: Path) -> bool:
    a, b = weights_of(first), weights_of(second)
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def keeping(small_recipe: Recipe) -> Recipe:
    """A recipe that keeps maps, of samples from which regions are erased."""
    return small_recipe.replace(keep_maps=True, erased_regions=2)


def test_a_rounded_map_is_within_half_a_level() -> None:
    found = torch.randn(5, 4, 3) * 7
    rounded = RoundedMap.of(found)
    assert rounded.levels.dtype == torch.uint8
    assert (rounded.on(torch.device("cpu")) - found).abs().max() <= 0.5 * rounded.step * 1.001
    flat = torch.full((2, 3, 3), -4.0)
    assert torch.equal(RoundedMap.of(flat).on(torch.device("cpu")), flat)


def test_zeros_of_a_relu_stay_zeros() -> None:
    found = torch.randn(5, 4, 3).relu()
    assert torch.equal(RoundedMap.of(found).on(torch.device("cpu")) == 0, found < found.max() / 510)


def test_scores_are_those_of_the_pixels_but_for_rounding(
    small_prepared: Prepared, keeping: Recipe, tmp_path: Path
) -> None:
    """Images of several sizes, mirrored ones too: places on the kept maps must be those on the pixels."""
    kept = trainer(small_prepared, keeping, tmp_path / "kept")
    plain = trainer(small_prepared, keeping.replace(keep_maps=False), tmp_path / "plain")
    plain.bare.load_state_dict(kept.bare.state_dict())
    flips = set()
    for step in range(4):
        for micro_batch in kept._prepare(step):
            flips |= {sample.flip for sample in micro_batch.samples}
            with torch.no_grad():
                found: list[Scores] = [
                    one.bare.eval()(one._batch(micro_batch.layout, micro_batch.samples)) for one in (kept, plain)
                ]
            spread = float(found[1].patches.std())
            assert float((found[0].patches - found[1].patches).abs().max()) < 0.2 * spread
            assert float((found[0].patches - found[1].patches).abs().mean()) < 0.02 * spread
    assert flips == {False, True}


def test_weights_do_not_depend_on_the_memory(
    small_prepared: Prepared, keeping: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trainer(small_prepared, keeping, tmp_path / "whole").fit()
    for name, limit in (("none", 0), ("some", 50_000)):
        monkeypatch.setattr(kept_maps, "MOST_BYTES", limit)
        short = trainer(small_prepared, keeping, tmp_path / name)
        assert short.fit()
        assert short.maps is not None
        assert short.maps.held <= limit
        assert same(tmp_path / "whole", tmp_path / name)
    assert short.maps.held > 0


def test_stopped_and_resumed_equals_never_stopped(small_prepared: Prepared, keeping: Recipe, tmp_path: Path) -> None:
    whole = trainer(small_prepared, keeping, tmp_path / "whole")
    whole.fit()
    broken = trainer(small_prepared, keeping, tmp_path / "broken")
    broken.fit(lambda progress: os.kill(os.getpid(), signal.SIGINT) if progress.step == 5 else None)
    assert broken.step == 5
    assert trainer(small_prepared, keeping, tmp_path / "broken").fit()
    assert same(tmp_path / "whole", tmp_path / "broken")


def test_each_view_is_computed_once_and_before_the_first_step(
    small_prepared: Prepared, keeping: Recipe, tmp_path: Path
) -> None:
    views = 24 * len(keeping.data.scales) * 2
    long = trainer(small_prepared, keeping.replace(steps=views // keeping.optimiser.batch_images), tmp_path / "long")
    computed: list[object] = []
    long.bare.backbone.register_forward_hook(lambda *_: computed.append(long.step))
    assert long.fit()
    assert len(computed) == views
    assert set(computed) == {0}


def test_few_samples_need_few_maps(small_prepared: Prepared, keeping: Recipe, tmp_path: Path) -> None:
    """The views of 24 images are more than 48 samples: only those that come are computed."""
    short = trainer(small_prepared, keeping, tmp_path / "short")
    computed: list[object] = []
    short.bare.backbone.register_forward_hook(lambda *_: computed.append(1))
    assert short.fit()
    assert 0 < len(computed) <= 48


def test_a_backbone_that_learns_keeps_no_maps(small_prepared: Prepared, keeping: Recipe, tmp_path: Path) -> None:
    assert trainer(small_prepared, keeping.replace(freeze_backbone=False), tmp_path / "run").maps is None
