"""A miniature VOC folder drawn from the embedded world, under the names of VOC's classes."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image

from deep_patch_learning.data.world import CLASSES, Placed, World, draw_scene

VOC_NAMES = dict(
    zip(CLASSES, ("aeroplane", "bird", "car", "person", "tvmonitor", "dog", "sheep", "train"), strict=True)
)
SMALL = ("--recipe", "modern", "--backbone", "tiny", "--weights", "shipped", "--steps", "2", "--device", "cpu")
SETTINGS = {
    "batch_images": 4,
    "images_per_micro_batch": 4,
    "min_patch_side": 20,
    "patches_per_sample": 16,
    "filters": 16,
    "scales": "48,64",
    "picking": "best",
    "learning_rate": 1e-3,
}


def write_annotation(path: Path, objects: Sequence[Placed]) -> None:
    """Write the boxes of an image as VOC does: counted from 1, both corners inside."""
    root = ElementTree.Element("annotation")
    for thing in objects:
        element = ElementTree.SubElement(root, "object")
        ElementTree.SubElement(element, "name").text = VOC_NAMES[thing.tag]
        ElementTree.SubElement(element, "difficult").text = "0"
        box = ElementTree.SubElement(element, "bndbox")
        x1, y1, x2, y2 = thing.box
        for corner, value in zip(("xmin", "ymin", "xmax", "ymax"), (x1 + 1, y1 + 1, x2, y2), strict=True):
            ElementTree.SubElement(box, corner).text = str(value)
    ElementTree.ElementTree(root).write(path)


def make_voc(folder: Path, splits: dict[str, int], tagged_test: bool = True) -> Path:
    """Write a VOC folder with so many images in each split; trainval is train and val together."""
    for inside in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / inside).mkdir(parents=True)
    lists: dict[str, list[tuple[str, set[str]]]] = {}
    for start, (split, count) in zip((0, 1000, 2000), splits.items(), strict=False):
        lists[split] = []
        for index in range(start, start + count):
            image, objects = draw_scene(7, index, World((96, 72)))
            name = f"{index:06d}"
            Image.fromarray(image).save(folder / "JPEGImages" / f"{name}.jpg", quality=92)
            if split != "test" or tagged_test:
                write_annotation(folder / "Annotations" / f"{name}.xml", objects)
            lists[split].append((name, {VOC_NAMES[thing.tag] for thing in objects}))
    lists["trainval"] = [*lists["train"], *lists["val"]]
    for split, entries in lists.items():
        main = folder / "ImageSets" / "Main"
        (main / f"{split}.txt").write_text("".join(f"{name}\n" for name, _ in entries))
        for tag in VOC_NAMES.values() if split != "test" or tagged_test else ():
            lines = (f"{name} {'1' if tag in tags else '-1':>2}\n" for name, tags in entries)
            (main / f"{tag}_{split}.txt").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: on images this small, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def mini_voc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VOC folder of 10 training and 8 validation images."""
    return make_voc(tmp_path_factory.mktemp("data") / "VOC2007", {"train": 10, "val": 8})


@pytest.fixture(scope="session")
def arguments() -> Callable[..., list[str]]:
    """Builds the arguments of a small reproduction."""

    def build(*given: object, **settings: object) -> list[str]:
        changes = [f"--set={key}={value}" for key, value in {**SETTINGS, **settings}.items()]
        return ["reproduce", *map(str, given), *SMALL, *changes, "--json"]

    return build
