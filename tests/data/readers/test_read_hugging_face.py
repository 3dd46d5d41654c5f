"""Data sets that Hugging Face `datasets` wrote are read where they lie; so are tars that `webdataset` wrote."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags

datasets = pytest.importorskip("datasets", reason="needs Hugging Face datasets: pip install datasets")

NAMES = ["dog", "cat", "sofa"]
SIZES = ((40, 30), (31, 47), (64, 20))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three JPEGs."""
    paths = []
    for number, size in enumerate(SIZES):
        path = tmp_path / "photos" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", size, (90 * number, 100, 50)).save(path)
        paths.append(str(path))
    return paths


def data_set(files: list[str], **columns: tuple[list, Any]) -> Any:
    """Return a data set of images and columns (values, feature)."""
    features = {"image": datasets.Image(), **{name: feature for name, (_, feature) in columns.items()}}
    values = {"image": files, **{name: values for name, (values, _) in columns.items()}}
    return datasets.Dataset.from_dict(values, features=datasets.Features(features))


CLASS, TEXT = datasets.ClassLabel(names=NAMES), datasets.Value("string")
COLUMNS = {
    "one class": ({"label": ([0, 2, 1], CLASS)}, [["dog"], ["sofa"], ["cat"]]),
    "lists of classes": ({"labels": ([[0, 2], [], [1]], datasets.Sequence(CLASS))}, [["dog", "sofa"], [], ["cat"]]),
    "lists of texts": ({"tags": ([["dog", "dog "], [], ["cat"]], datasets.Sequence(TEXT))}, [["dog"], [], ["cat"]]),
    "texts": ({"label": (["dog", "", "cat"], TEXT)}, [["dog"], [], ["cat"]]),
    "objects": (
        {
            "objects": (
                [{"category": [0, 0]}, {"category": []}, {"category": [1]}],
                {"category": datasets.Sequence(CLASS)},
            )
        },
        [["dog"], [], ["cat"]],
    ),
}


def present(images: Any) -> list[list[str]]:
    return [[images.classes[index] for index in np.flatnonzero(row == 1)] for row in images.labels]


@pytest.mark.parametrize("case", COLUMNS)
def test_a_saved_data_set(files: list[str], tmp_path: Path, case: str) -> None:
    columns, wanted = COLUMNS[case]
    data_set(files, **columns).save_to_disk(tmp_path / "saved", num_shards=2)
    for file in files:
        Path(file).unlink()  # the images are in it
    images = read_tags(tmp_path / "saved")
    assert present(images) == [sorted(tags) for tags in wanted]
    assert [images.read(index).shape[:2][::-1] for index in range(3)] == list(SIZES)


def test_splits_and_unknown_tags(files: list[str], tmp_path: Path) -> None:
    lists = datasets.Sequence(TEXT)
    tags = {"tags": ([["dog"], ["cat"], []], lists), "unknown": ([["cat"], [], ["dog"]], lists)}
    whole = data_set(files, **tags)
    both = datasets.DatasetDict({"train": whole.select([0, 2]), "val": whole.select([1])})
    both.save_to_disk(tmp_path / "saved")
    images = read_tags(tmp_path / "saved", "train")
    assert images.classes == ("cat", "dog")
    assert images.labels.tolist() == [[-1, 1], [0, -1]]
    assert images.read(1).shape[:2][::-1] == SIZES[2]
    assert len(read_tags(tmp_path / "saved")) == 3
    with pytest.raises(DataError, match=r"there is no split 'vall'.*Did you mean 'val'"):
        read_tags(tmp_path / "saved", "vall")


def test_parquet_of_hugging_face(files: list[str], tmp_path: Path) -> None:
    data_set(files, label=([0, 2, 1], CLASS)).to_parquet(tmp_path / "train.parquet")
    images = read_tags(tmp_path / "train.parquet")
    assert present(images) == [["dog"], ["sofa"], ["cat"]]
    assert images.read(2).shape[:2][::-1] == SIZES[2]


def broken_set(files: list[str], place: Path, **columns: tuple[list, Any]) -> Path:
    data_set(files, **columns).save_to_disk(place)
    return place


def test_bad_data_sets(files: list[str], tmp_path: Path) -> None:
    unlabelled = broken_set(files, tmp_path / "a", label=([0, -1, 1], CLASS))
    with pytest.raises(DataError, match=r"\.arrow, row 1: its tag is -1, wanted one of 3 classes"):
        read_tags(unlabelled)
    numbers = broken_set(files, tmp_path / "b", label=([0, 1, 2], datasets.Value("int64")))
    with pytest.raises(DataError, match="row 0: its tag is 0, wanted a name, or a number of a ClassLabel"):
        read_tags(numbers)
    without = broken_set(files, tmp_path / "c", text=(["x", "y", "z"], TEXT))
    with pytest.raises(DataError, match=r"no column with tags \(tags, labels, label\); it has image, text"):
        read_tags(without)
    cut = broken_set(files, tmp_path / "d", label=([0, 1, 2], CLASS))
    (file,) = cut.glob("*.arrow")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is cut off or no Arrow stream"):
        read_tags(cut)
    file.unlink()
    with pytest.raises(DataError, match=r"there is no such file, but .*state\.json names it"):
        read_tags(cut)
    state = cut / "state.json"
    state.write_text(json.dumps({"_data_files": [{"filename": "../../x.arrow"}]}))
    with pytest.raises(DataError, match="'_data_files' names"):
        read_tags(cut)
    state.write_text("{}")
    with pytest.raises(DataError, match="has no '_data_files'"):
        read_tags(cut)


def test_tars_that_webdataset_wrote(files: list[str], tmp_path: Path, told: Callable) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs webdataset: pip install webdataset")
    tags = [{"tags": ["dog"]}, {"tags": [], "unknown": ["cat"]}, {"tags": ["cat", "dog"]}]
    with webdataset.ShardWriter(str(tmp_path / "s-%03d.tar"), maxcount=2, verbose=0) as shards:
        for number, (file, tagged) in enumerate(zip(files, tags, strict=True)):
            shards.write({"__key__": f"photo{number}", "jpg": Path(file).read_bytes(), "json": tagged})
    for path in tmp_path.joinpath("photos").iterdir():
        path.unlink()
    tmp_path.joinpath("photos").rmdir()
    images = read_tags(tmp_path)
    assert list(told(images).values()) == [{"dog": "present"}, {"cat": "unknown"}, {"cat": "present", "dog": "present"}]
    assert [images.read(index).shape[:2][::-1] for index in range(3)] == list(SIZES)
