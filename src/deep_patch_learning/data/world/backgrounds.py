"""Backgrounds and clutter. None of it depends on the objects in front."""

from collections.abc import Callable

import cv2
import numpy as np

from deep_patch_learning.data.world import parts
from deep_patch_learning.data.world.parts import Style, colours_of
from deep_patch_learning.data.world.pen import Paint, Pen

# Four matching colours each, from far to near.
_MOODS = [
    colours_of(line)
    for line in (
        "cfe6ee a9cbb7 7fae8f c8c79a",
        "f6d8ae e7b79a b98b82 8e7a86",
        "dfe7ef b7c4d6 8d9db6 a6a9c0",
        "f3e9dc dac4a6 b99f80 cdb79e",
        "2f3e58 3e5470 54708a 455a70",
        "e8dff0 c3b4d6 9a8bb5 b7a3c4",
        "d5ecd4 a7cfa5 7ba980 b5c78c",
        "f0e3e3 dbb7b7 b58f96 c9a5a0",
        "bfe0e2 86bcc2 5f97a3 8fb4a8",
        "4b4453 655a6c 7e7184 5c5668",
    )
]

Ground = Callable[[np.ndarray, np.ndarray, np.random.Generator], None]


def noise(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return fractal noise (H, W) float32 of about -1 to 1, from three octaves of random grids."""
    total = np.zeros((height, width), np.float32)
    for cells, weight in ((3, 0.5), (8, 0.3), (24, 0.2)):
        grid = rng.random((cells, cells), np.float32) * 2 - 1
        total += weight * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return total


def _hills(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    sky = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    canvas[:] = mood[0] + (mood[0] * 0.35 + 255 * 0.65 - mood[0]) * sky
    x = np.linspace(0, 1, 40)
    for layer, colour in enumerate(mood[1:]):
        crest = 0.32 + 0.22 * layer + rng.uniform(-0.06, 0.06)
        wave = np.sin(x * rng.uniform(4, 11) + rng.uniform(0, 6)) + 0.5 * np.sin(x * rng.uniform(9, 24))
        y = (crest + 0.06 * wave) * height
        outline = np.concatenate([np.stack([x * width, y], 1), [[width, height], [0, height]]])
        cv2.fillPoly(canvas, [outline.astype(np.int32)], colour.tolist(), cv2.LINE_AA)


def _stripes(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    turn, period = rng.uniform(0, np.pi), rng.uniform(0.1, 0.4) * height
    x, y = np.arange(width, dtype=np.float32)[None], np.arange(height, dtype=np.float32)[:, None]
    band = np.floor((x * np.cos(turn) + y * np.sin(turn)) / period).astype(np.int32)
    canvas[:] = mood.take(band % int(rng.integers(2, 5)), 0)


def _tiles(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    side = int(rng.uniform(0.14, 0.34) * height)
    rows, columns = height // side + 2, width // side + 2
    kinds = rng.integers(0, 4, (rows, columns))
    tiles = (mood[kinds] + rng.uniform(-8, 8, (rows, columns, 1))).astype(np.float32)
    large = np.repeat(np.repeat(tiles, side, 0), side, 1)
    top, left = (int(value) for value in rng.integers(0, side, 2))
    canvas[:] = large[top : top + height, left : left + width]
    joint = (mood.mean(0) * rng.choice([0.8, 1.12])).clip(0, 255).tolist()
    for y in range(-top, height, side):
        cv2.line(canvas, (0, y), (width, y), joint, 2)
    for x in range(-left, width, side):
        cv2.line(canvas, (x, 0), (x, height), joint, 2)


def _blobs(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    level = (noise(rng, height, width) + 2) * rng.uniform(3, 5)
    canvas[:] = mood.take(level.astype(np.uint8) % 4, 0)


def _clouds(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    share = (noise(rng, height, width) * 0.8 + 0.5).clip(0, 1)[..., None]
    canvas[:] = mood[0] * share + mood[2] * (1 - share)


def _confetti(canvas: np.ndarray, mood: np.ndarray, rng: np.random.Generator) -> None:
    height, width = canvas.shape[:2]
    canvas[:] = mood[0]
    for _ in range(int(rng.integers(18, 45))):
        centre = (int(rng.integers(0, width)), int(rng.integers(0, height)))
        axes = (int(rng.integers(5, height // 5)), int(rng.integers(5, height // 5)))
        cv2.ellipse(
            canvas, centre, axes, float(rng.uniform(0, 180)), 0, 360, mood[rng.integers(1, 4)].tolist(), -1, cv2.LINE_AA
        )


_GROUNDS: tuple[Ground, ...] = (_hills, _hills, _stripes, _tiles, _blobs, _clouds, _confetti)


def draw_background(rng: np.random.Generator, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a background (H, W, 3) float32 and the colours (4, 3) it is made of."""
    mood = np.array(_MOODS[int(rng.integers(len(_MOODS)))], np.float32)
    if rng.random() < 0.3:
        mood = mood[rng.permutation(4)]
    canvas = np.empty((2 * height, 2 * width, 3), np.float32)
    _GROUNDS[int(rng.integers(len(_GROUNDS)))](canvas, mood, rng)
    small = cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA)
    small += noise(rng, height, width)[..., None] * rng.uniform(6, 22)
    return small, mood


def _scribble(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    x = np.linspace(-1, 1, 12)
    y = 0.5 * np.sin(x * rng.uniform(3, 9) + rng.uniform(0, 6))
    pen.line(np.stack([x, y], 1), 3 * pen.width, style.body.colour)


def _star(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    tips = int(rng.integers(4, 8))
    turn = np.arange(2 * tips) * np.pi / tips
    reach = np.where(np.arange(2 * tips) % 2 == 0, 1.0, rng.uniform(0.4, 0.7))
    pen.polygon(np.stack([reach * np.cos(turn), reach * np.sin(turn)], 1), style.body, 0.08)


def _pebble(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    turn = np.arange(7) * 2 * np.pi / 7
    reach = rng.uniform(0.6, 1.0, 7)
    pen.blob(np.stack([reach * np.cos(turn), reach * np.sin(turn)], 1), style.body)


def _ring(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    pen.disc(0, 0, 0.9, style.body)
    pen.disc(0, 0, rng.uniform(0.35, 0.65), Paint(style.trim.colour))


def draw_distractor(pen: Pen, style: Style, rng: np.random.Generator) -> None:
    """Draw one loose part or abstract shape, within about one unit of the pen's origin."""
    paint = style.body
    choices: tuple[Callable[[], None], ...] = (
        lambda: parts.wheel(pen, style),
        lambda: parts.wheel(pen, style),
        lambda: parts.window(pen, style, float(rng.uniform(0.7, 1.3))),
        lambda: parts.window(pen, style, float(rng.uniform(0.7, 1.3))),
        lambda: parts.fin(pen.at(0, 0.6, 1.3), paint, float(rng.uniform(-0.8, 0.8))),
        lambda: parts.fin(pen.at(0, 0.6, 1.3), paint, float(rng.uniform(-0.8, 0.8))),
        lambda: parts.eye(pen.at(0, 0, 0.7), style),
        lambda: parts.gable(
            pen.at(0, 0.5, 1.0, tall=float(rng.uniform(0.8, 1.5))), paint, float(rng.uniform(-0.9, 0.9))
        ),
        lambda: parts.hull(pen.at(0, -0.2), paint),
        lambda: parts.cabin(pen.at(0, 0.8, 1.5), style),
        lambda: parts.door(pen.at(0, 0.8, 1.6), style),
        lambda: parts.chimney(pen.at(0, 0.8, 1.6), style),
        lambda: parts.flag(pen.at(-0.2, 0.9, 1.8), style),
        lambda: pen.disc(0, 0, 0.9, paint, tall=float(rng.uniform(0.5, 1.0))),
        lambda: pen.box(-0.9, -0.5, 0.9, 0.5, paint, 0.15),
        lambda: _scribble(pen, style, rng),
        lambda: _star(pen, style, rng),
        lambda: _pebble(pen, style, rng),
        lambda: _ring(pen, style, rng),
    )
    choices[int(rng.integers(len(choices)))]()
