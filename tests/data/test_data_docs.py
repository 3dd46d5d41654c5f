"""docs/data.md shows what really happens: its examples are read, and the messages it quotes are raised."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


def example(language: str) -> str:
    """Return the first fenced example in `language`."""
    found = re.search(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found, f"{DOCS} has no example in {language}"
    return found[1]


def test_the_examples_say_the_same_in_csv_and_json_lines(make: Callable[..., Path], told: Callable) -> None:
    wanted = {
        "garden/1.jpg": {"dog": "present", "sofa": "present"},
        "garden/2.jpg": {"dog": "present", "cat": "unknown"},
        "garden/3.jpg": {},
    }
    for suffix in ("csv", "jsonl"):
        path = make(*wanted, files={f"tags.{suffix}": example(suffix)})
        assert told(read_tags(path)) == wanted
        assert read_tags(path, "val").names == ("garden/3.jpg",)
    truth = read_truth(path, read_tags(path, "train"))
    assert truth is not None
    assert truth[0].boxes.tolist() == [[12, 30, 200, 180], [0, 90, 320, 240]]


def test_the_coco_example(make: Callable[..., Path], told: Callable) -> None:
    path = make("photos/1.jpg", "photos/2.jpg", files={"photos/boxes.json": example("json")})
    assert told(read_tags(path)) == {"1.jpg": {"dog": "present", "person": "unknown"}, "2.jpg": {}}


QUOTED = {
    "header": {"t.csv": "photo;labels\na.jpg;dog\n"},
    "latin-1": {"t.csv": "image,tags\na.jpg,dog\nb.jpg,père\n".encode("latin-1")},
    "duplicate": {"t.csv": "image,tags\na.jpg,dog\nb.jpg,cat\na.jpg,cat\n"},
    "commas": {"t.csv": "image,tags\na.jpg,dog,cat\n"},
    "missing": {"t.csv": "image,tags\na.jpg,dog\nB.JPG,cat\n"},
    "class": {"t.csv": "image,tags\na.jpg,dgo\n"},
    "split": {"t.csv": "image,tags,split\na.jpg,dog,train\n"},
    "json": {"t.jsonl": '{"image": "a.jpg", "tags": ["dog"]}\n{"image": "b.jpg", "tags": ["cat"}\n'},
}


@pytest.mark.parametrize("case", QUOTED)
def test_the_quoted_messages_are_real(make: Callable[..., Path], tmp_path: Path, case: str) -> None:
    path = make("a.jpg", "b.jpg", files=QUOTED[case])
    with pytest.raises(DataError) as caught:
        read_tags(path, "trian" if case == "split" else None, ["cat", "dog"] if case == "class" else None)
    assert str(caught.value).replace(str(tmp_path), "photos") in DOCS.read_text()


@pytest.mark.parametrize("content", [b"<html>moved</html>", b""])
def test_the_quoted_messages_of_images_are_real(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_image(path)
    assert str(caught.value).replace(str(tmp_path), "photos") in DOCS.read_text()


def test_a_truncated_jpeg_reads_as_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.effect_noise((300, 200), 80).save(path)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(DataError, match=r"the image is broken .*truncated"):
        read_image(path)
