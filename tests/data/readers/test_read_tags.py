"""What holds for every kind: how it is recognised, how a split file is read, and that no box is touched."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import Kind, read_tags, recognise

KINDS = [
    ("t.csv", Kind.CSV),
    ("T.CSV", Kind.CSV),
    ("t.json", Kind.COCO),
    ("t.jsonl", Kind.JSON_LINES),
    ("t.ndjson", Kind.JSON_LINES),
    ("dog", Kind.FOLDERS),
    ("JPEGImages", Kind.VOC),
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_kind_is_told_by_the_path(tmp_path: Path, name: str, kind: Kind) -> None:
    path = tmp_path / name
    if "." in name:
        path.touch()
        assert recognise(path) == (kind, path)
    else:
        path.mkdir()
        assert recognise(str(tmp_path)) == (kind, tmp_path)


WRONG = [
    ("tgas.csv", ["tgas.csv: there is no such file or folder", "Did you mean 'tags.csv'?", "Wanted a VOC folder"]),
    ("none/x", ["there is no such file or folder. Wanted a VOC folder"]),
    ("a.jpg", ["found one image, which is not a data set"]),
    ("x.zip", ["found a file ending in '.zip'"]),
    (".", ["the tag file tags.csv", "Give that file"]),
]


@pytest.mark.parametrize(("name", "fragments"), WRONG)
def test_what_is_no_data_set(make: Callable[..., Path], tmp_path: Path, name: str, fragments: list[str]) -> None:
    make("a.jpg", "images/b.jpg", files={"tags.csv": "image,tags\na.jpg,dog", "x.zip": "PK"})
    with pytest.raises(DataError) as caught:
        read_tags(tmp_path / name)
    for fragment in fragments:
        assert fragment in str(caught.value)


LISTS = [
    ("b.jpg\na.jpg\n", None),
    ("\ufeff./b.jpg\r\n\r\n a.jpg", None),
    ("", ["few.txt: the file is empty", "one image name per line"]),
    ("a.jpg\nbb.jpg", ["few.txt, line 2", "has no image 'bb.jpg'", "Did you mean 'b.jpg'?"]),
    ("a.jpg\nb.jpg\na.jpg", ["few.txt, line 3", "'a.jpg' is already on line 1"]),
    (b"a.jpg\n\xff", ["few.txt, line 2", "UTF-8"]),
]


@pytest.mark.parametrize(("text", "fragments"), LISTS)
def test_split_file(make: Callable[..., Path], text: str | bytes, fragments: list[str] | None) -> None:
    path = make("a.jpg", "b.jpg", files={"few.txt": text, "t.csv": "image,tags\na.jpg,dog\nb.jpg,cat\n"})
    if fragments is None:
        assert read_tags(path, "few.txt").names == ("b.jpg", "a.jpg")
        return
    with pytest.raises(DataError) as caught:
        read_tags(path, path.parent / "few.txt")
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_unknown_split(make: Callable[..., Path]) -> None:
    path = make("a.jpg", files={"t.csv": "image,tags\na.jpg,dog\n"})
    with pytest.raises(
        DataError, match=r"t\.csv: there is no split 'val'. This data has no splits of its own. Or give"
    ):
        read_tags(path, "val")
    path = make(files={"u.csv": "image,tags,split\na.jpg,dog,train\n"})
    with pytest.raises(DataError, match=r"no split 'trian'. Did you mean 'train'\?"):
        read_tags(path, "trian")
    with pytest.raises(DataError, match=r"no split 'xyz'. Choose one of: train\."):
        read_tags(path, "xyz")


def test_reading_tags_imports_nothing_that_knows_boxes_and_nothing_heavy() -> None:
    code = (
        "import sys, deep_patch_learning.data.readers.read;"
        "print([m for m in sys.modules if m == 'deep_patch_learning.data.truth'"
        " or m.split('.')[0] in ('cv2', 'numba', 'torchvision', 'lightning_fabric')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
