import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth


def plain(truth: list[TrueBoxes] | None) -> list[list[tuple[list[float], int, bool]]]:
    assert truth is not None
    for one in truth:
        assert (one.boxes.dtype, one.classes.dtype, one.difficult.dtype) == (np.float32, np.int64, bool)
        assert one.boxes.shape == (len(one.classes), 4)
    return [list(zip(t.boxes.tolist(), t.classes.tolist(), t.difficult.tolist(), strict=True)) for t in truth]


def annotation(*objects: str) -> str:
    return "<annotation>" + "".join(f"<object>{inner}</object>" for inner in objects) + "</annotation>"


def bndbox(x1: object, y1: object, x2: object, y2: object) -> str:
    return f"<bndbox><xmax>{x2}</xmax><xmin>{x1}</xmin><ymin>{y1}</ymin><ymax>{y2}</ymax></bndbox>"


@pytest.fixture
def voc(make: Callable[..., Path], tmp_path: Path) -> Path:
    first = annotation(
        f"<name>dog</name>{bndbox(1, 1, 4, 3)}<part><name>leg</name>{bndbox(9, 9, 9, 9)}</part>",
        f"<name>cat</name><difficult>1</difficult>{bndbox(2, 3, 2, 3)}",
    )
    files = {"JPEGImages/.keep": "", "Annotations/1.xml": first, "Annotations/2.xml": annotation()}
    make("JPEGImages/1.jpg", "JPEGImages/2.jpg", files=files)
    return tmp_path


def test_voc_counts_from_one_and_includes_its_corners(voc: Path) -> None:
    images = read_tags(voc)
    # The image is 4 x 3: a box over all of it, and a box of one pixel.
    assert plain(read_truth(voc, images)) == [[([0, 0, 4, 3], 1, False), ([1, 2, 2, 3], 0, True)], []]
    assert plain(read_truth(voc, images.subset([1, 0])))[0] == []
    assert read_truth(voc, images.subset([])) == []


def test_voc_without_annotations_has_no_boxes(make: Callable[..., Path], voc: Path, tmp_path: Path) -> None:
    images = read_tags(voc)
    (voc / "Annotations").rename(tmp_path / "away")
    assert read_truth(voc, images) is None


BROKEN_VOC = [
    ("no box", "<name>dog</name>", ["1.xml, object 1", "wanted a bndbox with xmin"]),
    ("not a number", f"<name>dog</name>{bndbox(1, 'x', 2, 2)}", ["1.xml, object 1", "'x'", "all numbers"]),
    ("ends before", f"<name>dog</name>{bndbox(5, 1, 2, 2)}", ["1.xml, object 1", "ends before it begins"]),
    ("not finite", f"<name>dog</name>{bndbox(1, 1, 'nan', 2)}", ["1.xml, object 1", "nan"]),
    ("class", f"<name>dgo</name>{bndbox(1, 1, 2, 2)}", ["1.xml, object 1", "'dgo'", "Did you mean 'dog'?"]),
]


@pytest.mark.parametrize(("inner", "fragments"), [c[1:] for c in BROKEN_VOC], ids=[c[0] for c in BROKEN_VOC])
def test_broken_voc_boxes(voc: Path, inner: str, fragments: list[str]) -> None:
    images = read_tags(voc)
    (voc / "Annotations/1.xml").write_text(annotation(inner))
    with pytest.raises(DataError) as caught:
        read_truth(voc, images)
    for fragment in fragments:
        assert fragment in str(caught.value)


def coco(*annotations: dict[str, object]) -> str:
    images = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}]
    categories = [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}]
    return json.dumps({"images": images, "annotations": annotations, "categories": categories})


def test_coco_gives_corner_and_size(make: Callable[..., Path]) -> None:
    text = coco(
        {"image_id": 2, "category_id": 5, "bbox": [1, 2, 0.5, 1]},
        {"image_id": 2, "category_id": 2, "bbox": [0, 0, 4, 3], "iscrowd": 1},
        {"image_id": 2, "category_id": 2, "bbox": [1, 1, 0, 0]},
    )
    path = make("imgs/a.jpg", "images/a.jpg", "images/b.jpg", files={"annotations/x.json": text})
    images = read_tags(path)
    found = [([1, 2, 1.5, 3], 1, False), ([0, 0, 4, 3], 0, True), ([1, 1, 1, 1], 0, False)]
    assert plain(read_truth(path, images)) == [[], found]
    assert read_truth(path, images)[1].of_class(0, with_difficult=False).tolist() == [[1, 1, 1, 1]]  # type: ignore[index]


def test_coco_without_boxes_or_with_broken_ones(make: Callable[..., Path]) -> None:
    one = {"image_id": 1, "category_id": 5}
    path = make("a.jpg", "b.jpg", files={"x.json": coco(one)})
    images = read_tags(path)
    assert read_truth(path, images) is None
    for box, fragment in ([[1, 2, 3], "wanted a bbox"], [None, "wanted a bbox"], [[1, 1, -1, 1], "ends before"]):
        path.write_text(coco({**one, "bbox": [0, 0, 1, 1]}, {**one, "bbox": box}))
        with pytest.raises(DataError, match=rf"annotations\[1\]: .*{fragment}"):
            read_truth(path, images)


def test_json_lines(make: Callable[..., Path]) -> None:
    boxes = [{"tag": "dog", "box": [0, 0, 2, 2]}, {"tag": " dog", "box": [1, 1, 2, 2.5], "difficult": True}]
    rows = [{"image": "a.jpg", "tags": ["dog"], "boxes": boxes}, {"image": "./b.jpg", "tags": ["cat"], "boxes": []}]
    path = make("a.jpg", "b.jpg", files={"t.jsonl": "\n".join(map(json.dumps, rows))})
    wanted = [[([0, 0, 2, 2], 1, False), ([1, 1, 2, 2.5], 1, True)], []]
    assert plain(read_truth(path, read_tags(path))) == wanted


BROKEN_LINES = [
    ("not a list", {"tag": "dog"}, ["line 1", "'boxes' is {'tag': 'dog'}", "wanted a list"]),
    ("no tag", [{"box": [0, 0, 1, 1]}], ["line 1, boxes[0]", '"tag": "dog"']),
    ("no box", [{"tag": "dog"}], ["line 1, boxes[0]", "found None", "wanted a box [x1, y1, x2, y2]"]),
    ("short", [{"tag": "dog", "box": [1, 2]}], ["line 1, boxes[0]", "found [1, 2]"]),
    ("some without", [], ["line 2", "'b.jpg' has no 'boxes'"]),
]


@pytest.mark.parametrize(("boxes", "fragments"), [c[1:] for c in BROKEN_LINES], ids=[c[0] for c in BROKEN_LINES])
def test_broken_json_lines_boxes(make: Callable[..., Path], boxes: object, fragments: list[str]) -> None:
    rows = [{"image": "a.jpg", "tags": ["dog"], "boxes": boxes}, {"image": "b.jpg", "tags": ["cat"]}]
    path = make("a.jpg", "b.jpg", files={"t.jsonl": "\n".join(map(json.dumps, rows))})
    images = read_tags(path)  # does not look at boxes
    with pytest.raises(DataError) as caught:
        read_truth(path, images)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)
    assert read_truth(path, images.subset([1])) is None, "the images asked for have none"


def test_kinds_without_boxes_and_images_of_other_data(make: Callable[..., Path], tmp_path: Path, voc: Path) -> None:
    path = make("x/a.jpg", files={"x/t.csv": "image,tags\na.jpg,dog\n"})
    images = read_tags(path)
    assert read_truth(path, images) is None
    (tmp_path / "y").mkdir()
    make("y/dog/a.jpg")
    assert read_truth(tmp_path / "y", read_tags(tmp_path / "y")) is None
    other = make("q.jpg", files={"t.jsonl": '{"image": "q.jpg", "tags": ["dog"], "boxes": []}'})
    with pytest.raises(DataError, match=r"has no image '1'\. Read the tags and the boxes from the same data"):
        read_truth(other, replace(read_tags(voc), names=("q.jpg", "1")))
    row = '{"image": "q.jpg", "tags": ["dog"], "boxes": [{"tag": "dgo", "box": [0, 0, 1, 1]}]}'
    wrong = make(files={"t.jsonl": row})
    with pytest.raises(DataError, match=r"line 1, boxes\[0\]: unknown class 'dgo'\. Did you mean 'dog'\?"):
        read_truth(wrong, read_tags(wrong))


@pytest.mark.voc
def test_real_voc_boxes_lie_in_their_images_and_agree_with_the_tags(real_voc: Path) -> None:
    images = read_tags(real_voc, "val").subset(range(0, 2508, 10))
    truth = read_truth(real_voc, images)
    assert truth is not None
    for index, one in enumerate(truth):
        size = ElementTree.parse(real_voc / "Annotations" / f"{images.names[index]}.xml").find("size")
        assert size is not None
        width, height = int(size.findtext("width") or 0), int(size.findtext("height") or 0)
        assert (one.boxes[:, :2] >= 0).all()
        assert (one.boxes[:, 2:] <= [width, height]).all()
        assert set(one.classes[~one.difficult]) == set(np.flatnonzero(images.labels[index] == 1))
        assert set(one.classes) == set(np.flatnonzero(images.labels[index] != 0))
