"""A training with all heads: it is killed and resumes, learns, predicts, moves boxes; runs from before it still load."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from trainers import trainer

from deep_patch_learning.common.boxes import decoded, inside
from deep_patch_learning.common.errors import RunError, SettingError, TrainingError
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.scoring import ImageInput, score_images
from deep_patch_learning.model.network import ALL_HEADS, HEADS
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import recipe_losses, recipe_optimiser
from deep_patch_learning.recipe.choose import choose, heads_of
from deep_patch_learning.recipe.presets import fast, modern, refined
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.seeds import Several, Vote
from deep_patch_learning.refinement.selection import BoxSelection
from deep_patch_learning.runs.checkpoint import read_checkpoint, save_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.early_stopping import _image_scores
from deep_patch_learning.training.fit import train_prepared


@pytest.fixture(scope="module")
def refined_recipe(small_recipe: Recipe) -> Recipe:
    return small_recipe.replace(
        heads=ALL_HEADS, refinement_width=32, seeds="several", regression=True, box_selection="max"
    )


@pytest.fixture(scope="module")
def refined_run(refined_recipe: Recipe, small_prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refined") / "run"
    train_prepared(small_prepared, refined_recipe, folder, device="cpu")
    return folder


def images_of(prepared: Prepared, count: int) -> list[ImageInput]:
    return [ImageInput(str(i), prepared.images.read(i), prepared.patches[i][:60]) for i in range(count)]


def test_stopped_and_resumed_equals_never_stopped(
    refined_recipe: Recipe, refined_run: Path, small_prepared: Prepared, tmp_path: Path
) -> None:
    first = trainer(small_prepared, refined_recipe, tmp_path / "run")

    def stop_at_five(progress: object) -> None:
        if progress.step == 5:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGINT)

    assert first.fit(stop_at_five) is False
    assert trainer(small_prepared, refined_recipe, tmp_path / "run").fit() is True
    a, b = (read_checkpoint(folder / "checkpoint.safetensors")[1] for folder in (tmp_path / "run", refined_run))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert set(RunFolder(refined_run).read_log()[-1]) >= {
        "classification",
        "discovery",
        "two_stream",
        "refinement",
        "boxes",
    }


@pytest.mark.parametrize("seeds", ["best", "vote", "several", "clusters"])
def test_every_head_moves(seeds: str, refined_recipe: Recipe, small_prepared: Prepared, tmp_path: Path) -> None:
    recipe = refined_recipe.replace(seeds=seeds, steps=2, warmup_steps=1, by_cluster=seeds == "clusters")
    made = trainer(small_prepared, recipe, tmp_path / "run")
    before = {name: value.clone() for name, value in made.bare.named_parameters()}
    made.fit()
    still = [name for name, value in made.bare.named_parameters() if torch.equal(value, before[name])]
    assert all(name.startswith("backbone.") for name in still)


def test_a_loss_that_is_not_finite_stops_with_a_clear_word(
    refined_recipe: Recipe, small_prepared: Prepared, tmp_path: Path
) -> None:
    recipe = refined_recipe.replace(
        heads=("refinement",), learning_rate=1e30, clip_norm=0.0, optimiser="sgd", schedule="steps"
    )
    with pytest.raises(TrainingError, match="no longer finite"):
        trainer(small_prepared, recipe, tmp_path / "run").fit()


def test_heads_learn_at_the_rate_of_heads(refined_recipe: Recipe, small_prepared: Prepared, tmp_path: Path) -> None:
    network = trainer(small_prepared, refined_recipe, tmp_path / "run").bare
    factors = {id(p): g["factor"] for g in recipe_optimiser(network, refined_recipe).param_groups for p in g["params"]}
    assert factors[id(network.refinement.classifiers.weight)] == refined_recipe.optimiser.head_learning_rate


def test_boxes_are_moved_and_ranked_by_the_mean_of_the_classifiers(refined_run: Path, small_prepared: Prepared) -> None:
    scales = (96, 128)
    model = load(refined_run, "cpu", scales)
    torch.nn.init.normal_(model.network.refinement.regressor.bias)
    (image,) = images_of(small_prepared, 1)
    totals = model._totals([image]).refinement
    (scores,) = score_images(model.network, [image], model.settings)
    np.testing.assert_allclose(scores.refined, totals.probabilities.numpy(), rtol=1e-5)
    assert scores.refined.max() <= len(scales)
    height, width = image.image.shape[:2]
    patches = torch.from_numpy(image.patches.astype(np.float32))
    boxes = inside(decoded(patches, totals.offsets[:, None] / 2)[:, 0], height, width).numpy()
    found = next(model.predict_images([image]))
    np.testing.assert_allclose(found.best_boxes, boxes[scores.refined.argmax(axis=0)], rtol=1e-5)
    best = torch.from_numpy(scores.refined).max().item() / 2
    assert found.found_scores[0] == pytest.approx(np.log(best / (1 - best)), rel=1e-4)
    assert found.found_boxes.min() >= 0
    assert (found.found_boxes.max(axis=0) <= [width, height, width, height]).all()


@pytest.mark.parametrize("vote", [False, True])
def test_several_images_in_a_pass_change_nothing(vote: bool, refined_run: Path, small_prepared: Prepared) -> None:
    model = load(refined_run, "cpu").with_settings(box_selection=BoxSelection(vote))
    images = images_of(small_prepared, 5)
    together = list(model.predict_images(images, images_per_micro_batch=3))
    for image, found in zip(images, together, strict=True):
        alone = next(model.predict_images([image]))
        np.testing.assert_allclose(found.image_scores, alone.image_scores, rtol=1e-3, atol=1e-3)
        # one network pass may round otherwise, so a box is asked to be as good, not to be the same
        assert found.best_boxes.shape == alone.best_boxes.shape
        np.testing.assert_allclose(found.found_scores[:3], alone.found_scores[:3], rtol=1e-2, atol=1e-3)


def test_a_vote_of_probabilities_elects_the_whole() -> None:
    whole = torch.tensor([[10.0, 10, 90, 90], [12, 10, 90, 92], [8, 9, 88, 90], [11, 12, 92, 90]])
    boxes = torch.cat((torch.tensor([[40.0, 40, 50, 50]]), whole))
    totals = 2 * torch.tensor([[0.95], [0.9], [0.85], [0.9], [0.8]])
    alone, elected = (BoxSelection(vote).rank_probabilities(boxes, totals, 2) for vote in (False, True))
    torch.testing.assert_close(alone.scores[0], torch.logit(totals[alone.rows[0], 0] / 2))
    assert alone.rows[0, 0] == 0
    assert elected.rows[0, 0] > 0
    assert torch.isfinite(BoxSelection(True).rank_probabilities(boxes, totals.round(), 2).scores).all()


def test_tags_of_the_refinement_alone_and_beside_the_papers_heads(
    refined_run: Path, refined_recipe: Recipe, small_prepared: Prepared, tmp_path: Path
) -> None:
    images = images_of(small_prepared, 2)
    model = load(refined_run, "cpu")
    paper = [found.image_scores for found in model.predict_images(images)]
    model = model.with_settings(two_stream_tags=True)
    added = [found.image_scores for found in model.predict_images(images)]
    assert all((more < less).any() for more, less in zip(added, paper, strict=True))
    train_prepared(
        small_prepared, refined_recipe.replace(heads=("refinement",), steps=1), tmp_path / "run", device="cpu"
    )
    found = load(tmp_path / "run", "cpu").predict(small_prepared.images.read(0))
    assert np.isfinite(found.image_scores).all()
    assert len(found.found_boxes)
    assert found.classification_scores is None


def test_a_run_from_before_the_refinement_loads_and_resumes(
    small_run: Path, small_recipe: Recipe, small_prepared: Prepared, tmp_path: Path
) -> None:
    new = ("refinement", "seed", "foreground", "background", "by_cluster", "regression", "two_stream_tags")
    lines = small_recipe.to_toml().splitlines(keepends=True)
    old = [line for line in lines if not line.startswith(new) or line.startswith("seed =")]
    assert len(lines) - len(old) == 14
    for name in ("data.json", "versions.json", "weights.safetensors", "log.jsonl"):
        (tmp_path / name).write_bytes((small_run / name).read_bytes())
    (tmp_path / "config.toml").write_text("".join(old))
    assert Recipe.load(tmp_path / "config.toml") == small_recipe
    RunFolder(tmp_path).check(small_recipe)
    image = small_prepared.images.read(0)
    first, second = (load(folder, "cpu").predict(image) for folder in (small_run, tmp_path))
    assert np.array_equal(first.found_boxes, second.found_boxes)
    assert np.array_equal(first.image_scores, second.image_scores)


def test_weights_without_a_refinement_do_not_pass_for_ones_with_it(
    refined_run: Path, small_run: Path, tmp_path: Path
) -> None:
    for name in ("config.toml", "data.json"):
        (tmp_path / name).write_bytes((refined_run / name).read_bytes())
    save_checkpoint(tmp_path / "weights.safetensors", 1, load(small_run, "cpu").network)
    with pytest.raises(RunError, match="do not fit this run's network"):
        load(tmp_path, "cpu")


def test_recipe_and_heads_by_name() -> None:
    recipe = choose("refined", "", 0, ["seeds=several", "seeds_per_class=7", "seed_share=0.3"], {"backbone": "vgg16"})
    assert recipe.model.heads == ALL_HEADS
    assert recipe_losses(recipe).refinement.seeds == Several(7, 0.3, 0.5)
    voted = recipe_losses(refined().replace(seed_sharpness=2.0, seed_area_power=0.5))
    assert voted.refinement.seeds == Vote(2.0, 0.5)  # and not the vote's settings of testing
    assert choose("modern", "", 0, [], {}) == modern()
    assert choose("refined", "both", 0, [], {}).model.heads == HEADS
    assert (heads_of("all"), heads_of("both"), heads_of("refinement")) == (ALL_HEADS, HEADS, ("refinement",))
    assert heads_of("refinement,discovery") == ("discovery", "refinement")
    with pytest.raises(SettingError, match="Did you mean 'refinement'"):
        heads_of("refinment")
    plain = {"vote_sharpness": 0.5, "area_power": 0.25, "patches_per_sample": 64, "refinement_cells": 1}
    assert refined().replace(name="modern", heads=HEADS, seeds="best", regression=False, **plain) == modern()
    assert refined("vgg16").refinement.refinement_cells == 1  # fc6 has read what lies where
    assert choose("fast", "", 0, ["test_scales=320"], {}).data.test_scales == (320,)
    assert fast("lite0").refinement.refinement_cells == 3
    assert (fast().seen_at, modern().seen_at) == ((448,), modern().data.scales)
    assert choose("fast", "", 0, [], {"scales": "320"}).seen_at == (320,)  # and not still at 448
    with pytest.raises(SettingError, match="without weights they are random"):
        choose("fast", "", 0, [], {"backbone": "lite0"})
    assert not choose("fast", "", 0, ["freeze_backbone=false"], {"backbone": "lite0"}).optimiser.freeze_backbone
    with pytest.raises(SettingError, match="test_scales"):
        fast().replace(test_scales=(448, 8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": "sevral"}, "Did you mean 'several'"),
        ({"refinements": 0}, "refinements = 0; it must be at least 1"),
        ({"seeds_per_class": 0}, "seeds_per_class = 0"),
        ({"refinement_width": -1}, "refinement_width = -1; it must be 0 or more"),
        ({"foreground": 0.05}, "the second not below the first"),
        ({"background": -0.1}, "IoUs from 0 to 1"),
        ({"background": float("nan")}, "background = nan; it must be a number"),
        ({"seed_floor": 1.5}, "it must be from 0 to 1"),
        ({"seed_share": 0.0}, "above 0 and at most 1"),
    ],
)
def test_bad_settings(changes: dict, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Recipe().replace(**changes)


def test_a_tags_score_is_the_one_behind_its_probability(refined_run: Path, small_prepared: Prepared) -> None:
    """The two-stream head's logit is in the image's score, in the tag's score and in its probability, or in none of them."""
    (image,) = images_of(small_prepared, 1)
    for added in (False, True):
        model = load(refined_run, "cpu").with_settings(two_stream_tags=added)
        found = next(model.predict_images([image])).filter(min_probability=0)
        heads = [found.classification_scores, found.discovery_scores, *([found.two_stream_scores] if added else [])]
        assert (found.two_stream_scores is None) != added
        np.testing.assert_allclose(found.image_scores, np.sum(heads, axis=0), rtol=1e-6)
        np.testing.assert_allclose(found.tag_scores, np.mean(heads, axis=0, dtype=np.float64), rtol=1e-6)
        for tag in found.tags:
            assert tag.score == found.tag_scores[found.classes.index(tag.name)]
            assert tag.probability == pytest.approx(1 / (1 + np.exp(-tag.score)), rel=1e-6)
        order = [found.classes.index(tag.name) for tag in found.tags]
        assert order == np.argsort(-found.image_scores, kind="stable").tolist()  # what ranks images ranks tags


@pytest.mark.parametrize("added", [False, True])
def test_held_out_tags_are_measured_by_the_same_score(
    added: bool, refined_run: Path, refined_recipe: Recipe, small_prepared: Prepared
) -> None:
    recipe = refined_recipe.replace(two_stream_tags=added)
    images = images_of(small_prepared, 2)
    model = load(refined_run, "cpu", (min(recipe.data.scales),)).with_settings(two_stream_tags=added)
    measured = _image_scores(model.network, images, recipe).numpy()
    predicted = [found.image_scores for found in model.predict_images(images, 2)]
    np.testing.assert_allclose(measured, predicted, rtol=1e-4, atol=1e-4)
