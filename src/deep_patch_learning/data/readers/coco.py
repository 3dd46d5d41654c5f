"""Tags from a COCO json: a category with an annotation is present, one with only crowds is unknown, the rest absent."""

from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import DataError, short
from deep_patch_learning.data.readers.table import TagRow, TagTable, is_file, locate, parse_json, read_text

_WANTED = "a COCO json with 'images', 'annotations' and 'categories'"
_PROBED = 16  # images looked for in each folder where they may lie


def read_coco(path: Path) -> TagTable:
    """Return the images and tags of a COCO json, classes in the order of category ids."""
    content = load(path)
    categories = category_names(content, path)
    names = image_names(content, path)
    present: dict[Hashable, dict[str, bool]] = {image_id: {} for image_id in names}
    for index, annotation in enumerate(content["annotations"]):
        image_id, category_id = reference(annotation, index, names, categories, path)
        tags, name = present[image_id], categories[category_id]
        tags[name] = tags.get(name, False) or not annotation.get("iscrowd")
    root = image_folder(path, list(names.values()))
    rows = []
    for index, (image_id, file_name) in enumerate(names.items()):
        name, file = locate(file_name, root)
        tags = present[image_id]
        sure, unsure = [tag for tag in tags if tags[tag]], [tag for tag in tags if not tags[tag]]
        rows.append(TagRow(f"images[{index}]", name, file, sure, unsure))
    return TagTable(path, root, rows, tuple(categories.values()))


def load(path: Path) -> dict[str, Any]:
    """Return the parsed file, known to have the three lists of COCO."""
    content = parse_json(read_text(path, _WANTED), path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: found a {type(content).__name__}, wanted {_WANTED}. For rows of tags, use .jsonl.")
    for key in ("images", "annotations", "categories"):
        if not isinstance(content.get(key), list):
            found = ", ".join(list(content)[:10])[:200] or "nothing"
            raise DataError(f"{path}: there is no list '{key}' (found {found}). Wanted {_WANTED}.")
    return content


def category_names(content: dict[str, Any], path: Path) -> dict[Hashable, str]:
    """Return the name of each category by its id, in the order of ids."""
    names = _by_id(content, "categories", "name", path)
    if len(set(names.values())) < len(names):
        twice = next(name for name, count in Counter(names.values()).items() if count > 1)
        raise DataError(f"{path}: two categories are named '{twice}'. Give each its own name.")
    try:
        return dict(sorted(names.items()))  # type: ignore[type-var]
    except TypeError:  # ids of several types have no order but the file's
        return names


def image_names(content: dict[str, Any], path: Path) -> dict[Hashable, str]:
    """Return the `file_name` of each image by its id, in the order of the file."""
    return _by_id(content, "images", "file_name", path)


def reference(
    annotation: Any, index: int, images: dict[Hashable, str], categories: dict[Hashable, str], path: Path
) -> tuple[Hashable, Hashable]:
    """Return the image id and the category id of an annotation, both known to exist."""
    place = f"{path}, annotations[{index}]"
    try:
        image_id, category_id = annotation["image_id"], annotation["category_id"]
        if image_id in images and category_id in categories:
            return image_id, category_id
    except (KeyError, TypeError):
        raise DataError(f"{place}: found {short(annotation)}, wanted 'image_id' and 'category_id'.") from None
    key, value = ("category_id", category_id) if image_id in images else ("image_id", image_id)
    kind = "category" if image_id in images else "image"
    raise DataError(
        f"{place}: {key} {short(value)} is no {kind} of this file. Add the {kind}, or remove the annotation."
    )


def _by_id(content: dict[str, Any], key: str, wanted: str, path: Path) -> dict[Hashable, str]:
    names: dict[Hashable, str] = {}
    for index, entry in enumerate(content[key]):
        try:
            entry_id, name = entry["id"], entry[wanted]
            seen = entry_id in names
        except (KeyError, TypeError):
            place = f"{path}, {key}[{index}]"
            raise DataError(f"{place}: found {short(entry)}, wanted 'id' and '{wanted}'.") from None
        if seen:
            raise DataError(f"{path}, {key}[{index}]: the id {short(entry_id)} is there twice. Give each its own id.")
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{path}, {key}[{index}]: '{wanted}' is {short(name)}, wanted a name.")
        names[entry_id] = name.strip()
    return names


def image_folder(path: Path, file_names: list[str]) -> Path:
    """Return the folder where the images lie: the json's own, or where COCO and its exporters put them."""
    here, above = path.parent, path.absolute().parent.parent
    folder = path.stem.rsplit("_", 1)[-1]  # instances_val2017 -> val2017
    candidates = [here]
    for base in (here, above):
        candidates += [base / folder, base / "images", base / "images" / folder]
    candidates.append(above)
    step = max(1, len(file_names) // _PROBED)
    probes = file_names[::step]
    hits = [sum(is_file(place / name) for name in probes) for place in candidates]
    return candidates[hits.index(max(hits))]  # the first of the best; the json's own folder when none has any
