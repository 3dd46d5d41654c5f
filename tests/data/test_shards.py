"""What lies in a shard is an image of the data set, or it is said why it is none."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from shard_writing import write_tar

from deep_patch_learning.cluster import work
from deep_patch_learning.cluster.folder import PartsFolder
from deep_patch_learning.cluster.parts import items_of, read_parts
from deep_patch_learning.cluster.work import Done, LabelJob
from deep_patch_learning.commands.label import label
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import problem
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.shards import samples_of, tags_in_tar
from deep_patch_learning.inference.loading import load
from deep_patch_learning.labels.select import LabelRule


def jpeg(seed: int = 0) -> bytes:
    content = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), np.uint8)
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


def tar_of(path: Path, *names: str) -> Path:
    """A tar with these members in this order: texts are tags, the others an image."""
    with tarfile.open(path, "w") as tar:
        for name in names:
            member, content = tarfile.TarInfo(name), b"dog" if name.endswith(".txt") else jpeg()
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def streamed(path: Path) -> tuple[list[str], list[str]]:
    """The images of a tar as workers read it, and what is listed as broken."""
    with path.open("rb") as file:
        found = list(samples_of(file, str(path)))
    good = [one.name for one in found if isinstance(one.content, bytes)]
    return good, [str(one.content) for one in found if isinstance(one.content, DataError)]


def test_image_files_that_are_no_image_of_their_own_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tar_of(tmp_path / "0.tar", "a.jpg", "a.png", "a.txt", "img.2020.01.png", "b.png", "c.JPG", "c.jpg")
    good, broken = streamed(path)
    assert good == ["0.tar/a.jpg", "0.tar/b.png", "0.tar/c.JPG"]
    assert [one.partition(": ")[2] for one in broken] == [
        "is of the same sample as 'a.jpg', since both names begin with 'a.'. Rename one.",
        "has a dot inside its name, where the name of its sample ends. Rename it, for example to 'img_2020_01.png'.",
        "is of the same sample as 'c.JPG', since both names begin with 'c.'. Rename one.",
    ]
    images = read_tags(path)
    assert [f"0.tar/{Path(name).name}" for name in images.names] == good
    said = " ".join(capsys.readouterr().err.split())
    assert "3 image files are no image of the data set" in said
    for name in ("a.png", "img.2020.01.png", "c.jpg"):
        assert f"0.tar/{name} " in said


def test_what_is_no_image_is_not_listed(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "0.tar", "README.txt", "._a.jpg", "a.jpg", "a.npy", "a.txt", "model.bin")
    assert streamed(path) == (["0.tar/a.jpg"], [])


@pytest.mark.parametrize("names", [("a.jpg", "b.jpg", "a.txt", "b.txt"), ("a.txt", "b.txt", "a.jpg", "b.jpg")])
def test_tags_that_are_not_beside_their_image_are_an_error(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tar_of(tmp_path / "0.tar", *names)
    wanted = r"0.tar: the files of the sample 'a' are not beside each other, .*tar --sort=name"
    with pytest.raises(DataError, match=wanted):
        streamed(path)
    with pytest.raises(DataError, match=wanted):
        list(tags_in_tar(path))


def test_the_tags_of_a_sample_are_the_same_for_every_reader(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name, content in (("a.json", b'{"tags": ["cat"]}'), ("a.jpg", jpeg()), ("a.txt", b"dog")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with (tmp_path / "0.tar").open("rb") as file:
        assert [one.present for one in samples_of(file, "0.tar")] == [("cat",)]
    assert list(tags_in_tar(tmp_path / "0.tar")) == [("a.jpg", ("cat",), ())]


def labelled(run: Path, data: Path, out: Path, format: str = "parquet") -> dict:
    """What is known of the only part of a data set after a worker has labelled it."""
    classes = load(run, "cpu").classes
    job = LabelJob(PartsFolder(out), str(run), "cpu", None, LabelRule(0.0), format, "train", out, classes)
    job.out.begin({"what": "labels"})
    job.begin()
    part = read_parts(data, classes=classes).part(0)
    found = job.work(part, lambda _: None)
    assert isinstance(found, Done), found
    assert job.finished(part) is not None  # its note can be read again
    return found.facts


@pytest.mark.parametrize("format", ["parquet", "coco"])
def test_a_name_that_is_not_utf8_is_listed(small_run: Path, tmp_path: Path, format: str) -> None:
    pytest.importorskip("pyarrow")
    path = tar_of(tmp_path / "0.tar", "a.jpg", "b\udcff.jpg", "c\udcff.d.jpg")
    facts = labelled(small_run, path, tmp_path / "out", format)
    assert facts["images"] == 1
    assert [one["image"] for one in facts["broken"]] == [r"0.tar/b\udcff.jpg", r"0.tar/c\udcff.d.jpg"]
    assert "its name is not UTF-8. Rename it" in facts["broken"][0]["reason"]


def test_a_shard_whose_name_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    tar_of(tmp_path / "a\udcff.tar", "a.jpg")
    with pytest.raises(DataError, match=r"a\\udcff\.tar: the name is not UTF-8\. Rename it"):
        read_parts(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Parquet table of one row group: an image, nothing, an image."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"image": [jpeg(1), None, jpeg(2)], "tags": [["dog"]] * 3}), path)
    return path


def test_a_row_without_an_image_is_broken_alone(table: Path, small_run: Path, tmp_path: Path) -> None:
    images = read_tags(table)
    assert problem(images.paths[0]) is None
    assert "row 1: holds NoneType, wanted the bytes of an image file" in str(problem(images.paths[1]))
    assert problem(images.paths[2]) is None
    first, second, third = (item.content for item in items_of(read_parts(table).part(0), ()))
    assert (first, third) == (jpeg(1), jpeg(2))
    assert "row 1: 'image' holds nothing, wanted the bytes" in str(second)


def test_a_row_without_an_image_is_listed_by_a_worker(small_run: Path, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = [{"bytes": jpeg(1), "path": None}, {"bytes": None, "path": "gone.jpg"}, None]
    parquet.write_table(pyarrow.table({"image": cells}), tmp_path / "t.parquet")
    facts = labelled(small_run, tmp_path / "t.parquet", tmp_path / "out")
    assert facts["images"] == 1
    assert [one["image"] for one in facts["broken"]] == ["t.parquet/1", "t.parquet/2"]
    assert json.loads((tmp_path / "out" / "done" / "part-00000.json").read_text())["broken"] == facts["broken"]


def test_a_column_that_can_hold_no_image_is_an_error(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"image": ["a.jpg", "b.jpg"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="the column 'image' holds string, wanted the bytes of image files"):
        list(items_of(read_parts(tmp_path / "t.parquet").part(0), ()))


@pytest.mark.parametrize(("most", "what"), [("MOST_IN_PART", "2 images"), ("MOST_BOXES", "1 boxes")])
def test_a_shard_with_more_images_or_boxes_than_ids_has_failed(
    small_run: Path, small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str, what: str
) -> None:
    monkeypatch.setattr(work, most, int(what[0]))
    (tmp_path / "shards").mkdir()
    write_tar(tmp_path / "shards" / "0.tar", read_tags(small_world, "train"), range(3))
    with pytest.raises(AssertionError, match=rf"0\.tar: more than {what}, which are all the ids of a part in COCO"):
        labelled(small_run, tmp_path / "shards", tmp_path / "out", "coco")
    assert labelled(small_run, tmp_path / "shards", tmp_path / "table", "parquet")["images"] == 3


def test_parts_with_more_images_than_ids_are_refused_at_the_start(
    small_run: Path, small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MOST_IN_PART", 5)
    how = {"engine": "ray", "format": "coco", "split": "train", "address": "127.0.0.1:1"}
    with pytest.raises(DataError, match=r"--shard-images 6: more than 5 images, which are all the ids"):
        label(small_world, small_run, out=tmp_path / "out", shard_images=6, **how)
    assert not (tmp_path / "out").exists()
