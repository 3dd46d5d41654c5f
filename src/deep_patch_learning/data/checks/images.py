"""Findings of the image files: every image is decoded once, and a few facts of it are kept."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.checks.duplicates import Fingerprint, fingerprint
from deep_patch_learning.data.checks.findings import Finding, Item, Severity, are, has, number_of
from deep_patch_learning.data.images import UNDECODABLE, of_each_file, open_image, opened, read_image

SMALLEST_SIDE = 32  # pixels: below, a patch is a handful of them
THINNEST = 6  # times as long as wide: scaled to a longest side of 480, the other is 80 pixels
HUGE = 24_000_000  # pixels
GREY_SHARE = 0.05  # of the images, from which it is worth knowing; not where nearly all are grey
MOST_BROKEN = 0.5
_ORIENTATION = 0x0112  # the EXIF tag
_BLANK = 2  # grey levels between the brightest and the darkest part of an image of one colour
_COLOUR = 6  # grey levels by which channels may differ in a grey image that was compressed as a colour one


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one image; `problem` says why it could not be read, and then nothing else is known.

    `size` is (height, width), upright. `content` and `pixels` are digests of the file's bytes and of the decoded image.
    """

    problem: str | None = None
    size: tuple[int, int] = (0, 0)
    turned: bool = False
    grey: bool = False
    content: bytes = b""
    pixels: bytes = b""
    prints: Fingerprint | None = None


def look(path: Path) -> Facts:
    """Return the facts of one image, decoded in full."""
    import cv2

    try:
        image = read_image(path)
        with open_image(path) as file:
            content = hashlib.blake2b(file.read(), digest_size=16).digest()
    except (DataError, OSError) as error:
        return Facts(problem=str(error).removeprefix(f"{path}: ").rpartition(". ")[0] or str(error))  # without the fix
    height, width = image.shape[:2]
    pixels = hashlib.blake2b(image.tobytes(), digest_size=16, salt=f"{height}x{width}".encode())
    small = cv2.resize(image, (48, 48), interpolation=cv2.INTER_AREA).astype(np.int16)
    grey = bool((small.max(2) - small.min(2)).max() <= _COLOUR)
    return Facts(None, (height, width), _is_turned(path), grey, content, pixels.digest(), fingerprint(image))


def look_at_all(
    paths: Sequence[Path], workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> dict[Path, Facts]:
    """Return the facts of each image; `workers` threads decode at once, one per core if not given."""
    return dict(zip(paths, of_each_file(look, paths, workers, progress), strict=True))


def image_findings(names: Sequence[str], facts: Sequence[Facts]) -> Iterator[Finding]:
    """Yield the findings of image files, each image named as in `names`."""
    known = list(zip(names, facts, strict=True))
    yield from _broken([(name, one.problem) for name, one in known if one.problem], len(known))
    good = [(name, one) for name, one in known if one.problem is None]
    yield from _misshapen(good)
    turned = [Item((name,)) for name, one in good if one.turned]
    if turned:
        yield Finding(
            "turned",
            Severity.WORTH_KNOWING,
            f"{number_of(len(turned), 'image')} {are(len(turned))} turned by EXIF",
            "Nothing to do here: boxes are in pixels of the upright image, so programs that read them must apply EXIF too.",
            tuple(turned),
        )
    grey = [Item((name,)) for name, one in good if one.grey]
    if good and GREY_SHARE <= len(grey) / len(good) <= 1 - GREY_SHARE:
        yield Finding(
            "grey",
            Severity.WORTH_KNOWING,
            f"{number_of(len(grey), 'image')} ({len(grey) / len(good):.0%}) {are(len(grey))} grey",
            "Check that grey does not go with a class: the network would learn it in place of the object.",
            tuple(grey),
        )


def _broken(broken: Sequence[tuple[str, str | None]], total: int) -> Iterator[Finding]:
    if broken:
        most = len(broken) >= MOST_BROKEN * total
        yield Finding(
            "unreadable",
            Severity.STOPS if most else Severity.HURTS,
            f"{number_of(len(broken), 'image')} of {total:,} cannot be read",
            "Replace the files, or remove them from the tags; training leaves them out.",
            tuple(Item((name,), reason or "") for name, reason in broken),
        )


def _misshapen(good: Sequence[tuple[str, Facts]]) -> Iterator[Finding]:
    """Yield findings for images that are too small, too thin or huge, and for those of one colour."""
    small = [_sized(name, one) for name, one in good if min(one.size) < SMALLEST_SIDE]
    if small:
        yield Finding(
            "small",
            Severity.HURTS,
            f"{number_of(len(small), 'image')} {has(len(small))} a side under {SMALLEST_SIDE} pixels",
            "Take them from a larger original, or leave them out: patches of so few pixels show nothing.",
            tuple(small),
        )
    thin = [_sized(name, one) for name, one in good if max(one.size) > THINNEST * min(one.size)]
    if thin:
        yield Finding(
            "thin",
            Severity.HURTS,
            f"{number_of(len(thin), 'image')} {are(len(thin))} more than {THINNEST} times as long as wide",
            "Cut them into parts or leave them out: images are scaled by their longest side, and little is left.",
            tuple(thin),
        )
    huge = [_sized(name, one) for name, one in good if one.size[0] * one.size[1] > HUGE]
    if huge:
        yield Finding(
            "huge",
            Severity.WORTH_KNOWING,
            f"{number_of(len(huge), 'image')} {has(len(huge))} more than {HUGE // 1_000_000} million pixels",
            "Train on copies with a longest side of about 2,000: larger ones cost time and memory, and are scaled down.",
            tuple(huge),
        )
    blank = [Item((name,)) for name, one in good if one.prints is not None and np.ptp(one.prints.small) <= _BLANK]
    if blank:
        yield Finding(
            "blank",
            Severity.HURTS,
            f"{number_of(len(blank), 'image')} {are(len(blank))} of one colour",
            "Look at them and replace or remove them: nothing in them can be found.",
            tuple(blank),
        )


def _sized(name: str, facts: Facts) -> Item:
    height, width = facts.size
    memory = f", {height * width * 3 / 2**20:.0f} MiB when open" if height * width > HUGE else ""
    return Item((name,), f"{width} x {height}{memory}")


def _is_turned(path: Path) -> bool:
    try:
        with opened(path) as image:
            return image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except UNDECODABLE:  # EXIF that cannot be parsed turns nothing
        return False
