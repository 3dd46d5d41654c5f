"""The predict loop: in order, the same as one by one, a bounded number of images held, broken ones named."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import Plan, plan_for, predict_files, predict_prepared, stream
from deep_patch_learning.patches.prepare import Prepared


@pytest.fixture
def model(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("DPL_CACHE", str(tmp_path / "cache"))
    return load(small_run, "cpu", (96,))


@pytest.fixture
def files(small_world: Path) -> list[Path]:
    return sorted((small_world.parent / "images").glob("5*.jpg"))[:6]


def same(one: Prediction, other: Prediction) -> None:
    assert (one.name, one.height, one.width) == (other.name, other.height, other.width)
    np.testing.assert_allclose(one.image_scores, other.image_scores, rtol=1e-3, atol=1e-3)


class Counting:
    """A predictor that says the number written in each image, slowly, and notes which images shared a micro-batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.lock = threading.Lock()

    def size_of(self, image: ImageInput) -> tuple[int, int]:
        return image.image.shape[0], image.image.shape[1]

    def begin(self, images: list[ImageInput]) -> list[int]:
        with self.lock:
            self.batches.append([int(image.name) for image in images])
        time.sleep(0.002 * (int(images[0].name) % 3))
        return [int(image.name) for image in images]

    def finish(self, images: list[ImageInput], begun: list[int]) -> Any:
        assert [int(image.name) for image in images] == begun
        return [f"found {number}" for number in begun]


def read_number(number: int) -> ImageInput:
    time.sleep(0.003 * (number % 4))
    if number % 10 == 7:
        raise DataError(f"{number} is broken")
    return ImageInput(str(number), np.zeros((4 + number % 2, 5, 3), np.uint8), np.zeros((1, 4)))


PLANS = [
    Plan(0, 0, 1, 1, queued=1),
    Plan(2, 1, 1, 7, queued=4),
    Plan(3, 1, 4, 12, queued=6),
    Plan(2, 1, 3, 6, queued=1),
    Plan(4, 1, 4, 16, queued=4, asks_device=True),
    Plan(2, 1, 8, 3, queued=2, asks_device=True),
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("count", [0, 1, 5, 43])
def test_predictions_come_in_order_and_images_of_one_size_share_batches(plan: Plan, count: int) -> None:
    predictor = Counting()
    found = list(stream(range(count), read_number, predictor, plan))
    assert [source for source, _ in found] == list(range(count))
    for number, prediction in found:
        if number % 10 == 7:
            assert isinstance(prediction, DataError)
        else:
            assert prediction == f"found {number}"
    assert sorted(n for batch in predictor.batches for n in batch) == [n for n in range(count) if n % 10 != 7]
    assert all(len({n % 2 for n in batch}) == 1 and len(batch) <= plan.batch for batch in predictor.batches)
    if count == 43 and 1 < plan.batch <= plan.held // 3:  # the window is wide enough to fill most
        assert len(predictor.batches) < 30


def test_the_calling_thread_feeds_the_device_and_others_finish() -> None:
    who: dict[str, set[int]] = {"begin": set(), "finish": set()}

    class Noting(Counting):
        def begin(self, images: list[ImageInput]) -> list[int]:
            who["begin"].add(threading.get_ident())
            return super().begin(images)

        def finish(self, images: list[ImageInput], begun: list[int]) -> Any:
            who["finish"].add(threading.get_ident())
            return super().finish(images, begun)

    list(stream(range(20), read_number, Noting(), PLANS[4]))
    assert who["begin"] == {threading.get_ident()}
    assert threading.get_ident() not in who["finish"]


@pytest.mark.parametrize("plan", PLANS)
def test_only_a_few_images_are_ever_held(plan: Plan) -> None:
    taken, given = 0, 0

    def sources() -> Iterator[int]:
        nonlocal taken
        for number in range(60):
            taken += 1
            assert taken - given <= plan.held + 1
            yield number

    for _ in stream(sources(), read_number, Counting(), plan):
        given += 1
    assert given == 60


def test_large_images_wait_in_smaller_numbers() -> None:
    taken, given = 0, 0

    def read(number: int) -> ImageInput:  # 100 MB each, none of which is touched
        pixels = np.broadcast_to(np.zeros(1, np.uint8), (6000, 6000, 3))
        return ImageInput(str(number), pixels, np.zeros((1, 4)))

    def sources() -> Iterator[int]:
        nonlocal taken
        for number in range(40):
            taken += 1
            assert taken - given <= 6
            yield number

    for _ in stream(sources(), read, Counting(), Plan(2, 1, 8, 64, queued=4, asks_device=True)):
        given += 1
    assert given == 40


def test_an_error_that_is_no_broken_image_ends_the_loop() -> None:
    def read(number: int) -> ImageInput:
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        list(stream(range(5), read, Counting(), PLANS[1]))


def test_who_stops_early_leaves_nothing_behind() -> None:
    before, threads = torch.get_num_threads(), threading.active_count()
    running = stream(range(50), read_number, Counting(), PLANS[2])
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
    assert torch.get_num_threads() == before


def test_a_plan_shares_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    small, large = (plan_for(torch.device("cpu"), scale, None) for scale in (448, 1200))
    assert small.threads * small.torch_threads == 16
    assert (large.queued, large.torch_threads) == (1, 16)  # one image at a time is in the network
    assert plan_for(torch.device("cuda"), 448, None).asks_device
    assert plan_for(torch.device("cpu"), 448, None, images=1).threads == 0


def test_many_files_are_predicted_as_one_by_one(model: Model, files: list[Path]) -> None:
    alone = [model.predict(file) for file in files]
    for found, one in zip(model.predict(files), alone, strict=True):
        same(found, one)
        assert found.source == one.source
    for (file, found), one in zip(predict_files(model, files), alone, strict=True):
        assert isinstance(found, Prediction)
        same(found, one)
        assert found.source == file.resolve()


def test_every_kind_of_image_is_taken(model: Model, files: list[Path], tmp_path: Path) -> None:
    path = files[0]
    by_path = model.predict(str(path))
    pixels = np.array(Image.open(path).convert("RGB"))
    kinds: list[Any] = [path, pixels, Image.open(path)]
    for kind in kinds:
        np.testing.assert_array_equal(model.predict(kind).image_scores, by_path.image_scores)
    assert [found.name for found in model.predict(kinds)] == [path.name, "image", path.name]
    folder = tmp_path / "folder"
    folder.mkdir()
    for file in files[:3]:
        (folder / file.name).symlink_to(file)
    assert [found.name for found in model.predict(folder)] == [file.name for file in files[:3]]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (np.zeros((4, 4), np.uint8), r"array \(4, 4\) of uint8; wanted \(H, W, 3\) of uint8"),
        (np.zeros((4, 4, 3)), "of float64"),
        (3, "int is no image"),
        ("nowhere.jpg", r"nowhere\.jpg: there is no such image"),
    ],
)
def test_what_is_no_image_is_refused(model: Model, source: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        model.predict(source)


def test_a_broken_image_among_many_is_named_and_the_others_are_predicted(
    model: Model, files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    mixed = [files[0], broken, files[1]]
    named: list[tuple[Path, DataError]] = []
    assert len(list(model.predict(mixed, on_broken=lambda source, error: named.append((source, error))))) == 2
    assert [source for source, _ in named] == [broken]
    assert "broken.jpg: not an image" in str(named[0][1])
    assert len(list(model.predict(mixed))) == 2
    assert "left out" in capsys.readouterr().err
    kinds = [type(found) for _, found in predict_files(model, mixed)]
    assert kinds == [Prediction, DataError, Prediction]


def test_patches_are_made_once(model: Model, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first = [found.image_scores for found in model.predict(files)]

    def never(image: np.ndarray) -> np.ndarray:
        raise AssertionError("patches are made again")

    monkeypatch.setattr(type(model.patch_generator), "__call__", lambda self, image: never(image))
    second = [found.image_scores for found in model.predict(files)]
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-3)


def test_without_room_for_patches_images_are_predicted_all_the_same(
    model: Model, files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = model.predict(np.array(Image.open(files[0]).convert("RGB")))

    def full(*arguments: object) -> None:
        raise DplError("the disk is full")

    monkeypatch.setattr("deep_patch_learning.patches.cache.PatchCache._append", full)
    np.testing.assert_array_equal(model.predict(files[0]).image_scores, expected.image_scores)
    assert len(list(model.predict(files))) == len(files)
    assert capsys.readouterr().err.count("patches are not kept: the disk is full") == 1


def test_memory_is_given_back_now_and_then(model: Model, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("deep_patch_learning.inference.stream.GIVE_BACK", 2)
    monkeypatch.setattr("deep_patch_learning.inference.stream.give_back_memory", lambda: given.append(1))
    assert len(list(model.predict(files))) == len(files)
    assert len(given) == len(files) // 2 > 0


def test_a_prepared_data_set_is_predicted_in_its_order(model: Model, small_prepared: Prepared) -> None:
    found = predict_prepared(model, small_prepared, 3)
    first = next(found)
    assert first.name == small_prepared.images.names[0]
    rest = [one.name for one in found]
    assert [first.name, *rest] == list(small_prepared.images.names)


def test_prepared_patches_are_not_in_memory(small_prepared: Prepared) -> None:
    assert not isinstance(small_prepared.patches, list)
    assert small_prepared.patches[0] is not small_prepared.patches[0]
    np.testing.assert_array_equal(small_prepared.patches[0], small_prepared.patches[0])
