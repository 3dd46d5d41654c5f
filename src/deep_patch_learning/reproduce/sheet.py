"""A figure made of tiles of one size: rows with labels, a line of legend, and the part of a picture that a tile shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from deep_patch_learning.drawing import TRUE, Colour, draw_boxes

PAPER, INK, FAINT, EMPTY = (255, 255, 255), (28, 30, 33), (106, 112, 120), (240, 241, 243)
MARGIN, GAP, LABEL, LEGEND = 24, 6, 132, 34
BREAK = 3 * GAP  # between the halves of a row, where it has two
Legend = Sequence[tuple[Colour | None, str]]


@dataclass(frozen=True)
class SheetRow:
    """One row of a figure: its label, a second line under it, and its tiles; None leaves a place empty."""

    label: str
    note: str
    tiles: tuple[Image.Image | None, ...]


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
        for column, picture in enumerate(row.tiles):
            left = tile_left(column, columns, width, halves)
            if picture is None:
                draw.rectangle((left, top, left + width - 1, top + height - 1), fill=EMPTY)
            else:
                canvas.paste(picture, (left, top))
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
    """Return the part of a picture to show, of the tile's proportions: as much as fits, around all boxes.

    Where no part of these proportions holds the boxes, the window reaches beyond the picture, which leaves a border.
    """
    width, height = size
    ratio = tile[0] / tile[1]
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    wide = min(width, height * ratio)  # the largest window inside the picture
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
    """Return the window of a picture at a tile's size, with a plain border where it reaches beyond, and its scale."""
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
