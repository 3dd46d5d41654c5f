"""Reading tags: one function for every kind of data set. It never looks at a box; `data/truth.py` does."""

from collections.abc import Callable, Sequence
from pathlib import Path

from deep_patch_learning.data.coco import read_coco
from deep_patch_learning.data.csv_tags import read_csv
from deep_patch_learning.data.dataset import TaggedPictures
from deep_patch_learning.data.folders import read_folders
from deep_patch_learning.data.json_lines import read_json_lines
from deep_patch_learning.data.kinds import Kind, recognise
from deep_patch_learning.data.table import TagTable, to_pictures
from deep_patch_learning.data.voc import read_voc
from deep_patch_learning.errors import DataError

_READERS: dict[Kind, Callable[[Path], TagTable]] = {
    Kind.COCO: read_coco,
    Kind.CSV: read_csv,
    Kind.FOLDERS: read_folders,
    Kind.JSON_LINES: read_json_lines,
}


def read_tags(
    path: str | Path, split: str | Path | None = None, classes: Sequence[str] | None = None
) -> TaggedPictures:
    """Return the pictures of a data set with their tags, present, absent and unknown kept apart.

    The kind is told by looking at `path`: a VOC folder (or a VOCdevkit with one inside), a COCO json, a CSV, a folder
    per class, or JSON lines. `split` is a VOC list (`train`, `val`, ...), a value of the CSV's or JSON lines' `split`,
    a first-level folder, or, for every kind, a text file with one image name per line; None takes all pictures
    (VOC: `trainval` where there is one). `classes` fixes the classes and their order, and a tag outside them raises
    `DataError`; when None they are all classes of the data set, whatever the split.
    """
    kind, place = recognise(path)
    wanted = None if split is None else str(split)
    try:
        if kind is Kind.VOC:
            return to_pictures(read_voc(place, wanted), None, classes)
        return to_pictures(_READERS[kind](place), wanted, classes)
    except OSError as error:  # a folder that may not be entered, a disk that fails
        found = error.strerror or type(error).__name__
        raise DataError(f"{error.filename or place}: cannot be read ({found}). Make it readable.") from None
