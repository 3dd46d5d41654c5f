"""The eight kinds of objects, each an arrangement of the shared parts, facing right, about two units across."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deep_patch_learning.data.world import parts
from deep_patch_learning.data.world.parts import Style
from deep_patch_learning.data.world.pen import Pen

Draw = Callable[[Pen, Style, np.random.Generator], None]


@dataclass(frozen=True)
class Shape:
    """How to draw one class, and its usual width and height in units."""

    draw: Draw
    width: float
    height: float


def car(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a car: a low body, a glass cabin, two wheels."""
    top = rng.uniform(-0.5, -0.4)
    front, back = rng.uniform(0.2, 0.34), rng.uniform(-0.52, -0.38)
    pen.polygon([(-0.78, 0.05), (back, top), (front, top), (0.62, 0.05)], style.body, corner=0.14)
    middle = (front + back) / 2
    for x in (middle - 0.24, middle + 0.26):
        parts.window(pen.at(x, top / 2 + 0.01, 0.15), style, 1.25)
    pen.polygon([(-1, 0.03), (0.7, -0.03), (1, 0.1), (1.02, 0.42), (-1, 0.42)], style.body, corner=0.12)
    pen.box(-1.0, 0.24, 1.0, 0.33, style.trim)
    pen.disc(0.9, 0.17, 0.075, style.white)
    for x in (-0.56, 0.56):
        parts.wheel(pen.at(x, 0.43, rng.uniform(0.23, 0.27)), style)


def bus(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a bus: a long tall box with a row of windows, a door, two wheels."""
    top = rng.uniform(-0.66, -0.54)
    pen.box(-1.05, top, 1.05, 0.45, style.body, corner=0.16)
    pen.box(-1.05, 0.12, 1.05, 0.24, style.trim)
    count = int(rng.integers(3, 5))
    spacing = 1.42 / count
    for i in range(count):
        x = -0.94 + spacing * (i + 0.5)
        parts.window(pen.at(x, top / 2 - 0.06, 0.19), style, spacing * 2.1)
    parts.door(pen.at(0.74, 0.42, 0.74), style)
    pen.disc(0.99, 0.32, 0.06, style.white)
    for x in (-0.6, 0.34):
        parts.wheel(pen.at(x, 0.47, rng.uniform(0.2, 0.24)), style)


def tractor(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a tractor: a cabin over a large wheel, a bonnet with a funnel over a small one."""
    parts.chimney(pen.at(0.5, -0.12, rng.uniform(0.36, 0.46)), style)
    parts.cabin(pen.at(-0.38, -0.02, rng.uniform(0.72, 0.82)), style, 0.62)
    pen.polygon([(-0.85, -0.08), (0.78, -0.16), (0.9, 0.36), (-0.7, 0.36)], style.body, corner=0.12)
    pen.box(0.1, 0.0, 0.7, 0.1, style.trim)
    pen.disc(0.82, -0.02, 0.075, style.white)
    parts.wheel(pen.at(-0.48, 0.28, rng.uniform(0.43, 0.49)), style)
    parts.wheel(pen.at(0.6, 0.47, rng.uniform(0.25, 0.29)), style)


def house(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a house: a wall with door and windows under a gable with a chimney."""
    half = rng.uniform(0.62, 0.76)
    parts.chimney(pen.at(half * 0.55, -0.28, 0.46), style)
    pen.box(-half, -0.15, half, 0.75, style.body, corner=0.04)
    parts.gable(pen.at(0, -0.08, half + 0.2, tall=rng.uniform(0.62, 0.78)), style.trim)
    side = -1 if rng.random() < 0.5 else 1
    parts.door(pen.at(side * half * 0.45, 0.75, 0.58), style)
    parts.window(pen.at(-side * half * 0.42, 0.28, 0.19), style)
    if rng.random() < 0.7:
        parts.window(pen.at(0, -0.32, 0.12), style)


def boat(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a boat: a hull with portholes, a mast, two sails, a pennant."""
    mast = rng.uniform(-0.12, 0.1)
    pen.line([(mast, 0.4), (mast, -0.95)], 2.6 * pen.width)
    parts.flag(pen.at(mast, -0.78, 0.26), style)
    low = rng.uniform(0.18, 0.24)
    pen.polygon([(mast + 0.04, -0.78), (mast + 0.86, low), (mast + 0.04, low)], style.trim, corner=0.08)
    pen.polygon([(mast - 0.04, -0.6), (mast - 0.04, low), (mast - rng.uniform(0.55, 0.7), low)], style.accent, 0.08)
    parts.hull(pen.at(0, 0.28, 0.98, tall=rng.uniform(0.85, 1.1)), style.body)
    for x in (-0.36, 0.02, 0.4):
        parts.window(pen.at(x, 0.47, 0.1), style)


def fish(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a fish: an oval body with two tail fins, back and belly fins, an eye."""
    deep = rng.uniform(0.38, 0.5)
    parts.fin(pen.at(-0.58, -0.03, 0.38, -58), style.trim, -0.1)
    parts.fin(pen.at(-0.58, 0.03, 0.38, -122), style.trim, 0.1)
    parts.fin(pen.at(0.08, -deep * 0.8, 0.27), style.trim)
    parts.fin(pen.at(0.02, deep * 0.84, 0.2, 180), style.trim, 0.6)
    nose = rng.uniform(0.84, 0.94)
    pen.blob(
        [(nose, 0), (0.45, -deep * 0.82), (0, -deep), (-0.66, -0.12), (-0.66, 0.12), (0, deep), (0.45, deep * 0.82)],
        style.body,
    )
    parts.fin(pen.at(0.02, 0.1, 0.32, -80), style.accent, 0.0)
    parts.eye(pen.at(0.55, -0.1, rng.uniform(0.1, 0.13)), style)
    pen.line([(nose - 0.02, 0.12), (nose - 0.2, 0.15)], pen.width)


def bird(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a bird: a body with a raised head, a beak, an eye, a wing, a tail and legs."""
    for x in (-0.05, 0.17):
        pen.line([(x, 0.4), (x, 0.75), (x + 0.13, 0.75)], 1.8 * pen.width)
    parts.fin(pen.at(-0.55, 0.08, 0.52, rng.uniform(-84, -66)), style.trim, -0.05)
    parts.gable(pen.at(0.72, -0.42, 0.15, 90, tall=rng.uniform(1.6, 2.1)), style.accent)
    pen.blob(
        [
            (0.78, -0.45),
            (0.62, -0.72),
            (0.34, -0.66),
            (0.1, -0.3),
            (-0.7, 0.02),
            (-0.4, 0.36),
            (0.15, 0.47),
            (0.55, 0.22),
            (0.68, -0.15),
        ],
        style.body,
    )
    parts.fin(pen.at(0.02, 0.02, rng.uniform(0.52, 0.62), -112), style.trim, 0.12)
    parts.eye(pen.at(0.52, -0.46, rng.uniform(0.1, 0.13)), style)


def plane(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw a plane: a slim body with a row of windows, two swept wings, a tail."""
    parts.fin(pen.at(0.12, -0.12, rng.uniform(0.5, 0.6)), style.trim, -0.75)
    parts.fin(pen.at(-0.76, -0.1, rng.uniform(0.42, 0.5)), style.accent, -0.45)
    slim = rng.uniform(0.2, 0.26)
    pen.blob(
        [
            (1.02, 0.04),
            (0.78, -slim * 0.8),
            (0.3, -slim),
            (-0.5, -slim * 0.8),
            (-1.0, -0.1),
            (-0.95, 0.06),
            (-0.4, slim * 0.9),
            (0.3, slim),
            (0.8, slim * 0.75),
        ],
        style.body,
    )
    for x in (-0.42, -0.16, 0.1, 0.36):
        parts.window(pen.at(x, -0.07, 0.075), style)
    parts.window(pen.at(0.72, -0.06, 0.1), style)
    parts.fin(pen.at(0.08, 0.1, rng.uniform(0.62, 0.74), 180), style.trim, 0.75)
    parts.fin(pen.at(-0.84, 0.02, 0.28, 180), style.accent, 0.6)


SHAPES: dict[str, Shape] = {
    "bird": Shape(bird, 1.9, 1.5),
    "boat": Shape(boat, 2.0, 1.75),
    "bus": Shape(bus, 2.1, 1.3),
    "car": Shape(car, 2.05, 1.15),
    "fish": Shape(fish, 1.9, 1.2),
    "house": Shape(house, 1.8, 1.6),
    "plane": Shape(plane, 2.05, 1.4),
    "tractor": Shape(tractor, 1.9, 1.6),
}
CLASSES = tuple(SHAPES)
