import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags

COCO: dict[str, Any] = {
    "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 3, "file_name": "b.jpg"}, {"id": 5, "file_name": "c.jpg"}],
    "annotations": [
        {"image_id": 7, "category_id": 18, "iscrowd": 1},
        {"image_id": 7, "category_id": 18, "iscrowd": 0},
        {"image_id": 7, "category_id": 1, "iscrowd": 1, "bbox": "not looked at"},
        {"image_id": 3, "category_id": 1},
    ],
    "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 90, "name": "ant"}],
}


def test_crowds_alone_are_unknown_and_classes_go_by_id(make: Callable[..., Path], told: Callable) -> None:
    images = read_tags(make("a.jpg", "b.jpg", "c.jpg", files={"x.json": json.dumps(COCO)}))
    assert images.classes == ("person", "dog", "ant")
    assert told(images) == {
        "a.jpg": {"dog": "present", "person": "unknown"},
        "b.jpg": {"person": "present"},
        "c.jpg": {},
    }


@pytest.mark.parametrize("place", ["annotations", "val2017", "images", "images/val2017", "."])
def test_images_are_found_where_coco_and_its_exporters_put_them(make: Callable[..., Path], place: str) -> None:
    names = [f"{place}/{name}.jpg" for name in "abc"]
    path = make(*names, files={"annotations/instances_val2017.json": json.dumps(COCO)})
    images = read_tags(path)
    assert images.names == ("a.jpg", "b.jpg", "c.jpg")
    assert all(path.is_file() for path in images.paths)


def test_split_is_a_text_file(make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"few.txt": "c.jpg\n\n a.jpg \n", "x.json": json.dumps(COCO)}
    path = make("a.jpg", "b.jpg", "c.jpg", files=files)
    assert read_tags(path, str(tmp_path / "few.txt")).names == ("c.jpg", "a.jpg")
    assert read_tags(path, "few.txt").names == ("c.jpg", "a.jpg"), "beside the data"
    monkeypatch.chdir(tmp_path)
    assert read_tags("x.json", "few.txt").names == ("c.jpg", "a.jpg"), "in the working folder"
    assert read_tags(path, "few.txt").classes == ("person", "dog", "ant")


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    content = copy.deepcopy(COCO)
    change(content)
    return json.dumps(content)


BROKEN = [
    ("empty", "", ["the file is empty", "'images', 'annotations' and 'categories'"]),
    ("broken json", '{"images": [],\n "annotations" []}', ["line 2, column 16", "not JSON"]),
    ("json lines", '{"image": "a.jpg"}\n{"image": "b.jpg"}', ["line 2, column 1", "name the file .jsonl"]),
    ("a list", "[]", ["found a list", "use .jsonl"]),
    ("no images", changed(lambda c: c.pop("images")), ["no list 'images'", "found annotations, categories"]),
    ("no annotations", changed(lambda c: c.pop("annotations")), ["no list 'annotations'"]),
    ("no image at all", changed(lambda c: c.update(images=[], annotations=[])), ["holds no image"]),
    ("no file name", changed(lambda c: c["images"][1].pop("file_name")), ["images[1]", "{'id': 3}", "'file_name'"]),
    ("image not an object", changed(lambda c: c["images"].append(4)), ["images[3]", "found 4"]),
    ("empty name", changed(lambda c: c["categories"][0].update(name=" ")), ["categories[0]", "'name' is ' '"]),
    ("id twice", changed(lambda c: c["images"][1].update(id=7)), ["images[1]", "the id 7 is there twice"]),
    ("category twice", changed(lambda c: c["categories"][1].update(name="dog")), ["two categories are named 'dog'"]),
    ("image twice", changed(lambda c: c["images"][1].update(file_name="a.jpg")), ["images[1]", "at images[0]"]),
    ("stray image", changed(lambda c: c["annotations"][2].update(image_id=99)), ["annotations[2]", "image_id 99"]),
    ("stray class", changed(lambda c: c["annotations"][3].update(category_id=2)), ["annotations[3]", "category_id 2"]),
    ("no category", changed(lambda c: c["annotations"][0].pop("category_id")), ["annotations[0]", "'category_id'"]),
    ("odd id", changed(lambda c: c["annotations"][0].update(image_id=[1])), ["annotations[0]", "'image_id'"]),
    ("missing image", changed(lambda c: c["images"][2].update(file_name="q.jpg")), ["1 of 3", "'q.jpg' (images[2])"]),
]


@pytest.mark.parametrize(("text", "fragments"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_coco(make: Callable[..., Path], text: str, fragments: list[str]) -> None:
    path = make("a.jpg", "b.jpg", "c.jpg", files={"x.json": text})
    with pytest.raises(DataError) as caught:
        read_tags(path)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)


def test_unknown_class_matters_only_where_it_is_used(make: Callable[..., Path]) -> None:
    path = make("a.jpg", "b.jpg", "c.jpg", files={"x.json": json.dumps(COCO)})
    assert read_tags(path, classes=["dog", "person"]).classes == ("dog", "person")
    with pytest.raises(DataError, match=r"images\[0\]: unknown class 'dog'. Did you mean 'dogs'\?"):
        read_tags(path, classes=["dogs", "person"])


def test_a_coco_folder_asks_for_the_json(make: Callable[..., Path], tmp_path: Path) -> None:
    make("val2017/a.jpg", files={"annotations/instances_val2017.json": "{}"})
    with pytest.raises(DataError, match=r"holds a COCO data set. Give one of its json files.*instances_val2017.json"):
        read_tags(tmp_path)
