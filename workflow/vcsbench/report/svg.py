"""Small pictures as inline SVG: rows of forest plots, findings, and lines over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, MARGIN = 190, 18, 8
# The largest factor that an axis shows; longer whiskers are cut at its end.
WIDEST = 30.0
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn over WIDTH."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float], least: float = 1.3) -> Axis:
        """Return an axis around 1 that holds all values, up to WIDEST."""
        known = [v for v in values if v and math.isfinite(v) and v > 0]
        low = min([1 / least, *(max(v, 1 / WIDEST) for v in known)])
        high = max([least, *(min(v, WIDEST) for v in known)])
        return cls(low / 1.08, high * 1.08)

    @classmethod
    def around(cls, values: Iterable[float]) -> Axis:
        """Return an axis that holds all values, wherever they are."""
        known = [v for v in values if v and math.isfinite(v) and v > 0] or [1.0]
        return cls(min(known) / 1.25, max(known) * 1.25)

    def x(self, value: float) -> float:
        """Return the place of a value; a value outside is at the end."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)


def _svg(parts: Sequence[str], label: str, height: int = HEIGHT, style: str = "plot") -> str:
    named = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    head = f'<svg class="{style}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" {named}>'
    return f"{head}{''.join(parts)}</svg>"


def _rect(x1: float, x2: float, style: str) -> str:
    width = round(max(x2 - x1, 1), 1)
    return f'<rect class="{style}" x="{x1}" y="1" width="{width}" height="{HEIGHT - 2}"/>'


def _line(x1: float, x2: float, style: str, y: float = HEIGHT / 2) -> str:
    return f'<path class="{style}" d="M{x1} {y:g}H{x2}"/>'


def _dot(x: float, style: str) -> str:
    return f'<circle class="{style}" cx="{x}" cy="{HEIGHT // 2}" r="4"/>'


def forest_row(
    axis: Axis, ratio: float, low: float, high: float, style: str, band: float, label: str
) -> str:
    """Return one case: a dot at the ratio, a whisker, and the band of no difference around 1."""
    parts = [_rect(axis.x(1 / band), axis.x(band), "band"), _rect(axis.x(1), axis.x(1), "one")]
    if 0 < low < high:
        parts.append(_line(axis.x(low), axis.x(high), f"whisker {style}"))
    parts.append(_dot(axis.x(ratio), f"dot {style}"))
    return _svg(parts, label)


def forest_axis(axis: Axis) -> str:
    """Return the ticks under a forest plot."""
    ticks = [tick for tick in _TICKS if axis.low <= tick <= axis.high]
    wide = math.log(axis.high / axis.low) > math.log(40)
    shown = [tick for tick in ticks if not wide or tick in (0.05, 0.2, 1, 5, 20)]
    parts = [
        f'<text x="{axis.x(tick)}" y="13" text-anchor="middle">{_tick(tick)}</text>'
        for tick in shown
    ]
    return _svg(parts, "")


def _tick(tick: float) -> str:
    return f"{tick:g}x" if tick >= 1 else f"1/{1 / tick:g}"


def finding_picture(
    expected: tuple[float | None, float | None],
    published: float | None,
    measured: float | None,
    interval: tuple[float, float] | None,
    label: str,
) -> str:
    """Return a finding: a band for what is expected, a hollow dot for the published value, a solid one
    with a whisker for the measured value. "" if no value is above 0."""
    low, high = expected
    ends = [low, high, published, measured, *(interval or ())]
    values = [value for value in ends if value and value > 0]
    if not values:
        return ""
    axis = Axis.around(values)
    left = axis.x(low) if low and low > 0 else MARGIN / 2
    right = axis.x(high) if high and high > 0 else WIDTH - MARGIN / 2
    parts = [_rect(left, right, "band")]
    if axis.low < 1 < axis.high:
        parts.append(_rect(axis.x(1), axis.x(1), "one"))
    if interval and interval[0] > 0:
        parts.append(_line(axis.x(interval[0]), axis.x(interval[1]), "whisker"))
    if measured and measured > 0:
        parts.append(_dot(axis.x(measured), "dot"))
    if published and published > 0:
        parts.append(_dot(axis.x(published), "dot hollow"))
    return _svg(parts, label)


def line_plot(series: Sequence[Sequence[float | None]], names: Sequence[str], label: str) -> str:
    """Return lines over the same points, on a logarithmic axis; a missing point breaks its line."""
    width, height, left, bottom = 520, 170, 54, 24
    known = [v for line in series for v in line if v and v > 0]
    if not known:
        return ""
    low, high = min(known) / 1.1, max(known) * 1.1

    def x(place: int) -> float:
        return round(left + (width - left - 20) * (place + 0.5) / max(len(names), 1), 1)

    def y(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return round(8 + (height - bottom - 8) * (1 - share), 1)

    parts = [
        f'<text x="{left - 6}" y="{y(v) + 4}" text-anchor="end">{v:.3g}</text>'
        for v in (min(known), max(known))
    ]
    step = max(1, math.ceil(len(names) / 6))
    for place, name in list(enumerate(names))[::step]:
        text = escape(name)
        parts.append(f'<text x="{x(place)}" y="{height - 6}" text-anchor="middle">{text}</text>')
    for number, line in enumerate(series):
        style = f"line c{number % 4}"
        drawn = ""
        for place, value in enumerate(line):
            if value and value > 0:
                drawn += f"{'L' if drawn and line[place - 1] else 'M'}{x(place)} {y(value)}"
                parts.append(f'<circle class="{style}" cx="{x(place)}" cy="{y(value)}" r="2.5"/>')
        parts.append(f'<path class="{style}" d="{drawn}"/>' if drawn else "")
    head = f'<svg class="lines" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return f"{head}{''.join(parts)}</svg>"
