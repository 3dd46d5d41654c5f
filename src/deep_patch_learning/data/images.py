"""Reading an image from disk: RGB, upright, or a clear error."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from deep_patch_learning.common.errors import DataError, did_you_mean

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif"})

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


def read_image(path: str | Path) -> np.ndarray:
    """Return the image as (H, W, 3) uint8 RGB, rotated as its EXIF orientation says.

    Grey, palette, CMYK, alpha and 16-bit images are converted; see-through pixels are laid on white; of an
    animation the first frame is read. A missing, truncated or foreign file raises `DataError`.
    """
    path = Path(path)
    try:
        with Image.open(path) as opened:
            # Load first: TIFF turns itself upright while loading, and then no longer says that it was turned.
            opened.load()
            return np.array(_to_rgb(_upright(opened)))
    # Pillow's readers raise nearly anything on broken bytes (struct.error, EOFError, IndexError, ...), and a
    # broken image must never end a run with a traceback; so everything becomes the one error callers know.
    except Exception as error:
        raise DataError(f"{path}: {_reason(path, error)}") from None


def image_size(path: str | Path) -> tuple[int, int]:
    """Return the (height, width) that `read_image` will give, from the file's header where that says it."""
    try:
        with Image.open(path) as opened:
            if opened.format != "TIFF":  # TIFF turns itself upright only while loading
                width, height = opened.size
                turned = opened.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
                return (width, height) if turned else (height, width)
    except Exception:  # the pixels may still be readable; if not, they say best what is wrong
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
    except Exception:  # EXIF that cannot be parsed, in an image that can be: take the pixels as they lie
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
        values = np.asarray(image).astype(np.int64)
        # "I;16" is 16 bits for sure; "I" is whatever fits 32 bits, most often 8 or 16 of them.
        shift = 8 if image.mode != "I" or values.max(initial=0) > 255 else 0
        return Image.fromarray((values >> shift).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image, np.float64))
        bright = 255 if values.max(initial=0) <= 1 else 1
        return Image.fromarray((values * bright).round().clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "RGBa", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _reason(path: Path, error: Exception) -> str:
    fix = "Replace the file or remove it from the tags."
    if isinstance(error, FileNotFoundError):
        return "there is no such image. Check the path, or remove it from the tags."
    if isinstance(error, IsADirectoryError):
        return "this is a folder, wanted an image. Correct the path, or remove it from the tags."
    if isinstance(error, PermissionError):
        return "permission denied. Make the file readable (chmod u+r), or remove it from the tags."
    if isinstance(error, Image.DecompressionBombError):
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        return f"the image is larger than {limit:,} pixels. Make it smaller, or raise PIL.Image.MAX_IMAGE_PIXELS."
    if isinstance(error, UnidentifiedImageError):
        with path.open("rb") as file:
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
