"""Shards and saved data sets that no program writes: each is a `DataError` of one line, never anything else."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.shards import samples_of

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, "PNG")
    return file.getvalue()


def refused(place: Path, said: str) -> None:
    """Check that tags, and of a shard its samples too, end in one line."""
    with pytest.raises(DataError) as caught:
        read_tags(place)
    readers = [caught]
    if place.is_file():
        with place.open("rb") as file, pytest.raises(DataError) as caught:
            list(samples_of(file, str(place)))
        readers.append(caught)
    for one in readers:
        told = str(one.value)
        assert str(place) in told
        assert "\n" not in told
        assert len(told) < 500
    assert said in str(readers[0].value)


def tar_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, b"Z"])
def test_a_tar_that_leads_back_to_itself_ends(tmp_path: Path, png: bytes, kind: bytes) -> None:
    path = tar_of(tmp_path / "a.tar", ("a.png", png))
    back = tarfile.TarInfo("b.png")
    back.size, back.type = -512, kind
    with path.open("r+b") as file:
        file.seek(512 + -(-len(png) // 512) * 512)
        file.write(back.tobuf(tarfile.GNU_FORMAT))
    refused(path, "is cut off or damaged (negative size)")


TAGS = {
    "nested": (b"[" * 100_000, "recursion"),
    "half of a character": (b'{"tags": ["\\ud800"]}', "surrogates not allowed"),
    "numbers": (b'{"tags": [1]}', "must be lists of strings"),
    "not UTF-8": (b'{"tags": ["\xff"]}', "codec can't decode"),
}


@pytest.mark.parametrize(("content", "said"), TAGS.values(), ids=TAGS)
def test_tags_in_a_tar(tmp_path: Path, png: bytes, content: bytes, said: str) -> None:
    refused(tar_of(tmp_path / "a.tar", ("a.png", png), ("a.json", content)), said)


def not_utf8(kind: Any) -> Any:
    """Return an array of one text, or of a list of one, whose bytes are not UTF-8."""
    texts = pyarrow.StringArray.from_buffers(1, pyarrow.array([0, 1], "int32").buffers()[1], pyarrow.py_buffer(b"\xff"))
    return texts if kind is str else pyarrow.ListArray.from_arrays([0, 1], texts)


def parquet_of(path: Path, table: Any) -> Path:
    from pyarrow import parquet

    parquet.write_table(table, path)
    return path


COLUMNS = {
    "numbers": (lambda: [[1, 2]], "its tags are [1, 2] in a row, wanted a list of texts"),
    "one number": (lambda: [7], "its tags are 7"),
    "a text": (lambda: ["dog"], "its tags are 'dog' in a row, wanted a list of texts"),
    "nothing in a list": (lambda: [["dog", None]], "its tags are ['dog', None]"),
    "not UTF-8": (lambda: not_utf8(list), "its tags cannot be read"),
}


@pytest.mark.parametrize(("values", "said"), COLUMNS.values(), ids=COLUMNS)
def test_tags_in_a_table(tmp_path: Path, png: bytes, values: Any, said: str) -> None:
    refused(parquet_of(tmp_path / "a.parquet", pyarrow.table({"image": [png], "tags": values()})), said)


def about(**features: Any) -> dict[str, str]:
    return {"huggingface": json.dumps({"info": {"features": features}})}


def saved(folder: Path, table: Any) -> Path:
    """Write a table as `datasets.save_to_disk` does."""
    folder.mkdir(exist_ok=True)
    with pyarrow.OSFile(str(folder / "a.arrow"), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}]}))
    return folder


def nested(depth: int) -> dict[str, str]:
    return {"huggingface": '{"info": {"features": {"label": ' + '{"feature": ' * depth + "1" + "}" * depth + "}}}"}


FEATURES = {
    "a number for names": (about(label={"names": 5}), "wanted a name, or a number of a ClassLabel"),
    "nothing for names": (about(label={"names": None}), "wanted a name, or a number of a ClassLabel"),
    "numbers for names": (about(label={"names": [1, 2]}), "wanted a name, or a number of a ClassLabel"),
    "nested": (nested(100_000), "wanted a name, or a number of a ClassLabel"),
    "nested as deep as can be read": (nested(900), "wanted a name, or a number of a ClassLabel"),
    "a list that is empty": (about(label=[]), "wanted a name, or a number of a ClassLabel"),
}


@pytest.mark.parametrize(("metadata", "said"), FEATURES.values(), ids=FEATURES)
def test_features_of_a_saved_data_set(tmp_path: Path, png: bytes, metadata: dict[str, str], said: str) -> None:
    table = pyarrow.table({"image": [png], "label": [1]}).replace_schema_metadata(metadata)
    refused(saved(tmp_path / "set", table), said)


def test_columns_of_a_saved_data_set(tmp_path: Path, png: bytes) -> None:
    image = pyarrow.array([png])
    for name, arrays, names, said in (
        ("text", [image, not_utf8(str)], ["image", "label"], "is not UTF-8"),
        (
            "tags",
            [image, pyarrow.array(["a"]), pyarrow.array(["b"])],
            ["image", "label", "label"],
            "two columns are named",
        ),
        ("images", [image, image, pyarrow.array(["b"])], ["image", "image", "label"], "two columns are named 'image'"),
    ):
        refused(saved(tmp_path / name, pyarrow.Table.from_arrays(arrays, names)), said)


@pytest.mark.parametrize("path", ["a\0b", 5])
def test_the_path_of_an_image_is_a_path(tmp_path: Path, path: Any) -> None:
    column = pyarrow.array([{"bytes": None, "path": path}])
    folder = saved(tmp_path / "set", pyarrow.table({"image": column, "label": ["dog"]}))
    images = read_tags(folder)
    with pytest.raises(DataError, match=r"row 0: the path of its image is .*, wanted a file"):
        read_image(images.paths[0])


@pytest.mark.parametrize("splits", [["a\0b"], ["../set"], [5], [""]])
def test_splits_are_names_of_folders(tmp_path: Path, splits: list[Any]) -> None:
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    refused(tmp_path, "wanted folders")
