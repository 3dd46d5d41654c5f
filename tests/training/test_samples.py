"""Samples are a pure function of seed and number: every image once an epoch, plain and mirrored, at drawn scales."""

import threading
from collections import Counter

import numpy as np
import pytest

from deep_patch_learning.data.store import prefetch
from deep_patch_learning.recipe.presets import paper, world
from deep_patch_learning.training.samples import Sample, SamplePlan, draw_erased, draw_patches


def test_an_epoch_shows_each_image_plain_and_mirrored() -> None:
    plan = SamplePlan(7, paper())
    seen = [sample for step in range(7) for samples in plan.micro_batches_of(step) for sample in samples]
    assert Counter((v.image, v.flip) for v in seen) == {(p, f): 1 for p in range(7) for f in (False, True)}


def test_without_flips_nothing_is_mirrored() -> None:
    plan = SamplePlan(6, paper().replace(flips=False))
    seen = [sample for step in range(3) for samples in plan.micro_batches_of(step) for sample in samples]
    assert sorted(v.image for v in seen) == list(range(6))
    assert not any(v.flip for v in seen)


def test_scales_are_drawn_evenly_and_shared_by_a_pass() -> None:
    recipe = paper().replace(batch_images=4, images_per_micro_batch=2)
    plan = SamplePlan(50, recipe)
    passes = [samples for step in range(500) for samples in plan.micro_batches_of(step)]
    assert all(len({v.scale for v in samples}) == 1 for samples in passes)
    counts = Counter(samples[0].scale for samples in passes)
    assert set(counts) == set(recipe.data.scales)
    assert min(counts.values()) > 150


def test_a_step_is_the_same_whenever_it_is_asked_for() -> None:
    first, second = SamplePlan(20, world()), SamplePlan(20, world())
    assert first.micro_batches_of(123) == second.micro_batches_of(123)
    assert first.micro_batches_of(123) != SamplePlan(20, world().replace(seed=1)).micro_batches_of(123)


def test_patches_are_drawn_without_repetition() -> None:
    patches = np.arange(400).reshape(100, 4)
    recipe = world().replace(patches_per_sample=30)
    drawn = draw_patches(patches, recipe, 5)
    assert len(np.unique(drawn[:, 0])) == 30
    assert np.array_equal(drawn, draw_patches(patches, recipe, 5))
    assert not np.array_equal(drawn, draw_patches(patches, recipe, 6))
    assert draw_patches(patches, recipe.replace(patches_per_sample=0), 5) is patches


def test_erased_regions_lie_inside_and_depend_on_the_sample_alone() -> None:
    recipe = world().replace(erased_regions=3)
    samples, sizes = [Sample(0, 160, False, number) for number in range(200)], [(120, 160)] * 200
    drawn = draw_erased(sizes, samples, recipe)
    assert drawn is not None
    assert drawn.shape == (200, 3, 4)
    sides = (drawn[..., 2:] - drawn[..., :2]) / [160, 120]
    assert (drawn >= 0).all()
    assert (drawn[..., 2:] <= [160.01, 120.01]).all()
    assert 0.19 < sides.min() < 0.22 < 0.48 < sides.max() < 0.51
    again = draw_erased(sizes[:1], samples[7:8], recipe)
    assert again is not None
    assert np.array_equal(again[0], drawn[7])  # whatever it shares a micro-batch with
    assert not np.array_equal(drawn[6], drawn[7])
    assert draw_erased(sizes, samples, world()) is None


def test_ahead_keeps_the_order_and_passes_errors_on() -> None:
    for threads in (0, 3):
        assert list(prefetch(lambda x: x * x, range(20), depth=3, threads=threads)) == [x * x for x in range(20)]

    def fail(x: int) -> int:
        if x == 3:
            raise ValueError("three")
        return x

    made = prefetch(fail, range(10))
    assert [next(made) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(made)


def test_ahead_leaves_no_thread_behind_when_it_is_dropped() -> None:
    before = threading.active_count()
    made = prefetch(lambda x: x, range(100))
    next(made)
    made.close()
    assert threading.active_count() == before


def test_a_pass_holds_images_of_one_shape_as_far_as_there_are_some() -> None:
    recipe = world().replace(batch_images=8, images_per_micro_batch=4, flips=True)
    shapes = [("wide", 36)] * 21 + [("tall", 36)] * 10 + [("wide", 32)] * 3
    plan = SamplePlan(len(shapes), recipe, shapes)
    epoch = [
        samples for step in range(8) for samples in plan.micro_batches_of(step)
    ]  # 64 of 68 samples: whole passes only
    seen = Counter((v.image, v.flip) for samples in epoch for v in samples)
    assert max(seen.values()) == 1
    assert sum(seen.values()) == 64
    pure = sum(len({shapes[v.image] for v in samples}) == 1 for samples in epoch)
    assert pure >= 13  # three shapes leave at most three passes to share
    assert all(len({v.scale for v in samples}) == 1 for samples in epoch)
    assert plan.micro_batches_of(3) == SamplePlan(len(shapes), recipe, shapes).micro_batches_of(3)
    later = [samples for step in range(8, 16) for samples in plan.micro_batches_of(step)]
    assert later != epoch


def test_every_image_has_its_turn_whatever_its_shape() -> None:
    recipe = world().replace(batch_images=4, images_per_micro_batch=4, flips=False)
    shapes = [("wide", n) for n in range(10)]  # no two alike, and two of ten wait in each epoch
    plan = SamplePlan(10, recipe, shapes)
    seen = Counter(v.image for step in range(2 * 50) for samples in plan.micro_batches_of(step) for v in samples)
    assert set(seen) == set(range(10))
    assert min(seen.values()) > 25


def test_one_shape_changes_nothing() -> None:
    recipe = world()
    assert SamplePlan(20, recipe, ["same"] * 20).micro_batches_of(7) == SamplePlan(20, recipe).micro_batches_of(7)
