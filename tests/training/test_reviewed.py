"""`dpl train --reviewed`: what people said is taught, and a resumed run learns from the same."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from reviews import write_store
from safetensors.torch import load_file

from deep_patch_learning.commands.train import train
from deep_patch_learning.common.errors import DataError, DplError, SettingError
from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.reviewed import ReviewedImage, from_lines, nothing_said, read_reviewed, reviewed_of
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import refined_world
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training import reviewed as module
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.reviewed import ReviewedTrainer, shown_images, with_exact_boxes
from deep_patch_learning.training.samples import Sample, SamplePlan
from deep_patch_learning.training.self_training import PseudoBoxTrainer

SMALL = {"split": "train", "device": "cpu", "steps": 2, "scales": (96,), "batch_images": 4, "images_per_micro_batch": 2}
BOX, OTHER, FAR = [10.0, 10.0, 60.0, 60.0], [5.0, 5.0, 30.0, 30.0], [60.0, 60.0, 90.0, 79.0]


@pytest.fixture
def store(small_world: Path, tmp_path: Path) -> Path:
    """A store about three of the small world's images, and one that it does not have."""
    images = read_tags(small_world, "train")
    first, second, third = images.names[:3]
    tags = [images.classes[int(np.flatnonzero(images.labels[row] == PRESENT)[0])] for row in range(3)]
    rest = [images.classes[index] for index in np.flatnonzero(images.labels[1] == PRESENT)[1:]]
    boxes = {
        first: [("right", tags[0], BOX, None), ("wrong", tags[0], FAR, None)],
        second: [("corrected", tags[1], BOX, OTHER)],
        third: [("open", tags[2], BOX, None)],
        "elsewhere.jpg": [("drawn", tags[0], BOX, None)],
    }
    return write_store(
        tmp_path / "reviews.sqlite", images.classes, boxes, {second: dict.fromkeys(rest, (1, 0))}, done=[second]
    )


def test_the_boxes_and_tags_of_people_are_taught(
    store: Path, small_world: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    train(small_world, tmp_path / "with", recipe="refined-world", reviewed=store, **SMALL)
    said = " ".join(capsys.readouterr().err.split())
    assert "2 of 24 images are reviewed: 2 exact boxes, 2 rejected ones, 1 changed tags" in said
    train(small_world, tmp_path / "without", recipe="refined-world", **SMALL)
    one, other = (load_file(tmp_path / name / "weights.safetensors") for name in ("with", "without"))
    assert not torch.equal(one["network.refinement.classifiers.weight"], other["network.refinement.classifiers.weight"])
    kept = from_lines(RunFolder(tmp_path / "with").reviewed, read_tags(small_world, "train").classes)
    wanted = read_reviewed(store, read_tags(small_world, "train").classes)
    assert kept.keys() == wanted.keys() - {"elsewhere.jpg"}
    for name, one_image in kept.items():
        for field in dataclasses.fields(ReviewedImage):
            np.testing.assert_array_equal(getattr(one_image, field.name), getattr(wanted[name], field.name))


def test_a_resumed_run_learns_from_the_same_reviews(store: Path, small_world: Path, tmp_path: Path) -> None:
    asked = {"recipe": "refined-world", "reviewed": store, **SMALL}
    train(small_world, tmp_path / "run", **asked)
    before = load_file(tmp_path / "run" / "weights.safetensors")
    train(small_world, tmp_path / "run", **asked)
    after = load_file(tmp_path / "run" / "weights.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(DplError, match=r"run: was begun with reviews.*give a new folder"):
        train(small_world, tmp_path / "run", **{**asked, "reviewed": None})
    classes = read_tags(small_world, "train").classes
    name = read_tags(small_world, "train").names[0]
    write_store(store, classes, {name: [("right", classes[0], OTHER, None)]})
    with pytest.raises(DplError, match="run: was begun with other reviews"):
        train(small_world, tmp_path / "run", **asked)
    train(small_world, tmp_path / "plain", recipe="refined-world", **SMALL)
    with pytest.raises(DplError, match="plain: was begun without reviews"):
        train(small_world, tmp_path / "plain", **asked)


def test_a_store_that_cannot_be_used_is_said_before_anything_is_written(
    store: Path, small_world: Path, tmp_path: Path
) -> None:
    images = read_tags(small_world, "train")
    wrong: list[tuple[dict, type[DplError], str]] = [
        ({"recipe": "world"}, SettingError, "recipe world: its heads learn from tags alone"),
        ({"reviewed": tmp_path / "no.sqlite"}, DataError, "no.sqlite: there is no such store"),
        ({"reviewed": small_world}, DataError, "is not a store of `dpl review`"),
        ({"split": "test"}, DataError, "none of its reviewed images is among these"),
    ]
    for changes, kind, words in wrong:
        with pytest.raises(kind, match=words):
            train(small_world, tmp_path / "run", **{**SMALL, "recipe": "refined-world", "reviewed": store, **changes})
    write_store(store, images.classes, {images.names[0]: [("open", images.classes[0], BOX, None)]})
    with pytest.raises(DataError, match="nobody has said anything in it yet"):
        train(small_world, tmp_path / "run", recipe="refined-world", reviewed=store, **SMALL)
    write_store(store, ["griffin"], {images.names[0]: [("right", "griffin", BOX, None)]})
    with pytest.raises(DataError, match="reviewed with the class 'griffin'"):
        train(small_world, tmp_path / "run", recipe="refined-world", reviewed=store, **SMALL)
    assert not (tmp_path / "run").exists()


def test_rounds_learn_from_the_boxes_of_people(
    store: Path, small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[PseudoBoxTrainer] = []
    begin = PseudoBoxTrainer.patches_of

    def noted(self: PseudoBoxTrainer, sample: Sample) -> np.ndarray:
        rounds.append(self)
        return begin(self, sample)

    monkeypatch.setattr(PseudoBoxTrainer, "patches_of", noted)
    asked = {"recipe": "refined-world", "reviewed": store, "rounds": 1, **SMALL}
    train(small_world, tmp_path / "run", **asked)
    run = RunFolder(tmp_path / "run")
    assert (run.stages / "first-1" / "reviewed.jsonl").read_bytes() == run.reviewed.read_bytes()
    assert BOX in rounds[0].pseudo_boxes[0].boxes.tolist()
    assert rounds[0].pseudo_boxes[1].boxes.tolist() == [BOX]  # it is done
    assert np.bincount(rounds[0].entries() or []).max() == module.MOST_REPEATS
    train(small_world, tmp_path / "run", **asked)
    with pytest.raises(DplError, match="was begun with reviews"):
        train(small_world, tmp_path / "run", **{**asked, "reviewed": None})


def said(boxes: list, classes: list, rejected: list | None = None, done: bool = False) -> ReviewedImage:
    wrong = np.array(rejected or [], np.float32).reshape(-1, 4)
    array = np.array(boxes, np.float32).reshape(-1, 4)
    return ReviewedImage(array, np.array(classes, np.int64), wrong, np.zeros(len(wrong), np.int64), done=done)


def test_exact_boxes_take_the_place_of_pseudo_boxes_of_their_class(small_prepared: Prepared) -> None:
    images = small_prepared.images.subset([0, 1, 2, 3])
    images = dataclasses.replace(images, labels=np.ones_like(images.labels))
    found = [PseudoBoxes(np.array([OTHER, FAR], np.float32), np.array([0, 1]), np.array([0.3, 0.4], np.float32))] * 4
    reviewed = {
        images.names[0]: said([BOX], [0]),
        images.names[1]: said([], [], [OTHER]),
        images.names[2]: said([BOX], [1], done=True),
    }
    first, second, third, last = with_exact_boxes(found, images, reviewed)
    assert first.boxes.tolist() == [FAR, BOX]
    assert first.classes.tolist() == [1, 0]
    assert first.weights is not None
    assert first.weights.tolist() == pytest.approx([0.4, 1])
    assert second.boxes.tolist() == [FAR]
    assert third.boxes.tolist() == [BOX]
    assert last is found[3]


def test_an_image_counts_as_done_only_where_each_of_its_tags_has_a_box(
    small_prepared: Prepared, tmp_path: Path
) -> None:
    images = small_prepared.images.subset([0, 1])
    labels = np.full_like(images.labels, ABSENT)
    labels[:, 0] = PRESENT
    labels[1, 1] = PRESENT
    images = dataclasses.replace(images, labels=labels)
    boxes = {name: [("right", images.classes[0], BOX, None)] for name in images.names}
    store = write_store(tmp_path / "done.sqlite", images.classes, boxes, done=images.names)
    assert [reviewed_of(store, images)[name].done for name in images.names] == [True, False]


def test_reviewed_images_are_shown_more_often(small_prepared: Prepared) -> None:
    names = small_prepared.images.names
    shown = shown_images(small_prepared.images, {names[3]: nothing_said(), names[7]: nothing_said()})
    times = np.bincount(shown, minlength=24)
    assert times.tolist() == [module.MOST_REPEATS if index in (3, 7) else 1 for index in range(24)]
    many = shown_images(small_prepared.images, {name: nothing_said() for name in names[:12]})
    assert np.bincount(many)[:12].sum() == pytest.approx(module.SHARE * len(many), abs=12)
    assert shown_images(small_prepared.images, {name: nothing_said() for name in names}) == [*range(24)]


def test_an_epoch_shows_each_entry_once_and_mirrored_once(small_recipe: Recipe) -> None:
    entries = [0, 1, 2, 3, 1, 1, 1, 2]
    plan = SamplePlan(4, small_recipe.replace(flips=True, batch_images=4), None, entries)
    epoch = [one for step in range(4) for batch in plan.micro_batches_of(step) for one in batch]
    for mirrored in (False, True):
        assert sorted(one.image for one in epoch if one.flip is mirrored) == sorted(entries)


def test_the_trainer_adds_what_people_said_to_the_patches(small_prepared: Prepared, tmp_path: Path) -> None:
    recipe = refined_world(steps=2).replace(batch_images=4, images_per_micro_batch=2, scales=(96,))
    known = {small_prepared.images.names[0]: said([BOX], [0], [FAR])}
    trainer = ReviewedTrainer(
        recipe, small_prepared, RunFolder(tmp_path / "run"), TrainingOptions(device="cpu"), reviewed=known
    )
    batches = trainer.plan.micro_batches_of(0)
    samples = [one for step in range(20) for batch in trainer.plan.micro_batches_of(step) for one in batch]
    of_it = next(one for one in samples if one.image == 0)
    assert trainer.patches_of(of_it)[-2:].tolist() == [FAR, BOX]
    other = next(one for one in samples if one.image != 0)
    assert len(trainer.patches_of(other)) == recipe.data.patches_per_sample
    assert len(batches) == 2
