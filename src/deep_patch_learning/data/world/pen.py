"""A pen that draws filled, inked shapes on a canvas larger than the image, so that edges come out smooth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

SUPERSAMPLE = 3  # canvas pixels along one side of an image's pixel
_SHIFT = 4  # cv2 takes sub-pixel points as integers of 1/16 pixel

_TURN = np.linspace(0, 2 * np.pi, 28, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], 1)
_ARC = np.linspace(0, 1, 4)[None, :, None]
_CURVE = np.linspace(0, 1, 6, endpoint=False)[None, :, None]
_STEPS = np.linspace(0, 1, 17, dtype=np.float32)[:, None]

Colour = tuple[int, int, int]
Points = Sequence[tuple[float, float]] | np.ndarray


@dataclass(frozen=True)
class Paint:
    """What fills a shape: a colour, or two of them in a pattern of `period` units turned by `angle`."""

    colour: Colour
    second: Colour = (0, 0, 0)
    pattern: str = "plain"
    period: float = 0.3
    angle: float = 0.0


PATTERNS = ("plain", "stripes", "dots", "checks", "grain", "fade")


class Pen:
    """Draws in the units of one object, y downwards, on an RGBA canvas that pens share.

    The matrix (2, 3) takes the object's units to canvas pixels. Uncovered canvas is (0, 0, 0, 0).
    """

    def __init__(self, canvas: np.ndarray, matrix: np.ndarray, ink: Colour, width: float) -> None:
        self.canvas = canvas
        self.matrix = matrix
        self.ink = ink
        self.width = width

    @property
    def unit(self) -> float:
        """The length in canvas pixels of one unit."""
        (a, b, _), (c, d, _) = self.matrix.tolist()
        return math.sqrt(abs(a * d - b * c))

    def at(self, x: float, y: float, size: float = 1.0, angle: float = 0.0, tall: float = 1.0) -> "Pen":
        """Return a pen whose origin is (x, y) here, with units `size` times as long, turned by `angle` degrees."""
        cos, sin = math.cos(math.radians(angle)) * size, math.sin(math.radians(angle)) * size
        inner = np.array([[cos, -sin * tall, x], [sin, cos * tall, y], [0.0, 0.0, 1.0]])
        return Pen(self.canvas, self.matrix @ inner, self.ink, self.width)

    def polygon(self, points: Points, paint: Paint, corner: float = 0.0, inked: bool = True) -> None:
        """Fill a polygon, its corners rounded by `corner` units, and ink its edge."""
        outline = np.asarray(points, np.float64)
        self._fill(round_corners(outline, corner) if corner > 0 else outline, paint, inked)

    def blob(self, points: Points, paint: Paint, inked: bool = True) -> None:
        """Fill the smooth closed curve through the points."""
        self._fill(smooth_through(np.asarray(points, np.float64)), paint, inked)

    def box(self, x1: float, y1: float, x2: float, y2: float, paint: Paint, corner: float = 0.0) -> None:
        """Fill an upright rectangle."""
        self.polygon([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], paint, corner)

    def disc(self, x: float, y: float, radius: float, paint: Paint, tall: float = 1.0, inked: bool = True) -> None:
        """Fill a circle, or an ellipse `tall` times as high as it is wide."""
        self._fill(_CIRCLE * (radius, radius * tall) + (x, y), paint, inked)

    def line(self, points: Points, width: float, colour: Colour | None = None, closed: bool = False) -> None:
        """Draw a line of `width` canvas pixels through the points, in ink unless a colour is given."""
        placed = self._place(np.asarray(points, np.float64))
        thick = max(1, round(width))
        cv2.polylines(self.canvas, [placed], closed, (*(colour or self.ink), 255), thick, cv2.LINE_8, _SHIFT)

    def _place(self, points: np.ndarray) -> np.ndarray:
        placed = points @ self.matrix[:, :2].T + self.matrix[:, 2]
        return np.rint(placed * (1 << _SHIFT)).astype(np.int32)

    def _fill(self, points: np.ndarray, paint: Paint, inked: bool) -> None:
        placed = self._place(points)
        if paint.pattern == "plain":
            cv2.fillPoly(self.canvas, [placed], (*paint.colour, 255), cv2.LINE_8, _SHIFT)
        else:
            self._fill_pattern(placed, paint)
        if inked and self.width > 0:
            thick = max(1, round(self.width))
            cv2.polylines(self.canvas, [placed], True, (*self.ink, 255), thick, cv2.LINE_8, _SHIFT)

    def _fill_pattern(self, placed: np.ndarray, paint: Paint) -> None:
        height, width = self.canvas.shape[:2]
        x1, y1 = np.maximum((placed.min(0) >> _SHIFT) - 1, 0)
        x2, y2 = np.minimum((placed.max(0) >> _SHIFT) + 2, (width, height))
        if x2 <= x1 or y2 <= y1:
            return
        inside = np.zeros((y2 - y1, x2 - x1), np.uint8)
        cv2.fillPoly(inside, [placed - np.array([x1, y1], np.int32) * (1 << _SHIFT)], 1, cv2.LINE_8, _SHIFT)
        share = self._pattern(paint, np.arange(x1, x2), np.arange(y1, y2))  # of the second colour, 0 to 1
        both = np.array([[*paint.colour, 255], [*paint.second, 255]], np.float32)
        steps = (both[0] + _STEPS * (both[1] - both[0])).astype(np.uint8).view(np.uint32)[:, 0]  # a pixel as one word
        filled = steps.take((share * 16).astype(np.uint8))
        np.copyto(self.canvas.view(np.uint32)[y1:y2, x1:x2, 0], filled, where=inside.view(bool))

    def _pattern(self, paint: Paint, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        along_x, along_y = self.matrix[:, 0], self.matrix[:, 1]
        turn = math.radians(paint.angle)
        step = along_x * math.cos(turn) + along_y * math.sin(turn)  # the pattern turns with the object
        step = step / (np.linalg.norm(step) * paint.period * self.unit)
        x = (columns - self.matrix[0, 2]).astype(np.float32)[None, :]
        y = (rows - self.matrix[1, 2]).astype(np.float32)[:, None]
        across = x * np.float32(step[0]) + y * np.float32(step[1])  # (H, W), in periods
        if paint.pattern == "stripes":
            return (across - np.floor(across) < 0.42).astype(np.float32)
        if paint.pattern == "fade":
            return np.clip(across * (0.3 * paint.period) + 0.5, 0, 1)
        if paint.pattern == "grain":
            grid = np.random.default_rng(int(paint.period * 1e6)).random((9, 9), np.float32)
            return cv2.resize(grid, (len(columns), len(rows)), interpolation=cv2.INTER_LINEAR)
        along = y * np.float32(step[0]) - x * np.float32(step[1])
        if paint.pattern == "checks":
            return ((np.floor(across) + np.floor(along)) % 2).astype(np.float32)
        return ((across - np.round(across)) ** 2 + (along - np.round(along)) ** 2 < 0.075).astype(np.float32)


def round_corners(points: np.ndarray, radius: float) -> np.ndarray:
    """Return the closed polygon (4N, 2) with each corner cut into an arc that starts `radius` before it."""
    after = np.concatenate([points[1:], points[:1]]) - points
    before = -np.concatenate([after[-1:], after[:-1]])
    start = points + before * np.minimum(0.5, radius / np.hypot(before[:, 0], before[:, 1]))[:, None]
    end = points + after * np.minimum(0.5, radius / np.hypot(after[:, 0], after[:, 1]))[:, None]
    t = _ARC
    arcs = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * points[:, None] + t**2 * end[:, None]
    return arcs.reshape(-1, 2)


def smooth_through(points: np.ndarray) -> np.ndarray:
    """Return a closed Catmull-Rom curve (6N, 2) through the points (N, 2)."""
    p0, p1, p2, p3 = (np.roll(points, shift, 0)[:, None] for shift in (1, 0, -1, -2))
    t = _CURVE
    curve = 2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3
    return (curve / 2).reshape(-1, 2)
