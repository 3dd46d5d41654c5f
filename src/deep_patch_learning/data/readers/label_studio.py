"""Tags from a Label Studio export, JSON or JSON-MIN: choices, and the labels of regions, of what people annotated."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.readers.table import (
    TagRow,
    TagTable,
    is_file,
    locate,
    parse_json,
    read_text,
    sorted_classes,
)

_WANTED = "a Label Studio export (JSON or JSON-MIN), a list of tasks with an 'image'"
_UPLOADED = "/data/upload/"
_LOCAL = "/data/local-files/"
_ABOVE = 3  # folders above the export in which Label Studio's document root may be


def read_label_studio(path: Path) -> TagTable:
    """Return the images and tags of an export. A tag that only some annotators of an image give is unknown.

    A task that nobody annotated has the tags in its data, as in the tasks that `dpl label` writes.
    """
    tasks = parse_json(read_text(path, _WANTED), path)
    if not isinstance(tasks, list) or not tasks:
        found = "list of nothing" if tasks == [] else type(tasks).__name__
        raise DataError(f"{path}: found a {found}, wanted {_WANTED}. For rows of tags, use .jsonl.")
    rows = [_row(task, f"task {number}", path) for number, task in enumerate(tasks, start=1)]
    return TagTable(path, path.parent, rows, sorted_classes(rows))


def _row(task: Any, place: str, path: Path) -> TagRow:
    data = task.get("data", task) if isinstance(task, dict) else None
    if not isinstance(data, dict):
        raise DataError(f"{path}, {place}: found {short(task)}, wanted {_WANTED}. For rows of tags, use .jsonl.")
    address = _image_of(data, task)
    if address is None:
        raise DataError(
            f"{path}, {place}: no entry of its data names an image (found {', '.join(map(str, data))[:80]}), wanted {_WANTED}. "
            "For rows of tags, use .jsonl."
        )
    name, file = _located(address, path, place)
    present, unknown = _tags(task, data, path, place)
    return TagRow(place, name, file, present, unknown)


def _split(address: str) -> SplitResult:
    """Return the parts of an address; one that is none is a path."""
    try:
        return urlsplit(address)
    except ValueError:  # a bracket that looks like half of an IPv6 address
        return SplitResult("", "", address, "", "")


def _image_of(data: dict[str, Any], task: dict[str, Any]) -> str | None:
    """Return the address of a task's image: its entry `image`, or the only one that looks like a file's address."""
    found = data.get("image")
    if isinstance(found, str) and found.strip():
        return found.strip()
    outer = () if data is not task else ("id", "annotator", "created_at", "updated_at")
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in outer]
    images = [text for text in texts if Path(_split(text).path).suffix or _LOCAL in text]
    return images[0] if len(images) == 1 else None


def _located(address: str, path: Path, place: str) -> tuple[str, Path]:
    """Return the unique name and the file of an address in Label Studio."""
    parts = _split(address)
    if parts.scheme in ("http", "https", "s3", "gs", "azure-blob") and not parts.path.startswith((_LOCAL, _UPLOADED)):
        raise DataError(
            f"{path}, {place}: '{address[:80]}' is on the network. Download the images beside the export, and name their files."
        )
    if parts.path.startswith(_LOCAL):
        name = "".join(parse_qs(parts.query).get("d", []))
        bases = [path.parent, *path.absolute().parents[1 : 1 + _ABOVE]]
    elif parts.path.startswith(_UPLOADED):  # Label Studio's own folder: of it, people copy the files
        name = unquote(Path(parts.path).name)
        bases = [
            path.parent,
            path.parent / "images",
            path.parent / "upload",
            path.parent / Path(parts.path).parent.name,
        ]
    else:
        name, bases = address, [path.parent, path.parent / "images"]
    base = next((base for base in bases if is_file(base / name)), path.parent)
    return locate(str(base / name) if base != path.parent else name, path.parent)


def _tags(
    task: dict[str, Any], data: dict[str, Any], path: Path, place: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags that all annotators give, and those that only some of them give."""
    annotations = task.get("annotations")
    if isinstance(annotations, list):
        done = [one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")]
        given = [set(_of_result(one.get("result"), path, place)) for one in done]
        if given:
            every, some = set.intersection(*given), set.union(*given)
            return tuple(sorted(every)), tuple(sorted(some - every))
    elif data is task:  # JSON-MIN: results stand beside the data
        return tuple(dict.fromkeys(_of_controls(task))), ()
    tags = data.get("tags")
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return tuple(dict.fromkeys(tags)), ()
    raise DataError(
        f"{path}, {place}: nobody has annotated it, and it has no 'tags'. Label it, or export annotated tasks only."
    )


def _of_result(result: Any, path: Path, place: str) -> Iterator[str]:
    if not isinstance(result, list):
        raise DataError(f"{path}, {place}: 'result' is {short(result)}, wanted a list of regions and choices.")
    for region in result:
        value = region.get("value") if isinstance(region, dict) else None
        if isinstance(value, dict):
            yield from _labels_in(value)


def _of_controls(task: dict[str, Any]) -> Iterator[str]:
    """Yield the labels of a JSON-MIN task, in which a single choice is a text, several are `choices`, and regions are lists."""
    outer = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "image"}
    for key, value in task.items():
        if isinstance(value, dict):
            yield from _labels_in(value)
        elif isinstance(value, list):
            for region in value:
                yield from _labels_in(region) if isinstance(region, dict) else ()
        elif isinstance(value, str) and key not in outer and not Path(_split(value).path).suffix and "/" not in value:
            yield value.strip()


def _labels_in(value: dict[str, Any]) -> Iterable[str]:
    """Return the labels of a region or of choices: the lists under `choices`, `rectanglelabels` and their like."""
    lists = (found for key, found in value.items() if key == "choices" or key.endswith("labels"))
    return [label.strip() for found in lists if isinstance(found, list) for label in found if isinstance(label, str)]
