"""The protocol of patch generators, the one of a name, and proposal files, which stand where a generator does."""

import hashlib
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from deep_patch_learning.common.errors import DataError, SettingError, did_you_mean


@runtime_checkable
class PatchGenerator(Protocol):
    """Image -> boxes.

    A call takes (H, W, 3) uint8 RGB and returns (P, 4) uint16 boxes (x1, y1, x2, y2), half-open: at least one of
    them, all different, inside the image, of at least one pixel, best first. The same image always gives the same
    boxes.
    """

    @property
    def name(self) -> str:
        """The name that `generator` builds it from."""

    def key(self) -> str:
        """Return a text that identifies the method, its version and all its settings."""

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Return the boxes of one image."""


def _selective_search() -> type:
    from deep_patch_learning.patches.selective_search.search import SelectiveSearch

    return SelectiveSearch


def _edge_boxes() -> type:
    from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes

    return EdgeBoxes


def _sliding_window() -> type:
    from deep_patch_learning.patches.sliding_window import SlidingWindow

    return SlidingWindow


PROPOSAL_SUFFIXES = (".mat", ".pkl", ".npz")  # of files of boxes that another program made

# name -> what gives the class; only the one that is asked for is imported
METHODS = {"selective-search": _selective_search, "edge-boxes": _edge_boxes, "sliding-window": _sliding_window}


def generator(name: str, **options: Any) -> PatchGenerator:
    """Return the patch generator of this name with these settings, such as `generator("edge-boxes", max_boxes=500)`."""
    if name not in METHODS:
        raise DataError(
            f"There is no patch method '{name}'.{did_you_mean(name, METHODS)} A proposal file ends in "
            f"{', '.join(PROPOSAL_SUFFIXES)}."
        )
    method = METHODS[name]()
    known = [field.name for field in fields(method)]
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) if known else " It has no settings."
            raise DataError(f"Patch method '{name}' has no setting '{option}'.{hint}")
    return method(**options)


def is_file(method: str) -> bool:
    """Return whether a text names a proposal file and not a generator."""
    return Path(method).suffix.lower() in PROPOSAL_SUFFIXES


def in_full(method: str) -> str:
    """Return the name of a generator as it is, and the path of a proposal file from the root; raise where there is neither."""
    if not is_file(method):
        generator(method)
        return method
    path = Path(method).expanduser()
    if not path.is_file():
        raise DataError(f"{path}: there is no such proposal file. Check the path.")
    return str(path.resolve())


class ProposalFile:
    """The patches of a proposal file, by the name of the image; it stands where a patch generator does.

    The file is read when it is first needed.
    """

    name = "proposals"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def key(self) -> str:
        """Return a text that identifies the file's content."""
        with self.path.open("rb") as file:
            return f"proposals {hashlib.file_digest(file, 'sha256').hexdigest()}"

    @cached_property
    def boxes(self) -> dict[str, np.ndarray]:
        """The boxes (P, 4) uint16 of every image by its name."""
        from deep_patch_learning.patches.proposals import read_proposals

        return read_proposals(self.path)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Raise `SettingError`: pixels have no name to look up."""
        raise SettingError(
            f"{self.path}: patches are looked up by the image's name, and an image of {image.shape[1]} x {image.shape[0]} pixels "
            "came without one. Give its file, or make patches: --patches selective-search."
        )

    def of(self, path: Path, size: tuple[int, int], name: str | None = None) -> np.ndarray:
        """Return the boxes (P, 4) of an image of (height, width) `size`, found by its name, its file's name or its stem."""
        known = next((key for key in (name, path.name, path.stem) if key in self.boxes), None)
        if known is None:
            raise SettingError(
                f"{self.path}: has no boxes for the image '{name or path.name}'. Give a file that has them, or make patches with "
                "--patches selective-search."
            )
        boxes = self.boxes[known]
        if len(boxes) and (boxes[:, 2].max() > size[1] or boxes[:, 3].max() > size[0]):
            row = int(np.flatnonzero((boxes[:, 2] > size[1]) | (boxes[:, 3] > size[0]))[0])
            raise DataError(
                f"{self.path}: box {row} of image '{known}' is {boxes[row].tolist()} (half-open), beyond its {size[1]} x "
                f"{size[0]} pixels. Was the file made for other images?"
            )
        return boxes
