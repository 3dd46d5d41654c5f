"""The figures of patches, by hand and on VOC."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.patch_recall import best_overlaps, measure
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes
from deep_patch_learning.patches.selective_search.search import SelectiveSearch
from deep_patch_learning.patches.sliding_window import SlidingWindow


def drawn(*boxes, difficult=()):
    marks = np.array([index in difficult for index in range(len(boxes))], bool)
    return TrueBoxes(np.array(boxes, np.float32).reshape(-1, 4), np.zeros(len(boxes), np.int64), marks)


def test_figures_by_hand():
    truth = [drawn([0, 0, 10, 10], [20, 20, 30, 30]), drawn([0, 0, 4, 4], [50, 50, 60, 60], difficult=[1]), drawn()]
    boxes = [
        np.array([[90, 90, 99, 99], [0, 0, 10, 6], [20, 20, 30, 30]], np.uint16),  # IoU 0, then 0.6 and 1
        np.array([[0, 0, 4, 1]], np.uint16),  # 0.25
        np.array([[0, 0, 1, 1], [0, 0, 2, 2]], np.uint16),
    ]
    found = measure(boxes, ["a", "b", "c"], truth, numbers=(1, 2))
    assert found["objects"] == 3
    assert found["boxes"] == 2
    assert found["seconds_per_image"] is None
    assert found["recall_50"] == pytest.approx(2 / 3)
    assert found["recall_70"] == pytest.approx(1 / 3)
    assert found["mean_best_overlap"] == pytest.approx((0.6 + 1 + 0.25) / 3)
    assert found["at"]["1"] == pytest.approx({"recall_50": 0, "recall_70": 0, "mean_best_overlap": 0.25 / 3})
    assert found["at"]["2"]["recall_50"] == pytest.approx(1 / 3)
    json.dumps(found)


def test_exactly_half_counts():
    assert measure([np.array([[0, 0, 10, 5]])], ["a"], [drawn([0, 0, 10, 10])])["recall_50"] == 1


def test_no_boxes_and_no_objects():
    assert best_overlaps(np.zeros((0, 4), np.uint16), drawn([0, 0, 1, 1]), [None])[0].tolist() == [0.0]
    found = measure([np.array([[0, 0, 1, 1]])], ["a"], [drawn()])
    assert found["recall_50"] is None
    assert found["objects"] == 0
    assert "recall_50" not in measure([np.array([[0, 0, 1, 1]])], ["a"])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="1 ready boxes for 2 images"):
        measure([np.zeros((1, 4))], ["a", "b"])


@pytest.mark.parametrize("fresh", [False, True])
def test_files_are_read_timed_and_cached(tmp_path, fresh):
    paths = []
    for number in range(3):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(np.full((100, 120, 3), number, np.uint8)).save(paths[-1])
    paths.insert(1, tmp_path / "broken.png")
    paths[1].write_bytes(b"no image")
    images = TaggedImages(("x",), tuple("abcd"), tuple(paths), np.zeros((4, 1), np.int8))
    truth = [drawn([0, 0, 64, 64])] * 4
    calls = []
    found = measure(SlidingWindow(), images, truth, fresh=fresh, folder=tmp_path / "cache", workers=2,
                    progress=lambda done, total: calls.append((done, total)))  # fmt: skip
    assert found["images"] == 3
    assert [row["image"] for row in found["broken"]] == [str(paths[1])]
    assert found["recall_70"] == 1
    assert found["seconds_per_image"] > 0
    assert calls[-1] == (4, 4)
    assert (paths[0] in PatchCache(tmp_path / "cache", SlidingWindow())) is not fresh


@pytest.mark.voc
@pytest.mark.skipif(not os.environ.get("DPL_VOC"), reason="needs VOC 2007: set DPL_VOC to its VOC2007 folder")
def test_recall_on_voc():
    folder = Path(os.environ["DPL_VOC"])
    images = read_tags(folder, "trainval")
    images = images.subset(sorted(random.Random(5).sample(range(len(images)), 40)))
    truth = read_truth(folder, images)
    search, edges, windows = (
        measure(make, images, truth, fresh=True) for make in (SelectiveSearch(), EdgeBoxes(), SlidingWindow())
    )
    assert search["recall_50"] >= 0.95
    assert search["at"]["1000"]["recall_50"] >= 0.85
    assert search["at"]["1000"]["recall_70"] >= 0.6
    assert edges["boxes"] <= 256
    assert edges["recall_50"] > windows["recall_50"]
