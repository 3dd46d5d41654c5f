"""What the network found in one image: its tags and its boxes, to filter, save, draw and convert."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from deep_patch_learning.common.atomic_files import fitting, parsed, write_whole
from deep_patch_learning.common.boxes import area, outside
from deep_patch_learning.common.errors import DataError, DplError, did_you_mean

if TYPE_CHECKING:
    from PIL import Image

FORMAT = "deep_patch_learning.prediction/1"
_OF_HEADS = ("classification_scores", "discovery_scores", "best_boxes")  # None where the network lacks a head
NOTHING = -16.0  # the score of a class of which nothing was found: a probability of 1e-7
_LINES = ("calibration", "box_calibration")  # None where the run was not calibrated
_OTHERWISE = ("argmax_boxes", "voted_boxes")
_OF_VIEWS = ("found_precision", "found_views")
_OPTIONAL = ("two_stream_scores", *_LINES, *_OF_VIEWS, *_OTHERWISE)  # saved only where they are there
_ARRAYS = ("image_scores", *_OF_HEADS, "found_boxes", "found_classes", "found_scores")


class HeadScores(NamedTuple):
    """The scores of each head that counts for an image's tags, (I, C) or (C,); None where it does not count.

    The two-stream head gives a probability; here it is its logit.
    """

    classification: Any
    discovery: Any
    two_stream: Any

    @property
    def counted(self) -> list[Any]:
        """The scores of the heads that count."""
        return [scores for scores in self if scores is not None]

    def image_scores(self) -> Any:
        """Return the image scores: the sum over the heads that count. They rank images."""
        return sum(self.counted[1:], start=self.counted[0])

    def tag_scores(self) -> np.ndarray:
        """Return the scores that probabilities are made of: the mean over the heads that count, in float64."""
        return np.stack(self.counted).mean(axis=0, dtype=np.float64)


class Tag(NamedTuple):
    """One thing the image shows. Its probability is the sigmoid of its score, calibrated where the run is."""

    name: str
    probability: float
    score: float

    def __repr__(self) -> str:
        return f"Tag({self.name!r}, probability={self.probability:.2f}, score={self.score:.2f})"


class _Raw(TypedDict):
    classes: list[str]
    threshold: float | list[float]
    only: list[str] | None


class _Saved(TypedDict):
    """The schema of a saved prediction; `Prediction` checks the arrays in `raw`."""

    name: str
    source: str | None
    width: int
    height: int
    raw: _Raw


class FoundBox(NamedTuple):
    """One object found in the image; `box` is (x1, y1, x2, y2) in its pixels, half-open.

    `probability` refers to the presence of the class. `precision` is the probability that the box is right, an IoU of at least
    0.5 with an object of the class; None unless further views were computed (see `inference/box_trust.py`).
    """

    tag: str
    box: tuple[float, float, float, float]
    score: float
    probability: float
    precision: float | None = None

    def __repr__(self) -> str:
        box = ", ".join(f"{value:.0f}" for value in self.box)
        right = "" if self.precision is None else f", precision={self.precision:.2f}"
        return f"FoundBox({self.tag!r}, box=({box}), probability={self.probability:.2f}, score={self.score:.2f}{right})"


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """What was found in one image, of C classes and with B boxes after non-maximum suppression.

    The raw arrays hold everything; `tags` and `boxes` show what is likely. Arrays are copied, checked and read-only.

    `image_scores` (C,) is the sum of the heads' raw scores, `classification_scores`, `discovery_scores` and
    `two_stream_scores` (C,) are its parts, None where a head does not exist or does not count.
    `best_boxes` (C, 4) is the best patch of each class, whether the class is there or not, and None for a network that only
    classifies. With the paper's heads alone, `argmax_boxes` (C, 4) are those of the highest scores where `best_boxes` are
    elected by vote, and `voted_boxes` (C, 4) those of a vote where they are not; else None.
    `found_boxes` (B, 4), `found_classes` (B,) and `found_scores` (B,) are the boxes and their raw patch scores, as the
    mean over the scales. `found_precision` (B,) is the probability that each box is right, and `found_views` (B, 2) how well it
    was found again in the mirrored image and at another scale, from 0 to 1; both are None unless these views were computed.

    `calibration` (C, 2) is slope and bias of each class, and None where the run was not calibrated. Without it probabilities are
    sigmoids of `tag_scores`: they rank, but they are not calibrated. With it they are sigmoids of slope * score + bias, fitted
    to held-out tags. Without box labels the probability of a box refers to the presence of the class, not to the quality of the
    box: `box_calibration` (C, 2) says how likely an image shows a class whose best box has this score. Where it is None the score
    of a box is read as that of a tag.

    `threshold` is the probability from which a tag is shown, one for all classes or one for each; `only` limits tags and boxes
    to some classes.
    """

    name: str
    classes: tuple[str, ...]
    height: int
    width: int
    image_scores: np.ndarray
    found_boxes: np.ndarray
    found_classes: np.ndarray
    found_scores: np.ndarray
    best_boxes: np.ndarray | None = None
    classification_scores: np.ndarray | None = None
    discovery_scores: np.ndarray | None = None
    source: Path | None = None
    threshold: float | tuple[float, ...] = 0.5
    only: tuple[str, ...] | None = None
    calibration: np.ndarray | None = None
    box_calibration: np.ndarray | None = None
    two_stream_scores: np.ndarray | None = None
    found_precision: np.ndarray | None = None
    found_views: np.ndarray | None = None
    argmax_boxes: np.ndarray | None = None
    voted_boxes: np.ndarray | None = None

    def __post_init__(self) -> None:
        count, found = len(self.classes), len(self.found_boxes)
        scores, lines = (count,), (count, 2)
        per_box = (found,), (found, 2)
        of_each = (scores, scores, scores, (count, 4), (found, 4), (found,), (found,))
        optional = (scores, lines, lines, *per_box, (count, 4), (count, 4))
        for name, shape in zip((*_ARRAYS, *_OPTIONAL), (*of_each, *optional), strict=True):
            value = getattr(self, name)
            if value is not None or name not in (*_OF_HEADS, *_OPTIONAL):
                object.__setattr__(self, name, self._checked(name, value, shape))
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "threshold", self._checked_threshold())
        object.__setattr__(self, "only", None if self.only is None else tuple(self.only))
        object.__setattr__(self, "source", None if self.source is None else Path(self.source))
        self._check_contents()

    def _checked(self, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(value)
        if array.size == 0 and 0 in shape:
            array = array.reshape(shape)
        if array.shape != shape or array.dtype.kind not in "iuf":
            raise DataError(f"{self.name}: {name} is {array.shape} {array.dtype}; wanted numbers of shape {shape}")
        if name == "found_classes" and (array != np.round(array)).any():
            raise DataError(f"{self.name}: found_classes is {array.tolist()}; wanted whole numbers")
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite below
            copy = np.array(array, np.int64 if name == "found_classes" else np.float32)
        if not np.isfinite(copy).all():
            at = np.argwhere(~np.isfinite(copy))[0].tolist()
            raise DataError(f"{self.name}: {name}{at} is {array[tuple(at)]}; wanted finite float32 numbers")
        copy.setflags(write=False)
        return copy

    def _checked_threshold(self) -> float | tuple[float, ...]:
        array = np.asarray(self.threshold)
        fits = array.shape in ((), (len(self.classes),)) and array.dtype.kind in "iuf"
        if not fits or not ((array >= 0) & (array <= 1)).all():
            wanted = f"a probability from 0 to 1, or one for each of the {len(self.classes)} classes"
            raise DataError(f"{self.name}: threshold is {self.threshold}; wanted {wanted}")
        return tuple(map(float, array)) if array.ndim else float(array)

    def _check_contents(self) -> None:
        if not (self.height >= 1 and self.width >= 1):
            raise DataError(f"{self.name}: the image is {self.width} x {self.height} pixels; wanted 1 x 1 or more")
        if len(set(self.classes)) != len(self.classes):
            raise DataError(f"{self.name}: class names must differ from each other; got {list(self.classes)}")
        wrong = (self.found_classes < 0) | (self.found_classes >= len(self.classes))
        if wrong.any():
            at, last = int(wrong.argmax()), len(self.classes) - 1
            raise DataError(f"{self.name}: found_classes[{at}] is {self.found_classes[at]}; wanted 0 to {last}")
        for name in ("best_boxes", "found_boxes", *_OTHERWISE):
            boxes = getattr(self, name)
            wrong = outside(np.zeros((0, 4)) if boxes is None else boxes, self.height, self.width)
            if boxes is not None and wrong.any():
                at = int(wrong.argmax())
                box, size = boxes[at].tolist(), f"{self.width} x {self.height}"
                raise DataError(f"{self.name}: {name}[{at}] is {box}, empty or not inside the image of {size} pixels")
        for lines in (self.calibration, self.box_calibration):
            if lines is not None and (lines[:, 0] <= 0).any():
                slopes = lines[:, 0].tolist()
                raise DataError(f"{self.name}: the slopes of the calibration are {slopes}; wanted numbers above 0")
        for name in self.only or ():
            self._index(name)

    def _index(self, name: str) -> int:
        if name not in self.classes:
            raise DplError(f"{self.name}: there is no class {name!r}.{did_you_mean(name, self.classes)}")
        return self.classes.index(name)

    @property
    def tag_scores(self) -> np.ndarray:
        """Return the raw scores (C,) that probabilities are made of: the mean of the heads' scores."""
        heads = HeadScores(self.classification_scores, self.discovery_scores, self.two_stream_scores)
        return heads.tag_scores() if heads.counted else self.image_scores.astype(np.float64)

    @property
    def best_scores(self) -> np.ndarray:
        """Return the raw score (C,) of the best box of each class; where there is none, that of nothing found."""
        best = np.full(len(self.classes), NOTHING, np.float64)
        np.maximum.at(best, self.found_classes, self.found_scores)
        return best

    @property
    def probabilities(self) -> np.ndarray:
        """Return how likely each class is in the image, (C,): the sigmoid of its tag score, calibrated where it can be."""
        return _probabilities(self.tag_scores, np.arange(len(self.classes)), self.calibration)

    def box_probabilities(self, scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the probabilities (N,) of boxes with these scores (N,) and indices of classes (N,)."""
        return _probabilities(
            scores, classes, self.calibration if self.box_calibration is None else self.box_calibration
        )

    @property
    def thresholds(self) -> np.ndarray:
        """Return the probability (C,) from which a tag of each class is shown."""
        return np.broadcast_to(np.asarray(self.threshold, np.float64), (len(self.classes),))

    @property
    def tags(self) -> list[Tag]:
        """Return what the image shows, likeliest first: the classes whose probability reaches the threshold."""
        scores, probabilities, thresholds = self.tag_scores, self.probabilities, self.thresholds
        order = np.argsort(-probabilities, kind="stable")
        return [
            Tag(self.classes[index], float(probabilities[index]), float(scores[index]))
            for index in order
            if probabilities[index] >= thresholds[index] and (self.only is None or self.classes[index] in self.only)
        ]

    @property
    def boxes(self) -> list[FoundBox]:
        """Return the objects of the tags, highest score first.

        Each tag shows its best box, and every further box whose own probability reaches the threshold. Where the scores of boxes
        are calibrated, by what best boxes tell, a further one must also score half as high as the best before calibration.
        """
        arrays = self.to_numpy()
        right = arrays["precision"].tolist() if "precision" in arrays else [None] * len(arrays["boxes"])
        rows = zip(arrays["classes"], arrays["boxes"], arrays["scores"], arrays["probabilities"], right, strict=True)
        return [
            FoundBox(self.classes[index], tuple(box.tolist()), float(score), float(probability), precision)
            for index, box, score, probability, precision in rows
        ]

    def _shown(self) -> np.ndarray:
        """Return the indices into `found_boxes` of what `boxes` shows, in its order."""
        tagged = np.isin(self.found_classes, [self.classes.index(tag.name) for tag in self.tags])
        order = np.argsort(-self.found_scores, kind="stable")
        best = np.zeros(len(order), bool)
        best[order[np.unique(self.found_classes[order], return_index=True)[1]]] = True
        probabilities = self.box_probabilities(self.found_scores, self.found_classes)
        further = probabilities >= self.thresholds[self.found_classes]
        if self.box_calibration is not None:
            further &= sigmoid(self.found_scores) >= 0.5 * sigmoid(self.best_scores[self.found_classes])
        shown = tagged & (best | further)
        return order[shown[order]]

    def __len__(self) -> int:
        return len(self._shown())

    def __iter__(self) -> Iterator[FoundBox]:
        return iter(self.boxes)

    def __getitem__(self, index: int) -> FoundBox:
        return self.boxes[index]

    def __bool__(self) -> bool:
        return True  # an image without boxes is still a prediction

    def __repr__(self) -> str:
        tags = ", ".join(f"{tag.name} {tag.probability:.0%}" for tag in self.tags) or "no tags"
        boxes = f"{len(self)} box" + ("" if len(self) == 1 else "es")
        return f"<Prediction {self.name!r} {self.width}x{self.height}: {tags}; {boxes}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prediction) and self.as_dict() == other.as_dict()

    def filter(
        self,
        classes: str | Sequence[str] | None = None,
        *,
        min_probability: float | None = None,
        min_score: float | None = None,
        max_boxes: int | None = None,
        min_area: float | None = None,
    ) -> "Prediction":
        """Return the prediction with fewer boxes; the class list and the scores of the image stay as they are.

        `classes`: show tags and boxes of these alone. `min_probability`: the new threshold of tags and of further
        boxes, of every class; lower than before shows more, and 0 shows everything. `min_score`, `min_area` (square
        pixels): of a box. `max_boxes`: the best of those that would be shown.
        """
        only = (classes,) if isinstance(classes, str) else classes
        keep = np.ones(len(self.found_boxes), bool)
        if only is not None:
            keep &= np.isin(self.found_classes, [self._index(name) for name in only])
            only = tuple(name for name in only if self.only is None or name in self.only)
        if min_score is not None:
            keep &= self.found_scores >= min_score
        if min_area is not None:
            keep &= area(self.found_boxes) >= min_area
        threshold = self.threshold if min_probability is None else min_probability
        kept = replace(self, threshold=threshold, only=self.only if only is None else only)._take(np.flatnonzero(keep))
        return kept if max_boxes is None else kept._take(kept._shown()[: max(0, max_boxes)])

    def _take(self, indices: np.ndarray) -> "Prediction":
        boxes, classes, scores = self.found_boxes[indices], self.found_classes[indices], self.found_scores[indices]
        kept = {"found_boxes": boxes, "found_classes": classes, "found_scores": scores}
        of_views = {"found_precision": self.found_precision, "found_views": self.found_views}
        kept |= {name: value[indices] for name, value in of_views.items() if value is not None}
        return replace(self, **kept)

    def top(self, count: int) -> "Prediction":
        """Return the prediction with its `count` best boxes."""
        return self.filter(max_boxes=count)

    def draw(self, image: "np.ndarray | Image.Image | None" = None) -> "Image.Image":
        """Return the image with its boxes drawn and named; without `image` it is read from `source`."""
        from deep_patch_learning.common.drawing import as_image, class_colour, draw_boxes
        from deep_patch_learning.data.images import read_image

        if image is None:
            if self.source is None:
                raise DplError(f"{self.name}: the prediction does not know its file. Give the image: draw(image).")
            image = read_image(self.source)
        canvas = as_image(image)
        if canvas.size != (self.width, self.height):
            found, wanted = f"{canvas.width} x {canvas.height}", f"{self.width} x {self.height}"
            raise DataError(f"{self.name}: the image is {found} pixels; the boxes were found on {wanted}")
        arrays = self.to_numpy()
        labels = [f"{box.tag} {box.probability:.0%}" for box in self.boxes]
        return draw_boxes(canvas, arrays["boxes"], labels, [class_colour(int(c)) for c in arrays["classes"]])

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Return the shown boxes as arrays: `boxes` (B, 4), `classes` (B,), `scores` (B,), `probabilities` (B,).

        Where it was computed, `precision` (B,) too.
        """
        shown = self._shown()
        scores = self.found_scores[shown]
        classes = self.found_classes[shown]
        probabilities = self.box_probabilities(scores, classes)
        arrays = {
            "boxes": self.found_boxes[shown],
            "classes": classes,
            "scores": scores,
            "probabilities": probabilities,
        }
        return arrays if self.found_precision is None else {**arrays, "precision": self.found_precision[shown]}

    def to_coco(self, image_id: int = 1) -> dict[str, Any]:
        """Return the shown boxes as a COCO data set of one image: boxes as [x, y, width, height], classes from 1."""
        annotations = []
        for number, (tag, (x1, y1, x2, y2), _, probability, _) in enumerate(self.boxes, start=1):
            place = {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1), "iscrowd": 0}
            whose = {"id": number, "image_id": image_id, "category_id": self.classes.index(tag) + 1}
            annotations.append({**whose, **place, "score": probability})
        file_name = self.name if self.source is None else self.source.name
        return {
            "images": [{"id": image_id, "file_name": file_name, "width": self.width, "height": self.height}],
            "annotations": annotations,
            "categories": [{"id": number, "name": name} for number, name in enumerate(self.classes, start=1)],
        }

    def to_supervision(self) -> Any:
        """Return the shown boxes as `supervision.Detections`, with the class names under `class_name`."""
        try:
            import supervision  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise DplError(
                "to_supervision needs the package supervision. Install it: pip install supervision"
            ) from None
        arrays = self.to_numpy()
        return supervision.Detections(
            xyxy=arrays["boxes"],
            confidence=arrays["probabilities"].astype(np.float32),
            class_id=arrays["classes"].astype(int),
            data={"class_name": np.array([self.classes[index] for index in arrays["classes"]], dtype=str)},
        )

    def to_pandas(self) -> Any:
        """Return the shown boxes as a `pandas.DataFrame`, a row for each.

        Columns: image, tag, x1, y1, x2, y2, score, probability and precision, which is NaN where it was not computed.
        """
        try:
            import pandas
        except ImportError:
            raise DplError("to_pandas needs the package pandas. Install it: pip install pandas") from None
        arrays = self.to_numpy()
        columns: dict[str, Any] = {
            "image": [self.name] * len(arrays["boxes"]),
            "tag": [self.classes[index] for index in arrays["classes"]],
            **dict(zip(("x1", "y1", "x2", "y2"), arrays["boxes"].T, strict=True)),
            "score": arrays["scores"],
            "probability": arrays["probabilities"],
            "precision": arrays.get("precision", np.full(len(arrays["boxes"]), np.nan, np.float32)),
        }
        return pandas.DataFrame(columns)

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction ready for JSON: `tags` and `boxes` for readers, under `raw` all that `load` needs."""
        return {
            "format": FORMAT,
            "name": self.name,
            "source": None if self.source is None else str(self.source),
            "width": int(self.width),
            "height": int(self.height),
            "tags": [tag._asdict() for tag in self.tags],
            "boxes": [_readable(found) for found in self.boxes],
            "raw": {
                "classes": list(self.classes),
                "threshold": list(self.threshold) if isinstance(self.threshold, tuple) else self.threshold,
                "only": None if self.only is None else list(self.only),
                **{name: _plain(getattr(self, name)) for name in _ARRAYS},
                **{name: _plain(getattr(self, name)) for name in _OPTIONAL if getattr(self, name) is not None},
            },
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str = "prediction") -> "Prediction":
        """Return the prediction that `as_dict` gave; `where` names its origin in errors."""
        if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
            found = saved.get("format") if isinstance(saved, Mapping) else type(saved).__name__
            raise DataError(f"{where}: not a saved prediction: its format is {found!r}; wanted {FORMAT!r}")
        try:
            # bytes of a file's name that are not UTF-8 are halves of characters here
            names = {
                key: saved[key].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                for key in ("name", "source")
                if isinstance(saved.get(key), str) and not _is_broken(saved[key])
            }
            fitting({**saved, **names}, _Saved)
            outer = {key: saved[key] for key in ("name", "source", "width", "height")}
            raw = {key: saved["raw"][key] for key in ("classes", "threshold", "only", *_ARRAYS)}
            return cls(**outer, **raw, **{name: saved["raw"].get(name) for name in _OPTIONAL})
        except KeyError as error:
            raise DataError(f"{where}: the key {error} is missing. Save the prediction anew.") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{where}: the saved prediction is broken ({error}). Save it anew.") from None
        except DplError as error:
            raise DataError(f"{where}: {error}") from None

    def save(self, path: str | Path) -> Path:
        """Return the path of the JSON file written; a file of that name is replaced in one step, never half."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        saved = json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False) + "\n"
        if not saved.isascii() and any("\ud800" <= letter <= "\udfff" for letter in saved):
            saved = json.dumps(self.as_dict(), allow_nan=False) + "\n"  # a file name that is not UTF-8: as an escape
        write_whole(path, saved)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Prediction":
        """Return the prediction saved in a JSON file."""
        try:
            saved = parsed(Path(path).read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file. Give the path of a saved prediction.") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a JSON file that can be read ({error}). Save the prediction anew.") from None
        return cls.from_dict(saved, str(path))


def _is_broken(name: str) -> bool:
    """Return whether a text holds halves of characters that stand for no byte of a file's name."""
    return any("\ud800" <= letter <= "\udfff" and not "\udc80" <= letter <= "\udcff" for letter in name)


def _readable(found: FoundBox) -> dict[str, Any]:
    """Return a box ready for JSON; without a precision that was not computed."""
    shown = {**found._asdict(), "box": list(found.box)}
    return {key: value for key, value in shown.items() if value is not None}


def _probabilities(scores: np.ndarray, classes: np.ndarray, lines: np.ndarray | None) -> np.ndarray:
    """Return the probabilities (N,) of scores (N,), each of the class whose index (N,) stands beside it."""
    if lines is None:
        return sigmoid(scores)
    slopes, biases = lines[classes].astype(np.float64).T
    return sigmoid(slopes * scores + biases)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-scores)), in the form that neither overflows nor loses the middle."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(scores, np.float64)))


def _plain(array: np.ndarray | None) -> Any:
    """Return nested lists, each float in the fewest digits that give the same float32 back."""
    if array is None or array.dtype.kind != "f":
        return None if array is None else array.tolist()
    return array.astype(str).astype(np.float64).tolist()
