"""A self-training round: boxes of a finished run become seeds, scaled and mirrored with their image, and survive a resume."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.data.batch import lay_out
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.pseudo_boxes import (
    PseudoBoxes,
    read_pseudo_boxes,
    seeds_among,
    source_of,
    waiting,
    write_pseudo_boxes,
)
from deep_patch_learning.runs.checkpoint import read_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.self_training import (
    PseudoBoxSource,
    PseudoBoxTrainer,
    boxes_of_tags,
    check_pseudo_box_source,
    find_pseudo_boxes,
    weighted,
)

CLASSES = ("bus", "cat", "dog")
CPU = TrainingOptions(device="cpu")


def found(**changes: object) -> Prediction:
    """Return a prediction with three boxes of `bus`, one of `dog`."""
    boxes = np.array([[0, 0, 9, 9], [20, 20, 30, 30], [50, 50, 60, 60], [5, 5, 40, 40]], np.float32)
    values = {
        "name": "a.jpg",
        "classes": CLASSES,
        "height": 64,
        "width": 64,
        "image_scores": np.zeros(3),
        "found_boxes": boxes,
        "found_classes": np.array([0, 0, 0, 2]),
        "found_scores": np.array([4.0, 3.0, -3.0, 1.0]),
        "best_boxes": np.array([[0, 0, 9, 9], [1, 1, 5, 5], [5, 5, 40, 40]]),
    }
    return Prediction(**values | changes)  # type: ignore[arg-type]


def test_only_boxes_of_sure_tags_are_given() -> None:
    given = boxes_of_tags(found(), np.array([1, -1, 0]))
    assert given.classes.tolist() == [0]
    assert given.boxes.tolist() == [[0, 0, 9, 9]]
    assert len(boxes_of_tags(found(), np.array([0, 0, -1])).boxes) == 0


def test_further_boxes_need_a_share_of_the_best_ones_probability() -> None:
    tags = np.array([1, 1, 0])
    assert boxes_of_tags(found(), tags, most=3, floor=0.5).boxes.tolist() == [
        [0, 0, 9, 9],
        [20, 20, 30, 30],
        [1, 1, 5, 5],
    ]
    assert boxes_of_tags(found(), tags, most=3, floor=0.0).classes.tolist() == [0, 0, 0, 1]
    assert boxes_of_tags(found(), tags, most=2, floor=0.0).classes.tolist() == [0, 0, 1]


def test_a_run_that_only_classifies_gives_none() -> None:
    with pytest.raises(RunError, match="only classifies"):
        boxes_of_tags(found(best_boxes=None), np.array([1, 0, 0]))


def test_written_and_read_again(tmp_path: Path) -> None:
    given = [
        boxes_of_tags(found(), np.array([1, 0, 1])),
        PseudoBoxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64)),
    ]
    write_pseudo_boxes(tmp_path / "g.jsonl", {"boxes_from": "x"}, ["a", "b"], CLASSES, given)
    assert source_of(tmp_path / "g.jsonl") == {"boxes_from": "x"}
    again = read_pseudo_boxes(tmp_path / "g.jsonl", ["b", "a"], CLASSES)
    for one, other in zip(again, reversed(given), strict=True):
        assert np.array_equal(one.boxes, other.boxes)
        assert np.array_equal(one.classes, other.classes)


@pytest.mark.parametrize(
    "content", ["not json\n", '{}\n{"image": "a", "boxes": [["lion", 1, 2, 3, 4]]}\n', "", "[]\n[]\n"]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "g.jsonl").write_text(content)
    with pytest.raises(RunError, match=r"g\.jsonl: is damaged"):
        read_pseudo_boxes(tmp_path / "g.jsonl", ["a"], CLASSES)
    assert source_of(tmp_path / "g.jsonl") == {}


@settings(max_examples=40, deadline=None)
@drawn(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(0, 2), max_size=4), st.booleans()), min_size=1, max_size=4
    ),
    st.integers(0, 10_000),
)
def test_seeds_lie_where_the_image_was_scaled_and_mirrored_to(images: list, seed: int) -> None:
    random = np.random.default_rng(seed)

    def boxes(count: int) -> np.ndarray:
        corner = random.uniform(0, 40, (count, 2))
        return np.concatenate((corner, corner + random.uniform(5, 20, (count, 2))), 1).astype(np.float32)

    given = [PseudoBoxes(boxes(len(classes)), np.array(classes, np.int64)) for _, classes, _ in images]
    patches = [np.concatenate((boxes(count), one.boxes)) for (count, _, _), one in zip(images, given, strict=True)]
    flips = [flip for *_, flip in images]
    layout = lay_out([(80, 60)] * len(images), patches, 160, flips)
    seeds = seeds_among(layout.patches, layout.counts, given, 3)
    for image, (one, flip) in enumerate(zip(given, flips, strict=True)):
        assert int(seeds.real[image].sum()) == len(one.classes)
        assert torch.equal(seeds.scores[image] > 0, seeds.real[image])
        wanted = one.boxes * 2
        if flip:
            wanted = np.stack((120 - wanted[:, 2], wanted[:, 1], 120 - wanted[:, 0], wanted[:, 3]), 1)
        for index in range(3):
            own = seeds.boxes[image][seeds.real[image] & (seeds.classes == index)].numpy()
            np.testing.assert_allclose(own, wanted[one.classes == index], rtol=1e-5, atol=1e-3)


def test_the_weight_of_a_pseudo_box_is_kept_and_is_the_score_of_its_seed(tmp_path: Path) -> None:
    boxes = np.array([[0, 0, 8, 8], [4, 4, 30, 20], [9, 1, 20, 40]], np.float32)
    given = [
        PseudoBoxes(boxes, np.array([1, 0, 1]), np.array([0.25, 1, 0], np.float32)),
        PseudoBoxes(boxes[:1], np.array([2])),
    ]
    write_pseudo_boxes(tmp_path / "g.jsonl", {}, ["a", "b"], CLASSES, given)
    read = read_pseudo_boxes(tmp_path / "g.jsonl", ["a", "b"], CLASSES)
    assert read[1].weights is None
    patches = torch.from_numpy(np.concatenate((boxes[:2] + 1, boxes, boxes[:1])))
    seeds = seeds_among(patches, (5, 1), read, 3)
    found = {
        (int(index), *box.tolist()): float(score)
        for index, box, score, real in zip(seeds.classes, seeds.boxes[0], seeds.scores[0], seeds.real[0], strict=True)
        if real
    }
    assert found == {(1, 0, 0, 8, 8): 0.25, (0, 4, 4, 30, 20): 1.0}  # a weight of 0 makes no seed
    assert seeds.scores[1][seeds.real[1]].tolist() == [1.0]


def test_boxes_on_which_runs_disagree_weigh_little() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [5, 5, 15, 25]], np.float32)
    found = PseudoBoxes(boxes, np.array([2, 2, 0]))
    same = np.stack((boxes[2], np.zeros(4, np.float32), boxes[0]))
    other = same.copy()
    other[2] = (0, 0, 10, 5)  # half of class 2's first box
    assert weighted(found, [same, same]).weights == pytest.approx([1, 1, 1])
    assert weighted(found, [same, other]).weights == pytest.approx([0.25, 0.25, 1])
    nothing = PseudoBoxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    assert weighted(nothing, [same]).weights == pytest.approx([])


@pytest.fixture(scope="module")
def second_recipe(small_recipe: Recipe) -> Recipe:
    return small_recipe.replace(
        heads=ALL_HEADS, refinement_width=16, seeds="pseudo-boxes", seeds_per_class=2, regression=True
    )


def test_all_learn_from_the_pseudo_boxes_but_the_two_streams(
    second_recipe: Recipe, small_prepared: Prepared, tmp_path: Path
) -> None:
    images = small_prepared.images
    given = [
        PseudoBoxes(np.array([[10, 10, 60, 60]], np.float32), np.flatnonzero(row == 1)[:1]) for row in images.labels
    ]
    trainer = PseudoBoxTrainer(second_recipe, small_prepared, RunFolder(tmp_path), CPU, pseudo_boxes=given)
    trainer.images.fill()
    made = trainer._prepare(0)
    counts = made[0][0].counts
    assert counts == tuple(
        min(second_recipe.data.patches_per_sample, len(small_prepared.patches[v.image])) + 1 for v in made[0][2]
    )
    trainer.network.train()
    before = {name: value.clone() for name, value in trainer.bare.state_dict().items()}
    trainer._take_step(made)
    assert set(trainer._since_log[-1]) == {"classification", "discovery", "refinement", "boxes"}
    moved = {name for name, value in trainer.bare.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith("refinement.two_stream") for name in moved)
    # nor do several devices, which fill missing gradients with zeros, let their decay move it
    assert not any(parameter.requires_grad for parameter in trainer.bare.refinement.two_stream.parameters())
    assert {
        "refinement.classifiers.weight",
        "refinement.regressor.weight",
        "discovery.patch_classifier.weight",
    } <= moved
    with pytest.raises(ValueError, match="boxes of 1 images"):
        PseudoBoxTrainer(second_recipe, small_prepared, RunFolder(tmp_path), CPU, pseudo_boxes=given[:1])


def test_a_second_round_stops_and_resumes_without_the_first(
    second_recipe: Recipe, small_run: Path, small_prepared: Prepared, tmp_path: Path
) -> None:
    teacher, recipe = tmp_path / "first", second_recipe.replace(steps=6)
    shutil.copytree(small_run, teacher)
    given = find_pseudo_boxes(small_prepared, recipe, tmp_path / "whole", PseudoBoxSource([teacher], device="cpu"))
    assert given is not None
    labels = small_prepared.images.labels
    assert all(set(one.classes) == set(np.flatnonzero(row == 1)) for one, row in zip(given, labels, strict=True))
    assert waiting(tmp_path / "whole").exists()
    train_prepared(small_prepared, recipe, tmp_path / "whole", device="cpu", pseudo_boxes=given)
    assert not waiting(tmp_path / "whole").exists()
    lines = (tmp_path / "whole" / "pseudo_boxes.jsonl").read_text().splitlines()[1:]
    assert [json.loads(line)["image"] for line in lines] == list(small_prepared.images.names)

    def stop_at_three(progress: object) -> None:
        if progress.step == 3:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGINT)

    run = RunFolder(tmp_path / "halves")
    given = find_pseudo_boxes(small_prepared, recipe, run.folder, PseudoBoxSource([teacher], device="cpu"))
    first = PseudoBoxTrainer(recipe, small_prepared, run, CPU, pseudo_boxes=given)
    run.begin(recipe, small_prepared.images, {})
    waiting(run.folder).replace(run.pseudo_boxes)
    assert first.fit(stop_at_three) is False
    shutil.rmtree(teacher)
    again = find_pseudo_boxes(small_prepared, recipe, run.folder)
    train_prepared(small_prepared, recipe, run.folder, device="cpu", pseudo_boxes=again)
    a, b = (read_checkpoint(tmp_path / name / "weights.safetensors")[1] for name in ("whole", "halves"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_found_boxes_wait_for_a_training_that_failed_to_begin(
    second_recipe: Recipe,
    small_run: Path,
    small_prepared: Prepared,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = find_pseudo_boxes(
        small_prepared, second_recipe, tmp_path / "run", PseudoBoxSource([small_run], device="cpu")
    )

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("the boxes were found again")

    monkeypatch.setattr("deep_patch_learning.training.self_training.predict_prepared", never)
    second = find_pseudo_boxes(
        small_prepared, second_recipe, tmp_path / "run", PseudoBoxSource([small_run], device="cpu")
    )
    assert first is not None
    assert second is not None
    assert all(np.array_equal(one.boxes, other.boxes) for one, other in zip(first, second, strict=True))
    with pytest.raises(AssertionError, match="found again"):  # other boxes are wanted
        find_pseudo_boxes(
            small_prepared,
            second_recipe.replace(seeds_per_class=1),
            tmp_path / "run",
            PseudoBoxSource([small_run], device="cpu"),
        )


def test_several_runs_agree_on_boxes(
    second_recipe: Recipe, small_run: Path, small_prepared: Prepared, tmp_path: Path
) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(small_run, twin)
    alone, together = (
        find_pseudo_boxes(small_prepared, second_recipe, tmp_path / name, PseudoBoxSource(runs, device="cpu"))
        for name, runs in (("alone", [small_run]), ("together", [small_run, twin]))
    )
    assert alone is not None
    assert together is not None
    assert all(np.array_equal(one.boxes, other.boxes) for one, other in zip(alone, together, strict=True))
    assert source_of(waiting(tmp_path / "together"))["boxes_from"] == [str(small_run.resolve()), str(twin.resolve())]
    # boxes on which both agree, here all, weigh as much as any; without another run there is nothing to agree with
    both, single = (PseudoBoxSource(runs, device="cpu", agreement=True) for runs in ([small_run, twin], [small_run]))
    agreed = find_pseudo_boxes(small_prepared, second_recipe, tmp_path / "together", both)
    assert agreed is not None
    assert np.concatenate([one.weights for one in agreed if one.weights is not None]) == pytest.approx(1)
    assert all(one.weights is not None for one in agreed)
    kept = read_pseudo_boxes(waiting(tmp_path / "together"), small_prepared.images.names, small_prepared.images.classes)
    assert all(np.array_equal(one.weights, other.weights) for one, other in zip(agreed, kept, strict=True))
    lone = find_pseudo_boxes(small_prepared, second_recipe, tmp_path / "lone", single)
    assert lone is not None
    assert all(one.weights is None for one in lone)
    # what waits there is taken where no run is named, and found anew at other scales
    assert find_pseudo_boxes(small_prepared, second_recipe, tmp_path / "together", PseudoBoxSource([])) is not None
    check_pseudo_box_source(second_recipe, tmp_path / "together", [])
    find_pseudo_boxes(
        small_prepared, second_recipe, tmp_path / "together", PseudoBoxSource([small_run], device="cpu", scales=(96,))
    )
    assert source_of(waiting(tmp_path / "together"))["scales"] == [96]
    (twin / "weights.safetensors").unlink()
    with pytest.raises(RunError, match="not finished"):
        check_pseudo_box_source(second_recipe, tmp_path / "other", [small_run, twin])


def test_what_a_second_round_needs(
    second_recipe: Recipe, small_recipe: Recipe, small_run: Path, small_prepared: Prepared, tmp_path: Path
) -> None:
    assert find_pseudo_boxes(small_prepared, small_recipe, tmp_path / "run") is None
    with pytest.raises(SettingError, match="--pseudo-boxes-from RUN"):
        find_pseudo_boxes(small_prepared, second_recipe, tmp_path / "run")
    with pytest.raises(SettingError, match="--recipe refined"):
        small_recipe.replace(seeds="pseudo-boxes")
    for changes in ({"heads": ("refinement",)}, {"two_stream_tags": True}):
        with pytest.raises(SettingError, match="tags need another one"):
            second_recipe.replace(**changes)
    with pytest.raises(RunError, match="knows other classes"):
        check_pseudo_box_source(second_recipe, tmp_path / "run", [small_run], ("lion",))
    with pytest.raises(SettingError, match="do not fit together"):
        train_prepared(small_prepared, second_recipe, tmp_path / "run", device="cpu")
    only_tags = tmp_path / "tags"
    shutil.copytree(small_run, only_tags)
    (only_tags / "config.toml").write_text(small_recipe.replace(heads=("classification",)).to_toml())
    with pytest.raises(RunError, match="only classifies"):
        check_pseudo_box_source(second_recipe, tmp_path / "run", [only_tags])
    (tmp_path / "run").mkdir()
    write_pseudo_boxes(RunFolder(tmp_path / "run").pseudo_boxes, {"boxes_from": ["elsewhere"]}, [], [], [])
    with pytest.raises(RunError, match="learns from the boxes of elsewhere"):
        check_pseudo_box_source(second_recipe, tmp_path / "run", [small_run])
    write_pseudo_boxes(RunFolder(tmp_path / "run").pseudo_boxes, {}, [], [], [])
    with pytest.raises(RunError, match="learns from boxes that were handed to it"):
        check_pseudo_box_source(second_recipe, tmp_path / "run", [small_run])
    check_pseudo_box_source(second_recipe, tmp_path / "run", [])
