"""The page stays below its limit: with thousands of noisy images and many classes, one image open at a time."""

import weakref
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.sliding_window import SlidingWindow
from deep_patch_learning.report.budget import PAGE_BYTES, make_plan
from deep_patch_learning.report.build import build_report
from deep_patch_learning.report.page import write_report

OPEN: list[weakref.ref] = []


@dataclass(frozen=True)
class Drawn(TaggedImages):
    """Images of noise, which JPEG packs worst, made when they are asked for."""

    def read(self, index):
        image = np.random.default_rng(index).integers(0, 256, (375, 500, 3), np.uint8)
        OPEN.append(weakref.ref(image))
        assert sum(one() is not None for one in OPEN) <= 2, "images are kept open"
        return image


@dataclass(frozen=True)
class Ready:
    images: TaggedImages
    patches: list[np.ndarray]


def many(images, classes, seed=0):
    """Return images with tags at random, and predictions that know nothing of them."""
    rng = np.random.default_rng(seed)
    names = tuple(f"a folder with a long name/image {number:06d}.jpg" for number in range(images))
    labels = (rng.random((images, len(classes))) < 0.1).astype(np.int8)
    labels[rng.random(labels.shape) < 0.01] = -1
    drawn = Drawn(classes, names, tuple(map(Path, names)), labels)
    corners = rng.random((images, len(classes), 2)) * [200, 150]
    best = np.concatenate([corners, corners + rng.random(corners.shape) * 150 + 20], axis=2)
    scores = rng.normal(0, 4, labels.shape)
    nothing = np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)
    predictions = [
        Prediction(name, classes, 375, 500, scores[i], *nothing, best_boxes=best[i]) for i, name in enumerate(names)
    ]
    patches = np.array([[0, 0, 500, 375], [10, 10, 250, 300], [200, 100, 400, 350]], np.uint16)
    return Ready(drawn, [patches] * images), predictions


@pytest.mark.parametrize(("images", "count"), [(5_000, 20), (600, 2), (600, 90), (300, 400)])
def test_a_page_of_many_images_is_below_5_mb(hand, run, tmp_path, images, count):
    OPEN.clear()
    classes = tuple(f"class number {number}" for number in range(count))
    ready, predictions = many(images, classes)
    network = hand.model(classes=count).network
    model = Model(network, classes, (64,), SlidingWindow(), device="cpu")
    figures = {
        "mAP": 50.0,
        "AP": {name: 50.0 + number % 7 for number, name in enumerate(classes)},
        "positives": dict.fromkeys(classes, 30),
    }
    report = build_report(run, model, ready, predictions, figures, images_for_parts=8)
    path = write_report(tmp_path / "report.html", report)
    assert len(OPEN) > 20
    assert path.stat().st_size < PAGE_BYTES
    assert path.stat().st_size > PAGE_BYTES / 4 or count == 2  # the room is used: noise takes what it is given
    plan = make_plan(count)
    assert len(report.by_class) == plan.classes
    assert all(len(one.best.cards) == len(one.worst.cards) == plan.per_class for one in report.by_class)
    assert [len(group.cards) for group in report.doubts] == [plan.doubts] * 3


def test_twenty_classes_show_twelve_best_and_twelve_worst_each():
    plan = make_plan(20)
    assert (plan.classes, plan.per_class) == (20, 12)
    assert plan.side >= 176


def test_more_classes_have_fewer_images_each():
    plans = [make_plan(classes) for classes in range(1, 1_000, 7)]
    assert all(after.per_class <= before.per_class for before, after in pairwise(plans))
    assert all(plan.per_class >= 2 for plan in plans)
    assert plans[-1].classes < 995  # the weakest have images of their own


def test_classes_without_room_are_those_with_the_highest_ap(hand, run, monkeypatch):
    from deep_patch_learning.report import build as build_module

    monkeypatch.setattr(build_module, "make_plan", lambda count: replace(make_plan(count), classes=2, per_class=2))
    classes = ("a", "b", "c", "d")
    ready, predictions = many(30, classes)
    model = Model(hand.model(classes=4).network, classes, (64,), SlidingWindow(), device="cpu")
    figures = {"mAP": 50.0, "AP": {"a": 90.0, "b": 20.0, "c": None, "d": 30.0}}
    report = build_report(run, model, ready, predictions, figures, images_for_parts=0)
    assert [one.name for one in report.by_class] == ["b", "d"]
    assert "2 of the 4 classes" in report.by_class_note
