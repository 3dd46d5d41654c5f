"""The school of the tiny network: single drawn things, none of them a class of the embedded world.

It is to the tiny network what ImageNet is to the paper's: images of one thing each, by which convolutions and patch layers
learn what things look like before they see a tagged scene. The things share the world's parts. Loose parts are classes too, and
so is a piece: a thing broken in two, or seen from too near.
"""

import math
from collections.abc import Callable

import numpy as np

from deep_patch_learning.data.world import parts
from deep_patch_learning.data.world.backgrounds import draw_background
from deep_patch_learning.data.world.parts import Style, random_style
from deep_patch_learning.data.world.pen import Pen
from deep_patch_learning.data.world.scene import Sprite, break_in_two, cut_out, finish, lay, scatter

Draw = Callable[[Pen, Style, np.random.Generator], None]


def _rocket(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    parts.fin(pen.at(-0.3, 0.55, 0.5, -60), style.trim, 0.2)
    parts.fin(pen.at(0.3, 0.55, 0.5, 60), style.trim, -0.2)
    pen.blob([(0, -1), (0.34, -0.4), (0.3, 0.6), (-0.3, 0.6), (-0.34, -0.4)], style.body)
    for y in (-0.35, 0.1)[: int(rng.integers(1, 3))]:
        parts.window(pen.at(0, y, 0.15), style)
    parts.gable(pen.at(0, 0.6, 0.25, 180, tall=1.3), style.accent)


def _robot(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    parts.flag(pen.at(0, -0.7, 0.3), style)
    pen.box(-0.45, -0.75, 0.45, -0.15, style.trim, corner=0.1)
    for x in (-0.2, 0.22):
        parts.eye(pen.at(x, -0.47, 0.14), style)
    pen.box(-0.6, -0.12, 0.6, 0.6, style.body, corner=0.08)
    parts.door(pen.at(rng.uniform(-0.2, 0.2), 0.5, 0.5), style)
    for x in (-0.42, 0.42):
        parts.wheel(pen.at(x, 0.75, 0.2), style)


def _snail(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.blob([(-1, 0.6), (-0.4, 0.35), (0.5, 0.4), (0.7, -0.2), (0.95, -0.1), (0.9, 0.6), (0, 0.68)], style.trim)
    radius = rng.uniform(0.5, 0.6)
    for share, paint in ((1.0, style.body), (0.62, style.accent), (0.28, style.body)):
        pen.disc(-0.15, 0.05, radius * share, paint)
    pen.line([(0.75, -0.15), (0.7, -0.5)], 1.6 * pen.width)
    parts.eye(pen.at(0.72, -0.5, 0.12), style)


def _butterfly(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    for side in (-1, 1):
        parts.fin(pen.at(side * 0.1, -0.1, rng.uniform(0.75, 0.9), side * 60), style.body, side * 0.3)
        parts.fin(pen.at(side * 0.1, 0.2, 0.65, side * 115), style.trim, side * -0.2)
    pen.disc(0, 0, 0.12, style.accent, tall=4.5)
    for side in (-1, 1):
        pen.line([(0, -0.5), (side * 0.2, -0.85)], 1.3 * pen.width)


def _lighthouse(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.polygon([(-0.28, -0.5), (0.28, -0.5), (0.45, 0.9), (-0.45, 0.9)], style.body)
    for y in (-0.1, 0.35):
        parts.window(pen.at(0, y, 0.11), style)
    parts.door(pen.at(0, 0.9, 0.35), style)
    parts.cabin(pen.at(0, -0.48, 0.35), style, 0.9)
    parts.gable(pen.at(0, -0.82, 0.36, tall=rng.uniform(0.6, 0.9)), style.trim)


def _windmill(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.polygon([(-0.3, -0.3), (0.3, -0.3), (0.5, 0.9), (-0.5, 0.9)], style.body)
    parts.door(pen.at(0, 0.9, 0.45), style)
    turn = rng.uniform(0, 90)
    for blade in range(4):
        parts.fin(pen.at(0, -0.25, 0.75, turn + 90 * blade), style.trim, 0.0)
    pen.disc(0, -0.25, 0.12, style.accent)


def _helicopter(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.box(-1.0, -0.12, 0.0, 0.08, style.trim, corner=0.05)
    parts.fin(pen.at(-0.9, -0.1, 0.4), style.accent, -0.3)
    pen.blob([(0.85, 0.1), (0.5, -0.35), (-0.1, -0.4), (-0.4, 0.1), (0, 0.45), (0.6, 0.42)], style.body)
    parts.window(pen.at(0.42, -0.02, 0.2), style, 1.2)
    pen.line([(0.1, -0.4), (0.1, -0.65)], 2 * pen.width)
    pen.line([(-0.8, -0.65 - rng.uniform(-0.05, 0.05)), (0.95, -0.65)], 2.5 * pen.width)
    pen.line([(-0.2, 0.65), (0.7, 0.65)], 2 * pen.width)


def _castle(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.box(-0.6, -0.1, 0.6, 0.75, style.body)
    for x in (-0.7, 0.7):
        pen.box(x - 0.25, -0.4, x + 0.25, 0.75, style.body)
        parts.gable(pen.at(x, -0.4, 0.32, tall=rng.uniform(1.2, 1.7)), style.trim)
        parts.window(pen.at(x, 0.05, 0.1), style)
    parts.door(pen.at(0, 0.75, 0.55), style)
    parts.flag(pen.at(0, -0.1, 0.6), style)


def _cat(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    for side in (-1, 1):
        parts.gable(pen.at(side * 0.48, -0.35, 0.3, side * 15, tall=1.8), style.trim)
    pen.disc(0, 0.1, 0.8, style.body, tall=rng.uniform(0.8, 0.95))
    for side in (-1, 1):
        parts.eye(pen.at(side * 0.32, 0, 0.16), style)
        pen.line([(side * 0.3, 0.35), (side * 0.85, 0.28)], 0.8 * pen.width)
    parts.gable(pen.at(0, 0.22, 0.12, 180), style.accent)


def _crab(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    for side in (-1, 1):
        for at in (0.3, 0.5):
            pen.line([(side * at, 0.3), (side * (at + 0.4), 0.65)], 2 * pen.width)
        parts.hull(pen.at(side * 0.8, -0.35, 0.3, side * rng.uniform(20, 50)), style.trim)
        pen.line([(side * 0.5, 0.0), (side * 0.75, -0.25)], 2 * pen.width)
    pen.disc(0, 0.15, 0.65, style.body, tall=0.62)
    for side in (-1, 1):
        parts.eye(pen.at(side * 0.22, -0.25, 0.13), style)


def _tent(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    parts.flag(pen.at(0, -0.55, 0.4), style)
    parts.gable(pen.at(0, 0.7, 1.0, tall=rng.uniform(1.2, 1.45)), style.body)
    parts.gable(pen.at(0, 0.7, 0.32, tall=2.2), style.trim)


def _submarine(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    parts.chimney(pen.at(0.2, -0.5, 0.4), style)
    pen.box(-0.1, -0.55, 0.5, -0.1, style.trim, corner=0.08)
    parts.fin(pen.at(-0.85, -0.1, 0.4), style.trim, 0.0)
    parts.fin(pen.at(-0.85, 0.3, 0.4, 180), style.trim, 0.0)
    pen.disc(0, 0.1, 0.95, style.body, tall=rng.uniform(0.4, 0.48))
    for x in (-0.4, 0.0, 0.4):
        parts.window(pen.at(x, 0.08, 0.13), style)


def _flower(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.line([(0, -0.2), (0, 0.95)], 3 * pen.width)
    parts.fin(pen.at(0.05, 0.7, 0.5, 60), style.trim, 0.2)
    petals = int(rng.integers(5, 8))
    for petal in range(petals):
        turn = 2 * math.pi * petal / petals
        pen.disc(0.4 * math.cos(turn), -0.4 + 0.4 * math.sin(turn), 0.26, style.body)
    pen.disc(0, -0.4, 0.25, style.accent)


def _cart(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.line([(0.6, 0.1), (1.1, -0.2)], 2 * pen.width)
    pen.polygon([(-0.9, -0.35), (0.7, -0.35), (0.5, 0.3), (-0.7, 0.3)], style.body, corner=0.05)
    parts.wheel(pen.at(rng.uniform(-0.3, 0.1), 0.4, rng.uniform(0.36, 0.44)), style)


def _part(draw: Callable[[Pen, Style], None]) -> Draw:
    return lambda pen, style, rng: draw(pen, style)


_COMPOSED: dict[str, Draw] = {
    "butterfly": _butterfly,
    "cart": _cart,
    "castle": _castle,
    "cat": _cat,
    "crab": _crab,
    "flower": _flower,
    "helicopter": _helicopter,
    "lighthouse": _lighthouse,
    "robot": _robot,
    "rocket": _rocket,
    "snail": _snail,
    "submarine": _submarine,
    "tent": _tent,
    "windmill": _windmill,
}
_PARTS: dict[str, Draw] = {
    "wheel": _part(parts.wheel),
    "window": lambda pen, style, rng: parts.window(pen, style, float(rng.uniform(0.7, 1.3))),
    "fin": lambda pen, style, rng: parts.fin(pen.at(0, 0.6, 1.3), style.body, float(rng.uniform(-0.8, 0.8))),
    "eye": _part(parts.eye),
    "gable": lambda pen, style, rng: parts.gable(pen.at(0, 0.5), style.body, float(rng.uniform(-0.9, 0.9))),
    "hull": lambda pen, style, rng: parts.hull(pen.at(0, -0.2), style.body),
    "cabin": lambda pen, style, rng: parts.cabin(pen.at(0, 0.8, 1.5), style),
    "door": lambda pen, style, rng: parts.door(pen.at(0, 0.8, 1.6), style),
    "chimney": lambda pen, style, rng: parts.chimney(pen.at(0, 0.8, 1.6), style),
}


THINGS = _COMPOSED | _PARTS
COMPOSED = list(_COMPOSED)
SUBJECTS = (*THINGS, "piece")
_PIECES = 0.35  # the share of lessons that show a piece


def draw_lesson(seed: int, index: int, size: int = 64) -> tuple[np.ndarray, int]:
    """Return lesson `index` as (size, size, 3) uint8 RGB, and the number of its subject in `SUBJECTS`."""
    rng = np.random.default_rng((seed, 77, index))
    image, behind = draw_background(rng, size, size)
    for _ in range(int(rng.integers(0, 4))):
        scatter(image, behind, (size, size), rng)
    is_piece = rng.random() < _PIECES
    names = COMPOSED if is_piece else list(THINGS)
    name = names[int(rng.integers(len(names)))]
    is_near = is_piece and rng.random() < 0.5
    unit = size * (rng.uniform(0.6, 1.0) if is_near else rng.uniform(0.3, 0.46))
    sprite = _draw_thing(name, unit, behind, rng)
    if is_piece and not is_near:
        sprite = break_in_two(sprite, rng)
    high, wide = sprite.solid.shape
    # a thing seen from near is shifted so that one of its ends shows
    reach = np.array([wide, high]) * 0.3 if is_near else np.full(2, 0.06 * size)
    shift = rng.uniform(-1, 1, 2) * reach
    lay(image, sprite, (round((size - wide) / 2 + shift[0]), round((size - high) / 2 + shift[1])), shadow=True)
    return finish(image, rng), len(THINGS) if is_piece else list(THINGS).index(name)


def _draw_thing(name: str, unit: float, behind: np.ndarray, rng: np.random.Generator) -> Sprite:
    style, stretch = random_style(rng, behind), rng.uniform(0.85, 1.18)
    mirrored = -1.0 if rng.random() < 0.5 else 1.0

    def draw(pen: Pen) -> None:
        THINGS[name](pen, style, rng)

    return cut_out(draw, style, unit, (stretch * mirrored, 1 / stretch), rng.uniform(-20, 20), 1.6, rng)
