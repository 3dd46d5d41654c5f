"""What every patch generator promises, whatever the image."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from deep_patch_learning.common import boxes as box_tools
from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes
from deep_patch_learning.patches.generator import METHODS, PatchGenerator
from deep_patch_learning.patches.selective_search.search import SelectiveSearch


def blobs(height, width, seed=0):
    """An image of a few coloured shapes on a grainy ground."""
    random = np.random.default_rng(seed)
    image = random.integers(90, 130, (height, width, 3)).astype(np.uint8)
    for _ in range(6):
        x, y = int(random.integers(0, width)), int(random.integers(0, height))
        colour = tuple(int(value) for value in random.integers(0, 256, 3))
        cv2.ellipse(
            image, (x, y), (width // 6 + 1, height // 8 + 1), float(random.integers(0, 180)), 0, 360, colour, -1
        )
    return image


IMAGES = {
    "one pixel": np.full((1, 1, 3), 7, np.uint8),
    "one row": blobs(1, 50),
    "one column": blobs(50, 1),
    "two by three": blobs(2, 3),
    "constant": np.full((60, 80, 3), 128, np.uint8),
    "grey": np.repeat(blobs(90, 70)[..., :1], 3, axis=2),
    "noise": np.random.default_rng(0).integers(0, 256, (80, 100, 3)).astype(np.uint8),
    "photo size": blobs(375, 500),
    "very wide": blobs(20, 2000),
    "not contiguous": blobs(100, 160)[::2, ::-1],
}


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("method", METHODS)
def test_boxes_are_what_the_protocol_says(method, drawn):
    image = IMAGES[drawn]
    before = image.copy()
    make = generator(method)
    assert isinstance(make, PatchGenerator)
    boxes = make(image)
    assert boxes.dtype == np.uint16
    assert boxes.ndim == 2
    assert boxes.shape[1] == 4
    assert len(boxes) >= 1
    assert not box_tools.outside(boxes, *image.shape[:2]).any()
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(make(image), boxes)


@pytest.mark.parametrize("method", METHODS)
def test_a_large_image_is_scaled_for_the_search(method):
    image = cv2.resize(blobs(400, 600, seed=3), (6000, 4000), interpolation=cv2.INTER_LINEAR)
    boxes = generator(method)(image)
    assert not box_tools.outside(boxes, 4000, 6000).any()
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    if method == "selective-search":  # corners fall on pixels of the scaled image only
        assert len(boxes) > 50
        assert len(np.unique(boxes[:, [0, 2]])) <= 321


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_change_the_boxes(method):
    images = [blobs(150, 200, seed) for seed in range(6)]
    make = generator(method)
    alone = [make(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(make, images * 3))
    for index, boxes in enumerate(together):
        np.testing.assert_array_equal(boxes, alone[index % len(images)])


@pytest.mark.parametrize(("method", "overlap"), [("selective-search", 0.9), ("edge-boxes", 0.75)])
def test_an_object_in_plain_sight_is_found_early(method, overlap):
    image = np.full((240, 320, 3), 200, np.uint8)
    image[60:160, 80:220] = (180, 30, 40)
    found = generator(method)(image)[:20]
    assert box_tools.pairwise_iou(np.array([[80, 60, 220, 160]]), found).max() > overlap


@pytest.mark.parametrize("method", ["selective-search", "edge-boxes"])
def test_max_boxes_keeps_the_first(method):
    image = blobs(200, 300)
    some = generator(method, max_boxes=20)(image)
    assert len(some) <= 20
    if method == "selective-search":
        np.testing.assert_array_equal(some, SelectiveSearch()(image)[:20])


def test_min_side_leaves_out_small_boxes():
    image = blobs(300, 400)
    every, some = SelectiveSearch(min_side=1)(image), SelectiveSearch(min_side=30)(image)
    sides = np.minimum(every[:, 2] - every[:, 0], every[:, 3] - every[:, 1])
    np.testing.assert_array_equal(some, every[sides >= 30])
    assert len(some) < len(every)


@pytest.mark.parametrize("mode", ["fast", "quality", "original"])
def test_every_mode_gives_the_whole_image_among_others(mode):
    boxes = SelectiveSearch(mode=mode)(blobs(120, 160)).tolist()
    assert [0, 0, 160, 120] in boxes
    assert len(boxes) > 10


def test_sliding_windows_are_the_papers():
    boxes = generator("sliding-window")(np.zeros((300, 400, 3), np.uint8)).astype(int)
    assert set(boxes[:, 2] - boxes[:, 0]) == {64, 96, 128, 160, 192, 224, 256}
    assert (boxes[:, 2] - boxes[:, 0] == boxes[:, 3] - boxes[:, 1]).all()
    assert (boxes[:, :2] % 32 == 0).all()
    assert len(boxes) == sum(((400 - s) // 32 + 1) * ((300 - s) // 32 + 1) for s in range(64, 257, 32))


def test_keys_tell_settings_apart():
    made = [SelectiveSearch(), SelectiveSearch(mode="quality"), SelectiveSearch(max_side=400), SelectiveSearch(min_side=1),
            SelectiveSearch(max_boxes=9), EdgeBoxes(), EdgeBoxes(max_boxes=9), EdgeBoxes(overlap=0.5), EdgeBoxes(step=0.5),
            EdgeBoxes(scored=9), EdgeBoxes(refined=9), EdgeBoxes(max_side=99), generator("sliding-window")]  # fmt: skip
    assert len({make.key() for make in made}) == len(made)
    assert SelectiveSearch().key() == generator("selective-search").key()


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("selective-serch", {}, "Did you mean 'selective-search'?"),
        ("edge-boxes", {"max_box": 3}, "Did you mean 'max_boxes'?"),
        ("sliding-window", {"step": 3}, "It has no settings."),
        ("selective-search", {"mode": "quallity"}, "Did you mean 'quality'?"),
        ("selective-search", {"max_side": 3}, "16 to 4096"),
        ("selective-search", {"max_boxes": 0}, "at least 1"),
        ("edge-boxes", {"max_boxes": 0}, "at least 1"),
        ("edge-boxes", {"step": 1.0}, "step < 0.95"),
    ],
)
def test_wrong_names_and_settings_are_told(name, settings, said):
    with pytest.raises(DataError, match=said):
        generator(name, **settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)]
)
def test_other_arrays_are_refused(method, image):
    with pytest.raises(DataError, match="image for patches"):
        generator(method)(image)


def test_a_missing_edge_model_is_told():
    with pytest.raises(DplError, match=r"no such edge model"):
        EdgeBoxes(edge_model="nowhere.yml.gz")


def test_an_edge_model_needs_opencvs_extra_modules(tmp_path):
    model = tmp_path / "model.yml.gz"
    model.write_bytes(b"no model")
    with pytest.raises(DplError, match=r"opencv-contrib-python-headless|cannot use this edge model"):
        EdgeBoxes(edge_model=str(model))(blobs(50, 60))


def test_building_a_generator_imports_no_compiler():
    code = (
        "import sys; from deep_patch_learning.patches import generator; generator('selective-search').key();"
        "sys.exit(bool({'numba', 'cv2', 'torch', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
