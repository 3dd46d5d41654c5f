"""The paper's two figures as PNG files: patterns that part filters respond to, and right and wrong discoveries."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from deep_patch_learning.common.drawing import RIGHT, TRUE, WRONG, Colour, draw_boxes, draw_verdict
from deep_patch_learning.data.dataset import PRESENT, TaggedImages
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.report.images import Find, judge
from deep_patch_learning.report.parts import FilterPatches, strongest_patches


@dataclass(frozen=True)
class SheetRow:
    """One row of a figure: its label, a second line under it, and its tiles; None leaves a place empty."""

    label: str
    note: str
    tiles: tuple[Image.Image | None, ...]


KINDS = ("patterns", "discoveries")
SHOWN_CLASSES = ("aeroplane", "bird", "car", "person", "tvmonitor")  # the rows of the paper's figure
BLUE: Colour = (30, 110, 240)


# -- discoveries


DISCOVERY_TILE = (212, 159)  # 4 : 3, as most photographs
EACH = 3  # right and wrong ones in a row
TRIED = 60  # images of each class among which they are drawn


def discoveries(
    model: Model,
    prepared: Prepared,
    truth: Sequence[TrueBoxes],
    classes: Sequence[str] = SHOWN_CLASSES,
    seed: int = 0,
) -> Image.Image | None:
    """Return right and wrong discoveries, a row per class; None when no image shows any of the classes.

    The images are drawn at random, never chosen by their looks. A row's note is the share of right ones among those looked
    at, since the row itself shows as many wrong as right.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for name in [name for name in classes if name in prepared.images.classes]:
        index = prepared.images.classes.index(name)
        shown = np.flatnonzero([len(one.of_class(index)) > 0 for one in truth])
        shown = shown[prepared.images.labels[shown, index] == PRESENT]
        chosen = rng.permutation(shown)[:TRIED].tolist()
        if chosen:
            rows.append(_discovery_row(model, prepared, truth, index, chosen))
    if not rows:
        return None
    legend: Legend = [
        (RIGHT, "right: overlap with a true box of at least 0.5"),
        (WRONG, "wrong"),
        (TRUE, "true boxes"),
        (None, "images drawn at random"),
    ]
    return sheet(rows, legend, DISCOVERY_TILE, halves=True)


def _discovery_row(
    model: Model, prepared: Prepared, truth: Sequence[TrueBoxes], index: int, chosen: Sequence[int]
) -> SheetRow:
    images = prepared.images.subset(chosen)
    name = images.classes[index]
    some = Prepared(images, [prepared.patches[i] for i in chosen], [])
    predictions = predict_prepared(model, some, description=f"discoveries: {name}")
    found: dict[bool, list[Image.Image]] = {True: [], False: []}
    count = 0
    for place, (number, prediction) in enumerate(zip(chosen, predictions, strict=True)):
        find = next(one for one in judge(prediction, images.labels[place], truth[number]) if one.class_index == index)
        if find.right is None:
            continue
        count += find.right
        if len(found[find.right]) < EACH:
            true_boxes = truth[number].of_class(index)
            found[find.right].append(discovery_tile(images.read(place), find, true_boxes))
    tiles: list[Image.Image | None] = []
    for kind in (True, False):
        tiles += [*found[kind], *[None] * (EACH - len(found[kind]))]
    return SheetRow(name, f"{count} of {len(chosen)} right", tuple(tiles))


def discovery_tile(image: np.ndarray, find: Find, true_boxes: np.ndarray) -> Image.Image:
    """Return a tile with the found box in green or red and the true ones dashed; nothing of a box is cut away."""
    boxes = np.concatenate([np.array(find.box, np.float64).reshape(1, 4), true_boxes])
    height, width = image.shape[:2]
    window = fitting_window((width, height), boxes, DISCOVERY_TILE)
    tile, factor = view(image, window, DISCOVERY_TILE)
    moved = (boxes - np.tile(window[:2], 2)) * factor
    return draw_verdict(tile, moved[:1], [bool(find.right)], None, moved[1:], scale=1.6)


# -- patterns


PATTERN_TILE = (112, 112)
PER_FILTER = 9
PATTERNS = 8
SEARCHED = 400  # images among which a filter's strongest patches are looked for
AROUND = 1.35  # how much wider than the patch its surroundings are shown


def patterns(model: Model, prepared: Prepared, count: int = PATTERNS) -> Image.Image | None:
    """Return the strongest patches of some part filters, a row per filter; None for a network without part filters.

    The filters are those whose strongest patches most often come from images of one class; see `purest`.
    """
    images = prepared.images
    step = max(1, len(images) // SEARCHED)
    filters = 0 if model.network.classification is None else model.network.classification.part_filters.out_features
    place = {images.names[i]: i for i in range(0, len(images), step)}

    def read() -> Iterator[ImageInput]:
        for name, i in place.items():
            yield ImageInput(name, images.read(i), prepared.patches[i])

    found = purest(strongest_patches(model, read(), filters, PER_FILTER), images)[:count]
    if not found:
        return None
    rows = []
    for one, pure in found:
        tiles = tuple(pattern_tile(images.read(place[patch.image]), patch.box) for patch in one.patches)
        rows.append(SheetRow(one.speaks_for, f"filter {one.filter}, {pure} of {len(tiles)}", tiles))
    legend: Legend = [
        (BLUE, "the patch that a filter responds to most, of each image; strongest first"),
        (None, "n of m: from images with that tag"),
    ]
    return sheet(rows, legend, PATTERN_TILE)


def purest(found: Sequence[FilterPatches], images: TaggedImages) -> list[tuple[FilterPatches, int]]:
    """Return filters with how many of their patches come from images tagged with the class they speak for, purest first.

    A class's second filter counts as a quarter less pure than it is, its third as two quarters, so that the first ones differ.
    """
    place = {name: index for index, name in enumerate(images.names)}
    counted = []
    for one in found:
        column = images.classes.index(one.speaks_for)
        counted.append((one, sum(int(images.labels[place[p.image], column] == PRESENT) for p in one.patches)))
    counted.sort(key=lambda pair: (-pair[1] / len(pair[0].patches), -pair[0].strength))
    before: Counter[str] = Counter()
    worth = {}
    for one, pure in counted:
        worth[one.filter] = pure / len(one.patches) - before[one.speaks_for] / 4
        before[one.speaks_for] += 1
    return sorted(counted, key=lambda pair: -worth[pair[0].filter])


def pattern_tile(image: np.ndarray, box: Sequence[float]) -> Image.Image:
    """Return a patch with a blue line around it and some of its surroundings."""
    x1, y1, x2, y2 = map(float, box)
    height, width = image.shape[:2]
    side = max(x2 - x1, y2 - y1) * AROUND
    side = min(side, max(max(x2 - x1, y2 - y1), float(min(width, height))))  # rather less around it than a border
    left, top = placed(x1, x2, side, width), placed(y1, y2, side, height)
    tile, factor = view(image, (left, top, left + side, top + side), PATTERN_TILE)
    moved = (np.array([[x1, y1, x2, y2]]) - (left, top, left, top)) * factor
    return draw_boxes(tile, moved, colours=BLUE, scale=1.4)


def write_images(
    model: Model, prepared: Prepared, truth: Sequence[TrueBoxes] | None, folder: Path, name: str
) -> list[Path]:
    """Return the files of the figures, after writing those that the network and the data allow."""
    made = {
        "patterns": patterns(model, prepared),
        "discoveries": None
        if truth is None or model.network.discovery is None
        else discoveries(model, prepared, truth),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for kind, image in made.items():
        if image is not None:
            path = folder / f"{name}_{kind}.png"
            image.save(path, optimize=True)
            files.append(path)
    return files


PAPER, INK, FAINT, EMPTY = (255, 255, 255), (28, 30, 33), (106, 112, 120), (240, 241, 243)
MARGIN, GAP, LABEL, LEGEND = 24, 6, 132, 34
BREAK = 3 * GAP  # between the halves of a row, where it has two
Legend = Sequence[tuple[Colour | None, str]]


def sheet(rows: Sequence[SheetRow], legend: Legend, tile: tuple[int, int], halves: bool = False) -> Image.Image:
    """Return the figure: rows of tiles of one size, each with its label on the left, and a line of legend below.

    `legend` holds pairs of a colour, drawn as a small outlined square before its words, and the words; None has no square.
    With `halves`, a wider gap parts the left half of the columns from the right one.
    """
    width, height = tile
    columns = max(len(row.tiles) for row in rows)
    size = sheet_size(len(rows), columns, tile, halves)
    canvas = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(canvas)
    for number, row in enumerate(rows):
        top = MARGIN + number * (height + GAP)
        middle = top + height // 2
        draw.text((MARGIN, middle - 2), row.label, font=_font(19), fill=INK, anchor="ls")
        draw.text((MARGIN, middle + 6), row.note, font=_font(14), fill=FAINT, anchor="lt")
        for column, image in enumerate(row.tiles):
            left = tile_left(column, columns, width, halves)
            if image is None:
                draw.rectangle((left, top, left + width - 1, top + height - 1), fill=EMPTY)
            else:
                canvas.paste(image, (left, top))
    return _with_legend(canvas, legend, MARGIN + LABEL, size[1] - MARGIN - 8)


def tile_left(column: int, columns: int, width: int, halves: bool = False) -> int:
    """Return the first pixel of a tile's column."""
    return MARGIN + LABEL + column * (width + GAP) + (BREAK if halves and column >= columns / 2 else 0)


def sheet_size(rows: int, columns: int, tile: tuple[int, int], halves: bool = False) -> tuple[int, int]:
    """Return the width and height of a figure of so many rows and columns."""
    width, height = tile
    right = tile_left(columns - 1, columns, width, halves) + width
    return right + MARGIN, 2 * MARGIN + rows * height + (rows - 1) * GAP + LEGEND


def _with_legend(canvas: Image.Image, legend: Legend, left: int, middle: int) -> Image.Image:
    """Return the figure with its legend: a small square of each colour, dashed for the true boxes, and its words."""
    font = _font(15)
    for colour, words in legend:
        if colour is not None:
            patch = canvas.crop((left, middle - 8, left + 16, middle + 8))
            square = np.array([[0, 0, 16, 16]])
            canvas.paste(draw_boxes(patch, square, colours=colour, dashed=colour == TRUE, scale=12), (left, middle - 8))
            left += 24
        draw = ImageDraw.Draw(canvas)
        draw.text((left, middle), words, font=font, fill=FAINT, anchor="lm")
        left += round(draw.textlength(words, font)) + 26
    return canvas


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def fitting_window(
    size: tuple[int, int], boxes: np.ndarray, tile: tuple[int, int]
) -> tuple[float, float, float, float]:
    """Return the part of an image to show, of the tile's proportions: as much as fits, around all boxes.

    Where no part of these proportions holds the boxes, the window reaches beyond the image, which leaves a border.
    """
    width, height = size
    ratio = tile[0] / tile[1]
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    wide = min(width, height * ratio)  # the largest window inside the image
    wide = max(wide, high[0] - low[0], (high[1] - low[1]) * ratio)
    left, top = placed(low[0], high[0], wide, width), placed(low[1], high[1], wide / ratio, height)
    return left, top, left + wide, top + wide / ratio


def placed(low: float, high: float, span: float, length: float) -> float:
    """Return where a window of `span` begins: around low to high, inside 0 to length, or centred where it is longer."""
    if span >= length:
        return (length - span) / 2
    return float(np.clip((low + high - span) / 2, 0, length - span))


def view(
    image: np.ndarray, window: tuple[float, float, float, float], tile: tuple[int, int]
) -> tuple[Image.Image, float]:
    """Return the window of an image at a tile's size, with a plain border where it reaches beyond, and its scale."""
    factor = tile[0] / (window[2] - window[0])
    height, width = image.shape[:2]
    x1, y1 = max(0.0, window[0]), max(0.0, window[1])
    x2, y2 = min(float(width), window[2]), min(float(height), window[3])
    at = [round(value) for value in ((x1 - window[0]) * factor, (y1 - window[1]) * factor)]
    shown = (
        max(1, min(tile[0] - at[0], round((x2 - x1) * factor))),
        max(1, min(tile[1] - at[1], round((y2 - y1) * factor))),
    )
    part = Image.fromarray(image).resize(shown, Image.Resampling.LANCZOS, box=(x1, y1, x2, y2))
    canvas = Image.new("RGB", tile, EMPTY)
    canvas.paste(part, (at[0], at[1]))
    return canvas, factor
