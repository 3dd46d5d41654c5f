"""How far the review is, and how many boxes are right: counts and estimates, by class and overall."""

import sqlite3
import threading
import time
from typing import Any

from deep_patch_learning.data.reviewed import judged_boxes
from deep_patch_learning.evaluation.right_boxes import Share, right_boxes
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
                    self._found = {**counted(self._store, file), "number": number}
                    self._number = number
            self._at = time.monotonic()
            return self._found


def counted(store: ReviewStore, file: sqlite3.Connection) -> dict[str, Any]:
    """Return the counts of each class and overall, with the share of right boxes in the random sample."""
    judged = judged_boxes(file, store.classes)
    shares = right_boxes(judged)
    known = judged.right >= 0
    per_class = [
        {
            "name": name,
            "boxes": int((judged.classes == index).sum()),
            "judged": int((known & (judged.classes == index)).sum()),
            "right": _share(shares.per_class[index]),
        }
        for index, name in enumerate(store.classes)
    ]
    drawn = file.execute("SELECT count(*) FROM boxes WHERE found_class IS NULL").fetchone()[0]
    images, done, touched = file.execute("SELECT count(*), sum(done), sum(version > 0) FROM images").fetchone()
    share = shares.overall
    tight = bool(known.all()) or (share is not None and (share.high - share.low) / 2 <= TIGHT)
    return {
        "classes": per_class,
        "boxes": len(known),
        "judged": int(known.sum()),
        "drawn": drawn,
        "images": images,
        "done": done,
        "touched": touched,
        "right": _share(share),
        "tight": tight,
    }


def _share(share: Share | None) -> dict[str, float] | None:
    return None if share is None else share._asdict()
