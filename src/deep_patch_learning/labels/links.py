"""Links from a folder of labels to the images, under names that every reader accepts. No image is copied."""

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.images import IMAGE_SUFFIXES, opened
from deep_patch_learning.data.shard_members import shard_of
from deep_patch_learning.labels.select import LabelledImage

_LONGEST = 180  # bytes of a name: leaves room for a number and a suffix in the 255 of a file system
_UNFIT = re.compile(r"[\s/\\\x00-\x1f\x7f-\x9f\ud800-\udfff\"*:<>?|]+")
_ORIENTATION = 0x0112  # the EXIF tag


def image_root(images: Sequence[LabelledImage]) -> Path:
    """Return the folder that holds all images: the data set's own where the names are paths in it."""
    roots = {_root_of(image) for image in images}
    if len(roots) == 1 and (root := roots.pop()) is not None:
        return root
    try:
        return Path(os.path.commonpath([_full(image.path).parent for image in images]))
    except ValueError:
        raise DataError("the images lie on several drives. Put them below one folder.") from None


def relative_name(image: LabelledImage, root: Path) -> str:
    """Return the path of an image below `root`, with `/`."""
    return _full(image.path).relative_to(root).as_posix()


def flat_names(images: Sequence[LabelledImage]) -> list[str]:
    """Return a unique name for each image, without folders, spaces and suffix: `beach/001.jpg` is `beach_001`.

    Names that would be equal, also on systems that ignore case, get a number: `beach_001_2`.
    """
    seen: set[str] = set()
    names = []
    for image in images:
        stem = image.name.removesuffix(image.path.suffix) or image.name
        plain = file_part(stem, "image")
        name, number = plain, 1
        while _key(name) in seen:
            number += 1
            name = f"{plain}_{number}"
        seen.add(_key(name))
        names.append(name)
    return names


def file_names(images: Sequence[LabelledImage]) -> list[str]:
    """Return a unique file name for each image, without folders, with the suffix of its file where that is an image's."""
    suffixes = (image.path.suffix.lower() for image in images)
    pairs = zip(flat_names(images), suffixes, strict=True)
    return [f"{name}{suffix if suffix in IMAGE_SUFFIXES else '.jpg'}" for name, suffix in pairs]


def file_part(text: str, otherwise: str) -> str:
    """Return the text as part of a file name, or `otherwise` where no character is left."""
    plain = _UNFIT.sub("_", text.lstrip("./\\"))
    return plain.encode()[-_LONGEST:].decode(errors="ignore") or otherwise


def link(place: Path, image: LabelledImage) -> None:
    """Make `place` a link to an image; one in a shard has no file to link to, and raises `DataError`."""
    refuse_in_shard(image.path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(image.path.absolute())


def refuse_in_shard(path: Path) -> None:
    """Raise `DataError` for an image in a shard, which has no file of its own."""
    if shard_of(path) is not None:
        raise DataError(f"{path}: lies in a shard, and this format links to image files. Use --format parquet.")


def turned(images: Sequence[LabelledImage]) -> int:
    """Return how many image files are rotated by an EXIF orientation; boxes refer to the upright image."""
    return sum(_is_turned(image.path) for image in images)


def _is_turned(path: Path) -> bool:
    try:
        with opened(path) as image:  # reads the header alone
            return image.format != "TIFF" and image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except Exception:  # the image was read before; an EXIF block that cannot be read does not rotate it
        return False


def _full(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolves `..`, follows no link


def _root_of(image: LabelledImage) -> Path | None:
    """Return the folder to which the image's name is a relative path; None where the name is no such path."""
    name, path = Path(image.name), _full(image.path)
    inside = not name.is_absolute() and ".." not in name.parts and path.parts[-len(name.parts) :] == name.parts
    return Path(*path.parts[: -len(name.parts)]) if inside else None


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
