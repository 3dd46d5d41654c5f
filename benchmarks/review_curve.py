"""The curve of reviewed images: CorLoc on val against the number of reviewed images, for each order and recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = {"ours": "#1f6feb", "random": "#d1600a"}
DASHES = ("", "6 4", "2 3")  # of the recipes, in their order
WIDTH, HEIGHT, LEFT, TOP = 420, 260, 52, 14


def draw(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the curve as SVG: the mean over seeds, and each seed as a dot."""
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    most = max(int(row["reviewed"]) for row in rows)
    values = [float(row["CorLoc_val"]) for row in rows]
    low, high = 5 * np.floor(min(values) / 5 - 0.2), 5 * np.ceil(max(values) / 5 + 0.2)

    def at(count: float, value: float) -> tuple[float, float]:
        return LEFT + WIDTH * (count / most) ** 0.5, TOP + HEIGHT * (high - value) / (high - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 150} {TOP + HEIGHT + 50}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{LEFT + WIDTH + 150}" height="{TOP + HEIGHT + 50}" fill="#ffffff"/>',
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>',
    ]
    for count in sorted({int(row["reviewed"]) for row in rows}):
        x, y = at(count, low)
        lines.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{count}</text>')
    for tick in np.arange(low, high + 1, 5):
        x, y = at(0, tick)
        lines.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:.0f}</text>')
    lines.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 40}" text-anchor="middle">reviewed images</text>')
    lines.append(f'<text x="{LEFT + WIDTH + 14}" y="{TOP + HEIGHT}" fill="#666">y: CorLoc on val</text>')
    top = TOP + 10
    for recipe, dash in zip(recipes, DASHES, strict=False):
        for order, colour in COLOURS.items():
            own = [
                row for row in rows if row["recipe"] == recipe and (row["order"] == order or not int(row["reviewed"]))
            ]
            if not own:
                continue
            lines += _line(own, at, colour, dash)
            lines.append(f'<circle cx="{LEFT + WIDTH + 18}" cy="{top - 4}" r="5" fill="{colour}"/>')
            lines.append(f'<text x="{LEFT + WIDTH + 28}" y="{top}">{recipe}, {order}</text>')
            top += 20
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def _line(own: Sequence[Mapping[str, Any]], at: Any, colour: str, dash: str) -> list[str]:
    counts = sorted({int(row["reviewed"]) for row in own})
    of = {count: [float(row["CorLoc_val"]) for row in own if int(row["reviewed"]) == count] for count in counts}
    dots = [at(count, value) for count in counts for value in of[count]]
    joined = " ".join("{:.1f},{:.1f}".format(*at(count, float(np.mean(of[count])))) for count in counts)
    return [
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" fill-opacity="0.5"/>' for x, y in dots),
    ]
