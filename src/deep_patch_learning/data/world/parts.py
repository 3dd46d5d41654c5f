"""The parts that objects are made of. Every part occurs in several classes, and loose in the background.

So a wheel, a window or a fin does not show the class: only the whole arrangement does.
"""

from dataclasses import dataclass

import numpy as np

from deep_patch_learning.data.world.pen import PATTERNS, Colour, Paint, Pen


def colour_of(code: str) -> Colour:
    """Return (R, G, B) of six hex digits."""
    return int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16)


def colours_of(codes: str) -> list[Colour]:
    """Return the colours of hex codes that stand apart by spaces."""
    return [colour_of(code) for code in codes.split()]


# One set of colours for all classes: colour must not show the class.
_OBJECT_COLOURS = np.array(
    colours_of(
        "e4572e f3a712 2e86ab a23b72 3bb273 7768ae f25f5c 247ba0 ffd23f 54b8a5 d1495b edae49 00798c 30638e "
        "f4f1de e07a5f 4a5080 81b29a f2cc8f c8553d 588b8b ee6c9b 8ac926 5c4d9a b5495b"
    )
)
_GLASS = colours_of("bfe6f2 9fd3e8 fff0b3 dff5e6 34506b 5f7f95 f7dfe8")
_TYRES = colours_of("2b2d33 3d3a3f 30343c")
_INKS = colours_of("22223b 2b2118 1b2a33 3a1f2b 14213d")


@dataclass(frozen=True)
class Style:
    """How one object looks: its three paints, its glass, its tyres and how its wheels and windows are made."""

    body: Paint
    trim: Paint
    accent: Paint
    glass: Paint
    tyre: Paint
    ink: Colour
    spokes: int
    round_windows: bool

    @property
    def white(self) -> Paint:
        """The white of an eye, a headlight."""
        return Paint((250, 248, 240))

    @property
    def dark(self) -> Paint:
        """A fill of the ink itself."""
        return Paint(self.ink)


def shade(colour: Colour, factor: float) -> Colour:
    """Return the colour darker (factor below 1) or nearer to white (above 1)."""
    if factor <= 1:
        red, green, blue = (int(value * factor) for value in colour)
    else:
        red, green, blue = (int(255 - (255 - value) * max(0.0, 2 - factor)) for value in colour)
    return red, green, blue


def choose_colours(rng: np.random.Generator, count: int, behind: np.ndarray) -> list[Colour]:
    """Return `count` object colours, the first the one of several that stands out most from the colours `behind`."""
    picked = _OBJECT_COLOURS[rng.permutation(len(_OBJECT_COLOURS))[: count + 4]]
    best = int(((picked[:, None] - behind) ** 2).sum(2).min(1).argmax())
    kept = [best, *(i for i in range(count + 4) if i != best)][:count]
    varied = np.clip(picked[kept] + rng.integers(-14, 15, (count, 3)), 0, 255)
    return [(red, green, blue) for red, green, blue in varied.tolist()]


def _patterned(colour: Colour, rng: np.random.Generator, chance: float) -> Paint:
    if rng.random() > chance:
        return Paint(colour)
    pattern = PATTERNS[rng.integers(1, len(PATTERNS))]
    second = shade(colour, (0.72, 0.82, 1.3, 1.45)[rng.integers(4)])
    return Paint(colour, second, pattern, float(rng.uniform(0.13, 0.3)), (0, 0, 45, 90, 135)[rng.integers(5)])


def random_style(rng: np.random.Generator, behind: np.ndarray) -> Style:
    """Return a style whose body stands out from the colours `behind` (B, 3)."""
    body, trim, accent = choose_colours(rng, 3, behind)
    return Style(
        body=_patterned(body, rng, 0.6),
        trim=_patterned(trim, rng, 0.35),
        accent=_patterned(accent, rng, 0.2),
        glass=Paint(_GLASS[rng.integers(len(_GLASS))]),
        tyre=Paint(_TYRES[rng.integers(len(_TYRES))]),
        ink=_INKS[rng.integers(len(_INKS))],
        spokes=(0, 0, 3, 4, 5)[rng.integers(5)],
        round_windows=bool(rng.random() < 0.35),
    )


def wheel(pen: Pen, style: Style) -> None:
    """Draw a wheel of radius 1."""
    pen.disc(0, 0, 1, style.tyre)
    pen.disc(0, 0, 0.58, style.accent)
    for turn in np.arange(style.spokes) * (np.pi / max(style.spokes, 1)):
        x, y = 0.55 * np.cos(turn), 0.55 * np.sin(turn)
        pen.line([(-x, -y), (x, y)], 0.8 * pen.width)
    pen.disc(0, 0, 0.2, style.dark, inked=False)


def window(pen: Pen, style: Style, wide: float = 1.0) -> None:
    """Draw a window 2 high and 2 * `wide` wide: a pane with a glint, square or round."""
    if style.round_windows:
        pen.disc(0, 0, min(1.0, wide) * 1.05, style.glass)
        pen.line([(-0.35, 0.1), (0.1, -0.35)], pen.width, (255, 255, 255))
        return
    pen.box(-wide, -1, wide, 1, style.glass, corner=0.3)
    pen.line([(-0.5 * wide, 0.35), (0.15 * wide, -0.5)], pen.width, (255, 255, 255))


def fin(pen: Pen, paint: Paint, sweep: float = -0.6) -> None:
    """Draw a fin or wing: its root from (-0.5, 0) to (0.5, 0), its tip one unit up and `sweep` along."""
    pen.polygon([(-0.5, 0.08), (0.5, 0.08), (sweep + 0.22, -1), (sweep - 0.18, -0.97)], paint, corner=0.16)
    for at in (-0.15, 0.15):
        pen.line([(at, -0.1), (at * 0.5 + sweep * 0.62, -0.66)], 0.6 * pen.width)


def eye(pen: Pen, style: Style) -> None:
    """Draw an eye of radius 1 that looks forward."""
    pen.disc(0, 0, 1, style.white)
    pen.disc(0.25, 0.05, 0.52, style.dark, inked=False)
    pen.disc(0.42, -0.2, 0.18, style.white, inked=False)


def gable(pen: Pen, paint: Paint, lean: float = 0.0) -> None:
    """Draw a triangle 2 wide and 1 high that stands on y = 0: a roof, a sail, a beak."""
    pen.polygon([(-1, 0), (lean, -1), (1, 0)], paint, corner=0.12)


def hull(pen: Pen, paint: Paint) -> None:
    """Draw a bowl 2 wide and 0.5 high under y = 0: a boat's hull, a bus's bumper, a bird's nest."""
    pen.polygon([(-1, 0), (1.05, -0.08), (0.7, 0.48), (-0.72, 0.48)], paint, corner=0.15)


def cabin(pen: Pen, style: Style, wide: float = 0.7) -> None:
    """Draw a box 1 high that stands on y = 0, with a roof slab and one window."""
    pen.box(-wide * 0.9, -0.95, wide * 0.9, 0.05, style.trim, corner=0.06)
    window(pen.at(0, -0.5, 0.27), style, wide * 1.7)
    pen.box(-wide, -1.02, wide, -0.87, style.accent, corner=0.06)


def door(pen: Pen, style: Style) -> None:
    """Draw a door 1 high and 0.55 wide that stands on y = 0."""
    pen.box(-0.28, -1, 0.28, 0, style.accent, corner=0.08)
    pen.disc(0.15, -0.48, 0.06, style.white, inked=False)


def chimney(pen: Pen, style: Style) -> None:
    """Draw a chimney or funnel 1 high that stands on y = 0."""
    pen.box(-0.2, -0.95, 0.2, 0.05, style.accent)
    pen.box(-0.28, -1.05, 0.28, -0.85, style.trim)


def flag(pen: Pen, style: Style) -> None:
    """Draw a pole 1 high that stands on y = 0, with a pennant."""
    pen.line([(0, 0), (0, -1)], 2.2 * pen.width)
    pen.polygon([(0.02, -1), (0.5, -0.86), (0.02, -0.7)], style.accent)
