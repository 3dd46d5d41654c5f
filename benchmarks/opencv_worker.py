"""OpenCV's Selective Search as a process of its own, for `patches_against_opencv.py`: a line per image in, a line of JSON out.

A line is `1 PATH` or `0 PATH`; with 1 the answer has the segmentations too, each as a digest of its labels in reading order.
"""

import hashlib
import json
import sys
import time

import cv2
import numpy as np

SCALES = (150, 300, 450)  # k of the fast mode


def digest(labels: np.ndarray) -> str:
    """Return a text that two segmentations share exactly when they have the same regions."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    numbered = np.argsort(np.argsort(first))[place.reshape(-1)].astype(np.int32)
    return hashlib.sha256(numbered.tobytes()).hexdigest()


def segmentations(image: np.ndarray) -> list[str]:
    """Return the digests of the six segmentations of OpenCV's fast mode."""
    found = []
    for code in (cv2.COLOR_BGR2HSV, cv2.COLOR_BGR2Lab):
        for k in SCALES:
            graph = cv2.ximgproc.segmentation.createGraphSegmentation()
            graph.setK(float(k))
            graph.setSigma(0.8)
            found.append(digest(graph.processImage(cv2.cvtColor(image, code))))
    return found


def main() -> None:
    """Answer until standard input ends."""
    cv2.setNumThreads(1)
    make = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation
    for line in sys.stdin:
        segmented, path = line.rstrip("\n").split(" ", 1)
        image = cv2.imread(path)
        before = time.process_time()
        search = make()
        search.setBaseImage(image)
        search.switchToSelectiveSearchFast()
        found = search.process()
        seconds = time.process_time() - before
        boxes = [[int(value) for value in box] for box in found]
        segments = segmentations(image) if segmented == "1" else []
        print(json.dumps({"seconds": seconds, "boxes": boxes, "segments": segments}), flush=True)


if __name__ == "__main__":
    main()
