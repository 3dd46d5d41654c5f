"""Exports of Label Studio and CVAT are read as tags, and bad ones are named."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags


def region(label: str) -> dict:
    value = {"x": 1.0, "y": 2.0, "width": 30.0, "height": 40.0, "rotation": 0, "rectanglelabels": [label]}
    return {"type": "rectanglelabels", "from_name": "label", "to_name": "image", "value": value}


def choices(*labels: str) -> dict:
    return {"type": "choices", "from_name": "tag", "to_name": "image", "value": {"choices": list(labels)}}


def done(address: str, *results: list[dict], **more: object) -> dict:
    return {"data": {"image": address}, "annotations": [{"result": result} for result in results], **more}


TASKS = [
    done("/data/local-files/?d=photos/sub/b%20c.png", [choices("sofa"), region("dog"), region("dog")]),
    done("/data/upload/3/1f2e-a.jpg", [choices("dog", "cat")], [choices("dog")]),  # two people, who agree on the dog
    {"data": {"image": "photos/d.jpg"}, "annotations": [{"result": []}, {"was_cancelled": True, "result": None}]},
    {
        "data": {"image": "photos/e.jpg", "tags": ["cat"]},
        "predictions": [{"result": [region("dog")]}],
        "annotations": [],
    },
]
FILES = ("photos/sub/b c.png", "1f2e-a.jpg", "photos/d.jpg", "photos/e.jpg")
WANTED = [{"dog": "present", "sofa": "present"}, {"cat": "unknown", "dog": "present"}, {}, {"cat": "present"}]


def test_label_studio(make: Callable[..., Path], told: Callable) -> None:
    images = read_tags(make(*FILES, files={"export.json": "\ufeff " + json.dumps(TASKS)}))
    assert list(told(images).values()) == WANTED
    assert images.names == FILES


def test_label_studio_with_its_document_root_above(make: Callable[..., Path]) -> None:
    path = make(
        "photos/a.jpg", files={"exports/of/today.json": json.dumps([done("/data/local-files/?d=photos/a.jpg", [])])}
    )
    with pytest.raises(DataError, match="no image has a tag"):
        read_tags(path)
    assert read_tags(path, classes=["dog"]).paths[0].name == "a.jpg"


def test_label_studio_json_min(make: Callable[..., Path], told: Callable) -> None:
    tasks = [
        {"id": 1, "image": "a.jpg", "annotator": 1, "created_at": "2026", "tag": "dog", "lead_time": 3.5},
        {
            "id": 2,
            "image": "b.jpg",
            "tag": {"choices": ["dog", "sofa"]},
            "label": [{"x": 1, "rectanglelabels": ["cat"]}],
        },
    ]
    images = read_tags(make("a.jpg", "b.jpg", files={"min.json": json.dumps(tasks)}))
    assert told(images) == {"a.jpg": {"dog": "present"}, "b.jpg": dict.fromkeys(("cat", "dog", "sofa"), "present")}


BROKEN = [
    ([], "found a list of nothing, wanted a Label Studio export .* use .jsonl"),
    ([3], "task 1: found 3, wanted a Label Studio export"),
    ([{"data": {"text": "hello"}}], r"task 1: no entry of its data names an image \(found text\)"),
    (
        [{"data": {"image": "a.jpg"}, "annotations": []}],
        "task 1: nobody has annotated it, and it has no 'tags'. Label it",
    ),
    ([done("https://host/a.jpg", [])], "task 1: 'https://host/a.jpg' is on the network. Download"),
    ([done("s3://bucket/a.jpg", [])], "on the network"),
    ([{"data": {"image": "a.jpg"}, "annotations": [{"result": 3}]}], "task 1: 'result' is 3, wanted a list"),
    ([done("a.jpg", [choices("dog")]), done("a.jpg", [])], "'a.jpg' is already at task 1"),
    ([done("b.jpg", [choices("dog")])], r"1 of 1 images are not there: 'b.jpg' \(task 1\). Did you mean 'a.jpg'"),
]


@pytest.mark.parametrize(("tasks", "said"), BROKEN, ids=[said[:20] for _, said in BROKEN])
def test_label_studio_bad_input(make: Callable[..., Path], tasks: list, said: str) -> None:
    path = make("a.jpg", files={"export.json": json.dumps(tasks)})
    with pytest.raises(DataError, match=said) as error:
        read_tags(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_dpl_label_writes_for_label_studio_is_read_again(odd_labels: Callable[[str], tuple]) -> None:
    folder, images = odd_labels("label-studio")
    again = read_tags(folder / "tasks.json", classes=images.classes)
    assert [path.resolve() for path in again.paths] == [path.resolve() for path in images.paths]
    assert np.array_equal(again.labels == 1, images.labels == 1)  # what is unknown is lost


def test_what_dpl_label_writes_for_cvat_is_read_again(odd_labels: Callable[[str], tuple]) -> None:
    folder, images = odd_labels("cvat")
    again = read_tags(folder / "annotations.xml")
    assert again.classes == images.classes
    assert [path.resolve() for path in again.paths] == [path.resolve() for path in images.paths]
    assert np.array_equal(again.labels == 1, images.labels == 1)


@pytest.fixture
def odd_labels(tmp_path: Path, make: Callable[..., Path]) -> Callable[[str], tuple]:
    from deep_patch_learning.inference.prediction import Prediction
    from deep_patch_learning.labels.write import LabelTarget, write_labels

    lines = [{"image": "a b.jpg", "tags": ["dog", "é"]}, {"image": "c/d%.png", "tags": [], "unknown": ["dog"]}]
    path = make("a b.jpg", "c/d%.png", files={"t.jsonl": "\n".join(map(json.dumps, lines))})
    images = read_tags(path)

    def write(format: str) -> tuple:
        nothing = np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)
        best = np.tile([0, 0, 4, 4], (2, 1))
        found = [
            Prediction(name, images.classes, 4, 4, np.zeros(2), *nothing, best_boxes=best) for name in images.names
        ]
        write_labels(found, images, LabelTarget(path.parent / "labels", format))
        return path.parent / "labels", images

    return write


CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version>
<meta><project><labels><label><name>dog</name></label><label><name>cat</name></label><label><name>sofa</name></label></labels>
</project></meta>
<image id="0" name="a.jpg" subset="train" width="4" height="4"><tag label="dog" source="manual"/>
  <box label="sofa" xtl="1" ytl="1" xbr="2" ybr="2" occluded="0" z_order="0"><attribute name="hard">true</attribute></box>
  <polygon label="dog" points="1,1;2,2;1,2"/></image>
<image id="1" name="b.jpg" subset="val" width="4" height="4"/>
</annotations>"""


@pytest.mark.parametrize("place", ["a.jpg b.jpg", "images/a.jpg images/b.jpg", "images/train/a.jpg images/val/b.jpg"])
def test_cvat(make: Callable[..., Path], place: str) -> None:
    path = make(*place.split(), files={"annotations.xml": CVAT})
    images = read_tags(path)
    assert images.classes == ("dog", "cat", "sofa")
    assert [[images.classes[i] for i in np.flatnonzero(row == 1)] for row in images.labels] == [["dog", "sofa"], []]
    assert [path.name for path in read_tags(path, "val").paths] == ["b.jpg"]


CVAT_BROKEN = [
    ("<annotations>", "line 1, column 14: not XML"),
    ("<annotation><object/></annotation>", 'found <annotation>, wanted annotations of "CVAT for images 1.1"'),
    ("<annotations><track id='0'/></annotations>", "holds the tracks of a video"),
    ("<annotations><image id='0'/></annotations>", "image 1: has no name"),
    ("<annotations/>", "holds no image"),
    ("", "the file is empty"),
    (CVAT.replace("b.jpg", "B.jpg"), r"1 of 2 images are not there: .*B.jpg' \(image 2\). Did you mean 'b.jpg'"),
]


@pytest.mark.parametrize(("text", "said"), CVAT_BROKEN, ids=[said[:20] for _, said in CVAT_BROKEN])
def test_cvat_bad_input(make: Callable[..., Path], text: str, said: str) -> None:
    path = make("a.jpg", "b.jpg", files={"annotations.xml": text})
    with pytest.raises(DataError, match=said) as error:
        read_tags(path)
    assert str(path) in str(error.value)
