"""A folder of labels is there whole or not at all, and nothing else is ever touched."""

import errno
import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common import atomic_files
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.labels import write
from deep_patch_learning.labels.select import LabelRule
from deep_patch_learning.labels.write import FORMATS, MANIFEST, LabelTarget, split_name, write_labels

from .conftest import CLASSES, prediction


def state(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", FORMATS)
def test_images_stay_as_they_are_and_none_is_copied(odd: tuple, tmp_path: Path, format: str) -> None:
    images, predictions = odd
    before = state(tmp_path / "photos")
    counts = write_labels(predictions, images, LabelTarget(tmp_path / "deep" / "er" / "out", format))
    assert state(tmp_path / "photos") == before
    assert all((tmp_path / "deep" / "er" / "out" / file).exists() for file in counts["files"])
    copies = [p for p in (tmp_path / "deep").rglob("*") if p.suffix in (".jpg", ".png") and not p.is_symlink()]
    assert copies == []
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["out"]
    manifest = json.loads((tmp_path / "deep" / "er" / "out" / MANIFEST).read_text())
    assert manifest["boxes"] == counts["boxes"] == 5


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_input_gives_the_same_bytes(odd: tuple, tmp_path: Path, format: str) -> None:
    for name in ("one", "two"):
        write_labels(odd[1], odd[0], LabelTarget(tmp_path / name / "out", format))
    assert state(tmp_path / "one") == state(tmp_path / "two")


@pytest.mark.parametrize("format", FORMATS)
def test_predictions_from_a_generator_are_dropped_one_by_one(odd: tuple, tmp_path: Path, format: str) -> None:
    images, predictions = odd
    alive: list[weakref.ref[Prediction]] = []

    def stream() -> Iterator[Prediction]:
        for one in predictions:
            gc.collect()
            assert sum(ref() is not None for ref in alive) <= 1  # the one that the consumer has not replaced yet
            made = replace(one)
            alive.append(weakref.ref(made))
            yield made
            del made

    streamed = write_labels(stream(), images, LabelTarget(tmp_path / "streamed" / "out", format))
    listed = write_labels(predictions, images, LabelTarget(tmp_path / "listed" / "out", format))
    assert state(tmp_path / "streamed") == state(tmp_path / "listed")
    assert len(alive) == len(images)
    assert {**streamed, "folder": ""} == {**listed, "folder": ""}


def test_a_folder_that_may_not_be_written_is_refused_before_the_first_prediction(odd: tuple, tmp_path: Path) -> None:
    def stream() -> Iterator[Prediction]:
        raise AssertionError("a prediction was asked for")
        yield odd[1][0]

    (tmp_path / "notes.txt").write_text("keep")
    with pytest.raises(DataError, match="is not empty"):
        write_labels(stream(), odd[0], LabelTarget(tmp_path, "coco"))


def test_a_stream_that_ends_in_an_error_leaves_nothing(odd: tuple, tmp_path: Path) -> None:
    def stream() -> Iterator[Prediction]:
        yield odd[1][0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_labels(stream(), odd[0], LabelTarget(tmp_path / "out", "coco"))
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_folder_with_other_files_is_refused(odd: tuple, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes.txt").write_text("keep")
    with pytest.raises(DataError, match=r"mine: is not empty, and its files are not labels. Give a new folder"):
        write_labels(odd[1], odd[0], LabelTarget(folder, "coco"))
    assert state(folder) == {"notes.txt": b"keep"}
    with pytest.raises(DataError, match="is a file"):
        write_labels(odd[1], odd[0], LabelTarget(folder / "notes.txt", "coco"))


def test_an_empty_folder_is_used(odd: tuple, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_labels(odd[1], odd[0], LabelTarget(tmp_path / "empty", "yolo"))
    assert (tmp_path / "empty" / "data.yaml").is_file()


def test_own_labels_are_replaced_only_while_nobody_changed_them(odd: tuple, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_labels(odd[1], odd[0], LabelTarget(folder, "voc"))
    write_labels(odd[1], odd[0], LabelTarget(folder, "yolo"), LabelRule(min_score=0.7))
    assert not (folder / "Annotations").exists()
    label = next((folder / "labels").glob("*.txt"))
    text = label.read_text()
    for change in (lambda: label.write_text(text + "0 0.5 0.5 1 1\n"), lambda: label.unlink()):
        change()
        before = state(folder)
        with pytest.raises(DataError, match="were changed since they were written"):
            write_labels(odd[1], odd[0], LabelTarget(folder, "coco"))
        assert state(folder) == before
    label.write_text(text)
    (folder / "labels.cache").write_text("someone else's")
    with pytest.raises(DataError, match="were changed"):
        write_labels(odd[1], odd[0], LabelTarget(folder, "coco"))
    (folder / "labels.cache").unlink()
    (folder / MANIFEST).write_text("{")
    with pytest.raises(DataError, match="were changed"):
        write_labels(odd[1], odd[0], LabelTarget(folder, "coco"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device"), ValueError])
@pytest.mark.parametrize("format", FORMATS)
def test_an_end_in_the_middle_leaves_nothing(
    odd: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, error: type | Exception
) -> None:
    write_bytes, calls = Path.write_bytes, []

    def fail(path: Path, *content: object, **ways: object) -> int:
        calls.append(path)
        if len(calls) == (4 if format in ("voc", "yolo") else 1):
            write_bytes(path, b"half")
            raise error
        return write_bytes(path, str(content[0]).encode())

    monkeypatch.setattr(Path, "write_text", fail)
    monkeypatch.setattr(Path, "write_bytes", fail)
    wanted = DataError if isinstance(error, OSError) else error
    with pytest.raises(wanted) as caught:  # type: ignore[arg-type]
        write_labels(odd[1], odd[0], LabelTarget(tmp_path / "new" / "out", format))
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    if wanted is DataError:
        assert str(caught.value).endswith("(No space left on device). Make room, or give another folder with --out.")


@pytest.mark.parametrize("in_one_step", [True, False])
def test_labels_that_stood_there_come_back_when_the_last_step_fails(
    odd: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    folder = tmp_path / "out"
    write_labels(odd[1], odd[0], LabelTarget(folder, "coco"))
    before, rename = state(folder), Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name.endswith(".dpl-part"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    if in_one_step:
        monkeypatch.setattr(atomic_files, "_exchange", lambda part, folder: fail(part, folder))
    else:
        monkeypatch.setattr(atomic_files, "_in_one_step", lambda part, folder: False)
    with pytest.raises(KeyboardInterrupt):
        write_labels(odd[1], odd[0], LabelTarget(folder, "voc"))
    assert state(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


def test_a_folder_that_cannot_be_made(odd: tuple, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\).*--out"):
        write_labels(odd[1], odd[0], LabelTarget(tmp_path / "file" / "out", "coco"))


def test_a_folder_without_permission(odd: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.geteuid() == 0:  # root may write everywhere: say what the system would say to others
        mkdir = Path.mkdir

        def refused(path: Path, *ways: object, **more: object) -> None:
            if closed in path.parents:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            mkdir(path, *ways, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(DataError, match=r"closed/out: cannot be written \(Permission denied\)"):
        write_labels(odd[1], odd[0], LabelTarget(closed / "out", "yolo"))
    closed.chmod(0o700)
    assert list(closed.iterdir()) == []


KILLED_AT_A_RENAME = """
import os, signal, sys
from pathlib import Path
from deep_patch_learning.common import atomic_files

left = int(sys.argv[2])
def hook(event, arguments):
    global left
    left -= event == "os.rename"
    if left == 0 and event == "os.rename":
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "renames":
    atomic_files._in_one_step = lambda part, folder: False
sys.addaudithook(hook)
with atomic_files.folder_written_whole(Path(sys.argv[1])) as partial:
    (partial / "labels").write_text("new")
"""


@pytest.mark.parametrize("way", ["in one step", "renames"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_kill_at_any_rename_leaves_the_old_labels_or_the_new_ones(tmp_path: Path, at: int, way: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "labels").write_text("old")
    subprocess.run([sys.executable, "-c", KILLED_AT_A_RENAME, str(folder), str(at), way], check=False)
    if way == "in one step" and sys.platform == "linux":
        assert (folder / "labels").read_text() == "new"  # no rename of its own to be killed at
    atomic_files.sweep(tmp_path, "out")
    assert (folder / "labels").read_text() in ("old", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_killed_process_leaves_no_folder_of_that_name_and_the_next_removes_what_it_left(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from deep_patch_learning.labels.write import _whole\n"
        "with _whole(Path(sys.argv[1])) as partial:\n"
        "    (partial / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False)
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.iterdir()
    others = tmp_path / ".other.1.dpl-part", tmp_path / ".out.1.partial"  # of other labels, and a user's
    for other in others:
        other.mkdir()
    LabelTarget(tmp_path / "out", "coco").check()
    assert not left.exists()
    assert all(other.exists() for other in others)


def test_bad_names(odd: tuple, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Did you mean 'yolo'"):
        write_labels(odd[1], odd[0], LabelTarget(tmp_path / "out", "yoloo"))
    nothing = TaggedImages(CLASSES, (), (), np.zeros((0, 3), np.int8))
    with pytest.raises(DataError, match="no images to label"):
        write_labels([], nothing, LabelTarget(tmp_path / "out", "coco"))
    assert [split_name(name) for name in (None, "val", "lists/my val.txt", "v1.2", "/")] == [
        "train",
        "val",
        "my_val",
        "v1.2",
        "train",
    ]


def test_images_turned_by_exif_are_counted(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    Image.new("RGB", (30, 20)).save(tmp_path / "b.jpg")
    paths = tmp_path / "a.jpg", tmp_path / "b.jpg"
    images = TaggedImages(CLASSES, ("a.jpg", "b.jpg"), paths, np.zeros((2, 3), np.int8))
    found = [prediction("a.jpg", (20, 30), []), prediction("b.jpg", (30, 20), [])]
    assert write_labels(found, images, LabelTarget(tmp_path / "out", "coco"))["turned_images"] == 1


def test_writing_over_a_linked_folder_keeps_the_link(odd: tuple, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    write_labels(odd[1], odd[0], LabelTarget(tmp_path / "out", "coco"))
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / MANIFEST).is_file()
    assert write.digest(tmp_path / "out") == write.digest(tmp_path / "disk")


def test_the_quoted_messages_are_real(odd: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("labels").mkdir()
    Path("labels", "x").write_text("x")
    messages = []
    with pytest.raises(DataError) as caught:
        write_labels(odd[1], odd[0], LabelTarget("labels", "coco"))
    messages.append(str(caught.value))
    Path("labels", "x").unlink()
    write_labels(odd[1], odd[0], LabelTarget("labels", "coco"))
    Path("labels", "x").write_text("x")
    with pytest.raises(DataError) as caught:
        write_labels(odd[1], odd[0], LabelTarget("labels", "coco"))
    messages.append(str(caught.value))
    messages.append(str(write._cannot_be_written(Path("labels"), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))))
    assert all(message in page for message in messages)


@pytest.mark.parametrize("format", FORMATS)
def test_a_class_that_a_format_cannot_hold_is_named_before_the_first_prediction(tmp_path: Path, format: str) -> None:
    target = LabelTarget(tmp_path / "out", format)
    if format in ("voc", "label-studio", "cvat"):
        with pytest.raises(DataError, match="XML cannot hold that name"):
            target.check(["bus", "a\x1fb"])
    else:
        target.check(["bus", "a\x1fb"])


@pytest.mark.parametrize("format", FORMATS)
def test_images_in_shards_are_refused_before_the_first_prediction_where_links_are_needed(
    odd: tuple, tmp_path: Path, format: str
) -> None:
    (tmp_path / "shard.tar").touch()
    images = replace(odd[0], paths=[tmp_path / "shard.tar" / path.name for path in odd[0].paths])
    target = LabelTarget(tmp_path / "out", format)
    if format in ("parquet", "label-studio"):
        target.check(images=images)
    else:
        with pytest.raises(DataError, match=r"lies in a shard.*Use --format parquet"):
            target.check(images=images)


def test_a_folder_that_leads_to_itself_is_refused_before_predictions(odd: tuple, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DataError, match="loop: is a link that leads to itself"):
        LabelTarget(tmp_path / "loop", "coco").check()
    (tmp_path / "link").symlink_to(tmp_path / "out")  # which is not there yet
    LabelTarget(tmp_path / "link", "coco").check()
    write_labels(odd[1], odd[0], LabelTarget(tmp_path / "link", "coco"))
    assert (tmp_path / "out" / MANIFEST).is_file()
