"""CVAT, Create ML, FiftyOne and imagefolder: read back by their library where it installs, else by their documented schema."""

import json
import shutil
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.labels import write
from deep_patch_learning.labels.select import LabelRule
from deep_patch_learning.labels.write import LabelTarget

from .conftest import CLASSES, prediction

write_labels = partial(write.write_labels, rule=LabelRule(boxes_per_class=None))
TAGS = {
    "beach/001.jpg": ["bus"],
    "beach_001.jpg": ["bus", "a dog"],
    "images/my dog, naïve 100%.png": ["a dog", "père & fils"],
    "images/b&w <x>#1.JPG": ["bus"],
    "empty.jpg": [],
}


def written_as(format: str, odd: tuple, folder: Path) -> Path:
    write_labels(odd[1], odd[0], LabelTarget(folder / format, format, split="train"))
    return folder / format


def same(found: list, wanted: list, pixels: float = 1e-4) -> None:
    """Check boxes (x1, y1, x2, y2) and classes, and scores where they are kept."""
    assert [one[1] for one in found] == [CLASSES[index] for _, index, _ in wanted]
    for (box, _, score), (true_box, _, true_score) in zip(found, wanted, strict=True):
        assert np.abs(np.subtract(box, true_box)).max() <= pixels
        assert score is None or score == pytest.approx(true_score, abs=1e-6)


def test_imagefolder_by_datasets(odd: tuple, written: dict, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face datasets: pip install datasets")
    folder = written_as("imagefolder", odd, tmp_path)
    read = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(tmp_path / "cache"))
    assert list(read) == ["train"]
    assert len(read["train"]) == len(written)
    for row in read["train"]:
        wanted = written[row["image_name"]]
        objects = row["objects"]
        corners = [(x, y, x + width, y + height) for x, y, width, height in objects["bbox"]]
        same(list(zip(corners, objects["categories"], objects["scores"], strict=True)), wanted)
        assert row["tags"] == TAGS[row["image_name"]]
        assert row["unknown"] == (["père & fils"] if row["image_name"] == "beach_001.jpg" else [])
        assert row["image"].size == (row["width"], row["height"])


def test_createml_by_its_schema(odd: tuple, written: dict, tmp_path: Path) -> None:
    # developer.apple.com/documentation/createml: one JSON beside the images, [{image, annotations: [{label, coordinates}]}]
    place = written_as("createml", odd, tmp_path) / "train"
    (file,) = place.glob("*.json")
    entries = json.loads(file.read_text())
    assert {entry["image"] for entry in entries} | {file.name} == {path.name for path in place.iterdir()}
    for entry, wanted in zip(entries, written.values(), strict=True):
        assert set(entry) == {"image", "annotations"}
        found = []
        for one in entry["annotations"]:
            assert set(one) == {"label", "coordinates"}
            x, y, width, height = (one["coordinates"][key] for key in ("x", "y", "width", "height"))
            found.append(((x - width / 2, y - height / 2, x + width / 2, y + height / 2), one["label"], None))
        same(found, wanted)
        with Image.open(place / entry["image"]) as image:
            image.load()


def test_createml_by_supervision(odd: tuple, written: dict, tmp_path: Path) -> None:
    supervision = pytest.importorskip("supervision", reason="needs supervision: pip install supervision")
    if not hasattr(supervision.DetectionDataset, "from_createml"):
        pytest.skip("this version of supervision does not read Create ML")
    place = tmp_path / "copied"
    shutil.copytree(written_as("createml", odd, tmp_path) / "train", place)  # it follows no link out of the folder
    read = supervision.DetectionDataset.from_createml(str(place), str(place / "annotations.json"))
    entries = json.loads((place / "annotations.json").read_text())
    assert len(read) == len(entries) == len(written)
    for entry, wanted in zip(entries, written.values(), strict=True):
        found = read.annotations[str(place / entry["image"])]
        names = [read.classes[index] for index in found.class_id]
        same(list(zip(found.xyxy, names, [None] * len(names), strict=True)), wanted, pixels=1e-3)


def test_cvat_by_its_schema(odd: tuple, written: dict, tmp_path: Path) -> None:
    # https://docs.cvat.ai/docs/dataset_management/formats/format-cvat/: "CVAT for images 1.1"
    folder = written_as("cvat", odd, tmp_path)
    top = ElementTree.parse(folder / "annotations.xml").getroot()
    assert top.findtext("version") == "1.1"
    assert [label.findtext("name") for label in top.iterfind("meta/task/labels/label")] == list(CLASSES)
    images = top.findall("image")
    assert [image.get("id") for image in images] == [str(number) for number in range(len(written))]
    for image in images:
        name = image.get("name", "")
        boxes = []
        for box in image.findall("box"):
            corners = [float(box.get(key, "nan")) for key in ("xtl", "ytl", "xbr", "ybr")]
            (score,) = box.findall("attribute[@name='score']")
            boxes.append((corners, box.get("label"), float(score.text or "nan")))
        same(boxes, written[name], pixels=0.006)
        assert [tag.get("label") for tag in image.findall("tag")] == TAGS[name]
        with Image.open(folder / "images" / name) as opened:
            assert opened.size == (int(image.get("width", 0)), int(image.get("height", 0)))


def test_cvat_by_datumaro(odd: tuple, written: dict, tmp_path: Path) -> None:
    datumaro = pytest.importorskip(
        "datumaro", reason="needs datumaro, in an environment of its own: pip install datumaro"
    )
    read = datumaro.Dataset.import_from(str(written_as("cvat", odd, tmp_path)), "cvat")
    assert [label.name for label in read.categories()[datumaro.AnnotationType.label]] == list(CLASSES)
    found = {item.id: item.annotations for item in read}
    assert len(found) == len(written)
    for name, wanted in written.items():
        boxes = [one for one in found[Path(name).with_suffix("").as_posix()] if isinstance(one, datumaro.Bbox)]
        rows = [(one.points, CLASSES[one.label], float(one.attributes["score"])) for one in boxes]
        same(rows, wanted, pixels=0.006)


def test_fiftyone_by_its_importer(odd: tuple, written: dict, tmp_path: Path) -> None:
    data = pytest.importorskip(
        "fiftyone.utils.data", reason="needs fiftyone, which brings a database: pip install fiftyone"
    )
    folder = written_as("fiftyone", odd, tmp_path)
    with data.FiftyOneImageDetectionDatasetImporter(dataset_dir=str(folder)) as importer:
        found = {Path(path).name: detections for path, _, detections in importer}
    assert len(found) == len(written)
    labels = sorted(one.label for detections in found.values() if detections for one in detections.detections)
    assert labels == sorted(CLASSES[index] for wanted in written.values() for _, index, _ in wanted)


def test_fiftyone_by_its_schema(odd: tuple, written: dict, tmp_path: Path) -> None:
    # https://docs.voxel51.com: FiftyOneImageDetectionDataset and FiftyOneImageClassificationDataset
    folder = written_as("fiftyone", odd, tmp_path)
    boxes, tags = (json.loads((folder / file).read_text()) for file in ("labels.json", "tags.json"))
    files = {path.stem: path for path in (folder / "data").iterdir()}
    assert boxes["classes"] == tags["classes"] == list(CLASSES)
    assert set(boxes["labels"]) == set(tags["labels"]) == set(files)
    for (key, detections), (name, wanted) in zip(boxes["labels"].items(), written.items(), strict=True):
        with Image.open(files[key]) as image:
            width, height = image.size
        found = []
        for one in detections:
            x, y, across, down = one["bounding_box"]
            corners = (x * width, y * height, (x + across) * width, (y + down) * height)
            found.append((corners, CLASSES[one["label"]], one["confidence"]))
        same(found, wanted)
        assert [CLASSES[index] for index in tags["labels"][key]] == TAGS[name]


def test_a_class_that_xml_cannot_hold_is_refused_and_nothing_is_left(odd: tuple, tmp_path: Path) -> None:
    images, found = odd
    names = ("bus", "a dog", "bell\x07")
    renamed = type(images)(names, images.names, images.paths, images.labels)
    again = [prediction(one.name, (one.width, one.height), [], names) for one in found]
    with pytest.raises(DataError, match="XML cannot hold that name"):
        write_labels(again, renamed, LabelTarget(tmp_path / "cvat", "cvat"))
    assert not (tmp_path / "cvat").exists()
