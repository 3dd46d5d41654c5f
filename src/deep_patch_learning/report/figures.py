"""Charts as inline SVG and CSS: they take the page's colours, and so suit light, dark and paper."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from markupsafe import Markup, escape

NO_MARKUP = Markup("")
TERMS = ("classification", "discovery", "two_stream", "refinement", "boxes")  # those with a colour of their own
MOST_POINTS = 120  # of a curve; longer logs are averaged over neighbours

_NO_TERMS = {"step", "samples", "loss", "learning_rate", "seconds"}  # what a log says beside the terms of the loss
# the SVG's own coordinates: room for the read-out under the legend, and for the ticks
_READ_OUT, _RIGHT, _BOTTOM, _LEFT = 24, 14, 44, 46
_LEGEND_ROW, _LETTER = 20, 6.6


class _Point(NamedTuple):
    """One moment of the training: the step, and the value of each series that has one."""

    step: float
    values: dict[str, float]


class _Frame(NamedTuple):
    """The plot's place and its two axes, both from 0."""

    width: int
    height: int
    last_step: float
    highest: float
    top: int

    def x(self, step: float) -> float:
        return _LEFT + (self.width - _LEFT - _RIGHT) * step / self.last_step

    def y(self, value: float) -> float:
        return self.height - _BOTTOM - (self.height - self.top - _BOTTOM) * value / self.highest


def loss_curve(log: Iterable[Mapping[str, Any]], width: int = 880, height: int = 310) -> Markup:
    """Return the loss over the steps as SVG, total and each term of it; empty when the log has no entry to draw.

    `log` holds the entries of log.jsonl: `step`, `loss` and the terms that it is the sum of. What is not a finite number
    is left out. A loss of one term has one line. Pointing at a step shows its values; that needs no script.
    """
    points = _thinned(_points(log))
    names = _terms(points)
    names = names if len(names) == 1 else ["loss", *names]
    points = [point for point in points if any(name in point.values for name in names)]
    if not points:
        return NO_MARKUP
    top = ticks(max(point.values.get(name, 0.0) for point in points for name in names), 4)
    legend, rows = _legend(names, width)
    frame = _Frame(width, height, max(point.step for point in points), top[-1], _LEGEND_ROW * rows + _READ_OUT)
    last = points[-1]
    said = ", ".join(f"{_title(name)} {last.values[name]:.3f}" for name in names if name in last.values)
    return Markup("").join(
        [
            Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
                width, height, f"Loss over {frame.last_step:,.0f} steps; at the end: {said}"
            ),
            _axes(frame, top),
            *(_line(frame, points, name) for name in reversed(names)),
            legend,
            *_readouts(frame, points, names),
            Markup("</svg>"),
        ]
    )


def ticks(highest: float, about: int) -> list[float]:
    """Return round numbers from 0 to `highest` or just above it, about as many as asked for; never fewer than two."""
    if not (math.isfinite(highest) and highest > 1e-300):  # below that its parts have no logarithm
        return [0.0, 1.0]
    rough = highest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(highest / step - 1e-9) + 1)]


def bar(percent: float | None, kind: str) -> Markup:
    """Return a horizontal bar of `percent` of its cell; `kind` is "what" (classification) or "where" (discovery)."""
    if percent is None or not math.isfinite(percent):
        return NO_MARKUP
    return Markup('<span class="bar {}"><span style="width:{}%"></span></span>').format(
        kind, f"{min(max(percent, 0.0), 100.0):.1f}"
    )


def stacked_bar(counts: Sequence[int], kinds: Sequence[str]) -> Markup:
    """Return a horizontal bar in pieces, each as long as its count; empty where there is nothing to count."""
    total = sum(counts)
    if not total:
        return NO_MARKUP
    pieces = Markup("").join(
        Markup('<span class="{}" style="width:{}%"></span>').format(kind, f"{100 * count / total:.1f}")
        for count, kind in zip(counts, kinds, strict=True)
        if count
    )
    return Markup('<span class="bar pieces">{}</span>').format(pieces)


def _points(log: Iterable[Mapping[str, Any]]) -> list[_Point]:
    points = []
    for entry in log:
        terms = [name for name in entry if name == "loss" or name not in _NO_TERMS]
        values = {name: float(entry[name]) for name in terms if _is_number(entry[name])}
        if _is_number(entry.get("step")) and entry["step"] > 0 and values:
            points.append(_Point(float(entry["step"]), values))
    return sorted(points, key=lambda point: point.step)


def _terms(points: Sequence[_Point]) -> list[str]:
    """Return the terms that any point has a value of: the known ones in their order, then the others by name."""
    found = {name for point in points for name in point.values} - {"loss"}
    return [*(name for name in TERMS if name in found), *sorted(found.difference(TERMS))]


def _title(name: str) -> str:
    return "total" if name == "loss" else name.replace("_", " ")


def _colour(name: str) -> str:
    """Return the class of the style that colours a series."""
    return name if name in (*TERMS, "loss") else "other"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _thinned(points: Sequence[_Point]) -> list[_Point]:
    """Return at most MOST_POINTS points: the mean of each run of neighbours, at its last step."""
    size = max(1, math.ceil(len(points) / MOST_POINTS))
    thinned = []
    for start in range(0, len(points), size):
        run = points[start : start + size]
        values = {}
        for name in dict.fromkeys(name for point in run for name in point.values):
            known = [point.values[name] for point in run if name in point.values]
            if known:
                values[name] = math.fsum(known) / len(known)
        thinned.append(_Point(run[-1].step, values))
    return thinned


def _axes(frame: _Frame, values: Sequence[float]) -> Markup:
    left, right, foot = _LEFT, frame.width - _RIGHT, frame.height - _BOTTOM
    digits = next((digits for digits in range(5) if math.isclose(round(values[1], digits), values[1])), None)
    parts = []
    for value in values:
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        said = f"{value:.2g}" if digits is None or values[-1] >= 1e5 else f"{value:.{digits}f}"
        parts.append(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{said}</text>')
    for step in ticks(frame.last_step, max(3, frame.width // 130)):
        if step <= frame.last_step * (1 + 1e-9) and step == round(step):
            x = frame.x(step)
            parts.append(f'<text class="tick" x="{x:.1f}" y="{foot + 18}" text-anchor="middle">{step:,.0f}</text>')
    parts.append(f'<text class="tick" x="{right}" y="{foot + 36}" text-anchor="end">training steps</text>')
    return Markup("".join(parts))  # numbers alone: nothing here needs escaping


def _line(frame: _Frame, points: Sequence[_Point], name: str) -> Markup:
    places = [(frame.x(p.step), frame.y(p.values[name])) for p in points if name in p.values]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle class="dot {_colour(name)}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places)
    return Markup(f'<polyline class="line {_colour(name)}" points="{path}"/>' + (dots if len(places) <= 30 else ""))


def _legend(names: Sequence[str], width: int) -> tuple[Markup, int]:
    """Return the names of the series beside a piece of their line, and how many rows they take."""
    parts, x, row = [], _LEFT, 0
    for name in names:
        wide = 44 + round(_LETTER * len(_title(name)))
        if x > _LEFT and x + wide > width:
            x, row = _LEFT, row + 1
        y = 12 + _LEGEND_ROW * row
        parts.append(f'<line class="line {_colour(name)}" x1="{x}" y1="{y}" x2="{x + 18}" y2="{y}"/>')
        parts.append(f'<text class="key" x="{x + 24}" y="{y + 4}">{escape(_title(name))}</text>')
        x += wide
    return Markup("".join(parts)), row + 1


def _readouts(frame: _Frame, points: Sequence[_Point], names: Sequence[str]) -> Iterable[Markup]:
    """Yield one invisible column per point; pointing at it shows a guide and the values (`:hover` in the style)."""
    edges = [frame.x(point.step) for point in points]
    roomy = frame.width >= 500  # elsewhere colours alone tell the series
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    for point, x, low, high in zip(
        points, edges, [float(_LEFT), *middles], [*middles, float(frame.width - _RIGHT)], strict=True
    ):
        said = " · ".join(
            f'<tspan class="{_colour(name)}">{escape(_title(name)) + " " if roomy else ""}{point.values[name]:.3f}</tspan>'
            for name in names
            if name in point.values
        )
        foot = frame.height - _BOTTOM
        yield Markup(
            f'<g class="at"><rect x="{low:.1f}" y="{frame.top}" width="{max(high - low, 0):.1f}" height="{foot - frame.top}"/>'
            f'<line x1="{x:.1f}" y1="{frame.top}" x2="{x:.1f}" y2="{foot}"/>'
            f'<text class="key" x="{_LEFT}" y="{frame.top - 10}">step {point.step:,.0f} · {said}</text></g>'
        )
