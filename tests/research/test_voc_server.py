"""The evaluation server's files, read back as the devkit does, and the test list it answers for."""

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.voc import VOC_CLASSES
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.research.voc_server import write_server_files

CLASSES = ("cat", "dog", "tvmonitor")


def predicted(name: str, scores: list[float], *found: tuple[int, float, tuple[float, ...]]) -> Prediction:
    """Return a prediction from the scores of the image and (class, score, box) of each box."""
    return Prediction(
        name=name,
        classes=CLASSES,
        height=300,
        width=500,
        image_scores=np.array(scores),
        found_boxes=np.array([box for _, _, box in found]).reshape(-1, 4),
        found_classes=np.array([index for index, _, _ in found], int),
        found_scores=np.array([score for _, score, _ in found]),
    )


PREDICTIONS = [
    predicted("2008_000001", [0.5, -3.25, 1e-6], (1, -2.0, (0, 0, 500, 300)), (1, 1.5, (10, 20, 11, 21))),
    predicted("2008_000004", [-7, 12.1234567, 0], (0, 0.125, (47.5, 239, 195.25, 300))),
    predicted("2011_007214", [1, 2, 3]),
]


def parsed(text: str) -> list[tuple[str, list[float]]]:
    """Return what MATLAB's textread('%s %f ...') would: the id and the numbers of each line."""
    return [(line.split(" ")[0], [float(number) for number in line.split(" ")[1:]]) for line in text.splitlines()]


def read(folder: Path, competition: str, name: str) -> list[tuple[str, list[float]]]:
    return parsed((folder / "results" / "VOC2012" / "Main" / f"{competition}_test_{name}.txt").read_text())


def test_every_score_of_every_image(tmp_path: Path) -> None:
    write_server_files(PREDICTIONS, tmp_path / "out")
    for index, name in enumerate(CLASSES):
        rows = read(tmp_path / "out", "comp2_cls", name)
        assert [image_id for image_id, _ in rows] == ["2008_000001", "2008_000004", "2011_007214"]
        for (_, numbers), prediction in zip(rows, PREDICTIONS, strict=True):
            assert numbers == [pytest.approx(float(prediction.image_scores[index]), abs=5e-7)]


def test_boxes_count_from_one_and_hold_both_corners(tmp_path: Path) -> None:
    write_server_files(PREDICTIONS, tmp_path / "out")
    assert read(tmp_path / "out", "comp4_det", "dog") == [
        ("2008_000001", [1.5, 11, 21, 11, 21]),  # one pixel: its corners are the same
        ("2008_000001", [-2, 1, 1, 500, 300]),  # the whole image
    ]
    assert read(tmp_path / "out", "comp4_det", "cat") == [("2008_000004", [0.125, 48.5, 240, 195.25, 300])]
    assert read(tmp_path / "out", "comp4_det", "tvmonitor") == []
    lines = (tmp_path / "out/results/VOC2012/Main/comp4_det_test_dog.txt").read_text().splitlines()
    assert lines[0] == "2008_000001 1.500000 11 21 11 21"


def test_boxes_are_what_the_annotations_reader_would_read(tmp_path: Path) -> None:
    """A box written for the server and put into an annotation is the same box again."""
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.data.truth import read_truth

    write_server_files(PREDICTIONS, tmp_path / "out")
    voc = tmp_path / "VOC2012"
    for inside in ("JPEGImages", "Annotations"):
        (voc / inside).mkdir(parents=True)
    Image.new("RGB", (500, 300)).save(voc / "JPEGImages" / "2008_000001.jpg")
    corners = ("xmin", "ymin", "xmax", "ymax")
    objects = ""
    for _, (_, *numbers) in read(tmp_path / "out", "comp4_det", "dog"):
        box = "".join(f"<{name}>{number}</{name}>" for name, number in zip(corners, numbers, strict=True))
        objects += f"<object><name>dog</name><difficult>0</difficult><bndbox>{box}</bndbox></object>"
    (voc / "Annotations" / "2008_000001.xml").write_text(f"<annotation>{objects}</annotation>")
    truth = read_truth(voc, read_tags(voc))
    assert truth is not None
    np.testing.assert_array_equal(truth[0].boxes, PREDICTIONS[0].found_boxes[[1, 0]])


def test_unlikely_boxes_are_written_too(tmp_path: Path) -> None:
    shy = replace(PREDICTIONS[0], threshold=1.0, only=("cat",))
    assert not shy.boxes
    write_server_files([shy], tmp_path / "out")
    assert len(read(tmp_path / "out", "comp4_det", "dog")) == 2


def test_the_archive_is_what_the_server_wants(tmp_path: Path) -> None:
    archive = write_server_files(iter(PREDICTIONS), tmp_path / "out")
    assert archive == tmp_path / "out" / "results.tar.gz"
    with tarfile.open(archive, "r:gz") as packed:
        files = {entry.name: packed.extractfile(entry).read() for entry in packed if entry.isfile()}  # type: ignore[union-attr]
    wanted = {f"results/VOC2012/Main/{kind}_test_{name}.txt" for kind in ("comp2_cls", "comp4_det") for name in CLASSES}
    assert files.keys() == wanted
    assert all((tmp_path / "out" / name).read_bytes() == content for name, content in files.items())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_another_year_and_split(tmp_path: Path) -> None:
    write_server_files(PREDICTIONS, tmp_path / "out", year="VOC2007", split="val")
    assert (tmp_path / "out/results/VOC2007/Main/comp2_cls_val_cat.txt").is_file()


def test_a_network_that_only_classifies_has_no_detection_files(tmp_path: Path) -> None:
    write_server_files(PREDICTIONS[2:], tmp_path / "out")
    names = [path.name for path in (tmp_path / "out/results/VOC2012/Main").iterdir()]
    assert sorted(names) == [f"comp2_cls_test_{name}.txt" for name in CLASSES]


def broken_off() -> Iterator[Prediction]:
    yield PREDICTIONS[0]
    raise KeyboardInterrupt


OTHER_CLASSES = replace(PREDICTIONS[1], classes=("dog", "cat", "tvmonitor"))
CASES = [
    ([], {}, "there are no predictions"),
    ([PREDICTIONS[0], PREDICTIONS[0]], {}, "'2008_000001': has two predictions"),
    ([PREDICTIONS[0], OTHER_CLASSES], {}, "'2008_000004': its classes are .'dog', 'cat'"),
    ([replace(PREDICTIONS[0], classes=("cat", "dog", "tv"))], {}, "class 'tv': .* twenty classes"),
    ([replace(PREDICTIONS[0], classes=("cat", "dog", "../../x"))], {}, "class '../../x'"),
    ([replace(PREDICTIONS[0], name="a b.jpg")], {}, "image 'a b.jpg': wanted an image id"),
    (PREDICTIONS, {"year": "../2012"}, "wanted a year such as VOC2012"),
    (PREDICTIONS, {"split": "te/st"}, "a split such as test"),
]


@pytest.mark.parametrize(("predictions", "options", "words"), CASES)
def test_what_the_server_would_refuse(tmp_path: Path, predictions: list, options: dict, words: str) -> None:
    with pytest.raises(DataError, match=words):
        write_server_files(predictions, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_work_that_was_broken_off(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_server_files(broken_off(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match=r"file.*cannot be written"):
        write_server_files(PREDICTIONS, tmp_path / "file" / "out")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(DataError, match="cannot be written"):
            write_server_files((replace(PREDICTIONS[0], name=str(n)) for n in range(1000)), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_files_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match=r"out: is already there and not empty. Give a new folder"):
        write_server_files(PREDICTIONS, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    (tmp_path / "out" / "mine.txt").unlink()
    assert write_server_files(PREDICTIONS, tmp_path / "out").is_file()


def test_the_classes_are_vocs_in_their_order() -> None:
    assert len(VOC_CLASSES) == 20
    assert list(VOC_CLASSES) == sorted(VOC_CLASSES)
