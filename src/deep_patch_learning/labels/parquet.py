"""Labels as a Parquet table: one row per image, with its tags and a list of boxes. Written whole, or as shards by a cluster."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from deep_patch_learning.data.dataset import PRESENT, UNKNOWN
from deep_patch_learning.data.shard_members import parquet
from deep_patch_learning.labels.select import LabelledImage, LabelSet


def write_parquet(labels: LabelSet, folder: Path) -> list[str]:
    """Return what was written into `folder`."""
    file = f"{labels.split}.parquet"
    places = [str(image.path.absolute()) for image in labels.images]
    (folder / file).write_bytes(encoded(labels, places))
    return [file]


def encoded(labels: LabelSet, places: Sequence[str]) -> bytes:
    """Return the content of a Parquet file of the labels; the same labels always give the same bytes."""
    content = BytesIO()
    parquet().write_table(table_of(labels, places), content)
    return content.getvalue()


def table_of(labels: LabelSet, places: Sequence[str]) -> Any:
    """Return the labels as an Arrow table; `places` are the paths or URIs of the images."""
    import pyarrow

    box = pyarrow.struct(
        [
            ("tag", pyarrow.string()),
            *((corner, pyarrow.float32()) for corner in ("x1", "y1", "x2", "y2")),
            ("score", pyarrow.float64()),
            ("part", pyarrow.bool_()),
        ]
    )
    schema = pyarrow.schema(
        [
            ("name", pyarrow.string()),
            ("place", pyarrow.string()),
            ("width", pyarrow.int32()),
            ("height", pyarrow.int32()),
            ("tags", pyarrow.list_(pyarrow.string())),
            ("unknown", pyarrow.list_(pyarrow.string())),
            ("boxes", pyarrow.list_(box)),
        ]
    )
    rows = [_row(labels, image, place) for image, place in zip(labels.images, places, strict=True)]
    return pyarrow.Table.from_pylist(rows, schema)


def _row(labels: LabelSet, image: LabelledImage, place: str) -> dict[str, Any]:
    found = zip(image.boxes.tolist(), image.classes.tolist(), image.scores.tolist(), image.parts.tolist(), strict=True)
    corners = ("x1", "y1", "x2", "y2")
    return {
        "name": image.name,
        "place": place,
        "width": image.width,
        "height": image.height,
        "tags": _names(labels.classes, image.states == PRESENT),
        "unknown": _names(labels.classes, image.states == UNKNOWN),
        "boxes": [
            {"tag": labels.classes[index], **dict(zip(corners, box, strict=True)), "score": score, "part": part}
            for box, index, score, part in found
        ],
    }


def _names(classes: Sequence[str], chosen: np.ndarray) -> list[str]:
    return [classes[index] for index in np.flatnonzero(chosen).tolist()]
