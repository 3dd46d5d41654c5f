"""EdgeBoxes (Zitnick and Dollar, 2014): image -> the boxes that wholly enclose the most edges."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import checked, scaled, unscaled

ALGORITHM = 3  # part of the key: raise it whenever the boxes change
SMALLEST = 0.004  # the smallest window, as a share of the image
LONGEST = 3.0  # the largest ratio of a window's sides

BORDER_SPACES, BORDER_SCALES = (
    ("hsv180", "lab", "rgb"),
    (50, 100, 200, 400),
)  # of the segmentations that edges come from
BORDER_MIN_SIZE = 20
BORDER_WEIGHT = 0.8  # of the borders, beside half of the gradient


@dataclass(frozen=True)
class EdgeBoxes:
    """The `max_boxes` windows that enclose the most edges, refined and after NMS, best first.

    Windows neighbouring in place, size or shape have an IoU of `step`; of two results with an IoU above `overlap` the
    better one is kept. The search runs on the image scaled to at most `max_side`. An edge is strong where the gradient
    is and where segmentations of several colour spaces and scales agree on a border; with `edge_model`, a model file of
    OpenCV's structured forest, that forest finds the edges.
    """

    max_boxes: int = 256
    max_side: int = 192
    step: float = 0.65
    overlap: float = 0.7
    scored: int = 10000
    refined: int = 1500
    edge_model: str | None = None
    name: ClassVar[str] = "edge-boxes"

    def __post_init__(self) -> None:
        if self.max_boxes < 1:
            raise DataError(f"EdgeBoxes needs max_boxes of at least 1, not {self.max_boxes}.")
        if not 0.3 <= self.step < 0.95 or not 0 < self.overlap <= 1:
            raise DataError(
                f"EdgeBoxes needs 0.3 <= step < 0.95 and 0 < overlap <= 1, not {self.step} and {self.overlap}."
            )
        if not 16 <= self.max_side <= 4096:
            raise DataError(f"EdgeBoxes needs a max_side of 16 to 4096 pixels, not {self.max_side}.")
        if self.edge_model is not None and not Path(self.edge_model).is_file():
            raise DplError(f"{self.edge_model}: there is no such edge model. Give the path of OpenCV's model.yml.gz.")

    def key(self) -> str:
        """Return a text that identifies the method, its version and all its settings."""
        model = "agreement"
        if self.edge_model is not None:
            model = hashlib.blake2b(Path(self.edge_model).read_bytes(), digest_size=8).hexdigest()
        settings = f"max_boxes={self.max_boxes} max_side={self.max_side} step={self.step} overlap={self.overlap}"
        return f"{self.name}-{ALGORITHM} {settings} scored={self.scored} refined={self.refined} edges={model}"

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """Return the boxes (P, 4) uint16 of an image (H, W, 3) uint8 RGB, best first."""
        image = checked(image)
        small = scaled(image, self.max_side)
        return unscaled(self._search(small), small, image).astype(np.uint16)

    def _search(self, image: np.ndarray) -> np.ndarray:
        """Return the best windows (P, 4) int32 of the scaled image; the whole image when it has no edges."""
        from deep_patch_learning.patches.edge_boxes import edges
        from deep_patch_learning.patches.edge_boxes import scoring as box_scores

        height, width = image.shape[:2]
        strength, angle = _agreed_edges(image) if self.edge_model is None else _forest_edges(image, self.edge_model)
        ridge = edges.thin(strength, angle, 0.1)
        group, facts = edges.link(ridge, angle)
        windows = _windows(height, width, self.step)
        if len(facts) == 0 or len(windows) == 0:
            return np.array([[0, 0, width, height]], np.int32)
        graph = edges.affinities(group, facts)
        whole, single = box_scores.edge_sums(ridge, group, facts)
        rows, columns = box_scores.lines(group), box_scores.lines(np.ascontiguousarray(group.T))
        scene = box_scores.Scene(whole, single, rows, columns, graph, facts)
        bounds = box_scores.upper_bounds(windows, whole, single)
        promising = np.argsort(-bounds, kind="stable")[: self.scored]
        windows = windows[promising]
        scores = box_scores.score_all(windows, scene)
        order = np.argsort(-scores, kind="stable")
        chosen = box_scores.spread(windows, order, self.overlap, max(self.refined, self.max_boxes))
        boxes, scores = windows[chosen], scores[chosen]
        box_scores.refine(boxes[: self.refined], scores[: self.refined], scene)
        order = np.argsort(-scores, kind="stable")
        return _tightened(boxes[box_scores.spread(boxes, order, self.overlap, self.max_boxes)], height, width)


def _tightened(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the different ones of boxes (P, 4) with each side, unless at the image's border, moved in by a pixel.

    An edge under a box's side counts as crossing it, so the best boxes lie a pixel outside of their objects.
    """
    room = (boxes[:, 2:] - boxes[:, :2]).min(axis=1, keepdims=True) > 8
    inner = np.array([0, 0, width, height]) != boxes
    tight = np.where(room & inner, boxes + np.array([1, 1, -1, -1]), boxes)
    _, firsts = np.unique(tight, axis=0, return_index=True)
    return tight[np.sort(firsts)]


@lru_cache(maxsize=64)
def _windows(height: int, width: int, step: float) -> np.ndarray:
    """Return windows (P, 4) int32 over all places, sizes and shapes, such that neighbours have an IoU of `step`."""
    place_step = (1 - step) / (1 + step)
    ratio_step = ((1 + step) / (2 * step)) ** 2
    shapes = int(np.log(LONGEST) / np.log(ratio_step))
    found = [np.array([[0, 0, width, height]])]
    area = max(SMALLEST * height * width, 16.0)
    while area < height * width:
        for shape in range(-shapes, shapes + 1):
            ratio = ratio_step**shape
            w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
            if w > width or h > height or min(w, h) < 4:
                continue
            columns = np.linspace(0, width - w, 1 + int(np.ceil((width - w) / max(1.0, w * place_step))))
            rows = np.linspace(0, height - h, 1 + int(np.ceil((height - h) / max(1.0, h * place_step))))
            x, y = (places.ravel() for places in np.meshgrid(np.rint(columns), np.rint(rows)))
            found.append(np.stack([x, y, x + w, y + h], axis=1))
        area /= step
    return np.concatenate(found).astype(np.int32)


def _agreed_edges(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edge strength, about 0 to 1, and direction (H, W) float32 from the gradient and from borders of segmentations.

    Half of the strength is the share of segmentations, over colour spaces and scales, that have a border at the pixel. A border
    of an object is in most of them, the edges within a texture are in few.
    """
    import cv2

    from deep_patch_learning.patches.selective_search import segmentation
    from deep_patch_learning.patches.selective_search.search import in_space

    height, width = image.shape[:2]
    borders = np.zeros((height, width), np.float32)
    for space in BORDER_SPACES:
        sorted_edges = segmentation.exact_edges(
            cv2.GaussianBlur(in_space(image, space).astype(np.float32), (0, 0), 0.8)
        )
        for k in BORDER_SCALES:
            labels, _, _ = segmentation.segment(sorted_edges, height, width, float(k), BORDER_MIN_SIZE, True)
            across, down = labels[:, 1:] != labels[:, :-1], labels[1:] != labels[:-1]
            borders[:, :-1] += across
            borders[:, 1:] += across
            borders[:-1] += down
            borders[1:] += down
    share = cv2.GaussianBlur(borders / (2 * len(BORDER_SPACES) * len(BORDER_SCALES)), (0, 0), 1.0)
    strength, angle = _gradient_edges(image)
    return 0.5 * strength + BORDER_WEIGHT * share, angle


def _gradient_edges(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edge strength, about 0 to 1, and direction (H, W) float32 from the Lab gradient at two scales.

    The gradient is divided by its local mean, so that an edge counts by its contrast to the surroundings.
    """
    import cv2

    from deep_patch_learning.patches.edge_boxes import edges

    lab = cv2.cvtColor(image, cv2.COLOR_RGB2Lab)
    strength, angle = np.zeros(image.shape[:2], np.float32), np.zeros(image.shape[:2], np.float32)
    for sigma in (1.0, 2.0):
        blurred = cv2.GaussianBlur(lab, (0, 0), sigma)
        dx, dy = cv2.Sobel(blurred, cv2.CV_16S, 1, 0), cv2.Sobel(blurred, cv2.CV_16S, 0, 1)
        edges.gradient(dx, dy, strength, angle)
    around = cv2.blur(strength, (31, 31))
    return strength / (2.5 * around + 20.0), angle


def _forest_edges(image: np.ndarray, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return edge strength and direction (H, W) float32 from OpenCV's structured forest."""
    import cv2

    if not hasattr(cv2, "ximgproc"):
        raise DplError('edge_model needs OpenCV\'s extra modules. Fix: pip install "opencv-contrib-python-headless"')
    try:
        detector = cv2.ximgproc.createStructuredEdgeDetection(model)
        strength = detector.detectEdges(image.astype(np.float32) / 255)
    except cv2.error as error:
        raise DplError(f"{model}: OpenCV cannot use this edge model ({error.err}). Give its model.yml.gz.") from None
    across = detector.computeOrientation(strength)
    return strength, (across + np.pi / 2).astype(np.float32)
