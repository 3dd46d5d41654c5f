"""Boxes and their labels on an image: readable on 160 pixels and on 2,000, on any background.

A box covers the pixels x1 <= x < x2, and its line is drawn on its own outermost pixels. The first box given is on top.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from deep_patch_learning.common.errors import DplError

Colour = tuple[int, int, int]
Corners = tuple[int, int, int, int]  # the first and the last pixel covered: x, y, x, y

RIGHT: Colour = (36, 190, 98)  # a found box that lies on a true one; lighter than WRONG, for eyes that mix the two hues
WRONG: Colour = (214, 32, 48)
TRUE: Colour = (255, 255, 255)  # what people drew: thin and dashed

# Okabe and Ito's colours, then some of Paul Tol's: colour-blind eyes tell them apart while an image holds few classes.
PALETTE: tuple[Colour, ...] = (
    (230, 159, 0),  # orange
    (86, 180, 233),  # sky blue
    (0, 158, 115),  # bluish green
    (240, 228, 66),  # yellow
    (204, 121, 167),  # reddish purple
    (0, 114, 178),  # blue
    (213, 94, 0),  # vermilion
    (153, 221, 255),  # pale cyan
    (136, 34, 85),  # wine
    (187, 204, 51),  # pear
    (51, 34, 136),  # indigo
    (255, 170, 187),  # pink
)
SHADE = (0, 0, 0, 120)  # the hairline beside a line, half seen through: keeps it visible on a like-coloured background


class Pen(NamedTuple):
    """The sizes, in pixels, that suit one image."""

    line: int
    hairline: int
    text: int

    @classmethod
    def for_size(cls, width: int, height: int, scale: float = 1.0) -> "Pen":
        """Return the pen for an image of this size; `scale` makes everything bolder."""
        reach = scale * (width * height) ** 0.5
        return cls(max(2, round(reach / 150)), max(1, round(reach / 700)), max(9, round(5 + reach / 48)))


def class_colour(index: int) -> Colour:
    """Return the colour of a class, always the same for its index; after the palette's end it comes again, lighter."""
    turn, place = divmod(index, len(PALETTE))
    lift = (0.0, 0.4, 0.65)[turn % 3]
    red, green, blue = (round(value + lift * (255 - value)) for value in PALETTE[place])
    return red, green, blue


def text_colour(background: Colour) -> Colour:
    """Return black or white, whichever stands out more from the background (WCAG contrast)."""
    linear = [(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4) for v in (c / 255 for c in background)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if (luminance + 0.05) ** 2 > 1.05 * 0.05 else (255, 255, 255)


def draw_boxes(
    image: np.ndarray | Image.Image,
    boxes: np.ndarray,
    labels: Sequence[str] | None = None,
    colours: Colour | Sequence[Colour] | None = None,
    *,
    dashed: bool = False,
    scale: float = 1.0,
) -> Image.Image:
    """Return a copy of the image with the boxes (B, 4) drawn on it, each with its label unless that is empty.

    `image` is (H, W, 3) uint8 RGB or a Pillow image. `colours` is one for all boxes or one for each; without it the
    boxes take the palette in turn. `dashed` draws thin dashes, for true boxes. `scale` makes lines and text bolder.
    """
    canvas = as_image(image).copy()
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    inks = _one_each(colours, len(boxes))
    texts = [""] * len(boxes) if labels is None else [" ".join(label.split()) for label in labels]  # one line each
    if len(texts) != len(boxes):
        raise DplError(f"there are {len(boxes)} boxes and {len(texts)} labels; give one label for each box")
    pen = Pen.for_size(*canvas.size, scale)
    draw = ImageDraw.Draw(canvas, "RGBA")  # RGBA: colours may be seen through
    for box, ink in reversed(list(zip(boxes, inks, strict=True))):
        corners = _pixels(box, canvas.size)
        if dashed:
            _dashed_rectangle(draw, corners, ink, pen)
        else:
            _rectangle(draw, corners, ink, pen)
    taken: list[Corners] = []
    chips = [
        (_chip(draw, text, _pixels(box, canvas.size), canvas.size, pen, taken), ink)
        for box, text, ink in zip(boxes, texts, inks, strict=True)
        if text
    ]
    for chip, ink in reversed(chips):
        _draw_chip(draw, chip, ink, pen)
    return canvas


def draw_verdict(
    image: np.ndarray | Image.Image,
    boxes: np.ndarray,
    right: Sequence[bool] | np.ndarray,
    labels: Sequence[str] | None = None,
    true_boxes: np.ndarray | None = None,
    *,
    scale: float = 1.0,
) -> Image.Image:
    """Return the image with right boxes green and wrong ones red, and under them the true boxes dashed in white."""
    canvas = as_image(image)
    if true_boxes is not None:
        canvas = draw_boxes(canvas, true_boxes, colours=TRUE, dashed=True, scale=scale)
    return draw_boxes(canvas, boxes, labels, [RIGHT if good else WRONG for good in right], scale=scale)


def as_image(image: np.ndarray | Image.Image) -> Image.Image:
    """Return the image as a Pillow RGB image, from one of any mode or from an array (H, W, 3) uint8."""
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise DplError(f"the image is {array.shape} {array.dtype}; wanted (H, W, 3) uint8 RGB")
    return Image.fromarray(array)


class _Chip(NamedTuple):
    """A label's place: the outer corners (the last pixel inside), and its text in its font."""

    corners: Corners
    text: str
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def _one_each(colours: Colour | Sequence[Colour] | None, count: int) -> list[Colour]:
    if colours is None:
        return [class_colour(index) for index in range(count)]
    if len(colours) == 3 and all(isinstance(value, (int, np.integer)) for value in colours):
        return [colours] * count  # type: ignore[list-item]
    if len(colours) != count:
        raise DplError(f"there are {count} boxes and {len(colours)} colours; give one for all or one for each")
    return list(colours)  # type: ignore[arg-type]


def _pixels(box: np.ndarray, size: tuple[int, int]) -> Corners:
    """Return the first and last pixel that the box covers, kept inside the image."""
    width, height = size
    x1, y1 = (int(np.clip(round(value), 0, last - 1)) for value, last in zip(box[:2], size, strict=True))
    x2, y2 = int(np.clip(round(box[2]) - 1, x1, width - 1)), int(np.clip(round(box[3]) - 1, y1, height - 1))
    return x1, y1, x2, y2


def _rectangle(draw: ImageDraw.ImageDraw, corners: Corners, ink: Colour, pen: Pen) -> None:
    x1, y1, x2, y2 = corners
    hair = pen.hairline
    draw.rectangle((x1 - hair, y1 - hair, x2 + hair, y2 + hair), outline=SHADE, width=hair)
    inner = pen.line
    if min(x2 - x1, y2 - y1) > 2 * (inner + hair):
        draw.rectangle((x1 + inner, y1 + inner, x2 - inner, y2 - inner), outline=SHADE, width=hair)
    draw.rectangle(corners, outline=ink, width=pen.line)


def _dashed_rectangle(draw: ImageDraw.ImageDraw, corners: Corners, ink: Colour, pen: Pen) -> None:
    """Draw dashes of the ink on a dark line: they show on light and on dark alike."""
    x1, y1, x2, y2 = corners
    thick = max(1, round(pen.line * 0.6))
    draw.rectangle(corners, outline=(0, 0, 0), width=thick)
    dash, step = 4 * thick, 7 * thick
    for x in range(x1, x2 + 1, step):
        for y in (y1, y2 - thick + 1):
            draw.rectangle((x, y, min(x + dash - 1, x2), y + thick - 1), fill=ink)
    for y in range(y1, y2 + 1, step):
        for x in (x1, x2 - thick + 1):
            draw.rectangle((x, y, x + thick - 1, min(y + dash - 1, y2)), fill=ink)


def _chip(
    draw: ImageDraw.ImageDraw,
    text: str,
    box: Corners,
    size: tuple[int, int],
    pen: Pen,
    taken: list[Corners],
) -> _Chip:
    """Return where the label goes: at a corner of its box, inside the image, off the labels placed before."""
    font, pad = _font(pen.text), max(1, round(pen.text / 4))
    kept = len(text)
    while kept and draw.textlength(text, font) + 2 * pad > size[0]:
        kept -= 1
        text = text[:kept].rstrip() + "…"
    wide, high = round(draw.textlength(text, font)) + 2 * pad, round(pen.text * 1.3)
    x1, y1, x2, y2 = box
    left, right = x1, x2 - wide + 1
    # Above, inside at the top, inside at the foot, below; and one row further off.
    heights = (y1 - high, y1 + pen.line, y2 - pen.line - high + 1, y2 + 1, y1 - 2 * high, y2 + 1 + high)
    places = []
    for x, y in ((x, y) for y in heights for x in (left, right)):
        kept_x, kept_y = max(0, min(x, size[0] - wide)), max(0, min(y, size[1] - high))
        place = (kept_x, kept_y, kept_x + wide - 1, kept_y + high - 1)
        places.append((sum(_shared(place, other) for other in taken), kept_y != y, place))
    # Least hidden first, then those that needed no push from the image's edge, then in the order above.
    chosen = min(places, key=lambda choice: choice[:2])[2]
    taken.append(chosen)
    return _Chip(chosen, text, font)


def _shared(a: Corners, b: Corners) -> int:
    """Return the number of pixels that both cover."""
    return max(0, min(a[2], b[2]) - max(a[0], b[0]) + 1) * max(0, min(a[3], b[3]) - max(a[1], b[1]) + 1)


def _draw_chip(draw: ImageDraw.ImageDraw, chip: _Chip, ink: Colour, pen: Pen) -> None:
    x1, y1, x2, y2 = chip.corners
    draw.rounded_rectangle(chip.corners, radius=pen.text // 5, fill=ink)
    middle = ((x1 + x2 + 1) / 2, (y1 + y2 + 1) / 2)
    draw.text(middle, chip.text, font=chip.font, fill=text_colour(ink), anchor="mm")
