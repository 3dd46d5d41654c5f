"""One object on a plain ground: a set of images like tools on a runway or goods on a belt, made from cut-outs of VOC 2007.

    python benchmarks/plain_ground.py VOC2007 --out FOLDER
    python benchmarks/own_images.py FOLDER/plain --out RUNS --seeds 0,1,2

Objects of eight classes are cut out of photos by GrabCut and laid on made-up asphalt, concrete, sand or lawn, each object in
one image: up to 30 of a class, every third to measure on. FOLDER/plain is a COCO data set; its boxes, those of
the cut-outs, only measure.
"""

import argparse
import json
from pathlib import Path

import cv2
import numpy as np

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth

CLASSES = ("bottle", "chair", "motorbike", "pottedplant", "sofa", "tvmonitor", "bicycle", "bus")
MOST, SEED = 30, 0
SMALLEST = 90  # pixels: the shorter side of an object's box
GROUNDS = ((105, 105, 108), (150, 148, 142), (150, 175, 200), (70, 115, 80))  # asphalt, concrete, sand, lawn; BGR
FRAME = (375, 500)  # height and width


def cut_out(pixels: np.ndarray, box: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return an object's pixels and mask, both cut at the mask's edges; None where GrabCut found little or all of its box."""
    x1, y1, x2, y2 = (int(value) for value in box)
    if (x2 - x1) * (y2 - y1) > 0.6 * pixels.shape[0] * pixels.shape[1]:
        return None  # too little ground around it to tell them apart
    mask = np.zeros(pixels.shape[:2], np.uint8)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(SEED)
    cv2.grabCut(pixels, mask, (x1, y1, x2 - x1, y2 - y1), *models, 4, cv2.GC_INIT_WITH_RECT)
    found = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    found = cv2.morphologyEx(found, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(found)
    if count < 2:
        return None
    largest = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    left, top, width, height, cells = stats[largest].tolist()
    whole = (x2 - x1) * (y2 - y1)
    if not 0.35 <= cells / whole <= 0.9 or width * height < 0.75 * whole:
        return None
    inside = (slice(top, top + height), slice(left, left + width))
    return pixels[inside], (labels[inside] == largest).astype(np.float32)


def ground(random: np.random.Generator) -> np.ndarray:
    """Return a plain ground: one colour with coarse and fine grain, and sometimes a painted line."""
    height, width = FRAME
    base = np.array(GROUNDS[random.integers(len(GROUNDS))], np.float32) + random.uniform(-15, 15)
    coarse = cv2.resize(random.normal(0, 9, (6, 8)).astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC)
    fine = random.normal(0, 9, (height, width)).astype(np.float32)
    made = base + (coarse + fine)[..., None]
    if random.random() < 0.4:
        points = random.uniform(0, 1, (2, 2)) * (width, height)
        first, last = (tuple(int(value) for value in point) for point in points)
        cv2.line(made, first, last, (205.0, 215.0, 220.0), int(random.integers(4, 14)))
    return made


def composed(pixels: np.ndarray, mask: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """Return an image of an object on a ground, and its box (x, y, width, height)."""
    height, width = FRAME
    side = random.uniform(0.25, 0.6) * min(FRAME)
    factor = side / np.sqrt(pixels.shape[0] * pixels.shape[1])
    factor = min(factor, 0.9 * height / pixels.shape[0], 0.9 * width / pixels.shape[1])
    size = (max(round(pixels.shape[1] * factor), 8), max(round(pixels.shape[0] * factor), 8))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    soft = cv2.resize(mask, size, interpolation=cv2.INTER_AREA)[..., None]
    left, top = int(random.integers(0, width - size[0])), int(random.integers(0, height - size[1]))
    made = ground(random)
    part = made[top : top + size[1], left : left + size[0]]
    part[:] = soft * small + (1 - soft) * part
    return made.clip(0, 255).astype(np.uint8), [left, top, *size]


def alone(boxes: np.ndarray, place: int) -> bool:
    """Return whether a box is large and hardly touches another."""
    others = np.delete(boxes, place, axis=0)
    large = (boxes[place, 2:] - boxes[place, :2]).min() >= SMALLEST
    return bool(large and (not len(others) or box_iou(boxes[place : place + 1], others).max() < 0.05))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("voc", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    folder = options.out / "plain"
    for name in ("images", "annotations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    images = read_tags(options.voc, "trainval")
    truth = read_truth(options.voc, images)
    assert truth is not None
    random = np.random.default_rng(SEED)
    splits: dict[str, tuple[list[dict[str, object]], list[dict[str, object]]]] = {"train": ([], []), "val": ([], [])}
    number = 0
    for index, name in enumerate(CLASSES):
        column, made = images.classes.index(name), 0
        for image in random.permutation(len(images)).tolist():
            own = np.flatnonzero((truth[image].classes == column) & ~truth[image].difficult).tolist()
            if made == MOST:
                break
            if len(own) != 1 or not alone(truth[image].boxes, own[0]):
                continue
            cut = cut_out(cv2.imread(str(images.paths[image])), truth[image].boxes[own[0]])
            if cut is None:
                continue
            pixels, box = composed(*cut, random)
            made, number = made + 1, number + 1
            file = f"{name}-{made:02d}.jpg"
            cv2.imwrite(str(folder / "images" / file), pixels, [cv2.IMWRITE_JPEG_QUALITY, 92])
            listed, boxes = splits["train" if made % 3 else "val"]
            listed.append({"id": number, "file_name": file, "height": FRAME[0], "width": FRAME[1]})
            area = box[2] * box[3]
            boxes.append(
                {"id": number, "image_id": number, "category_id": index + 1, "bbox": box, "area": area, "iscrowd": 0}
            )
        print(name, made, flush=True)
    categories = [{"id": index + 1, "name": name} for index, name in enumerate(CLASSES)]
    for split, (listed, boxes) in splits.items():
        content = {"images": listed, "annotations": boxes, "categories": categories}
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))


if __name__ == "__main__":
    main()
