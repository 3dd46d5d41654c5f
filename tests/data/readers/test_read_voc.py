from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags

MAIN = "VOC2007/ImageSets/Main"
# One image of each state for each class: dog present / only difficult / absent, and a class named like a split.
OBJECTS = {"1": [("dog", 0), ("dog", 1)], "2": [("dog", 1), ("train", 0)], "3": [], "4": [("cat", 0)]}
SPLITS = {"train": ["1", "3"], "val": ["2", "4"], "trainval": ["1", "2", "3", "4"]}
STATES = {"dog": {"1": 1, "2": 0}, "train": {"2": 1}, "cat": {"4": 1}}


def annotation(objects: list[tuple[str, int]]) -> str:
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
    part = f"<part><name>head</name>{box}</part>"
    inner = "".join(f"<object><name>{n}</name><difficult>{d}</difficult>{box}{part}</object>" for n, d in objects)
    return f"<annotation><folder>VOC2007</folder>{inner}</annotation>"


@pytest.fixture
def voc(make: Callable[..., Path], tmp_path: Path) -> Path:
    """Return a VOCdevkit with four images in VOC2007."""
    files = {f"VOC2007/Annotations/{name}.xml": annotation(objects) for name, objects in OBJECTS.items()}
    for split, names in SPLITS.items():
        files[f"{MAIN}/{split}.txt"] = "".join(f"{name}\n" for name in names)
        for tag, states in STATES.items():
            files[f"{MAIN}/{tag}_{split}.txt"] = "".join(f"{name} {states.get(name, -1):2d}\n" for name in names)
    make(*(f"VOC2007/JPEGImages/{name}.jpg" for name in "12345"), files=files)
    return tmp_path


def test_three_states_from_the_class_lists(voc: Path, told: Callable) -> None:
    images = read_tags(voc / "VOC2007")
    assert images.classes == ("cat", "dog", "train")
    assert told(images) == {
        "1": {"dog": "present"},
        "2": {"dog": "unknown", "train": "present"},
        "3": {},
        "4": {"cat": "present"},
    }
    assert images.paths[1] == voc / "VOC2007/JPEGImages/2.jpg"


@pytest.mark.parametrize("split", ["train", "val", "trainval"])
def test_lists_and_annotations_say_the_same(voc: Path, split: str) -> None:
    from_lists = read_tags(voc / "VOC2007", split)
    assert from_lists.names == tuple(SPLITS[split])
    for path in (voc / MAIN).glob("*_*.txt"):
        path.unlink()
    from_annotations = read_tags(voc / "VOC2007", split)
    assert from_annotations.names == from_lists.names
    assert from_annotations.classes == from_lists.classes, "all classes of the folder, whatever the split"
    assert from_annotations.labels.tolist() == from_lists.labels.tolist()


def test_devkit_above_and_no_lists_at_all(voc: Path, told: Callable) -> None:
    assert read_tags(voc).names == ("1", "2", "3", "4")
    for path in (voc / MAIN).glob("*.txt"):
        path.unlink()
    (voc / "VOC2007/JPEGImages/5.jpg").unlink()
    assert told(read_tags(voc))["2"] == {"dog": "unknown", "train": "present"}


def test_no_trainval_means_every_image(voc: Path) -> None:
    (voc / MAIN / "trainval.txt").unlink()
    (voc / "VOC2007/Annotations/5.xml").write_text(annotation([("zebra", 0)]))
    assert read_tags(voc).names == ("1", "2", "3", "4", "5")


def test_a_list_of_ones_own_in_a_file_or_in_the_folder(voc: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("4\n1\n")
    (voc / MAIN / "few_val.txt").write_text("2\n")
    assert read_tags(voc, tmp_path / "mine.txt").names == ("4", "1")
    assert read_tags(voc, "few_val").names == ("2",)
    assert read_tags(voc, "few_val").classes == ("cat", "dog", "train")
    assert read_tags(voc, "val").classes == ("cat", "dog", "train"), "few_val is a split, not the class few"


def test_other_suffixes_are_found(voc: Path, make: Callable[..., Path]) -> None:
    (voc / "VOC2007/JPEGImages/3.jpg").unlink()
    make("VOC2007/JPEGImages/3.png")
    assert read_tags(voc, "train").paths[1].name == "3.png"


BROKEN: list[tuple[str, dict[str, str | bytes | None], str | None, list[str]]] = [
    ("unknown split", {}, "trian", ["VOC2007: there is no split 'trian'", "Did you mean 'train'?"]),
    ("empty list", {f"{MAIN}/train.txt": ""}, "train", ["train.txt: the file is empty", "one image id per line"]),
    ("missing image", {"VOC2007/JPEGImages/3.jpg": None}, "train", ["train.txt", "'3' (line 2)", "3.jpg"]),
    ("twice", {f"{MAIN}/train.txt": "1\n3\n1\n"}, "train", ["train.txt, line 3", "'1' is already at line 1"]),
    ("bad state", {f"{MAIN}/dog_train.txt": "1 1\n3 2\n"}, "train", ["dog_train.txt, line 2", "'3 2'", "1, -1 or 0"]),
    ("two states", {f"{MAIN}/dog_train.txt": "1 1\n3 0\n1 0"}, "train", ["dog_train.txt, line 3", "two states"]),
    ("no state", {f"{MAIN}/dog_train.txt": "1 1\n"}, "train", ["dog_train.txt: has no line for '3'", "Add '3 -1'"]),
    ("no class list", {f"{MAIN}/dog_train.txt": None}, "train", ["no class list for 'dog'", "cat_train.txt"]),
    ("no annotation", {f"{MAIN}/few.txt": "5\n"}, "few", ["Annotations/5.xml", "no such annotation"]),
    ("broken xml", {f"{MAIN}/few.txt": "1", "VOC2007/Annotations/1.xml": "<a>\n<b"}, "few", ["1.xml", "line 2"]),
    (
        "no name",
        {f"{MAIN}/few.txt": "1", "VOC2007/Annotations/1.xml": "<a><object/></a>"},
        "few",
        ["1.xml, object 1", "no name"],
    ),
    (
        "bad difficult",
        {f"{MAIN}/few.txt": "1", "VOC2007/Annotations/1.xml": annotation([("dog", 7)])},
        "few",
        ["1.xml, object 1", "difficult is '7', wanted 0 or 1"],
    ),
    ("latin-1", {f"{MAIN}/train.txt": b"1\n\xe9"}, "train", ["train.txt, line 2", "UTF-8"]),
]


@pytest.mark.parametrize(("files", "split", "fragments"), [case[1:] for case in BROKEN], ids=[c[0] for c in BROKEN])
def test_broken_voc(
    voc: Path, make: Callable[..., Path], files: dict[str, str | bytes | None], split: str, fragments: list[str]
) -> None:
    for name, content in files.items():
        if content is None:
            (voc / name).unlink()
        else:
            make(files={name: content})
    with pytest.raises(DataError) as caught:
        read_tags(voc, split)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_unknown_class_and_no_source_of_tags(voc: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"trainval.txt, line 2: unknown class 'train'. Did you mean 'trains'\?"):
        read_tags(voc, classes=["cat", "dog", "trains"])
    (tmp_path / "mine.txt").write_text("1")
    with pytest.raises(DataError, match=r"mine.txt, line 1 \(Annotations/1.xml\): unknown class 'dog'"):
        read_tags(voc, tmp_path / "mine.txt", classes=["cat"])
    (voc / "VOC2007/Annotations").rename(tmp_path / "away")
    with pytest.raises(DataError, match=r"no class lists such as dog_mine\.txt go with it, and .* has no Annotations"):
        read_tags(voc / "VOC2007", str(tmp_path / "mine.txt"))


def test_two_folders_in_a_devkit(voc: Path) -> None:
    (voc / "VOC2012/JPEGImages").mkdir(parents=True)
    with pytest.raises(DataError, match=r"holds 2 VOC folders \(VOC2007, VOC2012\). Give one of them"):
        read_tags(voc)


@pytest.mark.voc
@pytest.mark.parametrize("split", ["train", "val"])
def test_real_voc_lists_agree_with_the_annotations(real_voc: Path, split: str) -> None:
    images = read_tags(real_voc, split)
    listed = (real_voc / "ImageSets" / "Main" / f"{split}.txt").read_text().split()
    assert list(images.names) == listed
    assert images.labels.shape == (len(listed), 20)
    assert images.classes == tuple(sorted(images.classes))
    states = np.zeros_like(images.labels)
    for index, name in enumerate(images.names):
        for element in ElementTree.parse(real_voc / "Annotations" / f"{name}.xml").iter("object"):
            column = images.classes.index(element.findtext("name") or "")
            if element.findtext("difficult") == "0":
                states[index, column] = 1
            elif states[index, column] == 0:
                states[index, column] = -1
    assert (states == images.labels).all()
    assert (images.labels == -1).any()


@pytest.mark.voc
def test_real_voc_default_is_trainval_and_opens(real_voc: Path) -> None:
    images = read_tags(real_voc)
    assert len(images) == len((real_voc / "ImageSets" / "Main" / "trainval.txt").read_text().split())
    height, width, channels = images.read(0).shape
    assert max(height, width) == 500
    assert channels == 3
