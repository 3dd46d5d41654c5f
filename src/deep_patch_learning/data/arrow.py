"""Rows of images and tags in Arrow tables, as Hugging Face `datasets` stores them: in `.arrow` files, and with names in Parquet.

The schema of such a table says which column is an image and which numbers stand for which class (`ClassLabel`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import must_be_regular
from deep_patch_learning.common.errors import DataError, DplError, short

ARROW = ".arrow"
TAGS = ("tags", "labels", "label")  # the columns that hold tags, the first of them that is there
OBJECTS = ("categories", "category", "labels", "label")  # the same inside `objects`, whose boxes are not read
_OPENED = 8  # tables that are kept open; they are mapped, not read

Tagged = tuple[tuple[str, ...], tuple[str, ...]]


@lru_cache(_OPENED)
def open_arrow(file: Path) -> Any:
    """Return the table of an `.arrow` file, mapped into memory."""
    try:
        import pyarrow
    except ImportError:
        raise DplError(f"{file}: needs pyarrow, not installed here. Install: pip install pyarrow") from None
    try:
        return pyarrow.ipc.open_stream(pyarrow.memory_map(str(file))).read_all()
    except (pyarrow.ArrowException, OSError) as error:
        said = str(error).partition("\n")[0]
        raise DataError(f"{file}: is cut off or no Arrow stream ({said}). Copy the data set again.") from None


def features_of(schema: Any) -> dict[str, Any]:
    """Return what `datasets` says about each column of a schema; nothing where another program wrote the table."""
    said = (schema.metadata or {}).get(b"huggingface")
    try:
        found = json.loads(said)["info"]["features"] if said else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def column_names(schema: Any, place: str) -> list[str]:
    """Return the names of the columns, of which no two are the same."""
    try:
        names = list(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{place}: the name of a column is not UTF-8. Save the data set again.") from None
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{place}: two columns are named '{twice}'. Give each its own name.")
    return names


def image_column(schema: Any, place: str) -> str:
    """Return the column that holds the images: `image`, or the only one that is said to."""
    said = [name for name, one in features_of(schema).items() if isinstance(one, dict) and one.get("_type") == "Image"]
    names = column_names(schema, place)
    if "image" in names:
        return "image"
    if len(said) == 1 and said[0] in names:
        return said[0]
    raise DataError(f"{place}: has no column 'image' with images; it has {', '.join(names)}. Rename the column.")


def image_in_row(file: Path, row: int) -> bytes:
    """Return the content of the image in a row of an `.arrow` file: its bytes, or those of the file that it names."""
    table = open_arrow(file)
    cell = table.column(image_column(table.schema, str(file)))[row]
    try:
        return content_of(cell.as_py(), f"{file}, row {row}")
    except UnicodeDecodeError:
        raise DataError(f"{file}, row {row}: the path of its image is not UTF-8. Save the data set again.") from None


def content_of(image: Any, place: str) -> bytes:
    """Return the content of an image file from a cell: bytes, a struct with `bytes`, or one with the `path` of a file."""
    if isinstance(image, Mapping) and image.get("bytes") is None and image.get("path"):
        if not isinstance(image["path"], str) or "\0" in image["path"]:
            raise DataError(
                f"{place}: the path of its image is {short(image['path'])}, wanted a file. Correct the row."
            )
        must_be_regular(Path(image["path"]))
        return Path(image["path"]).read_bytes()
    content = image.get("bytes") if isinstance(image, Mapping) else image
    if not isinstance(content, bytes):
        raise DataError(f"{place}: holds {type(content).__name__}, wanted the bytes of an image file.")
    return content


def tag_columns(schema: Any, place: str) -> list[str]:
    """Return the column that holds the tags of a table with images, and `unknown` where it is there."""
    image_column(schema, place)
    names = column_names(schema, place)
    column = next((name for name in TAGS if name in names), "objects" if "objects" in names else None)
    if column is None:
        raise DataError(
            f"{place}: has no column with tags ({', '.join(TAGS)}); it has {', '.join(names)}. Rename the column."
        )
    return [column, *(["unknown"] if "unknown" in names else [])]


def tagged_rows(schema: Any, batches: Iterable[Any], place: str) -> Iterator[Tagged]:
    """Yield the present and the unknown tags of each row, from batches of the columns that `tag_columns` names."""
    features, number = features_of(schema), 0
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except UnicodeDecodeError:
            raise DataError(f"{place}: a tag from row {number} on is not UTF-8. Save the data set again.") from None
        for row in rows:
            where = f"{place}, row {number}"
            column = next(iter(row))
            present = _names(row[column], features.get(column), where)
            unknown = _names(row.get("unknown"), features.get("unknown"), where)
            yield present, tuple(tag for tag in unknown if tag not in present)
            number += 1


def _names(value: Any, feature: Any, place: str) -> tuple[str, ...]:
    """Return the tags that a cell holds: a text, a number of a class, a list of these, or objects with categories."""
    if isinstance(value, Mapping):
        key = next((key for key in OBJECTS if key in value), None)
        inner = feature.get("feature", feature) if isinstance(feature, Mapping) else None
        return () if key is None else _names(value[key], inner.get(key) if isinstance(inner, Mapping) else None, place)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(dict.fromkeys(tag for one in value for tag in _names(one, feature, place)))
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value.strip(),)
    classes = _classes(feature)
    if not isinstance(value, int) or not 0 <= value < len(classes):
        said = f"one of {len(classes)} classes" if classes else "a name, or a number of a ClassLabel"
        raise DataError(f"{place}: its tag is {value!r}, wanted {said}. Correct the row.")
    return (classes[value],)


def _classes(feature: Any) -> Sequence[str]:
    """Return the names of the `ClassLabel` in a feature, however deep; none where there is no such."""
    while isinstance(feature, list | Mapping) and "names" not in feature:
        feature = feature.get("feature") if isinstance(feature, Mapping) else (feature or [None])[0]
    names = feature["names"] if isinstance(feature, Mapping) else ()
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()
