import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags


def test_the_folder_is_the_tag(make: Callable[..., Path], told: Callable, tmp_path: Path) -> None:
    make("dog/a.jpg", "dog/more/b.PNG", "cat/c.jpg", files={"dog/notes.txt": "x", ".git/x": "", "cat/.DS_Store": ""})
    images = read_tags(tmp_path)
    assert images.classes == ("cat", "dog")
    wanted = {"cat/c.jpg": {"cat": "present"}, "dog/a.jpg": {"dog": "present"}, "dog/more/b.PNG": {"dog": "present"}}
    assert told(images) == wanted


def test_a_copy_in_two_folders_is_one_image_with_both_tags(
    make: Callable[..., Path], told: Callable, tmp_path: Path
) -> None:
    make("dog/a.jpg", "cat/a.jpg", "sofa/b.jpg")  # a.jpg twice, with other pixels in each
    (tmp_path / "ant").mkdir()
    shutil.copy(tmp_path / "dog/a.jpg", tmp_path / "ant/a.jpg")
    shutil.copy(tmp_path / "dog/a.jpg", tmp_path / "ant/z.jpg")  # the same bytes under another name: another image
    assert told(read_tags(tmp_path)) == {
        "ant/a.jpg": {"ant": "present", "dog": "present"},
        "ant/z.jpg": {"ant": "present"},
        "cat/a.jpg": {"cat": "present"},
        "sofa/b.jpg": {"sofa": "present"},
    }


def test_split_folders(make: Callable[..., Path], tmp_path: Path) -> None:
    make("train/dog/a.jpg", "train/cat/b.jpg", "val/dog/c.jpg")
    (tmp_path / "val/cat").mkdir()
    assert read_tags(tmp_path, "train").names == ("train/cat/b.jpg", "train/dog/a.jpg")
    assert read_tags(tmp_path, "val").names == ("val/dog/c.jpg",)
    assert read_tags(tmp_path, "val").classes == ("cat", "dog")
    assert len(read_tags(tmp_path)) == 3
    with pytest.raises(DataError, match=r"no split 'vla'. Did you mean 'val'\?"):
        read_tags(tmp_path, "vla")


def test_split_file(make: Callable[..., Path], tmp_path: Path) -> None:
    make("dog/a.jpg", "cat/b.jpg", files={"few.txt": "dog/a.jpg\n"})
    assert read_tags(tmp_path, "few.txt").names == ("dog/a.jpg",)
    assert read_tags(tmp_path, "few.txt").classes == ("cat", "dog")


BROKEN: list[tuple[str, list[str], list[str], list[str]]] = [
    ("nothing", [], [], ["holds no image", "dog/a.jpg"]),
    ("no class folder", ["a.jpg", "b.jpg"], [], ["2 image(s) outside a class folder", "'a.jpg'"]),
    ("stray image", ["dog/a.jpg", "b.jpg"], [], ["1 image(s) outside", "'b.jpg'"]),
    ("empty class", ["dog/a.jpg"], ["cat"], ["'dog' holds images but 'cat' holds none"]),
    ("mixed depths", ["dog/a.jpg", "cat/x/a.jpg"], [], ["'dog' holds images but 'cat' holds none"]),
    ("empty class in a split", ["train/dog/a.jpg"], ["train/cat"], ["train/cat: this class folder holds no image"]),
    ("too deep", ["photos/2020/dog/a.jpg"], [], ["photos/2020: images lie deeper"]),
]


@pytest.mark.parametrize(("names", "empty", "fragments"), [case[1:] for case in BROKEN], ids=[c[0] for c in BROKEN])
def test_broken_folders(
    make: Callable[..., Path], tmp_path: Path, names: list[str], empty: list[str], fragments: list[str]
) -> None:
    make(*names)
    for folder in empty:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        read_tags(tmp_path)
    for fragment in [str(tmp_path), *fragments]:
        assert fragment in str(caught.value)


def test_unknown_class(make: Callable[..., Path], tmp_path: Path) -> None:
    make("dgo/a.jpg")
    with pytest.raises(DataError, match=r"dgo/a.jpg: unknown class 'dgo'. Did you mean 'dog'\?"):
        read_tags(tmp_path, classes=["cat", "dog"])


def test_a_folder_that_may_not_be_read(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("dog/a.jpg")

    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("deep_patch_learning.data.readers.folders.os.scandir", refuse)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)\. Make it readable"):
        read_tags(tmp_path)
