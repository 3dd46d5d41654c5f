"""Decoded pictures, kept in memory as far as it reaches."""

import threading

import numpy as np

from deep_patch_learning.data.dataset import TaggedPictures


class DecodedPictures:
    """Pictures by index, decoded at first use and kept until `limit` bytes are held; the rest is decoded at each use."""

    def __init__(self, pictures: TaggedPictures, limit: int = 4 << 30) -> None:
        self._pictures = pictures
        self._limit = limit
        self._held = 0
        self._images: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def __getitem__(self, index: int) -> np.ndarray:
        """Return picture `index` as (H, W, 3) uint8 RGB."""
        image = self._images.get(index)
        if image is not None:
            return image
        image = self._pictures.read(index)
        with self._lock:
            if index not in self._images and self._held + image.nbytes <= self._limit:
                self._images[index] = image
                self._held += image.nbytes
        return image
