"""Images: read from disk as upright RGB or a clear error, checked, and scaled for a search."""

import ctypes
import os
import re
import struct
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from deep_patch_learning.common.atomic_files import must_be_regular
from deep_patch_learning.common.errors import DataError, did_you_mean

Made = TypeVar("Made")

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif"})
# The decoders that read them, and no other: Pillow knows formats that start programs, such as EPS.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF")
LONGEST_SIDE = 65535  # of an image with patches, whose corners are uint16
AHEAD = 8  # images waiting for each thread that decodes
MOST_PIXELS = 120_000_000  # to decode: a larger one takes more than 1.5 GB and many seconds

# What Pillow's decoders raise on damaged bytes. AttributeError, NameError and the like are bugs and are not caught.
UNDECODABLE = (
    OSError,
    ValueError,
    SyntaxError,
    TypeError,
    EOFError,
    LookupError,
    ArithmeticError,
    MemoryError,
    NotImplementedError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

_ORIENTATION = 0x0112  # the EXIF tag
_TO_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def read_image(path: str | Path, enough: int | None = None) -> np.ndarray:
    """Return the image as (H, W, 3) uint8 RGB, rotated by its EXIF orientation.

    Grey, palette, CMYK, alpha and 16-bit images are converted; transparent pixels are composited on white; of an
    animation the first frame is read. A missing, truncated or unknown file raises `DataError`.

    With `enough` a JPEG may come at a half, a quarter or an eighth of its size, with sides of at least so many pixels: it
    is decoded in a fraction of the time.
    """
    path = Path(path)
    return _decoded(path, path, enough)


def decode_image(content: bytes, place: str) -> np.ndarray:
    """Return what `read_image` does, of the content of an image file; `place` names it in errors."""
    return _decoded(place, content, None)


def _decoded(place: str | Path, source: Path | bytes, enough: int | None) -> np.ndarray:
    with ExitStack() as stack:
        # Pillow alone works in this block. An error in our own conversion is a bug and must not be called a broken image.
        try:
            image = stack.enter_context(opened(source))
            if enough is not None:
                image.draft(None, (enough, enough))
            _must_not_be_huge(place, image)
            # Load first: TIFF turns itself upright while loading, and then no longer says that it was turned.
            image.load()
        except UNDECODABLE as error:
            raise DataError(f"{place}: {_reason(source, error)}") from None
        return pixels_of(image)


def open_image(path: Path) -> BinaryIO:
    """Return an image file opened for reading; a path may lead into a shard, such as `shards/0001.tar/beach.jpg`."""
    must_be_regular(path)
    try:
        return path.open("rb")
    except NotADirectoryError:  # a file where a folder is named: a shard perhaps
        from deep_patch_learning.data.shard_members import open_in_shard

        return open_in_shard(path)


def opened(source: str | Path | bytes) -> Image.Image:
    """Return an image file, or the content of one, with nothing decoded but its header; the caller closes it."""
    if isinstance(source, bytes):
        image = Image.open(BytesIO(source), formats=FORMATS)
    else:
        must_be_regular(Path(source))
        try:
            image = Image.open(source, formats=FORMATS)
        except NotADirectoryError:  # in a shard
            image = Image.open(open_image(Path(source)), formats=FORMATS)
    if image.format == "TIFF":
        _silence_libtiff()
    return image


def _must_not_be_huge(place: str | Path, image: Image.Image) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise DataError(
            f"{place}: the image has {width} x {height} pixels, wanted at most {MOST_PIXELS // 10**6} million. "
            "Make it smaller or remove it from the tags."
        )


@cache
def _silence_libtiff() -> None:
    """Let libtiff write nothing to standard error: what is wrong with a file, Pillow raises."""
    maps = Path("/proc/self/maps")
    libraries = set(re.findall(r"/\S*/libtiff[^/\s]*\.so\S*", maps.read_text())) if maps.exists() else set()
    for library in sorted(libraries):
        for say in ("TIFFSetWarningHandler", "TIFFSetErrorHandler"):
            getattr(ctypes.CDLL(library), say)(None)


def pixels_of(image: Image.Image) -> np.ndarray:
    """Return a PIL image as `read_image` does: (H, W, 3) uint8 RGB, upright."""
    return np.array(_to_rgb(_upright(image)))


def image_size(path: str | Path) -> tuple[int, int]:
    """Return the (height, width) that `read_image` will give, from the file's header where possible."""
    try:
        with opened(path) as image:
            if image.format != "TIFF":  # TIFF turns itself upright only while loading
                width, height = image.size
                turned = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
                return (width, height) if turned else (height, width)
    except UNDECODABLE:  # the pixels may still be readable; if not, `read_image` says what is wrong
        pass
    height, width = read_image(path).shape[:2]
    return height, width


def problem(path: str | Path) -> str | None:
    """Return what is wrong with the image, found by decoding it in full, or None when it is good."""
    try:
        read_image(path)
    except DataError as error:
        return str(error).removeprefix(f"{Path(path)}: ")
    return None


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = _TO_UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except UNDECODABLE:  # EXIF that cannot be parsed in an image that can be decoded: keep the stored orientation
        turn = None
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = image.info  # keeps a palette's transparent index
    return turned


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16-bit grey: keep the top eight bits, where Pillow's own conversion clips
        values = np.array(image)  # changed in place, as a large image takes much memory
        # "I;16" is 16 bits for sure; "I" is whatever fits 32 bits, most often 8 or 16 of them.
        values >>= 8 if image.mode != "I" or values.max(initial=0) > 255 else 0
        return Image.fromarray(values.clip(0, 255, out=values).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        values = np.nan_to_num(np.array(image, np.float32), copy=False)
        values *= 255 if values.max(initial=0) <= 1 else 1
        values.round(out=values)
        return Image.fromarray(values.clip(0, 255, out=values).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "RGBa", "LA", "PA") or "transparency" in image.info:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")  # which would copy what may be 480 MB
        white = Image.new("RGB", rgba.size, (255, 255, 255))
        white.paste(rgba, mask=rgba.getchannel("A"))
        return white
    return image.convert("RGB")


def _reason(source: Path | bytes, error: Exception) -> str:
    fix = "Replace the file or remove it from the tags."
    if isinstance(error, FileNotFoundError):
        return "there is no such image. Check the path, or remove it from the tags."
    if isinstance(error, IsADirectoryError):
        return "this is a folder, wanted an image. Correct the path, or remove it from the tags."
    if isinstance(error, PermissionError):
        return "permission denied. Make the file readable (chmod u+r), or remove it from the tags."
    if isinstance(error, Image.DecompressionBombError):
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        return f"the image is larger than {limit:,} pixels. Make it smaller or remove it from the tags."
    if isinstance(error, MemoryError):
        return "the image is broken (or its pixels do not fit the memory). Make it smaller, or remove it from the tags."
    if isinstance(error, UnidentifiedImageError):
        with BytesIO(source) if isinstance(source, bytes) else open_image(source) as file:
            start = file.read(16)
        found = f"found {start!r} at its start" if start else "the file is empty (0 bytes)"
        return f"not an image that can be read: {found}. {fix}"
    return f"the image is broken ({error or type(error).__name__}). {fix}"


def image_files(places: Sequence[Path]) -> list[Path]:
    """Return the image files among `places` and in the folders among them, each once, in order."""
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
            if not inside:
                raise DataError(f"{place}: holds no images ({', '.join(sorted(IMAGE_SUFFIXES))}).")
            files += inside
        elif place.exists():
            files.append(place)
        else:
            beside = [p.name for p in place.parent.iterdir()] if place.parent.is_dir() else []
            hint = did_you_mean(place.name, beside) if beside else ""
            raise DataError(f"{place}: there is no such image or folder.{hint if 'Did you' in hint else ''}")
    return list(dict.fromkeys(files))


# Images for a patch search


def checked(image: np.ndarray) -> np.ndarray:
    """Return the image, contiguous in memory, or raise `DataError` when it is not (H, W, 3) uint8 with a pixel."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise DataError(
            f"An image for patches must be (H, W, 3) uint8 RGB; this one is {image.shape} {image.dtype}. "
            "`deep_patch_learning.data.images.read_image` makes such an image from any file."
        )
    if min(image.shape) < 1 or max(image.shape) > LONGEST_SIDE:
        raise DataError(
            f"An image for patches must have sides of 1 to {LONGEST_SIDE} pixels; this one is {image.shape[1]} x "
            f"{image.shape[0]}. Scale it down first."
        )
    return np.ascontiguousarray(image)


def scaled(image: np.ndarray, max_side: int) -> np.ndarray:
    """Return the image with its longer side at most `max_side`."""
    import cv2

    height, width = image.shape[:2]
    ratio = max_side / max(height, width)
    if ratio >= 1:
        return image
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def unscaled(boxes: np.ndarray, small: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return boxes (P, 4) of the scaled image `small`, rounded to whole pixels of `image`: (P, 4) int64."""
    sides = np.array([small.shape[1], small.shape[0]] * 2)
    wanted = np.array([image.shape[1], image.shape[0]] * 2)
    return (2 * boxes.astype(np.int64) * wanted + sides) // (2 * sides)


@contextmanager
def single_threaded_opencv() -> Iterator[None]:
    """Return a context in which OpenCV uses one thread; the earlier setting is restored afterwards."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def of_each_file(
    make: Callable[[Path], Made],
    paths: Sequence[Path],
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Made]:
    """Return `make(path)` of each image file; `workers` threads decode at once, one per core if not given.

    PIL does not warn of huge images here: whoever asks says what is too large.
    """
    found: list[Made] = []
    count = workers or os.cpu_count() or 1
    waiting: deque[Future[Made]] = deque()
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            for number, path in enumerate(paths, 1):
                waiting.append(pool.submit(make, path))  # decoding frees the interpreter lock
                while waiting and (len(waiting) > AHEAD * count or number == len(paths)):
                    found.append(waiting.popleft().result())
                    if progress is not None:
                        progress(len(found), len(paths))
        except BaseException:  # Ctrl-C ends now, not after the thousands in the queue
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found
