"""Each format is read back by a reader of its own world, and by ours, and nothing is lost."""

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.datasets import CocoDetection, VOCDetection

from deep_patch_learning.cluster.work import FORMATS as SHARD_FORMATS
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.labels import write
from deep_patch_learning.labels.select import LabelRule
from deep_patch_learning.labels.voc import inclusive
from deep_patch_learning.labels.write import LabelTarget
from deep_patch_learning.labels.yolo import quoted

from .conftest import CLASSES, prediction

write_labels = partial(write.write_labels, rule=LabelRule(boxes_per_class=None))


def same(found: list, wanted: list, pixels: float = 1e-4) -> None:
    """Check that boxes, classes and scores are those wanted, in order."""
    assert [index for _, index, _ in found] == [index for _, index, _ in wanted]
    for (box, _, score), (true_box, _, true_score) in zip(found, wanted, strict=True):
        assert np.abs(np.subtract(box, true_box)).max() <= pixels
        assert score == pytest.approx(true_score, abs=1e-6)


# --- COCO


@pytest.fixture
def coco_folder(odd: tuple, tmp_path: Path) -> Path:
    write_labels(odd[1], odd[0], LabelTarget(tmp_path / "coco", "coco", split="train"))
    return tmp_path / "coco"


def test_coco_by_pycocotools(coco_folder: Path, written: dict) -> None:
    from pycocotools.coco import COCO

    coco = COCO(str(coco_folder / "annotations" / "instances_train.json"))
    assert coco.getCatIds() == [1, 2, 3]
    assert [category["name"] for category in coco.loadCats([1, 2, 3])] == list(CLASSES)
    assert len(coco.getImgIds()) == len(written)  # the one without boxes too
    for entry in coco.loadImgs(coco.getImgIds()):
        annotations = coco.loadAnns(coco.getAnnIds(imgIds=entry["id"], iscrowd=False))
        found = []
        for one in annotations:
            x, y, width, height = one["bbox"]
            assert one["area"] == pytest.approx(width * height)
            found.append(([x, y, x + width, y + height], one["category_id"] - 1, one["score"]))
        same(found, written[entry["file_name"]])
        with Image.open(coco_folder / "images" / entry["file_name"]) as image:
            assert image.size == (entry["width"], entry["height"])


def test_coco_is_measured_against_itself_as_perfect(coco_folder: Path) -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = COCO(str(coco_folder / "annotations" / "instances_train.json"))
    keys = ("image_id", "category_id", "bbox", "score")
    found = truth.loadRes([{key: one[key] for key in keys} for one in truth.dataset["annotations"]])
    measure = COCOeval(truth, found, "bbox")
    measure.evaluate()
    measure.accumulate()
    measure.summarize()
    assert measure.stats[0] == pytest.approx(1)


def test_coco_by_torchvision(coco_folder: Path, written: dict) -> None:
    found = CocoDetection(str(coco_folder / "images"), str(coco_folder / "annotations" / "instances_train.json"))
    assert sorted(len(target) for _, target in found) == sorted(map(len, written.values()))


def test_coco_by_our_reader(coco_folder: Path, written: dict) -> None:
    file = coco_folder / "annotations" / "instances_train.json"
    images = read_tags(file)
    assert images.classes == CLASSES
    assert images.names == tuple(written)
    truth = read_truth(file, images)
    assert truth is not None
    for one, states, wanted in zip(truth, images.labels, written.values(), strict=True):
        same([(b, c, 0) for b, c in zip(one.boxes, one.classes, strict=True)], [(b, c, 0) for b, c, _ in wanted])
        assert np.flatnonzero(states == 1).tolist() == sorted({index for _, index, _ in wanted})


# --- VOC


@pytest.fixture
def voc_folder(odd: tuple, tmp_path: Path) -> Path:
    folder = tmp_path / "devkit" / "VOCdevkit" / "VOC2007"
    write_labels(odd[1], odd[0], LabelTarget(folder, "voc", split="train"))
    return folder


def test_voc_by_torchvision(voc_folder: Path, written: dict) -> None:
    found = VOCDetection(str(voc_folder.parents[1]), year="2007", image_set="train")
    assert len(found) == len(written)
    for (image, target), (name, wanted) in zip(found, written.items(), strict=True):
        note = target["annotation"]
        assert (note["folder"], note["source"]["image"]) == ("VOC2007", name)
        assert image.size == (int(note["size"]["width"]), int(note["size"]["height"]))
        assert (voc_folder / "JPEGImages" / note["filename"]).is_file()
        read = []
        for thing in note["object"]:
            assert (thing["pose"], thing["truncated"], thing["difficult"]) == ("Unspecified", "0", "0")
            x1, y1, x2, y2 = (int(thing["bndbox"][key]) for key in ("xmin", "ymin", "xmax", "ymax"))
            assert 1 <= x1 <= x2 <= image.width
            assert 1 <= y1 <= y2 <= image.height
            read.append(([x1 - 1, y1 - 1, x2, y2], CLASSES.index(thing["name"]), float(thing["score"])))
        same(read, wanted, pixels=0.5)


def test_voc_by_our_reader(voc_folder: Path, odd: tuple, written: dict) -> None:
    images = read_tags(voc_folder, "train")
    assert sorted(images.classes) == sorted(CLASSES)
    order = [images.classes.index(name) for name in CLASSES]
    assert images.labels[:, order].tolist() == odd[0].labels.tolist()  # with what was abstained from, and unknown
    truth = read_truth(voc_folder, images)
    assert truth is not None
    for one, wanted in zip(truth, written.values(), strict=True):
        same(
            [(b, CLASSES.index(images.classes[c]), 0) for b, c in zip(one.boxes, one.classes, strict=True)],
            [(b, c, 0) for b, c, _ in wanted],
            pixels=0.5,
        )


def test_voc_tags_without_lists_for_classes_that_cannot_name_a_file(odd: tuple, tmp_path: Path) -> None:
    images, _ = odd
    classes = ("a/b", "c", "d")
    renamed = type(images)(classes, images.names[:1], images.paths[:1], images.labels[:1])
    found = [prediction("beach/001.jpg", (120, 80), [([0, 0, 5, 5], 0, 0.9)], classes)]
    write_labels(found, renamed, LabelTarget(tmp_path / "v", "voc"))
    assert read_tags(tmp_path / "v", "train").classes == ("a/b",)


def test_a_class_name_that_xml_cannot_hold(odd: tuple, tmp_path: Path) -> None:
    images, _ = odd
    classes = ("a\x01b", "c", "d")
    renamed = type(images)(classes, images.names[:1], images.paths[:1], images.labels[:1])
    for format in ("voc", "label-studio"):
        with pytest.raises(DataError, match="Rename the class"):
            write_labels(
                [prediction("beach/001.jpg", (120, 80), [], classes)], renamed, LabelTarget(tmp_path / "v", format)
            )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


@given(st.data())
def test_whole_pixels_from_one(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 500))
    x1 = data.draw(st.floats(0, width - 1))
    x2 = data.draw(st.floats(min(x1 + 1, width), width))
    left, top, right, bottom = inclusive([x1, x1, x2, x2], width, width)
    assert (left, right) == (top, bottom)
    assert 1 <= left <= right <= width
    assert abs(left - 1 - x1) <= 0.5
    assert abs(right - x2) <= 0.5


# --- YOLO, read by the rules of ultralytics: lists, `/images/` -> `/labels/`, rows of five numbers, `val` a must

YOLO_SUFFIXES = {"bmp", "dng", "jpeg", "jpg", "mpo", "png", "tif", "tiff", "webp", "heic"}


def read_yolo(file: Path) -> tuple[dict[int, str], dict[str, np.ndarray]]:
    """Return class names by number, and the rows of each image by its path."""
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert {"train", "val", "names"} <= data.keys()
    root = Path(data.get("path") or file.parent)
    listing = (root / data["train"]).resolve()
    lines = listing.read_text(encoding="utf-8").strip().splitlines()
    images = [line.replace("./", f"{listing.parent}{os.sep}", 1) if line.startswith("./") else line for line in lines]
    images = [image for image in images if image.rpartition(".")[-1].lower() in YOLO_SUFFIXES]
    rows = {}
    for image in images:
        head, tail = image.rsplit(f"{os.sep}images{os.sep}", 1)
        labels = Path(f"{head}{os.sep}labels{os.sep}{tail}".rsplit(".", 1)[0] + ".txt")
        found = [line.split() for line in labels.read_text(encoding="utf-8").strip().splitlines() if line]
        assert all(len(row) == 5 for row in found)
        rows[image] = np.array(found, np.float32).reshape(-1, 5)
        assert (rows[image][:, 1:] <= 1).all()
        assert (rows[image] >= 0).all()
        assert (rows[image][:, 0] < len(data["names"])).all()
        assert len(np.unique(rows[image], axis=0)) == len(found)  # else some are taken for doubles
    return data["names"], rows


def test_yolo_by_the_rules_of_its_reader(odd: tuple, tmp_path: Path, written: dict) -> None:
    write_labels(odd[1], odd[0], LabelTarget(tmp_path / "images" / "yolo", "yolo", split="train"))
    names, rows = read_yolo(tmp_path / "images" / "yolo" / "data.yaml")
    assert names == dict(enumerate(CLASSES))
    assert len(rows) == len(written)
    for (file, found), (name, wanted) in zip(rows.items(), written.items(), strict=True):
        path = Path(file)
        assert path.resolve() == (tmp_path / "photos" / name).resolve()
        with Image.open(path) as image:
            width, height = image.size
        scores = (tmp_path / "images" / "yolo" / "scores" / f"{path.stem}.txt").read_text().split()
        read = []
        for (index, cx, cy, w, h), score in zip(found.astype(float).tolist(), scores, strict=True):
            box = [(cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height]
            read.append((box, int(index), float(score)))
        same(read, wanted, pixels=1e-3)


@given(st.text())
def test_any_name_is_a_yaml_string(text: str) -> None:
    assert yaml.safe_load(f"names:\n  0: {quoted(text)}\n") == {"names": {0: text}}


# --- Label Studio, by its documentation of pre-annotations


def check_task(task: dict, config: ElementTree.Element) -> None:
    """Check the structure that Label Studio documents for a task with predictions of rectangles."""
    control, image = config.find("RectangleLabels"), config.find("Image")
    assert control is not None
    assert image is not None
    assert image.get("value") == "$image"
    assert control.get("toName") == image.get("name")
    choices = {label.get("value") for label in control.findall("Label")}
    assert isinstance(task["data"]["image"], str)
    assert not re.search(r"\s", task["data"]["image"])
    for one in task["predictions"]:
        assert isinstance(one["model_version"], str)
        assert 0 <= one["score"] <= 1
        assert one["result"]
        for region in one["result"]:
            assert region["type"] == "rectanglelabels"
            assert (region["from_name"], region["to_name"]) == (control.get("name"), image.get("name"))
            assert isinstance(region["id"], str)
            assert isinstance(region["original_width"], int)
            assert isinstance(region["original_height"], int)
            value = region["value"]
            assert set(value["rectanglelabels"]) <= choices
            assert len(value["rectanglelabels"]) == 1
            assert value["rotation"] == 0
            assert 0 <= value["x"] <= value["x"] + value["width"] <= 100 + 1e-9
            assert 0 <= value["y"] <= value["y"] + value["height"] <= 100 + 1e-9


def test_label_studio(odd: tuple, tmp_path: Path, written: dict) -> None:
    folder = tmp_path / "studio"
    write_labels(odd[1], odd[0], LabelTarget(folder, "label-studio", model_version="runs/one"))
    tasks = json.loads((folder / "tasks.json").read_text())
    config = ElementTree.parse(folder / "config.xml").getroot()
    ids = [region["id"] for task in tasks for one in task["predictions"] for region in one["result"]]
    assert len(set(ids)) == len(ids) == sum(map(len, written.values()))
    assert [task["data"]["name"] for task in tasks] == list(written)
    assert tasks[1]["data"]["tags"] == ["bus", "a dog"]
    for task, (name, wanted) in zip(tasks, written.items(), strict=True):
        check_task(task, config)
        # its server joins the document root and the decoded `d`
        address = urlsplit(task["data"]["image"])
        assert address.path == "/data/local-files/"
        assert (tmp_path / parse_qs(address.query)["d"][0]) == tmp_path / "photos" / name
        read = []
        for region in (region for one in task["predictions"] for region in one["result"]):
            x, y, w, h = (region["value"][key] / 100 for key in ("x", "y", "width", "height"))
            width, height = region["original_width"], region["original_height"]
            box = [x * width, y * height, (x + w) * width, (y + h) * height]
            read.append((box, CLASSES.index(region["value"]["rectanglelabels"][0]), region["score"]))
        same(read, wanted)
        if wanted:
            assert task["predictions"][0]["score"] == pytest.approx(min(score for _, _, score in wanted))


# --- names


def test_flat_names_are_unique_and_readable(tagged: Callable, tmp_path: Path) -> None:
    names = [
        "a/1.jpg",
        "a_1.jpg",
        "a/1.png",
        "A/1.jpg",
        "x\u2028y.jpg",
        "日本 語.jpg",
        "_DSC1.jpg",
        ".h.jpg",
        "d" * 240 + ".jpg",
    ]
    images = tagged(dict.fromkeys(names, (12, 12)), [[0, 0, 0]] * len(names))
    found = [prediction(name, (12, 12), []) for name in names]
    write_labels(found, images, LabelTarget(tmp_path / "v", "voc"))
    ids = (tmp_path / "v" / "ImageSets" / "Main" / "train.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert ids == ["a_1", "a_1_2", "a_1_3", "A_1_4", "x_y", "日本_語", "_DSC1", "h", "d" * 180]
    for image_id, name in zip(ids, names, strict=True):
        assert (tmp_path / "v" / "JPEGImages" / f"{image_id}.jpg").resolve() == (tmp_path / "photos" / name).resolve()


def test_names_outside_the_data_folder(tagged: Callable, tmp_path: Path) -> None:
    images = tagged({"in/1.jpg": (12, 12), "out/2.jpg": (12, 12)}, [[0, 0, 0]] * 2)
    names = ("1.jpg", str(images.paths[1]))  # a CSV in photos/in that names a file elsewhere by its whole path
    renamed = type(images)(CLASSES, names, images.paths, images.labels)
    write_labels([prediction(name, (12, 12), []) for name in names], renamed, LabelTarget(tmp_path / "c", "coco"))
    content = json.loads((tmp_path / "c" / "annotations" / "instances_train.json").read_text())
    assert [image["file_name"] for image in content["images"]] == ["in/1.jpg", "out/2.jpg"]
    assert (tmp_path / "c" / "images" / "out" / "2.jpg").is_file()


def test_the_page_on_formats_names_each_that_is_written() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    written = {
        found[1] for row in rows if row[1] in ("out", "both") and (found := re.search(r"\(`([a-z-]+)`\)$", row[0]))
    }
    assert written == set(write.FORMATS)
    for name in SHARD_FORMATS:
        assert name in written
    assert any("--engine ray" in row[0] for row in rows)
