"""Calibrated probabilities and thresholds: monotone, nearer to the truth, the best against brute force, and safe in a file."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import deep_patch_learning as dpl
from deep_patch_learning.commands.calibrate import calibrate_run, must_be_others
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.inference.calibration import (
    FEW,
    PLAIN_THRESHOLD,
    Calibration,
    best_threshold,
    best_thresholds,
    calibrate,
    expected_calibration_error,
    fit_lines,
    read_calibration,
    write_calibration,
)
from deep_patch_learning.inference.prediction import Prediction, sigmoid
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder

numbers = st.floats(-30, 30, width=32)


@st.composite
def scored_tags(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores (I, C) and labels (I, C), with unknown ones, of any kind: constant, separable, without positives."""
    shape = draw(st.tuples(st.integers(1, 40), st.integers(1, 4)))
    scores = draw(arrays.arrays(np.float64, shape, elements=numbers))
    labels = draw(arrays.arrays(np.int8, shape, elements=st.sampled_from((-1, 0, 1))))
    return scores, labels


def classes_of(scores: np.ndarray) -> tuple[str, ...]:
    return tuple(f"class {index}" for index in range(scores.shape[1]))


@given(scored_tags(), arrays.arrays(np.float64, 20, elements=numbers))
@settings(deadline=None)
def test_probabilities_rise_with_the_score(tags: tuple[np.ndarray, np.ndarray], scores: np.ndarray) -> None:
    found = calibrate(*tags, classes_of(tags[0]))
    assert (found.slopes > 0).all()
    probabilities = found.probabilities(np.sort(scores)[:, None])
    assert (np.diff(probabilities, axis=0) >= 0).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@given(tags=scored_tags())
@settings(deadline=None)
def test_a_calibration_survives_a_file(
    tags: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = calibrate(*tags, classes_of(tags[0]))
    path = tmp_path_factory.mktemp("calibration") / "calibration.json"
    write_calibration(path, found, {"split": "val"})
    loaded = read_calibration(path, found.classes)
    assert loaded is not None
    assert loaded.as_dict() == found.as_dict()
    for name in ("slopes", "biases", "thresholds", "positives"):
        assert getattr(loaded, name).tobytes() == getattr(found, name).tobytes()
    assert [file.name for file in path.parent.iterdir()] == ["calibration.json"]


@given(
    arrays.arrays(np.float64, st.integers(1, 30), elements=st.sampled_from((0.0, 0.1, 0.2, 0.25, 0.5, 0.7, 0.9, 1.0))),
    st.randoms(use_true_random=False),
)
def test_no_other_threshold_has_a_higher_f1(probabilities: np.ndarray, random) -> None:
    present = np.array([random.random() < 0.4 for _ in probabilities])
    present[random.randrange(len(present))] = True
    found = f1(probabilities >= best_threshold(probabilities, present), present)
    tried = [*probabilities, *(probabilities + 1e-9), 0.0, 1.0]
    assert found == pytest.approx(max(f1(probabilities >= threshold, present) for threshold in tried))


def f1(said: np.ndarray, present: np.ndarray) -> float:
    return 2 * (said & present).sum() / max(said.sum() + present.sum(), 1)


def test_the_threshold_lies_in_the_middle_of_the_gap() -> None:
    assert best_threshold(np.array([0.9, 0.6, 0.2, 0.1]), np.array([True, True, False, False])) == pytest.approx(0.4)


def test_neighbouring_numbers_are_told_apart() -> None:
    higher = 0.3
    lower = np.nextafter(higher, 0)
    threshold = best_threshold(np.array([lower, higher]), np.array([False, True]))
    assert lower < threshold <= higher


def draw_tags(
    slopes: np.ndarray, biases: np.ndarray, images: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (I, C), the true probabilities that go with them, and tags drawn from those."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, (images, len(slopes)))
    truth = sigmoid(slopes * scores + biases)
    return scores, truth, (random.random(truth.shape) < truth).astype(np.int8)


@given(st.integers(0, 1_000), st.floats(0.4, 3.0), st.floats(-3.0, 0.0))
@settings(max_examples=25, deadline=None)
def test_the_error_falls_on_images_that_were_not_fitted(seed: int, slope: float, bias: float) -> None:
    """Wherever the raw scores are off by more than chance; where they are right, calibrating does little harm."""
    random = np.random.default_rng(seed)
    slopes, biases = slope * np.exp(random.normal(0, 0.2, 6)), bias + random.normal(0, 0.4, 6)
    scores, _, labels = draw_tags(slopes, biases, 1_000, seed)
    found = calibrate(scores, labels, classes_of(scores))
    others, truth, other_labels = draw_tags(slopes, biases, 4_000, seed + 1)
    before = expected_calibration_error(sigmoid(others), other_labels)
    after = expected_calibration_error(found.probabilities(others), other_labels)
    assert after < max(before, 0.02)
    assert np.abs(found.probabilities(others) - truth).mean() < 0.03
    assert found.error_before == pytest.approx(before, abs=0.03)
    assert found.error_after == pytest.approx(after, abs=0.02)  # it does not look better than on new images


def test_the_error_after_is_of_images_left_out_of_the_fit() -> None:
    """Scores that say nothing: what was fitted on the very same images would look better than it is."""
    random = np.random.default_rng(3)
    scores, labels = random.normal(0, 5, (40, 8)), (random.random((40, 8)) < 0.3).astype(np.int8)
    found = calibrate(scores, labels, classes_of(scores))
    assert found.error_after > expected_calibration_error(found.probabilities(scores), labels)


def test_many_images_speak_for_themselves_and_few_lean_on_the_others() -> None:
    slopes, biases = np.array([1.0, 1.0, 1.0, 3.0]), np.array([0.0, 0.0, 0.0, -2.0])
    strays = {}
    for images in (4_000, 40):
        drawn = (draw_tags(slopes, biases, images, seed) for seed in range(10))
        strays[images] = np.mean([np.log(fit_lines(scores, labels)[3, 0] / 3.0) for scores, _, labels in drawn])
    assert abs(strays[4_000]) < 0.1
    assert strays[40] < -0.25  # drawn towards the slope of the others


def test_a_rare_class_takes_what_all_share() -> None:
    scores, _, labels = draw_tags(np.full(4, 2.0), np.full(4, -1.0), 500, seed=1)
    rare = np.flatnonzero(labels[:, 3] == 1)[FEW - 1 :]
    labels[rare, 3] = -1  # not known: neither present nor absent
    lines, thresholds = fit_lines(scores, labels), best_thresholds(sigmoid(scores), labels)
    without = fit_lines(scores[:, :3], labels[:, :3])
    assert (labels[:, 3] == 1).sum() == FEW - 1
    assert lines[3] == pytest.approx([2.0, -1.0], abs=0.3)
    np.testing.assert_allclose(lines[:3], without, atol=0.05)
    known = labels != -1
    assert thresholds[3] == best_threshold(sigmoid(scores)[known], labels[known] == 1)
    nobody = np.where(labels == 1, 0, labels)
    assert best_thresholds(sigmoid(scores), nobody).tolist() == [PLAIN_THRESHOLD] * 4


def test_separable_scores_do_not_blow_up() -> None:
    labels = np.repeat([[1], [0]], 50, axis=0).astype(np.int8)
    found = calibrate(np.where(labels == 1, 2.0, -2.0), labels, ("a",))
    assert found.slopes[0] < 10
    assert 0.9 < found.probabilities(np.array([2.0]))[0] < 1


def test_unknown_tags_do_not_count() -> None:
    scores, _, labels = draw_tags(np.full(2, 1.5), np.full(2, -1.0), 300, seed=2)
    mixed = np.concatenate([scores, np.full((100, 2), 9.0)])
    unknown = np.concatenate([labels, np.full((100, 2), -1, np.int8)])
    found, plain = calibrate(mixed, unknown, ("a", "b")), calibrate(scores, labels, ("a", "b"))
    np.testing.assert_allclose(found.slopes, plain.slopes)
    np.testing.assert_allclose(found.thresholds, plain.thresholds)
    assert found.error_before == pytest.approx(plain.error_before)


def test_the_expected_error_by_hand() -> None:
    probabilities, labels = np.array([[0.91, 0.05], [0.93, 0.99]]), np.array([[1, 0], [0, -1]])
    # one bin holds 0.91 and 0.93, of which one is present: |0.92 - 0.5| for two tags; the other 0.05 for one
    assert expected_calibration_error(probabilities, labels) == pytest.approx((2 * 0.42 + 0.05) / 3)


@pytest.fixture
def stored() -> Calibration:
    return Calibration(("cat", "dog"), [2.0, 0.5], [0.0, -1.0], [0.3, 0.7], [3, 9], 20, 0.2, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:50], "is damaged"),
        (
            lambda text: text.replace("calibration/1", "calibration/9"),
            "wanted 'deep_patch_learning.calibration/1'",
        ),
        (lambda text: text.replace('"bias"', '"bais"'), "no 'bias' in classes"),
        (lambda text: text.replace("0.7", "70"), "wanted probabilities"),
        (lambda text: text.replace('"slope": 2.0', '"slope": -2.0'), "wanted numbers above 0"),
        (
            lambda text: text.replace('"dog"', '"dgo"'),
            r"is of the classes \['cat', 'dgo'\], the run has \['cat', 'dog'\]",
        ),
    ],
)
def test_a_broken_file_is_named(change, words: str, stored: Calibration, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(path, stored, {})
    path.write_text(change(path.read_text()))
    with pytest.raises(RunError, match=rf"calibration\.json: .*{words}.*dpl calibrate RUN DATA"):
        read_calibration(path, stored.classes)


def test_what_is_printed(stored: Calibration) -> None:
    assert str(stored) == (
        "calibrated on 20 images: the error of probabilities is 20.0 % before, 10.0 % after; thresholds from 0.30 to 0.70; "
        "1 of 2 classes, in fewer than 5 images, take what all share"
    )


@pytest.fixture
def calibrated() -> Prediction:
    """Raw probabilities of 0.73, 0.62 and 0.27; calibrated 0.88, 0.18 and 0.27."""
    return Prediction(
        name="room.jpg",
        classes=("cat", "dog", "sofa"),
        height=80,
        width=100,
        image_scores=[1.0, 0.5, -1.0],
        found_boxes=[(0, 0, 10, 10), (20, 20, 40, 40), (0, 0, 50, 50)],
        found_classes=[0, 0, 2],
        found_scores=[1.0, 0.0, -2.0],
        threshold=(0.6, 0.5, 0.25),
        calibration=[(2.0, 0.0), (1.0, -2.0), (1.0, 0.0)],
    )


def test_a_prediction_shows_calibrated_probabilities_and_each_class_has_its_threshold(calibrated: Prediction) -> None:
    assert calibrated.probabilities == pytest.approx([sigmoid(2.0), sigmoid(-1.5), sigmoid(-1.0)])
    assert [tag.name for tag in calibrated.tags] == ["cat", "sofa"]
    # the second cat has a probability of 0.5, below its class's threshold; the sofa is its tag's best box
    assert [(box.tag, box.probability) for box in calibrated.boxes] == [
        ("cat", pytest.approx(sigmoid(2.0))),
        ("sofa", pytest.approx(sigmoid(-2.0))),
    ]
    assert [tag.name for tag in calibrated.filter(min_probability=0.1).tags] == ["cat", "sofa", "dog"]
    assert len(calibrated.filter(min_probability=0.5)) == 2
    assert calibrated.thresholds.tolist() == [0.6, 0.5, 0.25]
    assert dataclasses.replace(calibrated, threshold=0.3).thresholds.tolist() == [0.3] * 3


def test_a_calibrated_prediction_survives_a_file(calibrated: Prediction, tmp_path: Path) -> None:
    loaded = Prediction.load(calibrated.save(tmp_path / "room.json"))
    assert loaded == calibrated
    assert loaded.boxes == calibrated.boxes
    plain = dataclasses.replace(calibrated, calibration=None, threshold=0.5)
    assert "calibration" not in plain.as_dict()["raw"]
    assert Prediction.from_dict(plain.as_dict()).probabilities == pytest.approx(
        [sigmoid(1.0), sigmoid(0.5), sigmoid(-1)]
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"calibration": [(1.0, 0.0)]}, r"calibration is \(1, 2\) float64; wanted numbers of shape \(3, 2\)"),
        ({"calibration": [(1, 0), (0, 0), (1, 0)]}, "slopes of the calibration are"),
        (
            {"threshold": (0.5, 0.5)},
            r"threshold is \(0.5, 0.5\); wanted a probability from 0 to 1, or one for each of the 3",
        ),
        ({"threshold": (0.5, 0.5, 2)}, "threshold is"),
        ({"threshold": "0.5"}, "threshold is 0.5; wanted"),
    ],
)
def test_what_does_not_fit_a_prediction(changed: dict, words: str, calibrated: Prediction) -> None:
    with pytest.raises(dpl.DplError, match=f"room.jpg: .*{words}"):
        dataclasses.replace(calibrated, **changed)


def test_a_run_is_calibrated_and_loaded(
    small_prepared: Prepared, small_recipe: Recipe, small_world: Path, small_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    held_out = prepare(read_tags(small_world, "test"), recipe_patches(small_recipe), tmp_path / "patches")
    plain = list(predict_prepared(dpl.load(run, "cpu"), held_out))
    found = calibrate_run(run, held_out, {"split": "test"}, "cpu")
    assert json.loads((run / "calibration.json").read_text())["fitted_on"] == {"split": "test"}
    shown = list(predict_prepared(dpl.load(run, "cpu"), held_out))
    scores = np.stack([prediction.tag_scores for prediction in plain])
    np.testing.assert_allclose(
        [prediction.probabilities for prediction in shown], found.probabilities(scores), rtol=1e-5
    )
    assert np.array_equal([p.image_scores for p in shown], [p.image_scores for p in plain])  # what ranks stays
    assert all(prediction.thresholds == pytest.approx(found.thresholds) for prediction in shown)
    assert all(prediction.calibration is None and prediction.threshold == 0.5 for prediction in plain)
    # boxes have a line of their own, fitted on the scores of the best ones
    best = np.stack([prediction.best_scores for prediction in plain])
    np.testing.assert_allclose(found.box_lines, fit_lines(best, held_out.images.labels), rtol=1e-6)
    assert not np.allclose(found.box_lines, np.stack((found.slopes, found.biases), axis=1))
    for prediction in shown:
        np.testing.assert_allclose(prediction.box_calibration, found.box_lines)
    # several runs asked as one say what no line was fitted on
    assert dpl.load([run, run], "cpu").calibration is None
    assert dpl.load([run], "cpu").calibration is not None
    # fitted anew it comes to the same: what is calibrated is the raw score, not what was calibrated before
    assert calibrate_run(run, held_out, {}, "cpu").as_dict() == found.as_dict()


def test_only_a_finished_run_is_calibrated_and_not_on_what_it_was_trained_on(
    small_prepared: Prepared, small_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    with pytest.raises(RunError, match="was trained on these very images"):
        calibrate_run(run, small_prepared, {}, "cpu")
    (run / "weights.safetensors").unlink()
    few = dataclasses.replace(small_prepared, images=small_prepared.images.subset(range(5)))
    with pytest.raises(RunError, match="is not finished"):
        calibrate_run(run, few, {}, "cpu")
    assert not (run / "calibration.json").exists()


def test_images_that_were_trained_on_are_named_and_refused_unless_forced(
    small_world: Path, small_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    about = json.loads((run / "data.json").read_text()) | {"path": str(small_world), "split": "train"}
    (run / "data.json").write_text(json.dumps(about))
    train, test = read_tags(small_world, "train"), read_tags(small_world, "test")
    first, everything = min(train.paths), len(train) + len(test)
    for split, count in (("train", len(train)), (None, everything)):
        with pytest.raises(RunError, match=f"was trained on {len(train)} of these {count} images") as caught:
            dpl.calibrate(run, small_world, split=split, device="cpu")
        assert str(first) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="was trained on 3 of these 3 images"):
        dpl.calibrate(run, small_world, split="train", limit=3, device="cpu")
    assert not (run / "calibration.json").exists()
    dpl.calibrate(run, small_world, split="test", device="cpu")
    held_out = json.loads((run / "calibration.json").read_text())
    dpl.calibrate(run, small_world, split="train", device="cpu", force=True)
    assert json.loads((run / "calibration.json").read_text()) != held_out


def test_a_training_set_that_is_gone_is_said(
    small_world: Path, small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    about = json.loads((run / "data.json").read_text()) | {"path": str(tmp_path / "gone.jsonl")}
    (run / "data.json").write_text(json.dumps(about))
    dpl.calibrate(run, small_world, split="test", device="cpu")
    assert "its training images cannot be read again" in " ".join(capsys.readouterr().err.split())


def test_images_that_the_run_held_out_itself_are_others(
    small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path / "run")
    chosen = {"recipe": "world", "device": "cpu", "steps": 1, "scales": (64,), "batch_images": 4}
    dpl.train(small_world, run.folder, split="train", val=0.25, **chosen)
    held_out = set(json.loads(run.held_out_images.read_text()))
    monkeypatch.setattr("deep_patch_learning.data.holdout.alike_groups", lambda *_, **__: pytest.fail("drawn again"))
    images = read_tags(small_world, "train")
    apart = [index for index, name in enumerate(images.names) if name in held_out]
    assert apart
    must_be_others(run, images.subset(apart))
    count = len(images) - len(apart)
    with pytest.raises(RunError, match=f"was trained on {count} of these {len(images)} images"):
        must_be_others(run, images)


def test_boxes_have_a_line_of_their_own() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (200, 3))
    scores = 4 * labels - 2 + random.normal(size=(200, 3))
    boxes = labels - 3.0 + 0.3 * random.normal(size=(200, 3))  # never above 0, and yet telling
    found = calibrate(scores, labels, ("a", "b", "c"), box_scores=boxes)
    assert found.box_lines is not None
    slopes, biases = found.box_lines.T
    likely = 1 / (1 + np.exp(-(slopes * boxes + biases)))
    assert likely[labels == 1].mean() > 0.8 > 0.2 > likely[labels == 0].mean()
    again = Calibration.from_dict(found.as_dict())
    np.testing.assert_allclose(again.box_lines, found.box_lines)
    without = calibrate(scores, labels, ("a", "b", "c"))
    assert without.box_lines is None
    assert "box_slope" not in without.as_dict()["classes"]["a"]
    np.testing.assert_allclose(without.slopes, found.slopes)  # tags do not change
    with pytest.raises(ValueError, match="slopes above 0"):
        dataclasses.replace(found, box_lines=-found.box_lines)
