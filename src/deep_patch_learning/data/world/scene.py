"""One image of the embedded world: a background, clutter, and one to four objects whose boxes are known."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from deep_patch_learning.data.world.backgrounds import draw_background, draw_distractor
from deep_patch_learning.data.world.parts import Style, random_style
from deep_patch_learning.data.world.pen import SUPERSAMPLE, Pen
from deep_patch_learning.data.world.shapes import CLASSES, SHAPES


@dataclass(frozen=True)
class World:
    """What the images of a world are like. Sizes are shares of the image's height."""

    size: tuple[int, int] = (160, 128)  # width, height
    min_objects: int = 1
    max_objects: int = 4
    max_classes: int = 3
    smallest: float = 0.28
    largest: float = 0.75
    turn: float = 20.0  # degrees either way
    hidden: float = 0.15  # the most of an object that others may hide
    cut: float = 0.1  # how often an object may be cut by the image's border
    min_distractors: int = 4
    max_distractors: int = 9
    min_pieces: int = 1  # objects broken in two, of which one half lies about: no tag speaks of them
    max_pieces: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.min_objects <= self.max_objects:
            raise ValueError(
                f"objects {self.min_objects} to {self.max_objects}: wanted 1 <= min_objects <= max_objects"
            )
        if not 1 <= self.max_classes <= len(CLASSES):
            raise ValueError(f"max_classes is {self.max_classes}; wanted 1 to {len(CLASSES)}")
        if not 0 < self.smallest <= self.largest <= 1:
            raise ValueError(f"sizes {self.smallest} to {self.largest}: wanted 0 < smallest <= largest <= 1")
        if not 0 <= self.min_distractors <= self.max_distractors:
            raise ValueError(f"distractors {self.min_distractors} to {self.max_distractors}: wanted min <= max")
        if not 0 <= self.min_pieces <= self.max_pieces:
            raise ValueError(f"pieces {self.min_pieces} to {self.max_pieces}: wanted 0 <= min_pieces <= max_pieces")
        if min(self.size) < 32:
            raise ValueError(f"size is {self.size}; wanted at least 32 pixels each way")


@dataclass(frozen=True)
class Placed:
    """One object of an image: its class, its box, and the mask (H, W) bool of all of it, hidden pixels too."""

    tag: str
    box: tuple[int, int, int, int]
    mask: np.ndarray


@dataclass(frozen=True)
class Sprite:
    """A drawn thing cut out: premultiplied RGBA (h, w, 4) float32, alpha 0 to 255."""

    pixels: np.ndarray

    @property
    def solid(self) -> np.ndarray:
        """The pixels (h, w) that the thing covers at least half."""
        return np.asarray(self.pixels[..., 3] >= 128)


def draw_scene(seed: int, index: int, world: World | None = None) -> tuple[np.ndarray, list[Placed]]:
    """Return image `index` of a seed as (H, W, 3) uint8 RGB, and its objects from back to front.

    Nothing but the seed, the index and the world's settings decides the image.
    """
    world = world or World()
    rng = np.random.default_rng((seed, index))
    width, height = world.size
    image, behind = draw_background(rng, height, width)
    for _ in range(int(rng.integers(world.min_distractors, world.max_distractors + 1))):
        scatter(image, behind, world.size, rng)
    for _ in range(int(rng.integers(world.min_pieces, world.max_pieces + 1))):
        _lay_piece(image, behind, world, rng)
    placed: list[Placed] = []
    for tag, size in _plan(world, rng):
        sprite = _draw_object(tag, size, behind, world, rng)
        corner = _find_place(sprite, placed, world, rng)
        if corner is not None:
            lay(image, sprite, corner, shadow=True)
            placed.append(_placed(tag, sprite, corner, height, width))
    return finish(image, rng), placed


def _plan(world: World, rng: np.random.Generator) -> list[tuple[str, float]]:
    """Return the classes and sizes in pixels of the objects to place, the largest first."""
    counts = np.arange(world.min_objects, world.max_objects + 1)
    likely = np.where(counts == 2, 1.4, 1.0)
    count = int(rng.choice(counts, p=likely / likely.sum()))
    kinds = rng.permutation(len(CLASSES))[: min(count, world.max_classes)]
    again = rng.choice(kinds, count - len(kinds)) if count > len(kinds) else np.empty(0, np.int64)
    if count > 1 and rng.random() < 0.2:  # sometimes two of a kind
        kinds = np.concatenate([kinds[:-1], kinds[:1]])
    tags = [CLASSES[i] for i in (*kinds, *again)]
    largest = max(world.smallest, world.largest * (1.0, 0.9, 0.8, 0.7)[min(count, 4) - 1])  # more objects, less room
    sizes = rng.uniform(world.smallest, largest, count) * world.size[1]
    return sorted(zip(tags, sizes.tolist(), strict=True), key=lambda pair: -pair[1])


def _draw_object(tag: str, size: float, behind: np.ndarray, world: World, rng: np.random.Generator) -> Sprite:
    """Return the object with the square root of its box's area about `size` pixels."""
    shape = SHAPES[tag]
    stretch = rng.uniform(0.9, 1.12)
    wide, high = shape.width * stretch, shape.height / stretch
    angle = rng.uniform(-world.turn, world.turn)
    cos, sin = math.cos(math.radians(angle)), abs(math.sin(math.radians(angle)))
    room = min(0.97 * world.size[0] / (wide * cos + high * sin), 0.97 * world.size[1] / (wide * sin + high * cos))
    unit = min(size / math.sqrt(wide * high), room)
    mirrored = -1.0 if rng.random() < 0.5 else 1.0
    style = random_style(rng, behind)

    def draw(pen: Pen) -> None:
        shape.draw(pen, style, rng)

    return cut_out(draw, style, unit, (stretch * mirrored, 1 / stretch), angle, 1.35 * max(1, stretch), rng)


def cut_out(
    draw: Callable[[Pen], None],
    style: Style,
    unit: float,
    stretch: tuple[float, float],
    angle: float,
    reach: float,
    rng: np.random.Generator,
) -> Sprite:
    """Return what `draw` leaves within `reach` units of the origin, one unit being `unit` image pixels."""
    half = math.ceil(unit * reach) + 2
    canvas = np.zeros((2 * half * SUPERSAMPLE, 2 * half * SUPERSAMPLE, 4), np.uint8)
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turned = np.array([[cos, -sin], [sin, cos]]) @ np.diag(stretch) * (unit * SUPERSAMPLE)
    matrix = np.concatenate([turned, np.full((2, 1), half * SUPERSAMPLE)], 1)
    draw(Pen(canvas, matrix, style.ink, rng.uniform(0.75, 1.15) * SUPERSAMPLE * min(1.0, 0.5 + unit / 40)))
    small = cv2.resize(canvas, (2 * half, 2 * half), interpolation=cv2.INTER_AREA)
    return Sprite(_trimmed(small).astype(np.float32))


def _trimmed(pixels: np.ndarray) -> np.ndarray:
    """Return the part of the RGBA pixels (h, w, 4) that holds all that is not clear."""
    x, y, wide, high = cv2.boundingRect((pixels[..., 3] > 0).view(np.uint8))
    return pixels[y : y + high, x : x + wide]


def _find_place(sprite: Sprite, placed: list[Placed], world: World, rng: np.random.Generator) -> tuple[int, int] | None:
    """Return the left top corner of a place where the sprite hides little of the others, or None when it is full."""
    width, height = world.size
    solid = sprite.solid
    high, wide = solid.shape
    over = 0.12 if rng.random() < world.cut else 0.0
    seen = [thing.mask.copy() for thing in placed]
    for back, mask in enumerate(seen):
        for front in placed[back + 1 :]:
            mask &= ~front.mask
    for _ in range(40):
        x = int(rng.integers(min(0, round(-over * wide)), max(1, width - wide + round(over * wide) + 1)))
        y = int(rng.integers(min(0, round(-over * high)), max(1, height - high + round(over * high) + 1)))
        part, (x1, y1, x2, y2) = _clip(solid, x, y, height, width)
        hides = (
            1 - (mask.sum() - mask[y1:y2, x1:x2][part].sum()) / thing.mask.sum()
            for mask, thing in zip(seen, placed, strict=True)
        )
        if all(share <= world.hidden for share in hides) and part.any():
            return x, y
    return None


def _clip(pixels: np.ndarray, x: int, y: int, height: int, width: int) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """Return the pixels that fall inside the image when their corner is at (x, y), and the box they fall on."""
    high, wide = pixels.shape[:2]
    x1, y1, x2, y2 = max(x, 0), max(y, 0), min(x + wide, width), min(y + high, height)
    return pixels[y1 - y : y2 - y, x1 - x : x2 - x], (x1, y1, x2, y2)


def _placed(tag: str, sprite: Sprite, corner: tuple[int, int], height: int, width: int) -> Placed:
    mask = np.zeros((height, width), bool)
    part, (x1, y1, x2, y2) = _clip(sprite.solid, *corner, height, width)
    mask[y1:y2, x1:x2] = part
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return Placed(tag, (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1), mask)


def lay(image: np.ndarray, sprite: Sprite, corner: tuple[int, int], shadow: bool) -> None:
    """Lay the sprite on the image (H, W, 3) float32, over a soft shadow if wanted."""
    height, width = image.shape[:2]
    x, y = corner
    if shadow:
        around = cv2.copyMakeBorder(sprite.pixels[..., 3], 5, 5, 5, 5, cv2.BORDER_CONSTANT, value=0.0)
        soft = cv2.GaussianBlur(around, (0, 0), 2.0)
        part, (x1, y1, x2, y2) = _clip(soft, x - 5 + 1, y - 5 + 2, height, width)
        image[y1:y2, x1:x2] *= 1 - part[..., None] * (0.4 / 255)
    part, (x1, y1, x2, y2) = _clip(sprite.pixels, x, y, height, width)
    under = image[y1:y2, x1:x2]
    under *= 1 - part[..., 3:] * (1 / 255)
    under += part[..., :3]


def scatter(image: np.ndarray, behind: np.ndarray, size: tuple[int, int], rng: np.random.Generator) -> None:
    """Lay one distractor somewhere on the image of `size` (width, height)."""
    width, height = size
    style = random_style(rng, behind)
    unit = math.exp(rng.uniform(math.log(0.03), math.log(0.14))) * height
    mirrored = -1.0 if rng.random() < 0.5 else 1.0

    def draw(pen: Pen) -> None:
        draw_distractor(pen, style, rng)

    sprite = cut_out(draw, style, unit, (mirrored, 1.0), rng.uniform(-40, 40), 1.9, rng)
    high, wide = sprite.solid.shape
    corner = (int(rng.integers(-wide // 3, width - wide // 2)), int(rng.integers(-high // 3, height - high // 2)))
    lay(image, sprite, corner, shadow=bool(rng.random() < 0.5))


def _lay_piece(image: np.ndarray, behind: np.ndarray, world: World, rng: np.random.Generator) -> None:
    """Lay one half of a broken object somewhere: half an object must not tell the class, only a whole one."""
    width, height = world.size
    size = math.exp(rng.uniform(math.log(world.smallest), math.log(world.largest * 0.8))) * height
    sprite = break_in_two(_draw_object(CLASSES[int(rng.integers(len(CLASSES)))], size, behind, world, rng), rng)
    high, wide = sprite.solid.shape
    corner = (
        int(rng.integers(-wide // 4, width - 3 * wide // 4)),
        int(rng.integers(-high // 4, height - 3 * high // 4)),
    )
    lay(image, sprite, corner, shadow=True)


def break_in_two(sprite: Sprite, rng: np.random.Generator) -> Sprite:
    """Return a piece of the sprite with straight edges: a slice of it, or a clipping of about half its area.

    Pieces come from the ends and from the middle, so that no patch well inside an object occurs in whole objects alone.
    """
    high, wide = sprite.solid.shape
    sides = rng.uniform(0.58, 0.75, 2) if rng.random() < 0.6 else np.array([rng.uniform(0.33, 0.55), 1.0])
    if rng.random() < 0.35:
        sides = sides[::-1]
    starts = np.clip(rng.uniform(-0.3, 1.3, 2), 0, 1) * (1 - sides)
    turn = rng.uniform(-0.35, 0.35)
    x, y = np.arange(wide, dtype=np.float32)[None] - wide / 2, np.arange(high, dtype=np.float32)[:, None] - high / 2
    axes = (x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn))
    share = np.ones((high, wide), np.float32)
    for along, start, side in zip(axes, starts, sides, strict=True):
        first, last = along[sprite.solid].min(), along[sprite.solid].max()
        low = first + start * (last - first) if start > 0 else first - 2
        top = first + (start + side) * (last - first) if start + side < 1 else last + 2
        share *= np.clip(np.minimum(along - low, top - along) + 0.5, 0, 1)
    return Sprite(_trimmed(sprite.pixels * share[..., None]))


def finish(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the image as uint8 with a soft light from one side, a little blur and a little noise."""
    height, width = image.shape[:2]
    turn, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.0, 0.16)
    x, y = np.linspace(-1, 1, width, dtype=np.float32)[None], np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    light = rng.uniform(0.94, 1.06) + strength * (x * np.cos(turn) + y * np.sin(turn))
    lit = image * light[..., None].astype(np.float32)
    if rng.random() < 0.5:
        lit = cv2.GaussianBlur(lit, (3, 3), rng.uniform(0.3, 0.6))
    lit += rng.standard_normal((height, width, 1), np.float32) * rng.uniform(1, 5)
    return lit.clip(0, 255).astype(np.uint8)
