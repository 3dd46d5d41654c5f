"""Prediction: scales are added up as the authors' program does, NMS, voting, loading runs, the three lines of the README."""

from pathlib import Path

import numpy as np
import pytest
import torch

import deep_patch_learning as dpl
import deep_patch_learning.inference.model as model_module
from deep_patch_learning.common.boxes import box_iou, flip
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.data.batch import collate, make_view
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.scoring import PredictSettings, score_images
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import build_network, recipe_patches, seeded
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.selection import HEADS_VOTE, BoxSelection, voted
from deep_patch_learning.training.fit import train_prepared

SCALES = (96, 128, 160)


@pytest.fixture(scope="module")
def model(small_run: Path) -> Model:
    return load(small_run, "cpu", SCALES)


@pytest.fixture(scope="module")
def images(small_world: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> list[ImageInput]:
    ready = prepare(read_tags(small_world, "test"), recipe_patches(small_recipe), tmp_path_factory.mktemp("p"))
    return [ImageInput(name, ready.images.read(i), ready.patches[i][:80]) for i, name in enumerate(ready.images.names)]


def test_scales_add_up_as_in_the_authors_program(model: Model, images: list[ImageInput]) -> None:
    """Image: maximum first, mean over scales second. Patch: sum over scales first, maximum second."""
    image = images[0]
    with torch.no_grad():
        each = [model.network(collate([make_view(image.image, image.patches, s)])) for s in SCALES]
    (scores,) = score_images(model.network, [image], model.settings)
    expected = np.mean([s.patches.detach().numpy().max(axis=0) for s in each], axis=0)
    np.testing.assert_allclose(scores.discovery, expected, rtol=1e-5, atol=1e-5)
    classification = np.mean([s.classification.detach().numpy()[0] for s in each], axis=0)
    np.testing.assert_allclose(scores.classification, classification, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scores.patches, sum(s.patches.detach().numpy() for s in each), rtol=1e-4, atol=1e-4)
    found = next(model.with_settings(box_selection=BoxSelection()).predict_images([image]))
    np.testing.assert_allclose(found.image_scores, expected + classification, rtol=1e-4, atol=1e-4)
    assert np.array_equal(found.best_boxes, image.patches[scores.patches.argmax(axis=0)])


def test_the_papers_heads_show_the_boxes_of_both_ways(model: Model, images: list[ImageInput]) -> None:
    by_vote, by_score = (model.with_settings(box_selection=way) for way in (HEADS_VOTE, BoxSelection()))
    elsewhere = 0
    for voted_on, scored in zip(by_vote.predict_images(images), by_score.predict_images(images), strict=True):
        assert voted_on.argmax_boxes is not None
        assert voted_on.voted_boxes is None
        assert scored.voted_boxes is not None
        assert scored.argmax_boxes is None
        assert np.array_equal(voted_on.argmax_boxes, scored.best_boxes)
        assert np.array_equal(scored.voted_boxes, voted_on.best_boxes)
        elsewhere += int((voted_on.best_boxes != voted_on.argmax_boxes).any(axis=1).sum())
    assert elsewhere > 0


def test_with_flips_a_mirrored_image_gives_mirrored_boxes(small_recipe: Recipe, images: list[ImageInput]) -> None:
    recipe = small_recipe.replace(heads=ALL_HEADS, refinement_width=16, regression=True, seed=3)
    with seeded(3):
        network, _ = build_network(recipe, 3)
        torch.nn.init.normal_(network.refinement.regressor.weight, std=0.5)  # so that boxes move a lot
    classes, generator = ("a", "b", "c"), recipe_patches(recipe)
    once = Model(network, classes, PredictSettings((96, 128)), generator, "cpu")
    both = once.with_settings(flips=True)
    for image in images[:4]:
        width = image.image.shape[1]
        mirrored = ImageInput(image.name, np.ascontiguousarray(image.image[:, ::-1]), flip(image.patches, width))
        for model, same in ((once, False), (both, True)):
            seen, across = (next(model.predict_images([each])) for each in (image, mirrored))
            assert seen.best_boxes is not None
            assert across.best_boxes is not None
            equal = np.allclose(flip(seen.best_boxes, width), across.best_boxes, atol=0.01)
            equal &= np.allclose(seen.image_scores, across.image_scores, atol=1e-4)
            assert equal == same


def test_several_images_in_a_pass_change_nothing(model: Model, images: list[ImageInput]) -> None:
    together = list(model.predict_images(images, images_per_micro_batch=3))
    alone = [next(model.predict_images([image])) for image in images]
    assert [found.name for found in together] == [image.name for image in images]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a.image_scores, b.image_scores, rtol=1e-3, atol=1e-3)


def test_boxes_of_a_class_hardly_overlap_and_come_best_first(model: Model, images: list[ImageInput]) -> None:
    found = next(model.predict_images(images[:1]))
    for c in range(len(found.classes)):
        mine = found.found_classes == c
        iou = box_iou(found.found_boxes[mine], found.found_boxes[mine])
        assert (iou[~np.eye(len(iou), dtype=bool)] <= 0.35).all()
        assert 1 <= mine.sum() <= model.settings.boxes_per_class
        assert np.array_equal(found.found_boxes[mine][0], found.best_boxes[c])
    assert (np.diff(found.found_scores) <= 0).all()


def test_elected_boxes_begin_with_the_same_best_and_lie_apart(model: Model, images: list[ImageInput]) -> None:
    by_score = next(model.predict_images(images[:1]))
    electing = model.with_settings(box_selection=BoxSelection(True, elections=4, overlap=0.35))
    elected = next(electing.predict_images(images[:1]))
    two = next(electing.with_settings(boxes_per_class=2).predict_images(images[:1]))
    assert np.bincount(two.found_classes).max() == 2
    assert np.array_equal(elected.best_boxes, by_score.best_boxes)
    for c in range(len(elected.classes)):
        mine = elected.found_boxes[elected.found_classes == c]
        assert np.array_equal(mine[0], elected.best_boxes[c])
        assert 1 <= len(mine) <= 4
        iou = box_iou(mine, mine)
        assert (iou[~np.eye(len(iou), dtype=bool)] <= 0.35).all()
    assert (np.diff(elected.found_scores) <= 0).all()


def test_too_little_memory_makes_the_chunks_smaller_and_nothing_else(
    model: Model, images: list[ImageInput], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = next(model.predict_images(images[:1]))
    whole, chunks = model_module.score_on_device, []

    def scarce(*arguments: object) -> object:
        chunks.append(arguments[-1])
        if arguments[-1] > most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return whole(*arguments)

    monkeypatch.setattr(model_module, "score_on_device", scarce)
    most = 2_000
    found = next(model.predict_images(images[:1]))
    assert chunks == [8_000, 4_000, 2_000]
    np.testing.assert_allclose(found.image_scores, expected.image_scores, rtol=1e-4, atol=1e-5)
    assert "2000 patches pass at once from now on" in capsys.readouterr().err
    most = 0
    with pytest.raises(RunError, match="Use smaller --scales, or --device cpu"):
        next(model.predict_images(images[:1]))


def test_a_later_call_has_all_memory_again(
    model: Model, images: list[ImageInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, chunks = model_module.score_on_device, []

    def scarce_once(*arguments: object) -> object:
        chunks.append(arguments[-1])
        if len(chunks) == 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return whole(*arguments)

    monkeypatch.setattr(model_module, "score_on_device", scarce_once)
    list(model.predict_images(images[:1]))
    list(model.predict_images(images[:1]))
    assert chunks == [8_000, 4_000, 8_000]


def test_a_vote_elects_the_whole_over_the_part() -> None:
    whole = np.array([[10, 10, 90, 90], [12, 10, 90, 92], [8, 9, 88, 90], [11, 12, 92, 90]])
    part = np.array([[40, 40, 50, 50]])
    patches = torch.from_numpy(np.concatenate([part, whole])).float()
    scores = torch.tensor([[2.0], [1.8], [1.7], [1.6], [1.7]])
    changed = voted(patches, scores, scores, BoxSelection(True))
    assert changed[:, 0].argmax() in (1, 2, 3, 4)
    kept = torch.arange(5) != changed[:, 0].argmax()
    assert torch.equal(changed[kept], scores[kept])
    assert changed.max() == pytest.approx(2.0)


def test_a_vote_is_the_slow_sum() -> None:
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 50, (20, 2))
    patches = np.concatenate([corner, corner + rng.integers(5, 50, (20, 2))], axis=1)
    scores = rng.normal(size=(20, 3)).astype(np.float32)
    iou = box_iou(patches, patches)
    area = (patches[:, 2:] - patches[:, :2]).prod(axis=1)
    for sharpness, power in ((1.0, 0.0), (3.0, 0.0), (1.5, 0.7)):
        halved = torch.from_numpy(scores) / 2
        found = voted(torch.from_numpy(patches).float(), halved, halved, BoxSelection(True, sharpness, power))
        for c in range(3):
            weights = np.exp(sharpness * scores[:, c] / 2)
            votes = [sum(iou[i, j] * weights[j] for j in range(20)) * area[i] ** power for i in range(20)]
            assert found[:, c].argmax() == int(np.argmax(votes))


def test_the_three_lines_of_the_readme(small_run: Path, small_world: Path) -> None:
    model = dpl.load(str(small_run))
    found = model.predict(str(small_world.parent / "images" / "500000.jpg"))
    assert [tag.name for tag in found.filter(min_probability=0).tags]
    assert found.filter(min_probability=0).boxes
    assert found.draw().size == (160, 128)


def test_an_array_predicts_like_its_file(model: Model, small_world: Path) -> None:
    from deep_patch_learning.data.images import read_image

    path = small_world.parent / "images" / "500001.jpg"
    a, b = model.predict(path), model.predict(read_image(path))
    assert np.array_equal(a.image_scores, b.image_scores)
    assert (a.name, b.name) == ("500001.jpg", "image")


def test_one_pixel_is_an_image_too(model: Model) -> None:
    found = model.predict(np.zeros((1, 1, 3), np.uint8))
    assert np.isfinite(found.image_scores).all()


def test_a_network_that_only_classifies_has_no_boxes(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = small_recipe.replace(heads=("classification",), steps=1)
    train_prepared(small_prepared, recipe, tmp_path / "run", device="cpu")
    found = load(tmp_path / "run", "cpu").predict(small_prepared.images.read(0))
    assert found.best_boxes is None
    assert len(found) == 0


def test_runs_that_are_not_there(tmp_path: Path, small_run: Path) -> None:
    with pytest.raises(RunError, match="Did you mean 'small'"):
        load(small_run.parent / "smal")
    with pytest.raises(RunError, match="holds no run"):
        load(tmp_path)
