"""Whether a round made boxes worse: the agreement of two views, and what is chance."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import flip
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.early_stopping import clear_fall
from deep_patch_learning.training.judgement import Fall, Judge, NetworkFigures, agreement_of, as_dict, judged

WIDTH = 100
LEFT, RIGHT, HALF = (0, 0, 40, 40), (60, 0, 100, 40), (0, 0, 20, 40)


def seen(*boxes: tuple[float, ...], mirrored: bool = False) -> Prediction:
    """Return a prediction with these best boxes, one of each class; `mirrored` ones are found in the other view."""
    best = np.array(boxes, np.float32)
    nothing = np.zeros(0, np.int64)
    return Prediction(
        name="a.jpg",
        classes=("bus", "cat", "dog")[: len(best)],
        height=50,
        width=WIDTH,
        image_scores=np.zeros(len(best)),
        found_boxes=np.zeros((0, 4), np.float32),
        found_classes=nothing,
        found_scores=np.zeros(0, np.float32),
        best_boxes=flip(best, WIDTH) if mirrored else best,
    )


@pytest.mark.parametrize(
    ("here", "there", "labels", "agreement"),
    [
        ((LEFT, RIGHT), (LEFT, RIGHT), (1, 0), 1.0),  # found again, and not where the absent class is
        ((LEFT, RIGHT), (HALF, RIGHT), (1, 0), 0.5),
        ((LEFT, LEFT), (LEFT, LEFT), (1, 0), 0.0),  # always the same frame, whatever the class
        ((LEFT, RIGHT), (RIGHT, LEFT), (1, 0), -1.0),
        ((LEFT, RIGHT, RIGHT), (LEFT, LEFT, RIGHT), (1, 0, 0), 0.5),  # the mean of the absent ones
        ((LEFT, RIGHT, RIGHT), (LEFT, LEFT, RIGHT), (1, -1, 0), 1.0),  # an unknown tag is neither
        ((LEFT, RIGHT), (HALF, RIGHT), (1, 1), 0.75),  # no class is absent
    ],
)
def test_the_agreement_of_an_image(here: tuple, there: tuple, labels: tuple, agreement: float) -> None:
    assert agreement_of(seen(*here), seen(*there, mirrored=True), np.array(labels)) == pytest.approx(agreement)


def test_an_image_without_a_tag_has_none() -> None:
    with pytest.raises(ValueError, match="at least one tag"):
        agreement_of(seen(LEFT), seen(LEFT), np.array([0]))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.one_of(st.none(), st.floats(0, 100)))
def test_a_network_is_never_worse_than_itself(agreement: list[float], mean_ap: float | None) -> None:
    figures = NetworkFigures(np.array(agreement), mean_ap)
    assert not judged(figures, figures).is_worse


@pytest.mark.parametrize(
    ("difference", "spread", "images", "worse"),
    [
        (-0.1, 0.2, 100, True),  # a fall of 5 standard errors
        (-0.1, 0.2, 9, False),  # of 1.5
        (-0.03, 0.2, 100, False),
        (0.1, 0.2, 100, False),
        (-0.9, 0.0, 1, False),  # one image is chance
    ],
)
def test_a_fall_of_the_agreement_counts_beyond_chance(
    difference: float, spread: float, images: int, worse: bool
) -> None:
    noise = np.linspace(-1, 1, images) if images > 1 else np.zeros(1)
    noise *= spread / (noise.std(ddof=1) if images > 1 else 1)
    before = NetworkFigures(np.full(images, 0.5), None)
    found = judged(before, NetworkFigures(0.5 + difference + noise, None))
    assert found.is_worse is worse
    assert found.agreement.before == pytest.approx(50)
    assert found.agreement.after == pytest.approx(50 + 100 * difference)


@pytest.mark.parametrize(("fall", "worse"), [(0.9, False), (1.1, True)])
def test_a_fall_of_the_tags_counts_beyond_chance(fall: float, worse: bool) -> None:
    before, after = (NetworkFigures(np.full(100, 0.5), 70 - points) for points in (0.0, fall * clear_fall(100)))
    found = judged(before, after)
    assert found.is_worse is worse
    assert str(found).endswith(f"mAP of held-out tags 70.0 before, {after.mean_ap:.1f} after")
    assert as_dict(found, round="round-1")["mAP"] == {
        "before": 70.0,
        "after": round(after.mean_ap or 0, 2),
        "noise": 4.0,
    }
    assert not judged(after, before).is_worse


def test_figures_of_a_real_network_on_held_out_and_training_images(
    small_run: Path, small_prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(small_prepared, None, "cpu")
    assert judge.images == "24 training images"
    found = judge.figures(small_run)
    assert found.mean_ap is None
    assert found.agreement.shape == (24,)
    held_out = Judge(small_prepared, small_prepared, "cpu").figures(small_run)
    assert np.array_equal(held_out.agreement, found.agreement)
    assert held_out.mean_ap is not None
    assert 0 < held_out.mean_ap <= 100
    # by hand, for the first image
    model = load(small_run, "cpu")
    image, patches = small_prepared.images.read(0), small_prepared.patches[0]
    here = next(model.predict_images([judge._image(0)]))
    small = model.with_settings(scales=(72, 96))
    there = next(
        small.predict_images([judge._image(0)._replace(image=image[:, ::-1].copy(), patches=flip(patches, 160))])
    )
    assert agreement_of(here, there, small_prepared.images.labels[0]) == pytest.approx(found.agreement[0], abs=1e-5)
    # each network is measured once
    monkeypatch.setattr("deep_patch_learning.training.judgement.load", lambda *_: pytest.fail("measured again"))
    assert judge.figures(small_run) is found


def test_views_are_compared_one_by_one_also_where_prediction_averages_flips(
    small_run: Path, small_prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, used = tmp_path / "run", []
    shutil.copytree(small_run, run)
    config = RunFolder(run).config
    config.write_text(Recipe.load(config).replace(test_flips=True).to_toml())
    assert load(run, "cpu").settings.flips
    begin = Model.begin
    monkeypatch.setattr(Model, "begin", lambda model, images: used.append(model.settings.flips) or begin(model, images))
    Judge(small_prepared, None, "cpu").figures(run)
    assert len(used) >= 2 * len(small_prepared.images)
    assert not any(used)


def test_images_without_tags_cannot_be_judged_by(small_prepared: Prepared) -> None:
    images = small_prepared.images
    untagged = type(images)(images.classes, images.names, images.paths, np.zeros_like(images.labels))
    with pytest.raises(DataError, match="none of the images shows a class"):
        Judge(Prepared(untagged, small_prepared.patches, []), None)


def test_figures_for_json() -> None:
    assert Fall(50.123, 40.0, 1.0).as_dict() == {"before": 50.12, "after": 40.0, "noise": 1.0}
