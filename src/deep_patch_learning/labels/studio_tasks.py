"""Label Studio's requests -> images and answers: what a labelling page asks for, where a task's image is, and its regions.

Everything here comes from a client that is not trusted: a path must lie in the configured folder, no other address is opened,
images inside a task are judged as files are, and sizes are limited.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import numpy as np

from deep_patch_learning.common.errors import DataError, did_you_mean
from deep_patch_learning.data.images import decode_image, read_image
from deep_patch_learning.inference.prediction import Prediction

LOCAL_FILES = "/data/local-files/"  # Label Studio's address of files below its document root
LONGEST_CONFIG = 1 << 20  # characters
LARGEST_IMAGE = 32 << 20  # bytes of an image that comes inside a task


class RequestError(DataError):
    """A request that cannot be answered; the message says why, and goes back to the client."""


@dataclass(frozen=True)
class Page:
    """What a labelling page asks for.

    `key` is the task's entry that holds the image. `boxes` and `choices` are the controls (from_name, to_name, labels) for
    rectangles and for tags; None where the page has no such control.
    """

    key: str
    boxes: "Control | None"
    choices: "Control | None"


@dataclass(frozen=True)
class Control:
    """A control of a labelling page, and its labels that the model knows, by class: (`Dog` of the page for `dog`)."""

    from_name: str
    to_name: str
    labels: dict[str, str]


def page_of(config: Any, classes: Sequence[str]) -> Page:
    """Return what a labelling page, Label Studio's XML, asks for; `RequestError` where the model can give nothing of it."""
    if not isinstance(config, str) or not config.strip():
        raise RequestError("the labelling page is missing. Save the project's labelling interface first.")
    if len(config) > LONGEST_CONFIG or "<!" in config.replace("<!--", ""):
        raise RequestError("the labelling page is too long or declares entities. Use a plain one.")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise RequestError(f"the labelling page is no XML ({error}).") from None
    images = {one.get("name"): one.get("value", "") for one in root.iter("Image")}
    boxes = _control(root, "RectangleLabels", "Label", images, classes)
    choices = _control(root, "Choices", "Choice", images, classes)
    if boxes is None and choices is None:
        raise RequestError("the labelling page has no RectangleLabels or Choices of an Image. Add one.")
    if not any(control is not None and control.labels for control in (boxes, choices)):
        asked = [one.get("value", "") for kind in ("Label", "Choice") for one in root.iter(kind)]
        hint = did_you_mean(asked[0], classes) if asked else ""
        raise RequestError(f"none of the page's labels ({', '.join(asked[:10])}) is a class of the model.{hint}")
    first = boxes or choices
    assert first is not None
    return Page(images[first.to_name].removeprefix("$"), boxes, choices)


def _control(
    root: ElementTree.Element, kind: str, label: str, images: dict[str | None, str], classes: Sequence[str]
) -> Control | None:
    by_name = {name.casefold(): name for name in classes}
    for element in root.iter(kind):
        if element.get("toName") in images and element.get("name"):
            asked = [one.get("alias") or one.get("value") or "" for one in element.iter(label)]
            known = {by_name[name.casefold()]: name for name in asked if name.casefold() in by_name}
            return Control(element.get("name", ""), element.get("toName", ""), known)
    return None


def image_of(task: Any, page: Page, folder: Path | None) -> np.ndarray:
    """Return the image of a task: a file of Label Studio's local storage below `folder`, or one that comes inside the task."""
    data = task.get("data") if isinstance(task, dict) else None
    address = data.get(page.key) if isinstance(data, dict) else None
    if not isinstance(address, str) or not address:
        raise RequestError(f"the task has no '{page.key}' in its data.")
    if address.startswith("data:"):
        return _inside(address)
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise RequestError(f"'{address[:80]}' is no address ({error}).") from None
    if parts.path != LOCAL_FILES or parts.scheme or parts.netloc:
        raise RequestError(
            f"'{address[:80]}' is neither a file of local storage ({LOCAL_FILES}?d=...) nor an image in the task. Add the images "
            "as local storage."
        )
    return read_image(_below(folder, "".join(parse_qs(parts.query).get("d", []))))


def _below(folder: Path | None, name: str) -> Path:
    """Return the file of this name in the folder; whatever leads out of it, links too, is refused."""
    if folder is None:
        raise RequestError("files of local storage are not served here. Start the backend with --images FOLDER.")
    root = Path(os.path.realpath(folder))
    try:
        path = Path(os.path.realpath(root / name))
        inside = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        inside = False
    if not name or not inside:
        raise RequestError(f"there is no image '{name[:80]}' in the folder of --images.")
    return path


def _inside(address: str) -> np.ndarray:
    head, comma, text = address.partition(",")
    if not comma or not head.endswith(";base64") or len(text) > LARGEST_IMAGE * 4 // 3:
        raise RequestError(f"an image inside a task must be base64 and at most {LARGEST_IMAGE >> 20} MiB.")
    try:
        return decode_image(base64.b64decode(text, validate=True), "the image inside the task")
    except (binascii.Error, DataError) as error:
        raise RequestError(f"the image inside the task cannot be read ({str(error)[:160]}).") from None


def answer(found: Prediction, page: Page, model_version: str) -> dict[str, Any]:
    """Return one prediction of Label Studio: a region for each box, and the tags where the page has choices."""
    size = {"original_width": found.width, "original_height": found.height, "image_rotation": 0}
    result: list[dict[str, Any]] = []
    if page.boxes is not None:
        across, down = 100 / found.width, 100 / found.height  # Label Studio wants percent of the image
        whose = {"from_name": page.boxes.from_name, "to_name": page.boxes.to_name, "type": "rectanglelabels"}
        for number, box in enumerate(found.boxes, start=1):
            if box.tag in page.boxes.labels:
                x1, y1, x2, y2 = box.box
                place = {"x": x1 * across, "y": y1 * down, "width": (x2 - x1) * across, "height": (y2 - y1) * down}
                value = {**place, "rotation": 0, "rectanglelabels": [page.boxes.labels[box.tag]]}
                result.append({"id": f"dpl-{number}", **whose, **size, "value": value, "score": box.probability})
    if page.choices is not None:
        tags = [tag for tag in found.tags if tag.name in page.choices.labels]
        if tags:
            whose = {"from_name": page.choices.from_name, "to_name": page.choices.to_name, "type": "choices"}
            value = {"choices": [page.choices.labels[tag.name] for tag in tags]}
            result.append({"id": "dpl-tags", **whose, "value": value, "score": min(tag.probability for tag in tags)})
    score = min((region["score"] for region in result), default=0.0)
    return {"model_version": model_version, "score": score, "result": result}
