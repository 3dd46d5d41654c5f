"""Images, thumbnails and crops as the page shows them: made here from decoded pixels, never a file's own bytes."""

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.images import read_image
from deep_patch_learning.review.changes import MissingError
from deep_patch_learning.review.store import ReviewStore

MOST_BYTES = 128 << 20  # of made images that are kept
SIDES = (320, 1024, 2048)  # longest sides of an image that the page may ask for
CROP_SIDE = 288  # pixels of a crop
MARGIN = 1.3  # of the crop's side to the box's longer one
BEYOND = (104, 108, 112)  # the colour beside an image that is narrower than a crop
DECODERS = 4  # images that are decoded at once


class Kept:
    """What was made last, up to so many bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._held = most, 0
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what is kept under a key, or make and keep it."""
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
                return found
        made = make()
        with self._lock:
            before = self._items.pop(key, b"")
            self._items[key] = made
            self._held += len(made) - len(before)
            while self._held > self._most and len(self._items) > 1:
                self._held -= len(self._items.popitem(last=False)[1])
        return made

    @property
    def held(self) -> int:
        """The bytes that are kept."""
        return self._held


class Pixels:
    """The images of a store as JPEGs, by the numbers of images and boxes."""

    def __init__(self, store: ReviewStore, most: int = MOST_BYTES) -> None:
        self._store = store
        self.kept = Kept(most)
        self._decoders = threading.BoundedSemaphore(DECODERS)

    def image(self, number: int, side: int) -> bytes:
        """Return an image as a JPEG with its longer side at most `side`, one of `SIDES`."""
        if side not in SIDES:
            raise MissingError(f"there is no size {side}")
        return self.kept.get(("image", number, side), lambda: self._image(number, side))

    def crop(self, number: int) -> bytes:
        """Return the square around a box as a JPEG."""
        return self.crop_with_corners(number)[1]

    def crop_with_corners(self, number: int) -> tuple[tuple[float, ...], bytes]:
        """Return the corners of a box and the square around it as a JPEG."""
        with self._store.reading() as file:
            row = file.execute("SELECT image, x1, y1, x2, y2 FROM boxes WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise MissingError(f"there is no box {number}")
        corners = tuple(row[name] for name in ("x1", "y1", "x2", "y2"))
        return corners, self.kept.get(("crop", row["image"], corners), lambda: self._crop(row["image"], corners))

    def _image(self, number: int, side: int) -> bytes:
        pixels, _ = self._read(number, side)
        made = Image.fromarray(pixels)
        made.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
        return _jpeg(made, 90)

    def _crop(self, number: int, corners: tuple[float, ...]) -> bytes:
        with self._store.reading() as file:
            row = file.execute("SELECT width, height FROM images WHERE id = ?", (number,)).fetchone()
        width, height = row["width"], row["height"]
        x1, y1, x2, y2 = square(corners, width, height)
        # a box that fills the image needs few of its pixels; a small one needs all
        enough = int(CROP_SIDE * max(width, height) / max(x2 - x1, y2 - y1)) + 1
        pixels, ratio = self._read(number, enough, width)
        across, left, right = _shown(x1 * ratio, x2 * ratio, pixels.shape[1])
        down, top, bottom = _shown(y1 * ratio, y2 * ratio, pixels.shape[0])
        part = Image.fromarray(pixels[down, across])
        made = Image.new("RGB", (CROP_SIDE, CROP_SIDE), BEYOND)
        size = right - left, bottom - top
        made.paste(part.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0), (left, top))
        return _jpeg(made, 85)

    def _read(self, number: int, enough: int, width: int | None = None) -> tuple[np.ndarray, float]:
        """Return the pixels of an image, and how many of them stand for one of the image's own."""
        path = self._path(number)
        try:
            with self._decoders:
                pixels = read_image(path, enough=enough)
        except DataError as error:  # it quotes the file, which may be something else by now: for the terminal alone
            raise _unreadable(number, str(error)) from None
        return pixels, pixels.shape[1] / (width or pixels.shape[1])

    def _path(self, number: int) -> Path:
        with self._store.reading() as file:
            row = file.execute("SELECT path FROM images WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise MissingError(f"there is no image {number}")
        path = row["path"]
        if os.path.realpath(path) != path:
            raise _unreadable(number, f"{path}: has become a link since the review began. Put the image back.")
        return Path(path)


def _unreadable(number: int, why: str) -> MissingError:
    console.print(why, markup=False, soft_wrap=True)
    return MissingError(f"image {number} cannot be read any more. The terminal says why.")


def in_address(corners: Sequence[float]) -> str:
    """Return corners as the address of a crop names them."""
    return "-".join(f"{value:.2f}" for value in corners)


def square(corners: tuple[float, ...], width: int, height: int) -> tuple[float, float, float, float]:
    """Return the square around a box that its crop shows; it may reach beyond an image that is too narrow for it."""
    x1, y1, x2, y2 = corners
    side = MARGIN * max(x2 - x1, y2 - y1)
    left, top = (x1 + x2 - side) / 2, (y1 + y2 - side) / 2
    left = min(max(left, 0.0), width - side) if side <= width else (width - side) / 2
    top = min(max(top, 0.0), height - side) if side <= height else (height - side) / 2
    return left, top, left + side, top + side


def _shown(start: float, end: float, length: int) -> tuple[slice, int, int]:
    """Return which of `length` pixels are between two of a square's sides, and from where to where in the crop they go."""
    first = round(start)
    side = max(round(end) - first, 1)
    inside = slice(min(max(first, 0), length - 1), max(min(first + side, length), 1))
    place, last = (round(CROP_SIDE * (value - first) / side) for value in (inside.start, inside.stop))
    return inside, place, max(last, place + 1)


def _jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()
