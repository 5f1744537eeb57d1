"""Small pictures as inline SVG: forest plots, findings, and lines over time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.answer_texts import LESS_WORK, has_less_work, pair_outcome, pair_text
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair, Where
from vcsbench.axes import STATES
from vcsbench.codes import Call
from vcsbench.evidence.flags import BUSY, FLAGGED_SHARE, FLAGS, flag_message
from vcsbench.metrics import metric_in
from vcsbench.report.results import (
    Results,
    Rows,
    contradicts_medians,
    grouped_by,
    median_seconds,
    unique_values,
    values_label,
    varying,
)

STYLES = {
    Call.FASTER: "candidate",
    Call.SLOWER: "reference",
    Call.EQUAL: "equal",
    Call.TOO_SMALL: "small",
}
WIDTH, HEIGHT, MARGIN = 190, 18, 8
FINDING_HEIGHT = 48
MAX_FACTOR = 30.0
# Of the numbers of an axis, the first have room before the others.
STEPS = (1, 2, 5, 3, 7, 1.5, 8, 1.2)

# Words in the notes of a card's rows.
ROW_KEY = {
    "! disturbed": "other programs took time of the machine during these runs",
    "detectable from": "a true difference of this size would be called in 9 of 10 sessions",
    "medians, as in tables": "their quotient is more than 5 % from the factor, which uses every run",
    "fixed cost": "process start, connection, and waits of 40 ms for delayed acknowledgements",
}


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` to `high`, drawn over WIDTH."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> LogAxis:
        known = [v for v in values if v and math.isfinite(v) and v > 0]
        low = min([1 / 1.3, *(max(v, 1 / MAX_FACTOR) for v in known)])
        return cls(low / 1.08, max([1.3, *(min(v, MAX_FACTOR) for v in known)]) * 1.08)

    def x(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)


def _svg(
    shapes: Iterable[str], label: str, style: str = "plot", width: int = WIDTH, height: int = HEIGHT
) -> str:
    named = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="{style}" {size} {named}>{"".join(shapes)}</svg>'


def _rect(x1: float, x2: float, style: str, height: int = HEIGHT) -> str:
    width = round(max(x2 - x1, 1), 1)
    return f'<rect class="{style}" x="{x1}" y="1" width="{width}" height="{height - 2}"/>'


def _whisker(x1: float, x2: float, style: str = "", y: int = HEIGHT // 2) -> str:
    return f'<path class="whisker {style}" d="M{x1} {y}H{x2}"/>'


def _dot(x: float, style: str = "", y: int = HEIGHT // 2, radius: int = 4) -> str:
    return f'<circle class="dot {style}" cx="{x}" cy="{y}" r="{radius}"/>'


class ForestRow(NamedTuple):
    """A comparison in a forest plot; `where` and `sides` are for the filter.

    `winner` is the label of the faster value and `gain` its factor, "" and 1 without a difference. `times`
    are of the baseline and the candidate, `range` is the 95 % interval in words, `flags` are those in `note`.
    """

    where: Where
    sides: tuple[str, str]
    label: str
    drawing: str
    text: str
    winner: str
    gain: float
    times: Sequence[str]
    range: str
    note: str
    style: str
    flags: Sequence[str]
    is_disturbed: bool


def forest_row(
    card: Card,
    case: Case,
    pair: Pair,
    axis: LogAxis,
    has_several: bool,
    shown_flags: Collection[str],
    runs: Sequence[Rows],
) -> ForestRow:
    name, label = card.question.axis, labels.case_label(case.where, card.shown)
    if has_several:
        same = " (the same build)" if pair.is_noise_check else ""
        label = f"{labels.value_label(name, pair.candidate)}{same}: {label}"
    style = STYLES.get(pair.call, "undecided")
    text = pair_text(name, pair, card.min_effect_pct, of_candidate=card.question.aggregate)
    band, title = 1 + card.min_effect_pct / 100, f"{label}: {text}"
    drawing = _forest_drawing(axis, pair, style, band, title)
    times = labels.seconds_of_both(pair.times if all(pair.times) else [])
    of_both, cache = [run for of in runs for run in of], case.where.get("cache", "")
    disturbed, flags = flag_texts(pair.flags, shown_flags, is_hot(cache), of_both)
    notes = [disturbed]
    if card.question.aggregate and all(runs):
        rounds = words.count_of(pair.rounds, "round")
        notes.append(f"{len(runs[0])} and {len(runs[1])} runs in {rounds}")
    if pair.call in (Call.EQUAL, Call.BOUNDED, Call.UNDECIDED) and pair.detectable > 1:
        notes.append(f"detectable from {labels.detectable_text(pair.detectable)}")
    if pair.is_decided and pair.fixed_share > FLAGGED_SHARE:
        notes.append(f"up to {100 * pair.fixed_share:.0f} % of a time is fixed cost")
    medians = [median_seconds(of) for of in runs]
    if contradicts_medians(pair.ratio, medians):
        both = " → ".join(labels.seconds_of_both(medians))
        quotient = labels.factor(labels.at_least_1(medians[0] / medians[1]))
        notes.append(f"medians, as in tables: {both} ({quotient})")
    notes += [f"flags: {', '.join(flags)}"] * bool(flags)
    notes += [f"decides nothing: {LESS_WORK}"] * has_less_work(name, case.where)
    sides, winner, gain = (pair.baseline, pair.candidate), "", 1.0
    if pair.call in (Call.FASTER, Call.SLOWER):
        winner = labels.value_label(name, sides[pair.ratio >= 1])
        gain = labels.at_least_1(pair.ratio)
    has_interval = 0 < pair.low < pair.high
    interval = labels.change_between(pair.low, pair.high) if has_interval else pair_outcome(pair)
    range_ = f"{labels.value_label(name, pair.candidate)} {interval}"
    where = {axis: value for axis, value in case.where.items() if value}
    about = where, sides, label, drawing, text, winner, gain, times, range_
    return ForestRow(*about, "; ".join(filter(None, notes)), style, flags, bool(disturbed))


def row_key(rows: Sequence[ForestRow]) -> list[tuple[str, str]]:
    """Return the marks and flags in the rows of a card, with their meanings."""
    key = [(mark, text) for mark, text in ROW_KEY.items() if any(mark in row.note for row in rows)]
    for flag in unique_values(flag for row in rows for flag in row.flags):
        meaning = flag_message(flag).partition(" (")[0].replace("`", "") if flag in FLAGS else ""
        key.append((flag, meaning))
    return key


def flag_texts(
    flags: Iterable[str], shown: Collection[str], is_hot: bool, runs: Rows
) -> tuple[str, list[str]]:
    """Return `! disturbed in 3 of 20 runs`, or "", and the others of the `shown` flags.

    The position of copies that are read from memory does not matter.
    """
    names = [flag for flag in unique_values(flags) if flag in shown]
    number = sum(not BUSY.isdisjoint(run["flags"].split()) for run in runs)
    share = f" in {number} of {words.count_of(len(runs), 'run')}" if number else ""
    disturbed = "" if BUSY.isdisjoint(names) else f"! disturbed{share}"
    return disturbed, [f for f in names if f not in BUSY and not (is_hot and f == "apart")]


def is_hot(cache: str) -> bool:
    return STATES.get(cache, STATES[""])["promises"].get("os") == "hot"


def _forest_drawing(axis: LogAxis, pair: Pair, style: str, band: float, label: str) -> str:
    """Return a dot at the ratio, a whisker, and the band of equal values around 1."""
    shapes = [_rect(axis.x(1 / band), axis.x(band), "band"), _rect(axis.x(1), axis.x(1), "one")]
    if 0 < pair.low < pair.high:
        shapes.append(_whisker(axis.x(pair.low), axis.x(pair.high), style))
    return _svg([*shapes, _dot(axis.x(pair.ratio), style)], label)


def forest_axis(axis: LogAxis) -> str:
    return _svg(_ticks(axis, 2, "x"), "")


def finding_picture(
    expected: Sequence[float | None],
    published: float | None,
    measured: float | None,
    interval: tuple[float, float] | None,
    label: str,
    style: str = "",
    unit: str = "",
) -> str:
    """Return a band for the expected range, a diamond for the published value, and a dot with a whisker,
    above an axis with numbers; "" if no value is above 0.
    """
    low, high = expected
    values = [v for v in (low, high, published, measured, *(interval or ())) if v and v > 0]
    if not values:
        return ""
    axis = LogAxis(min(values) / 1.25, max(values) * 1.25)
    left = MARGIN / 2 if low is None else axis.x(low)
    right = WIDTH - MARGIN / 2 if high is None else axis.x(high)
    above, below, bottom = 9, 25, 35
    shapes = [_rect(left, right, "band", bottom)]
    if axis.low < 1 < axis.high:
        shapes.append(_rect(axis.x(1), axis.x(1), "one", bottom))
    shapes += _ticks(axis, bottom, unit)
    if interval and interval[1] > 0:
        shapes.append(_whisker(axis.x(interval[0]), axis.x(interval[1]), y=below))
    if measured and measured > 0:
        shapes.append(_dot(axis.x(measured), style, below, 6))
    if published and published > 0:
        tip = f"{axis.x(published)} {above - 7}"
        shapes.append(f'<path class="diamond" d="M{tip}l7 7 -7 7 -7 -7z"/>')
    return _svg(shapes, label, height=FINDING_HEIGHT)


def _ticks(axis: LogAxis, y: int, unit: str) -> Iterator[str]:
    """Yield a line with round numbers, 1 among them, without those that would overlap."""
    yield f'<path class="tick" d="M{MARGIN} {y}H{WIDTH - MARGIN}"/>'
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)))
    numbers = [step * 10.0**power for step in STEPS for power in powers]
    taken: list[tuple[float, float]] = []
    # The line at 1 has its number in any case.
    for tick in sorted(numbers, key=lambda number: number != 1):
        text, x = f"{tick:g}{unit}", axis.x(tick)
        width = 3 * len(text) + 3
        is_free = all(abs(x - other) > width + half for other, half in taken)
        if axis.low <= tick <= axis.high and is_free:
            yield f'<path class="tick" d="M{x} {y}v3"/>'
            yield f'<text x="{x}" y="{y + 12}" text-anchor="middle">{text}</text>'
            taken.append((x, width))


class Plot(NamedTuple):
    """A drawing of lines, with the names of its lines."""

    title: str
    drawing: str
    lines: Sequence[str]


def line_plot(series: Sequence[Sequence[float | None]], names: Sequence[str], label: str) -> str:
    """Return lines on a logarithmic axis. A missing point breaks its line."""
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

    step = max(1, math.ceil(len(names) / 6))
    texts: list[tuple[float, float, str, str]]
    texts = [(left - 6, y(v) + 4, "end", f"{v:.3g}") for v in (min(known), max(known))]
    texts += [(x(n), height - 6, "middle", escape(names[n])) for n in range(0, len(names), step)]
    shapes = [f'<text x="{a}" y="{b}" text-anchor="{c}">{text}</text>' for a, b, c, text in texts]
    for number, line in enumerate(series):
        style, drawn = f"line c{number % 4}", ""
        for place, value in enumerate(line):
            if value and value > 0:
                drawn += f"{'L' if drawn and line[place - 1] else 'M'}{x(place)} {y(value)}"
                shapes.append(f'<circle class="{style}" cx="{x(place)}" cy="{y(value)}" r="2.5"/>')
        shapes.append(f'<path class="{style}" d="{drawn}"/>' if drawn else "")
    return _svg(shapes, label, "lines", width, height)


def plots_of(results: Results) -> list[Plot]:
    study, plots = results.study, []
    times = [time["name"] for time in results.history.get("times", [])]
    points = results.history.get("points", [])
    if len(times) > 1:
        axes = [axis for axis in results.order if axis not in study.block]
        # A line joins comparable numbers only.
        shown = varying(points, [*axes, "host", "settings"])
        for block, rows in grouped_by(points, lambda row: values_label(row, study.block)).items():
            title = f"Elapsed seconds over time: {block}"
            plots.append(_plot(title, rows, "time", times, shown))
    for name, definition in study.tables.items():
        over = definition.get("over")
        rows = [r for r in results.tables.get(name, []) if words.is_number(r.get("value"))]
        if over and rows:
            present = {row[over] for row in rows}
            along = [value for value in results.order[over] if value in present]
            shown = varying(rows, [axis for axis in results.order if axis != over])
            metric = metric_in(definition)
            title = f"{metric.title} ({metric.unit}) by {labels.axis_label(over)}"
            plots.append(_plot(title, rows, over, along, shown))
    return [plot for plot in plots if plot.drawing]


def _plot(title: str, rows: Rows, over: str, along: Sequence[str], shown: Sequence[str]) -> Plot:
    by_line = grouped_by(rows, lambda row: values_label(row, shown) or "all cells")
    lines = ({row[over]: row["value"] for row in members} for members in by_line.values())
    series = [[values.get(place) for place in along] for values in lines]
    return Plot(title, line_plot(series, along, title), list(by_line))
