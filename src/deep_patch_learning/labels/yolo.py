"""Labels for YOLO: `data.yaml`, a list of images, `labels/ID.txt`, and `images/` with a link to each image.

A reader finds the labels of `images/ID.jpg` at `labels/ID.txt`. It takes rows of five numbers alone, so the scores lie apart, in
`scores/ID.txt`, one line for each row.
"""

from pathlib import Path

from deep_patch_learning.data.images import IMAGE_SUFFIXES
from deep_patch_learning.labels.links import flat_names, link
from deep_patch_learning.labels.select import LabelledImage, LabelSet


def write_yolo(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`, main file first."""
    (folder / "labels").mkdir()
    (folder / "scores").mkdir()
    listed = []
    for image_id, image in zip(flat_names(labels.images), labels.images, strict=True):
        suffix = image.path.suffix.lower()
        file = f"{image_id}{suffix if suffix in IMAGE_SUFFIXES else '.jpg'}"
        link(folder / "images" / file, image)
        listed.append(f"./images/{file}")  # readers put the list's own folder in the place of the dot
        _write(folder / "labels" / f"{image_id}.txt", rows(image))
        _write(folder / "scores" / f"{image_id}.txt", [f"{score:.6f}" for score in image.scores])
    _write(folder / f"{labels.split}.txt", listed)
    _write(folder / "data.yaml", description(labels))
    return ["data.yaml", f"{labels.split}.txt", "labels", "scores", "images"]


def rows(image: LabelledImage) -> list[str]:
    """Return a line `class cx cy w h` for each box, as shares of the image's width and height."""
    lines = []
    for (x1, y1, x2, y2), index in zip(image.boxes.tolist(), image.classes.tolist(), strict=True):
        across = (x1 + x2) / 2 / image.width, (x2 - x1) / image.width
        down = (y1 + y2) / 2 / image.height, (y2 - y1) / image.height
        lines.append(f"{index} {across[0]:.8f} {down[0]:.8f} {across[1]:.8f} {down[1]:.8f}")
    return lines


def description(labels: LabelSet) -> list[str]:
    """Return the lines of `data.yaml`; paths in it are relative to its own folder."""
    file = quoted(f"{labels.split}.txt")
    names = [f"  {index}: {quoted(name)}" for index, name in enumerate(labels.classes)]
    return [
        "# Boxes found by Deep Patch Learning from tags alone.",
        f"train: {file}",
        f"val: {file}  # readers want one: put a list of images with boxes that people drew here",
        "names:",
        *names,
    ]


def quoted(text: str) -> str:
    """Return a text as a YAML string."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
