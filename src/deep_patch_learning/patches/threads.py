"""OpenCV's own threads, held back while patches are made on every core or timed on one."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_threaded_opencv() -> Iterator[None]:
    """Return a context in which OpenCV adds no threads; the setting before it comes back afterwards."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
