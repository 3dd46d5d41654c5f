"""How far the review is, and how many boxes are right: counts and estimates, by class and overall."""

import threading
import time
from typing import Any

import numpy as np

from deep_patch_learning.review.estimate import overall, sample_of
from deep_patch_learning.review.store import ReviewStore

FRESH_SECONDS = 0.5  # many clients share one count
TIGHT = 0.05  # half of the interval's width from which the estimate is tight


class Summary:
    """The counts of a store, counted again only after it changed, and at most every half second."""

    def __init__(self, store: ReviewStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._at, self._number = 0.0, -1

    def get(self) -> dict[str, Any]:
        """Return counts and estimates."""
        with self._lock:
            if self._found and time.monotonic() - self._at < FRESH_SECONDS:
                return self._found
            with self._store.reading() as file:
                number = file.execute("SELECT coalesce(max(number), 0) FROM actions").fetchone()[0]
                if number != self._number:
                    self._found = counted(self._store, file)
                    self._number = number
            self._at = time.monotonic()
            return self._found


def counted(store: ReviewStore, file: Any) -> dict[str, Any]:
    """Return the counts of each class and overall, with the share of right boxes in the random sample."""
    boxes = """
        SELECT b.found_class, b.status, b.class = b.found_class AND b.x1 = b.found_x1 AND b.y1 = b.found_y1
            AND b.x2 = b.found_x2 AND b.y2 = b.found_y2, b.x1, b.y1, b.x2, b.y2, b.found_x1, b.found_y1, b.found_x2,
            b.found_y2, b.class = b.found_class
        FROM boxes b JOIN images i ON i.id = b.image WHERE b.found_class IS NOT NULL ORDER BY i.place, b.id
    """
    rows = [tuple(row) for row in file.execute(boxes)]
    classes = np.array([row[0] for row in rows], np.int64)
    samples, per_class = [], []
    judged = np.array([row[1] != "open" for row in rows], bool)
    right = np.array([_is_right(row) for row in rows], bool)
    for index, name in enumerate(store.classes):
        own = classes == index
        sample = sample_of(judged[own], right[own])
        samples.append(sample)
        per_class.append({"name": name, "boxes": int(own.sum()), "judged": int(judged[own].sum()), **sample.as_dict()})
    drawn = file.execute("SELECT count(*) FROM boxes WHERE found_class IS NULL").fetchone()[0]
    images, done = file.execute("SELECT count(*), sum(done) FROM images").fetchone()
    touched = file.execute("SELECT count(*) FROM images WHERE version > 0").fetchone()[0]
    total = overall(samples)
    tight = total is not None and (total[2] - total[1]) / 2 <= TIGHT
    return {
        "classes": per_class,
        "boxes": len(rows),
        "judged": int(judged.sum()),
        "drawn": drawn,
        "images": images,
        "done": done,
        "touched": touched,
        "right": total,
        "sampled": sum(sample.judged for sample in samples),
        "tight": tight or bool(judged.all()),
        "advised": "useful" if tight or bool(judged.all()) else "sample",
    }


def _is_right(row: tuple[Any, ...]) -> bool:
    """Whether a box as it was found is right: accepted, or corrected so little that its IoU is still at least 0.5."""
    if row[1] != "corrected":
        return row[1] == "right"
    return bool(row[11]) and iou(row[3:7], row[7:11]) >= 0.5


def iou(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the IoU of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared)
