"""Tags and boxes that no program writes: each is a `DataError` of one line that names the place, never anything else."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from deep_patch_learning.commands.check import check
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.arrow import content_of
from deep_patch_learning.data.readers.read import named_splits, read_tags
from deep_patch_learning.data.truth import read_truth

HUNDREDS, THOUSANDS = "1" + "0" * 400, "1" + "0" * 5000
JSON_LINE = '{"image": "a.jpg", "tags": ["dog"], "boxes": [{"tag": "dog", "box": [0, 0, %s, 5]}]}'
COCO = (
    '{"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "dog"}], '
    '"annotations": [{"image_id": %s, "category_id": 1, "bbox": %s}]}'
)
NESTED = "[" * 900 + "]" * 900

FILES = {
    "NUL in a CSV tag": ("t.csv", "image,tags\na.jpg,d\0og\n", "tag 'd\\x00og' holds a NUL"),
    "NUL in a CSV path": ("t.csv", "image,tags\na\0.jpg,dog\n", "name 'a\\x00.jpg' holds a NUL"),
    "lone surrogate as tag": (
        "t.jsonl",
        '{"image": "a.jpg", "tags": ["\\udfff"]}',
        "line 1: the tag '\\udfff' holds half",
    ),
    "lone surrogate as path": ("t.jsonl", '{"image": "\\ud800.jpg", "tags": ["dog"]}', "name '\\ud800.jpg' holds half"),
    "lone surrogate as category": ("t.json", (COCO % (1, [0, 0, 1, 1])).replace("dog", "\\ud834"), "holds half"),
    "tags of thousands of digits": (
        "t.jsonl",
        f'{{"image": "a.jpg", "tags": {THOUSANDS}}}',
        "line 1: holds a number of th",
    ),
    "tags of hundreds of digits": ("t.jsonl", f'{{"image": "a.jpg", "tags": {HUNDREDS}}}', "wanted a list of strings"),
    "corner of 10**400": ("t.jsonl", JSON_LINE % HUNDREDS, r"line 1, boxes[0]: found [0, 0, 1000000000"),
    "corner of 10**5000": ("t.jsonl", JSON_LINE % THOUSANDS, "holds a number of thousands of digits"),
    "corner that is beyond any image": ("t.jsonl", JSON_LINE % "1e300", "lies beyond any image"),
    "box that is text": ("t.jsonl", JSON_LINE.replace("[0, 0, %s, 5]", '"0055"'), "found '0055', wanted a box"),
    "bbox of 10**400": ("t.json", COCO % (1, f"[0, 0, {HUNDREDS}, 1]"), "annotations[0]: found [0, 0, 10000"),
    "image id of 10**400": ("t.json", COCO % (HUNDREDS, "[0, 0, 1, 1]"), "image_id 1000000000"),
    "image id of 10**5000": ("t.json", COCO % (THOUSANDS, "[0, 0, 1, 1]"), "holds a number of thousands of digits"),
    "nested bbox": ("t.json", COCO % (1, NESTED), "annotations[0]: found [[[[...]]]], wanted a bbox"),
    "nested tags": ("t.jsonl", f'{{"image": "a.jpg", "tags": {NESTED}}}', "'tags' is [[[[...]]]], wanted"),
    "nested without end": ("t.json", "[" * 100_000, "nested too deep"),
}


@pytest.mark.parametrize(("name", "text", "said"), FILES.values(), ids=FILES)
def test_hostile_tag_files(tmp_path: Path, name: str, text: str, said: str) -> None:
    Image.new("RGB", (16, 12)).save(tmp_path / "a.jpg")
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_truth(path, read_tags(path))
    told = str(caught.value)
    assert said in told
    assert told.startswith(str(path))
    assert "\n" not in told
    assert len(told) < 400 + 3 * len(str(path))


OBJECT = (
    "<annotation><object><name>dog</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>%s</xmax><ymax>9</ymax></bndbox>"
)
OBJECT += "</object></annotation>"
ENTITIES = "".join(
    f'<!ENTITY {letter} "{f"&{before};" * 20}">' for before, letter in zip("abcdefghi", "bcdefghij", strict=True)
)
ANNOTATIONS = {
    **{
        f"encoding {name}": (f'<?xml version="1.0" encoding="{name}"?>' + OBJECT % 9, "not XML that can be read")
        for name in ("x-none", "utf-7", "utf-16", "hex", "idna", "big5", "rot13")
    },
    "corner of 10**400": (OBJECT % HUNDREDS, "ends before it begins"),
    "corner of 10**30": (OBJECT % ("1" + "0" * 30), "lies beyond any image"),
    "difficult of 5,000 digits": (OBJECT.replace("<bndbox>", f"<difficult>{THOUSANDS}</difficult><bndbox>") % 9, "0 or 1"),
    "entities that multiply": (
        f'<!DOCTYPE a [<!ENTITY a "{"a" * 30}">{ENTITIES}]><annotation><object><name>&j;</name></object></annotation>',
        "amplification",
    ),
    "entity of another file": (
        '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation><object><name>&a;</name></object></annotation>',
        "undefined entity",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_hostile_annotations(tmp_path: Path, text: str, said: str) -> None:
    for folder in ("JPEGImages", "Annotations"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (16, 12)).save(tmp_path / "JPEGImages" / "a.jpg")
    (tmp_path / "Annotations" / "a.xml").write_text(text)
    with pytest.raises(DataError) as caught:
        read_truth(tmp_path, read_tags(tmp_path))
    told = str(caught.value)
    assert said in told
    assert str(tmp_path / "Annotations" / "a.xml") in told
    assert "\n" not in told
    assert len(told) < 500


@pytest.mark.parametrize("name", ["Annotations/a.xml", "ImageSets/Main/x.txt"])
def test_a_pipe_in_a_voc_folder_is_never_waited_for(tmp_path: Path, name: str) -> None:
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tmp_path / folder).mkdir(parents=True)
    Image.new("RGB", (16, 12)).save(tmp_path / "JPEGImages" / "a.jpg")
    (tmp_path / "Annotations" / "a.xml").write_text(OBJECT % 9)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: this is a pipe or a device"):
        read_tags(tmp_path)
    if name.endswith(".txt"):
        with pytest.raises(DataError, match=rf"{name}: this is a pipe or a device"):
            named_splits(tmp_path)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_a_pipe_in_place_of_a_list_is_never_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="this is a pipe or a device"):
        read_tags(tmp_path / name)


def test_the_image_that_a_row_names_is_no_device() -> None:
    with pytest.raises(DataError, match="/dev/zero: this is a pipe or a device"):
        content_of({"bytes": None, "path": "/dev/zero"}, "a row")


def test_a_folder_that_is_not_utf8_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        Image.new("RGB", (16, 12)).save(folder / name / "a.png")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    for place in (folder, Path("../link"), Path()):
        with pytest.raises(DataError, match=r"must be UTF-8, and this one is not. Rename its folder"):
            read_tags(place)


MANY = 100_000  # compared with each other they take hours


def test_many_classes_of_one_name_are_not_compared_with_each_other(tmp_path: Path) -> None:
    Image.new("RGB", (16, 12)).save(tmp_path / "a.jpg")
    names = [*map(str, range(MANY)), "dog", "dog"]
    categories = [{"id": number, "name": name} for number, name in enumerate(names)]
    images = [{"id": 1, "file_name": "a.jpg"}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"images": images, "annotations": [], "categories": categories}))
    with pytest.raises(DataError, match="two categories are named 'dog'"):
        read_tags(path)
    (tmp_path / "t.csv").write_text("image,tags\na.jpg,dog\n")
    with pytest.raises(DataError, match="'dog' is given twice"):
        read_tags(tmp_path / "t.csv", classes=names)


def test_more_splits_than_are_compared(tmp_path: Path) -> None:
    rows = ["image,tags,split"]
    for number in range(101):
        rows.append(f"{number}.jpg,dog,{number}")
        Image.new("RGB", (16, 12)).save(tmp_path / f"{number}.jpg")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"names 101 splits, of which at most 100 are compared. Give --against"):
        check(tmp_path / "t.csv")
