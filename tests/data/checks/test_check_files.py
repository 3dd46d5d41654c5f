"""Each finding from files and boxes: there in a small data set that has the trouble, absent from one that has not."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from checked import finding, photo
from PIL import Image

from deep_patch_learning.data.checks.check import check
from deep_patch_learning.data.checks.findings import Severity
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes

# --- from files -------------------------------------------------------------------------------------------------------


def on_disk(folder: Path, images: dict[str, np.ndarray | bytes], tags: Sequence[int] | None = None) -> TaggedImages:
    """Return images that are written to `folder`, tagged dog and cat by turns, or dog as `tags` says."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in images.items():
        if isinstance(image, bytes):
            (folder / name).write_bytes(image)
        else:
            Image.fromarray(image).save(folder / name)
    dog = np.array(tags if tags is not None else [i % 2 for i in range(len(images))], np.int8)
    labels = np.stack([dog, (1 - dog).clip(0)], 1).astype(np.int8)
    return TaggedImages(("dog", "cat"), tuple(images), tuple(folder / name for name in images), labels)


def several(count: int = 8) -> dict[str, np.ndarray | bytes]:
    return {f"{i}.png": photo(i) for i in range(count)}


def test_good_files_give_no_finding(tmp_path: Path) -> None:
    report = check(on_disk(tmp_path, several()))
    assert set(report.kinds()) == {"too_rare", "nothing_held_out"}
    assert report.opened == 8


def turned(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(photo(50)).save(folder / "x.jpg", exif=exif)


FILES: dict[str, tuple[Callable[[Path], object], Severity, str]] = {
    "unreadable": (lambda f: (f / "x.jpg").write_text("<html>"), Severity.HURTS, "x.jpg (not an image that can be"),
    "small": (lambda f: Image.fromarray(photo(50, 20, 30)).save(f / "x.jpg"), Severity.HURTS, "x.jpg (30 x 20)"),
    "thin": (lambda f: Image.fromarray(photo(50, 40, 300)).save(f / "x.jpg"), Severity.HURTS, "x.jpg (300 x 40)"),
    "huge": (
        lambda f: Image.fromarray(photo(50, 120, 90)).resize((6000, 4100)).save(f / "x.jpg"),
        Severity.WORTH_KNOWING,
        "x.jpg (6000 x 4100, 70 MiB when open)",
    ),
    "blank": (lambda f: Image.new("RGB", (90, 70), "teal").save(f / "x.jpg"), Severity.HURTS, "x.jpg"),
    "turned": (turned, Severity.WORTH_KNOWING, "x.jpg"),
    "grey": (lambda f: Image.fromarray(photo(50)).convert("L").save(f / "x.jpg"), Severity.WORTH_KNOWING, "x.jpg"),
}


@pytest.mark.parametrize("kind", FILES)
def test_each_finding_from_files(kind: str, tmp_path: Path) -> None:
    write, severity, example = FILES[kind]
    images = on_disk(tmp_path, several() | {"x.jpg": photo(60)})
    assert kind not in check(images).kinds()
    write(tmp_path)
    found = finding(check(images), kind)
    assert found.severity is severity
    assert found.examples().startswith(example)
    assert len(found.items) == 1


def test_when_most_are_broken_nothing_can_be_trained(tmp_path: Path) -> None:
    report = check(on_disk(tmp_path, several(3) | {f"{i}.jpg": b"" for i in range(4)}))
    found = finding(report, "unreadable")
    assert found.severity is Severity.STOPS
    assert "the file is empty" in found.examples()
    assert "4 images of 7 cannot be read" in report.verdict


def test_copies_and_what_they_disagree_about(tmp_path: Path) -> None:
    drawn = several(30)
    images = on_disk(tmp_path, drawn | {"a.png": photo(1), "b.bmp": photo(2), "c.jpg": photo(3)})
    report = check(images)
    exact, near = finding(report, "copies"), finding(report, "near_copies")
    assert {item.names for item in exact.items} == {("1.png", "a.png"), ("2.png", "b.bmp")}
    assert [item.note for item in exact.items] == ["the same bytes", "the same pixels"]
    assert [item.names for item in near.items] == [("3.png", "c.jpg")]
    # 1 is dog and a (30) is cat; 2 is cat and b (31) is dog; 3 is dog and c (32) is cat
    disagree = finding(report, "copies_disagree")
    assert disagree.severity is Severity.HURTS
    assert [item.note for item in disagree.items] == ["tagged dog against cat", "tagged cat against dog"]
    assert [item.names for item in finding(report, "near_copies_disagree").items] == [("3.png", "c.jpg")]


@pytest.mark.parametrize("state", [1, -1])
def test_copies_with_the_same_or_unknown_tags_do_not_disagree(tmp_path: Path, state: int) -> None:
    images = on_disk(tmp_path, several(2) | {"a.png": photo(1)}, tags=[0, 1, state])
    if state == -1:
        images.labels[2] = -1
    kinds = check(images).kinds()
    assert "copies" in kinds
    assert "copies_disagree" not in kinds


def test_images_of_one_split_in_another(tmp_path: Path) -> None:
    train = on_disk(tmp_path / "train", several(10))
    clean = on_disk(tmp_path / "clean", {f"{i}.png": photo(i) for i in range(100, 104)})
    leaky = on_disk(tmp_path / "leaky", {"x.png": photo(3), "y.jpg": photo(4), "z.png": photo(200)})
    splits = {"clean": clean, "leaky": leaky}
    report = check(train, splits, "train")
    assert [one.kind for one in report.findings].count("leak") == 1
    leak = finding(report, "leak")
    assert leak.severity is Severity.HURTS
    assert leak.title == "2 of 3 images of 'leaky' are in 'train' too, or nearly"
    assert [(item.names, item.note) for item in leak.items] == [
        (("3.png", "x.png"), "the same bytes"),
        (("4.png", "y.jpg"), "nearly the same"),
    ]
    together = check(train, {"train": train, **splits})
    assert finding(together, "leak") == leak


# --- from boxes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "expected"), [(0.95, True), (0.5, False)])
def test_objects_that_fill_the_image(tmp_path: Path, side: float, expected: bool) -> None:
    images = on_disk(tmp_path, {f"{i}.png": photo(i) for i in range(4)})
    box = np.array([[0, 0, 80 * side, 60 * side], [0, 0, 80, 60]], np.float32)
    truth = [TrueBoxes(box, np.zeros(2, np.int64), np.array([False, True]))] * 4  # the difficult one does not count
    report = check(images, truth=truth)
    assert ("fills_the_image" in report.kinds()) is expected
    assert report.classes[0].fills == pytest.approx(side**2, abs=1e-5)
    assert report.classes[1].fills is None
    assert not any("not known" in note for note in report.notes)
