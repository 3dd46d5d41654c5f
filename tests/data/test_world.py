"""The embedded world: seeded, whole boxes, and no shortcut through naive boxes."""

import json

import numpy as np
import pytest

from deep_patch_learning.common.boxes import outside, pairwise_iou
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.world import CLASSES, World, draw_scene, make_world
from deep_patch_learning.data.world.scene import Sprite, lay

WIDTH, HEIGHT = World().size


@pytest.fixture(scope="module")
def scenes():
    return [draw_scene(0, index) for index in range(150)]


def _same(first, second):
    return np.array_equal(first[0], second[0]) and [o.box for o in first[1]] == [o.box for o in second[1]]


def test_seed_and_index_decide_the_image(scenes):
    for index in (149, 3, 77):  # in another order, and alone
        assert _same(draw_scene(0, index), scenes[index])
    assert not np.array_equal(draw_scene(1, 3)[0], scenes[3][0])
    assert not np.array_equal(scenes[4][0], scenes[3][0])


def test_images_have_one_size_and_one_to_four_objects_of_up_to_three_classes(scenes):
    for image, objects in scenes:
        assert image.shape == (HEIGHT, WIDTH, 3)
        assert image.dtype == np.uint8
        assert 1 <= len(objects) <= 4
        assert 1 <= len({thing.tag for thing in objects}) <= 3
    assert {len(objects) for _, objects in scenes} == {1, 2, 3, 4}


def test_every_class_is_about_as_common_as_the_others(scenes):
    counts = [sum(any(thing.tag == name for thing in objects) for _, objects in scenes) for name in CLASSES]
    assert min(counts) >= 0.5 * max(counts)


def test_boxes_are_the_extents_of_the_masks(scenes):
    for _, objects in scenes:
        for thing in objects:
            x1, y1, x2, y2 = thing.box
            assert not outside(np.array([thing.box]), HEIGHT, WIDTH).any()
            inside = thing.mask[y1:y2, x1:x2]
            assert inside.sum() == thing.mask.sum()
            assert inside[0].any()
            assert inside[-1].any()
            assert inside[:, 0].any()
            assert inside[:, -1].any()


def test_masks_are_where_the_image_changes():
    """A lone object on the same background with and without it differs where the mask says, shadow and noise apart."""
    pixels = np.zeros((20, 30, 4), np.float32)
    pixels[2:18, 3:27] = (200, 10, 10, 255)
    image = np.full((HEIGHT, WIDTH, 3), 90, np.float32)
    lay(image, Sprite(pixels), (-10, 50), shadow=False)
    changed = (image != 90).any(2)
    rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    assert (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1) == (52, 68, 0, 17)


def test_objects_hide_little_of_each_other(scenes):
    for _, objects in scenes:
        for back, thing in enumerate(objects):
            seen = thing.mask.copy()
            for front in objects[back + 1 :]:
                seen &= ~front.mask
            assert seen.sum() >= (1 - World().hidden - 1e-9) * thing.mask.sum()


def test_objects_come_in_many_sizes_and_places(scenes):
    boxes = np.array([thing.box for _, objects in scenes for thing in objects], np.float64)
    sides = np.sqrt((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])) / HEIGHT
    assert np.quantile(sides, 0.05) < 0.35 < 0.55 < np.quantile(sides, 0.95)
    assert sides.max() < 0.9
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 / (WIDTH, HEIGHT)
    assert (centres.std(0) > 0.15).all()


def _corloc(scenes, box):
    hits = []
    for _, objects in scenes:
        for tag in {thing.tag for thing in objects}:
            true = np.array([thing.box for thing in objects if thing.tag == tag])
            hits.append(pairwise_iou(np.array([box]), true).max() >= 0.5)
    return np.mean(hits)


def test_naive_boxes_fail(scenes):
    assert _corloc(scenes, (0, 0, WIDTH, HEIGHT)) < 0.1
    for share in (0.4, 0.5, 0.6, 0.7, 0.8):
        x, y = WIDTH * (1 - share) / 2, HEIGHT * (1 - share) / 2
        assert _corloc(scenes, (x, y, WIDTH - x, HEIGHT - y)) < 0.3


def test_written_world_reads_back(tmp_path):
    listing = make_world(tmp_path / "world", train=40, test=6, seed=5)
    rows = [json.loads(line) for line in listing.read_text().splitlines()]
    assert [row["split"] for row in rows] == ["train"] * 40 + ["test"] * 6
    assert {tag for row in rows if row["split"] == "train" for tag in row["tags"]} == set(CLASSES)
    for row in rows:
        image, objects = draw_scene(5, int(row["image"][-10:-4]))
        assert set(row["tags"]) == {box["tag"] for box in row["boxes"]}
        assert [box["box"] for box in row["boxes"]] == [list(thing.box) for thing in objects]
        stored = read_image(listing.parent / row["image"])
        assert stored.shape == image.shape
        assert np.abs(stored.astype(int) - image).mean() < 8  # JPEG
    assert sorted(path.name for path in listing.parent.iterdir()) == ["images", "settings.json", "world.jsonl"]


def test_images_do_not_depend_on_how_many_are_made(tmp_path):
    few, many = (make_world(tmp_path / str(n), train=n, test=n) for n in (2, 4))
    few_rows, many_rows = few.read_text().splitlines(), many.read_text().splitlines()
    assert few_rows == many_rows[:2] + many_rows[4:6]
    for row in map(json.loads, few_rows):
        assert (few.parent / row["image"]).read_bytes() == (many.parent / row["image"]).read_bytes()


def test_same_world_is_kept_and_another_replaces_it(tmp_path):
    heard = []
    make_world(tmp_path, train=2, test=1, on_image=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    make_world(tmp_path, train=2, test=1, on_image=lambda done, total: heard.append((done, total)))
    assert len(heard) == 3
    listing = make_world(tmp_path, train=2, test=1, seed=1, on_image=lambda done, total: heard.append((done, total)))
    assert len(heard) == 6
    assert len(listing.read_text().splitlines()) == 3


def test_interrupted_world_has_no_listing(tmp_path):
    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_world(tmp_path, train=3, test=0, on_image=stop)
    assert not (tmp_path / "world.jsonl").exists()
    assert make_world(tmp_path, train=3, test=0).exists()


def test_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(DataError, match="not a generated world"):
        make_world(tmp_path, train=1, test=0)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_objects": 0},
        {"min_objects": 3, "max_objects": 2},
        {"max_classes": 9},
        {"smallest": 0.6, "largest": 0.5},
        {"min_distractors": 3, "max_distractors": 1},
        {"min_pieces": 2, "max_pieces": 1},
        {"size": (16, 128)},
    ],
)
def test_impossible_worlds_are_refused(wrong):
    with pytest.raises(ValueError, match="wanted"):
        World(**wrong)


@pytest.mark.parametrize("size", [(160, 128), (96, 96), (320, 200), (64, 200)])
def test_worlds_of_any_size_and_count_can_be_drawn(size):
    world = World(size=size, min_objects=1, max_objects=6)
    for index in range(12):
        image, objects = draw_scene(2, index, world)
        assert image.shape == (size[1], size[0], 3)
        assert objects
