from collections.abc import Callable
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags

GOOD = [
    ("plain", "image,tags\na.jpg,dog;sofa\nb.jpg,cat\n", {"a.jpg": "dog sofa", "b.jpg": "cat"}),
    ("no last newline", "image,tags\na.jpg,dog", {"a.jpg": "dog"}),
    ("byte-order mark", "\ufeffimage,tags\na.jpg,dog\n", {"a.jpg": "dog"}),
    ("windows lines", "image,tags\r\na.jpg,dog\r\nb.jpg,cat\r\n", {"a.jpg": "dog", "b.jpg": "cat"}),
    ("old mac lines", "image,tags\ra.jpg,dog\rb.jpg,cat\r", {"a.jpg": "dog", "b.jpg": "cat"}),
    ("spaces", " image , tags \n a.jpg , dog ; sofa ;\n", {"a.jpg": "dog sofa"}),
    ("capital header", "Image,TAGS\na.jpg,dog\n", {"a.jpg": "dog"}),
    ("blank lines", "\nimage,tags\n\na.jpg,dog\n,\n", {"a.jpg": "dog"}),
    ("no tag", "image,tags\na.jpg,\nb.jpg,cat\n", {"a.jpg": "", "b.jpg": "cat"}),
    ("tag twice in a cell", "image,tags\na.jpg,dog;dog\n", {"a.jpg": "dog"}),
    ("other order, other columns", "by,tags,image\nAnn,dog,a.jpg\n", {"a.jpg": "dog"}),
    ("quotes", 'image,tags\n"a.jpg","big, red;dog"\n', {"a.jpg": "big, red|dog"}),
    ("accents", "image,tags\na.jpg,père Noël\n", {"a.jpg": "père Noël|"}),
    ("dot slash", "image,tags\n./a.jpg,dog\n", {"a.jpg": "dog"}),
    ("sub-folder", "image,tags\nsub/c.png,dog\n", {"sub/c.png": "dog"}),
    ("backslash", "image,tags\nsub\\c.png,dog\n", {"sub/c.png": "dog"}),
]


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_good_csv(make: Callable[..., Path], told: Callable, text: str, wanted: dict[str, str]) -> None:
    path = make("a.jpg", "b.jpg", "sub/c.png", files={"tags.csv": text})
    images = read_tags(path)
    by_name = {name: tags.strip("|").split("|" if "|" in tags else " ") for name, tags in wanted.items()}
    assert told(images) == {name: {tag: "present" for tag in tags if tag} for name, tags in by_name.items()}
    assert images.classes == tuple(sorted(images.classes))
    assert all(path.is_file() and path.is_absolute() for path in images.paths)
    assert images.read(0).shape == (3, 4, 3)


def test_unknown_state_is_kept_apart_from_absent(make: Callable[..., Path], told: Callable) -> None:
    path = make("a.jpg", "b.jpg", files={"t.csv": "image,tags,unknown\na.jpg,dog,cat; bird\nb.jpg,cat,\n"})
    images = read_tags(path)
    assert images.classes == ("bird", "cat", "dog")
    assert images.labels.tolist() == [[-1, -1, 1], [0, 1, 0]]


def test_absolute_and_parent_paths(make: Callable[..., Path], tmp_path: Path) -> None:
    make("a.jpg", "in/b.jpg", "out/c.jpg")
    rows = f"{tmp_path}/in/b.jpg,dog\n../a.jpg,dog\n{tmp_path}/out/c.jpg,cat\n"
    images = read_tags(make(files={"in/t.csv": f"image,tags\n{rows}"}))
    assert images.names == ("b.jpg", "../a.jpg", (tmp_path / "out/c.jpg").as_posix())


def test_a_relative_path_to_the_csv(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make("a.jpg", files={"t.csv": "image,tags\na.jpg,dog\n"})
    monkeypatch.chdir(tmp_path)
    assert read_tags("t.csv").names == ("a.jpg",)


def test_the_users_order_of_classes_is_kept(make: Callable[..., Path]) -> None:
    path = make("a.jpg", "b.jpg", files={"t.csv": "image,tags\na.jpg,dog\nb.jpg,cat\n"})
    images = read_tags(path, classes=["dog", "zebra", "cat"])
    assert images.classes == ("dog", "zebra", "cat")
    assert images.labels.tolist() == [[1, 0, 0], [0, 0, 1]]


SPLITS = "image,tags,split\na.jpg,dog,train\nb.jpg,cat,val\nc.jpg,bird,\n"


def test_split_column_picks_rows_and_keeps_all_classes(make: Callable[..., Path]) -> None:
    path = make("a.jpg", "b.jpg", "c.jpg", files={"t.csv": SPLITS})
    assert read_tags(path, "train").names == ("a.jpg",)
    assert read_tags(path, "val").names == ("b.jpg",)
    assert read_tags(path).names == ("a.jpg", "b.jpg", "c.jpg")
    assert read_tags(path, "train").classes == ("bird", "cat", "dog")


def test_an_image_missing_outside_the_split_does_not_matter(make: Callable[..., Path]) -> None:
    path = make("a.jpg", files={"t.csv": SPLITS})
    assert read_tags(path, "train").names == ("a.jpg",)


BROKEN = [
    ("empty", "", ["the file is empty", "'image,tags'"]),
    ("blank", " \n\n", ["the file is empty"]),
    ("only a mark", "\ufeff", ["the file is empty"]),
    ("header alone", "image,tags\n", ["holds no image"]),
    ("no header", "a.jpg,dog\n", ["line 1", "found 'a.jpg,dog'", "wanted a header such as 'image,tags'"]),
    ("semicolons", "image;tags\na.jpg;dog\n", ["line 1", "found 'image;tags'", "'image,tags'"]),
    ("misspelt column", "image,tag\na.jpg,dog\n", ["line 1", "column 'tag'", "Did you mean 'tags'?"]),
    ("misspelt option", "image,tags,unkown\na.jpg,dog,\n", ["line 1", "'unkown'", "Did you mean 'unknown'?"]),
    ("column twice", "image,tags,tags\na.jpg,dog,cat\n", ["line 1", "'tags' is there twice"]),
    ("latin-1", "image,tags\na.jpg,dog\nb.jpg,pére\n".encode("latin-1"), ["line 3", "byte 0xe9", "UTF-8"]),
    ("utf-16", "image,tags\na.jpg,dog\n".encode("utf-16"), ["line 1", "UTF-16", "Save the file as UTF-8"]),
    ("duplicate", "image,tags\na.jpg,dog\nb.jpg,cat\n./a.jpg,cat\n", ["line 4", "'a.jpg'", "already at line 2"]),
    ("duplicate, two splits", "image,tags,split\na.jpg,dog,x\na.jpg,dog,y\n", ["line 3", "already at line 2"]),
    ("commas for tags", "image,tags\na.jpg,dog,cat\n", ["line 2", "found 3 cell(s), wanted 2", "Separate tags by ';'"]),
    ("no tags cell", "image,tags\nb.jpg,dog\na.jpg\n", ["line 3", "found 1 cell(s), wanted 2", "'a.jpg,'"]),
    ("no image", "image,tags\n,dog\n", ["line 2", "image cell is empty"]),
    ("both states", "image,tags,unknown\na.jpg,dog,dog\n", ["line 2", "'dog' is both"]),
    ("no tag at all", "image,tags\na.jpg,\n", ["no image has a tag"]),
    ("missing image", "image,tags\na.jpg,dog\nzz.jpg,cat\n", ["1 of 2 images", "'zz.jpg' (line 3)", "Looked for /"]),
    ("other case", "image,tags\nA.JPG,dog\n", ["'A.JPG' (line 2)", "Did you mean 'a.jpg'?"]),
    ("name too long", f"image,tags\n{'x' * 300},dog\n", ["1 of 1 images are not there"]),
    ("folder for image", "image,tags\nsub,dog\n", ["line 2", "'sub' is a folder"]),
]


@pytest.mark.parametrize(("text", "fragments"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_csv_says_where_what_and_how_to_fix(
    make: Callable[..., Path], text: str | bytes, fragments: list[str]
) -> None:
    path = make("a.jpg", "b.jpg", "sub/c.png", files={"tags.csv": text})
    with pytest.raises(DataError) as caught:
        read_tags(path)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)


def test_many_missing_images_are_counted_and_five_are_shown(make: Callable[..., Path]) -> None:
    rows = "".join(f"{index}.jpg,dog\n" for index in range(9))
    with pytest.raises(DataError) as caught:
        read_tags(make("8.jpg", files={"t.csv": f"image,tags\n{rows}"}))
    message = str(caught.value)
    assert "8 of 9 images" in message
    assert "and 3 more" in message
    assert "'4.jpg' (line 6)" in message
    assert "'5.jpg'" not in message


def test_unknown_class_is_named_with_its_row_and_the_nearest(make: Callable[..., Path]) -> None:
    path = make("a.jpg", "b.jpg", files={"t.csv": "image,tags,unknown\na.jpg,dog,\nb.jpg,dog,csat\n"})
    with pytest.raises(DataError, match=r"t\.csv, line 3: unknown class 'csat'. Did you mean 'cat'\?"):
        read_tags(path, classes=["cat", "dog"])
    with pytest.raises(DataError, match="'dog' is given twice"):
        read_tags(path, classes=["dog", "cat", "dog"])
