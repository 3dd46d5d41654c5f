"""Near-duplicates and frames of one video belong together, other images do not; a share that is held out splits none of them."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from deep_patch_learning.data.alike import alike_groups, fingerprints, neighbours, shifted_correlation
from deep_patch_learning.data.checks.duplicates import near_pairs
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.holdout import drawn_share, drawn_singly, drawn_together, read_apart
from deep_patch_learning.data.images import read_image


def scene(seed: int, height: int = 180, width: int = 240) -> np.ndarray:
    rng = np.random.default_rng(seed)
    soft = cv2.resize(rng.uniform(20, 200, (9, 12, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    return (soft + rng.normal(0, 6, soft.shape)).clip(0, 255).astype(np.uint8)


def frame(image: np.ndarray, shift: float, brightness: float = 1.0) -> np.ndarray:
    """Return what a camera sees of a scene after it moved by a share of its width."""
    left = round(shift * image.shape[1])
    seen = image[10:-10, left : left + image.shape[1] * 3 // 4]
    return (seen * brightness).clip(0, 255).astype(np.uint8)


def save(folder: Path, name: str, image: np.ndarray, quality: int = 90) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / name, quality=quality)
    return folder / name


def tagged(paths: list[Path], labels: np.ndarray) -> TaggedImages:
    classes = tuple(f"class {index}" for index in range(labels.shape[1]))
    return TaggedImages(classes, tuple(path.name for path in paths), tuple(paths), labels.astype(np.int8))


@pytest.fixture
def copies(tmp_path: Path) -> TaggedImages:
    """Thirty scenes of three classes, of each the photo and a copy that was saved again, smaller and brighter."""
    paths = []
    for seed in range(30):
        photo = scene(seed)
        small = cv2.resize((photo * 1.15).clip(0, 255).astype(np.uint8), (160, 120), interpolation=cv2.INTER_AREA)
        paths += [save(tmp_path, f"one{seed}a.jpg", photo), save(tmp_path, f"two{29 - seed}b.jpg", small, 60)]
    return tagged(paths, np.eye(3)[np.repeat(np.arange(30) % 3, 2)])


@pytest.fixture
def videos(tmp_path: Path) -> TaggedImages:
    """Ten videos of six frames by a camera that moves on by a tenth of the width each, numbered through."""
    paths = []
    for video in range(10):
        wide = scene(100 + video, 180, 420)
        for number in range(6):
            image = wide[:, 24 * number : 24 * number + 240]
            name = f"cam_{6 * video + number:04}.jpg"
            paths.append(save(tmp_path, name, (image * (1 + 0.02 * number)).clip(0, 255).astype(np.uint8), 80))
    return tagged(paths, np.eye(2)[np.repeat(np.arange(10) % 2, 6)])


def pair_of(name: str) -> int:
    number = int(re.findall(r"\d+", name)[0])
    return number if name.startswith("one") else 29 - number


def test_no_copy_is_on_the_other_side(copies: TaggedImages, capsys: pytest.CaptureFixture[str]) -> None:
    singly, together = (draw(copies, 0.2, 0) for draw in (drawn_singly, drawn_together))
    split = [{pair_of(copies.names[i]) for i in held} for held in (singly, together)]
    assert len(singly) < 2 * len(split[0])  # drawn one by one, some copies are on both sides
    assert len(together) == 2 * len(split[1])
    assert copies.labels[together].sum(0).tolist() == [4, 4, 4]
    said = " ".join(capsys.readouterr().err.split())
    assert "held out 12 of 60 images" in said
    assert "30 groups of 60 images, 6 held out" in said


def test_no_video_is_on_both_sides(videos: TaggedImages) -> None:
    strict = near_pairs(fingerprints(videos.paths))
    assert len(strict) < 50  # the first frame and the last are no near-duplicates, and not even all neighbours are
    assert alike_groups(videos.paths) == [list(range(6 * video, 6 * video + 6)) for video in range(10)]
    for seed in range(3):
        held = drawn_together(videos, 0.2, seed)
        assert len(held) == 12
        assert {number for number in range(10) if 6 * number in held} == {index // 6 for index in held.tolist()}
        assert videos.labels[held].sum(0).tolist() == [6, 6]
        assert np.array_equal(held, drawn_together(videos, 0.2, seed))
    assert len({tuple(drawn_together(videos, 0.2, seed).tolist()) for seed in range(6)}) > 1


def test_frames_need_a_common_name_and_a_common_scene(tmp_path: Path) -> None:
    wide = scene(0, 180, 320)
    one, other = wide[:, :240], wide[:, 30:270]
    video = [save(tmp_path, "cam_009.jpg", one), save(tmp_path, "cam_010.jpg", other)]
    assert alike_groups(video) == [[0, 1]]
    elsewhere = save(tmp_path / "b", "cam_010.jpg", other)
    renamed = save(tmp_path, "cat_010.jpg", other)
    assert alike_groups([video[0], elsewhere]) == alike_groups([video[0], renamed]) == []
    assert alike_groups([video[0], save(tmp_path, "cam_010.jpg", scene(1))]) == []


def test_neighbours_follow_the_number_and_not_the_text() -> None:
    names = ["f/a9.jpg", "f/a10.jpg", "f/a100.jpg", "f/b10.jpg", "g/a10.jpg", "f/cover.jpg", "f/v1_3.png", "f/v2_4.png"]
    assert neighbours([Path(name) for name in names]).tolist() == [[0, 1], [1, 2]]


def test_what_cannot_be_read_belongs_to_none(tmp_path: Path) -> None:
    good = [save(tmp_path, f"{name}.jpg", scene(0)) for name in "ab"]
    broken = tmp_path / "c.jpg"
    broken.write_bytes(good[0].read_bytes()[:200])
    assert alike_groups([broken, *good, tmp_path / "gone.jpg"]) == [[1, 2]]


def test_a_reduced_jpeg_is_the_same_image(tmp_path: Path) -> None:
    path = save(tmp_path, "large.jpg", cv2.resize(scene(3), (1600, 1200), interpolation=cv2.INTER_CUBIC))
    small = read_image(path, 128)
    assert 128 <= min(small.shape[:2]) < 300
    full = cv2.resize(read_image(path), small.shape[1::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - full).mean() < 2


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(-3, 3), st.integers(-3, 3))
def test_a_shift_within_reach_is_found(seed: int, down: int, across: int) -> None:
    wide = np.random.default_rng(seed).integers(0, 255, (24, 24))
    first, second = wide[4:20, 4:20], wide[4 + down : 20 + down, 4 + across : 20 + across]
    assert shifted_correlation(first[None], second[None])[0] == pytest.approx(1, abs=1e-4)


labels = st.integers(2, 40).flatmap(
    lambda count: st.tuples(
        st.lists(st.lists(st.sampled_from((-1, 0, 0, 1)), min_size=3, max_size=3), min_size=count, max_size=count),
        st.lists(st.integers(0, 8), min_size=count, max_size=count),
    )
)


@given(labels, st.floats(0.05, 0.5), st.integers(0, 3))
def test_a_group_is_drawn_whole_or_not_at_all(drawn_from: tuple, share: float, seed: int) -> None:
    states, numbers = np.array(drawn_from[0], np.int8), np.array(drawn_from[1])
    together = [np.flatnonzero(numbers == number).tolist() for number in range(8) if (numbers == number).sum() > 1]
    held = set(drawn_share(states, share, seed, together).tolist())
    assert all(len(held.intersection(members)) in (0, len(members)) for members in together)
    assert not any(held.issuperset(members) for members in together if len(members) > share * len(states))


def test_groups_leave_each_class_near_its_share() -> None:
    numbers = np.repeat(np.arange(200), 5)  # 200 videos of five frames
    states = np.eye(4, dtype=np.int8)[np.random.default_rng(0).integers(0, 4, 200)][numbers]
    together = np.arange(1000).reshape(200, 5).tolist()
    held = drawn_share(states, 0.1, 0, together)
    wanted = 0.1 * states.sum(0)
    assert (np.abs(states[held].sum(0) - wanted) <= 5).all()
    assert 95 <= len(held) <= 110


def test_a_class_of_one_video_is_trained_on_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [save(tmp_path, f"p{'x' * seed}.jpg", scene(seed)) for seed in range(40)]
    video = [save(tmp_path, f"video_{number}.jpg", frame(scene(99), 0.02 * number)) for number in range(10)]
    states = np.zeros((50, 2))
    states[:40, 0] = 1
    states[40:, 1] = 1
    held = drawn_together(tagged([*paths, *video], states), 0.2, 0)
    assert not set(held.tolist()).intersection(range(40, 50))
    assert "too large to hold one out: class 1" in " ".join(capsys.readouterr().err.split())


def test_a_data_set_of_one_scene_cannot_be_split(tmp_path: Path) -> None:
    from deep_patch_learning.common.errors import DataError

    rows = ["image,tags"]
    for number in range(8):
        save(tmp_path, f"video_{number}.jpg", frame(scene(0), 0.02 * number))
        rows.append(f"video_{number}.jpg,{'dog' if number % 2 else 'cat'}")
    (tmp_path / "tags.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match=r"holds out no image.*--val-split"):
        read_apart(tmp_path / "tags.csv", None, val_share=0.25)


@pytest.mark.voc
def test_of_real_photos_changed_ones_stay_together_and_others_apart(real_voc: Path, tmp_path: Path) -> None:
    files = sorted((real_voc / "JPEGImages").glob("*.jpg"))[::50][:80]
    paths = []
    for number, file in enumerate(files):
        image = read_image(file)
        height, width = image.shape[:2]
        paths.append(save(tmp_path, f"f_{2 * number}.jpg", image[:, : width * 9 // 10]))
        moved = (image[height // 50 :, width // 12 :] * 0.9).astype(np.uint8)
        paths.append(save(tmp_path, f"f_{2 * number + 1}.jpg", moved, 70))
    found = alike_groups(paths)
    whole = [members for members in found if members[0] % 2 == 0 and members[1] == members[0] + 1]
    assert len(whole) >= 0.95 * len(files)
    assert sum(map(len, found)) <= 2 * len(files)
    assert max(map(len, found)) <= 4
