"""Fifty images of VOC 2007 val with the boxes of the shipped model, judged by eye and counted by kind of mistake.

    python benchmarks/shipped_mistakes.py draw VOC2007 --out FOLDER
    python benchmarks/shipped_mistakes.py count

`draw` chooses the images (fixed seed), draws every box that the model shows, numbered, on sheets of nine, writes one sheet of
all to docs/images/shipped_mistakes.jpg and lists each box and each tag without one in FOLDER/shown.csv. Its column `kind` is
then filled in by eye; that is results/shipped_mistakes_judged.csv. `count` writes results/shipped_mistakes.csv from it.
"""

import argparse
import csv
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageOps

import deep_patch_learning as dpl
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.common.drawing import class_colour, draw_boxes
from deep_patch_learning.data.dataset import ABSENT, PRESENT
from deep_patch_learning.data.readers.read import read_tags
from rows import RESULTS, write_rows

KINDS = ("right", "part only", "several objects", "too large or background", "wrong class", "missed tag")
SHEET = RESULTS.parent / "docs" / "images" / "shipped_mistakes.jpg"
JUDGED = RESULTS / "shipped_mistakes_judged.csv"
IMAGES, SEED = 50, 0


def draw(options: argparse.Namespace) -> None:
    """Draw the boxes, and list what is to be judged."""
    images = read_tags(options.data, "val")
    chosen = sorted(np.random.default_rng(SEED).permutation(len(images))[:IMAGES].tolist())
    model = dpl.load()
    options.out.mkdir(parents=True, exist_ok=True)
    rows, drawn = [], []
    for place, index in enumerate(chosen):
        found = model.predict(images.paths[index])
        boxes = list(found.boxes)
        columns = [images.classes.index(box.tag) for box in boxes]
        name = Path(images.names[index]).stem
        for number, box in enumerate(boxes, start=1):
            rows.append({"image": name, "number": number, "tag": box.tag, "kind": ""})
        # a tag that VOC calls difficult counts neither as there nor as absent
        for column in np.flatnonzero(images.labels[index] == PRESENT).tolist():
            if column not in columns:
                rows.append({"image": name, "number": "", "tag": images.classes[column], "kind": "missed tag"})
        for row in rows:
            if row["image"] == name and row["number"]:
                absent = images.labels[index, images.classes.index(str(row["tag"]))] == ABSENT
                row["kind"] = "wrong class" if absent else ""
        labels = [f"{number} {box.tag}" for number, box in enumerate(boxes, start=1)]
        corners = np.array([box.box for box in boxes], float).reshape(-1, 4)
        pixels = draw_boxes(images.read(index), corners, labels, [class_colour(column) for column in columns])
        there = [images.classes[column] for column in np.flatnonzero(images.labels[index] == PRESENT)]
        drawn.append((pixels, f"{name}: {', '.join(there)}"))
        print(place + 1, name, labels, flush=True)
    write_rows(options.out / "shown.csv", rows)
    for first in range(0, IMAGES, 9):
        sheet_of(drawn[first : first + 9], 3, 520).save(options.out / f"sheet-{first // 9 + 1}.jpg", quality=88)
    SHEET.parent.mkdir(parents=True, exist_ok=True)
    sheet_of(drawn, 8, 250).save(SHEET, quality=76, optimize=True)


def sheet_of(drawn: list[tuple[Image.Image, str]], columns: int, side: int) -> Image.Image:
    """Return images with a line under each, in rows of `columns`, each in a square of `side` pixels."""
    caption = 14
    rows = -(-len(drawn) // columns)
    sheet = Image.new("RGB", (columns * side, rows * (side + caption)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, (image, words) in enumerate(drawn):
        row, column = divmod(place, columns)
        small = ImageOps.contain(image, (side - 6, side - 6), Image.Resampling.LANCZOS)
        left, top = column * side, row * (side + caption)
        sheet.paste(small, (left + (side - small.width) // 2, top + (side - small.height) // 2))
        pen.text((left + 4, top + side), words, fill="black")
    return sheet


def count(options: argparse.Namespace) -> None:
    """Count what was judged, by kind."""
    with JUDGED.open() as file:
        judged = list(csv.DictReader(file))
    kinds = Counter(row["kind"] for row in judged)
    unknown = kinds.keys() - set(KINDS)
    if unknown:
        raise SystemExit(f"{JUDGED}: {unknown} is no kind; wanted {', '.join(KINDS)}")
    shown = sum(kinds.values()) - kinds["missed tag"]
    command = (
        "python benchmarks/shipped_mistakes.py draw VOC2007 --out FOLDER; python benchmarks/shipped_mistakes.py count"
    )
    about = {"images": IMAGES, "command": command, "seed": SEED}
    about |= {"machine": machine_name(), "date": date.today().isoformat()}
    rows = []
    for kind in KINDS:
        share = "" if kind == "missed tag" else round(100 * kinds[kind] / shown, 1)
        seen_in = len({row["image"] for row in judged if row["kind"] == kind})
        rows.append({"kind": kind, "count": kinds[kind], "percent_of_boxes": share, "seen_in": seen_in} | about)
    write_rows(RESULTS / "shipped_mistakes.csv", rows)
    print(*rows, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    ways = parser.add_subparsers(required=True)
    drawing = ways.add_parser("draw")
    drawing.add_argument("data", type=Path)
    drawing.add_argument("--out", type=Path, required=True)
    drawing.set_defaults(work=draw)
    ways.add_parser("count").set_defaults(work=count)
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
