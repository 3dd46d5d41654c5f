"""Where pictures are found from a folder of labels: links in it, under names that every reader can take. No picture is copied."""

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.labels.select import LabelledPicture

_LONGEST = 180  # bytes of a name, so that it has room for a number and a suffix in the 255 of a file system
_UNFIT = re.compile(r"[\s/\\\x00-\x1f\x7f-\x9f\ud800-\udfff\"*:<>?|]+")
_ORIENTATION = 0x0112  # the EXIF tag


def picture_root(pictures: Sequence[LabelledPicture]) -> Path:
    """Return the folder that all pictures lie below: the data set's own where names are paths in it."""
    roots = {_root_of(picture) for picture in pictures}
    if len(roots) == 1 and (root := roots.pop()) is not None:
        return root
    try:
        return Path(os.path.commonpath([_full(picture.path).parent for picture in pictures]))
    except ValueError:
        raise DataError("the pictures lie on several drives. Put them below one folder.") from None


def relative_name(picture: LabelledPicture, root: Path) -> str:
    """Return the path of a picture below `root`, with `/`."""
    return _full(picture.path).relative_to(root).as_posix()


def flat_names(pictures: Sequence[LabelledPicture]) -> list[str]:
    """Return a name of its own for each picture, without folders, spaces and suffix: `beach/001.jpg` is `beach_001`.

    Two that would be the same, also on systems that ignore case, get a number: `beach_001_2`.
    """
    seen: set[str] = set()
    names = []
    for picture in pictures:
        stem = picture.name.removesuffix(picture.path.suffix) or picture.name
        plain = file_part(stem, "picture")
        name, number = plain, 1
        while _key(name) in seen:
            number += 1
            name = f"{plain}_{number}"
        seen.add(_key(name))
        names.append(name)
    return names


def file_part(text: str, otherwise: str) -> str:
    """Return a text that may stand in a file's name, `otherwise` where nothing is left of it."""
    plain = _UNFIT.sub("_", text.lstrip("./\\"))
    return plain.encode()[-_LONGEST:].decode(errors="ignore") or otherwise


def link(place: Path, picture: LabelledPicture) -> None:
    """Make `place` a link to a picture."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(picture.path.absolute())


def turned(pictures: Sequence[LabelledPicture]) -> int:
    """Return how many pictures lie turned in their files, by their EXIF mark; boxes are those of the upright picture."""
    return sum(_is_turned(picture.path) for picture in pictures)


def _is_turned(path: Path) -> bool:
    try:
        with Image.open(path) as opened:  # reads the header alone
            return opened.format != "TIFF" and opened.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except Exception:  # it was read before; a mark that cannot be read does not turn it
        return False


def _full(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - takes `..` out, follows no link


def _root_of(picture: LabelledPicture) -> Path | None:
    """Return the folder below which the picture's path is its name; None for a name that is no such path."""
    name, path = Path(picture.name), _full(picture.path)
    inside = not name.is_absolute() and ".." not in name.parts and path.parts[-len(name.parts) :] == name.parts
    return Path(*path.parts[: -len(name.parts)]) if inside else None


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
