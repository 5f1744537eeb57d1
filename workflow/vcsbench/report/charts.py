"""The charts of a page, made by altair: forest plots, findings, lines, noise of cells, use of time.

A chart is a specification of Vega-Lite. The page draws it, filters it by the reader's picks and shows numbers
under the pointer. Print, readers without scripts and papers get the SVG of vl-convert.

The picks are the axis values that a reader selects at the top of the page, such as the access `svn`. A factor
is time of the baseline / time of the candidate: above 1, the candidate is faster.
"""

from __future__ import annotations

import base64
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vcsbench.report.card_rows import CardRow
from vcsbench.report.results import unique_values

if TYPE_CHECKING:
    import altair

    AltairChart = altair.Chart | altair.LayerChart | altair.FacetChart

# The value of a pick that the reader has not made. It fits every row.
ANY = "any"
# Factors above 30 and below 1/30 are drawn at the end of the axis. Their numbers are in the tables.
MAX_FACTOR = 30.0
# The least range of an axis of factors: a difference of a few per cent must look small.
LEAST_FACTOR = 1.3
BLUE = "#1f6fb2"
ORANGE = "#b85c00"
GREY = "#767c84"
INK = "#1b1d20"
SOFT = "#5a5f66"
BAND = "#e3e6ea"
LINE_COLOURS = (BLUE, ORANGE, "#1b6e45", "#8e44ad", GREY, "#a33b5b")
# More lines than colours differ by the shapes of their points.
LINE_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# The styles of rows (card_rows.STYLES): the colour of the dot, and True if the dot is filled. "candidate" is
# for a faster candidate, "reference" for a faster baseline.
OUTCOMES = {
    "candidate": (BLUE, True),
    "reference": (ORANGE, True),
    "equal": (GREY, True),
    "undecided": (GREY, False),
    "small": ("#b0b5bb", False),
}
# An axis is longer than its values need by this factor at both ends, so that no dot is cut.
AXIS_MARGIN = 1.08
# Sizes in pixels. The texts of a forest plot and the verdicts of findings stand to the right of the plot.
LABEL_WIDTH = 380
TEXT_WIDTH = 310
TEXT_GAP = 10
FOREST_WIDTH = 310
FOREST_ROW = 18
# A further line of a label needs so much height.
FOREST_LINE = 13
# Characters in a line of a label, and of a text on the right. Longer ones have several lines.
LABEL_LINE = 64
TEXT_LINE = 52
PLOT_WIDTH = 420
FINDING_ROW = 46
NOISE_ROW = 14
# Vega and browsers measure texts with different fonts, so the texts on the right need some space.
PADDING = {"right": 40}


@dataclass(frozen=True)
class Chart:
    """A chart: its name in files, its title, and its specification (the JSON object of Vega-Lite).

    `key` is a sentence that explains the marks, "" if they need none.
    """

    name: str
    title: str
    spec: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True)
class FindingDot:
    """A finding in the plot of findings: its statement (`label`), its verdict, and its factors.

    `low` and `high` are the ends of the 95 % interval. Unknown numbers are None, like an open end of the
    expected range. `texts` has the numbers as texts by the columns of the tooltip: expected, published,
    measured, interval.
    """

    label: str
    verdict: str
    expected_low: float | None
    expected_high: float | None
    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    texts: Mapping[str, str]


@dataclass(frozen=True)
class LinePoint:
    """A point of a line plot.

    `line` is the label of its line, such as `log, f7`. `place` is its position on the horizontal axis, such
    as the number of clients `8` or the baseline `before-upgrade`. `value` is its height, in the metric's
    unit.
    """

    line: str
    place: str
    value: float


@dataclass(frozen=True)
class RoundDot:
    """The time of a cell in the round `number`, in per cent above the cell's mean (negative if below).

    `label` names the cell. `where` has the cell's axis values: the picks filter the dots by them. `seconds`
    is the time as text: `1.24 s`.
    """

    label: str
    where: Mapping[str, str]
    number: int
    deviation_pct: float
    seconds: str


def factor_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high` for a logarithmic axis. 1 is one of them if it is inside.

    An example: 0.5, 1, 2, 5 and 10 for an axis from 0.4 to 12.
    """
    decades = math.log10(high / low)
    digits = [1.0, 2.0, 5.0]
    # With 1, 2 and 5, the labels of more than three decades would overlap. Half a decade would have one
    # label, so it gets more digits.
    if decades > 3:
        digits = [1.0]
    elif decades < 0.5:
        digits = [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0]
    ticks = []
    for power in range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1):
        for digit in digits:
            # Without rounding, 3 x 0.1 is 0.30000000000000004.
            tick = float(f"{digit * 10.0**power:.6g}")
            if low <= tick <= high:
                ticks.append(tick)
    return ticks


def _domain(values: Iterable[float | None]) -> list[float]:
    """Return the two ends of an axis of factors that shows `values`, with a margin for the dots.

    The axis has at least the factors from 1 / LEAST_FACTOR to LEAST_FACTOR, and none beyond MAX_FACTOR.
    Without any value, the ends are 0.71 and 1.4. None is left out.
    """
    shown = [1 / LEAST_FACTOR, LEAST_FACTOR]
    for value in values:
        # Factors of 0 and infinity have no place on a logarithmic axis.
        if value and math.isfinite(value) and value > 0:
            shown.append(min(max(value, 1 / MAX_FACTOR), MAX_FACTOR))
    return [min(shown) / AXIS_MARGIN, max(shown) * AXIS_MARGIN]


def _factor_axis(field: str, title: str, values: Iterable[float | None]) -> altair.X:
    """Return the logarithmic horizontal axis of a field (a key of the data). It has ticks such as `2x`.

    `values` are all numbers that the axis must show. They decide its length.
    """
    import altair

    domain = _domain(values)
    axis = altair.Axis(values=factor_ticks(*domain), labelExpr="format(datum.value, '~g') + 'x'")
    # Factors beyond the axis are drawn at its end.
    scale = altair.Scale(type="log", domain=domain, clamp=True, nice=False)
    return altair.X(field, type="quantitative", title=title, scale=scale, axis=axis)


def _row_axis(order: Sequence[str]) -> altair.Y:
    """Return the vertical axis: a row for each label, in the given order from top to bottom.

    A line break in a label breaks its text, too.
    """
    import altair

    axis = altair.Axis(
        labelLimit=LABEL_WIDTH,
        # Browsers and vl-convert measure texts with different fonts.
        minExtent=LABEL_WIDTH,
        labelExpr="split(datum.label, '\\n')",
        ticks=False,
        domain=False,
        grid=False,
    )
    return altair.Y("label", type="nominal", title=None, sort=list(order), axis=axis)


def _tooltip(titles: Mapping[str, str]) -> list[altair.Tooltip]:
    """Return what appears under the pointer: a line for each field, with its title.

    A key is a field of the data with its type in Vega-Lite: `label:N` is a text, `seconds:Q` a number.
    """
    import altair

    return [altair.Tooltip(field, title=title) for field, title in titles.items()]


def _line_at_1() -> altair.Chart:
    """Return a vertical line at the factor 1, where both sides take the same time."""
    import altair

    data = altair.Data(values=[{"one": 1}])
    return altair.Chart(data).mark_rule(color=GREY).encode(x="one:Q")


def _pick_parameters(axes: Iterable[str]) -> list[altair.Parameter]:
    """Return a parameter for each axis, such as `pick_access`. The page's script sets them to the picks.

    Without a pick (and in the SVG) a parameter is ANY, so that all rows are drawn.
    """
    import altair

    return [altair.param(name=f"pick_{axis}", value=ANY) for axis in axes]


def _pick_filter(axes: Iterable[str], compared: str = "") -> str:
    """Return the Vega expression that is true for a row that fits the picks.

    The part for the axis `cache` is `(pick_cache === 'any' || !datum['cache'] || datum['cache'] ===
    pick_cache)`: a row without a value of an axis fits every pick. A row compares two values of the
    `compared` axis, so a pick on that axis fits if the value is one of the two sides. `compared` is "" for
    rows that compare nothing.
    """
    tests = ["true"]
    for axis in axes:
        fits = f"!datum['{axis}'] || datum['{axis}'] === pick_{axis}"
        if axis == compared:
            fits = f"datum.baseline === pick_{axis} || datum.candidate === pick_{axis}"
        tests.append(f"(pick_{axis} === '{ANY}' || {fits})")
    return " && ".join(tests)


def _specification(chart: AltairChart) -> dict[str, Any]:
    """Return the chart as a JSON object of Vega-Lite, in the fonts and colours of the page."""
    configured = (
        chart.configure(background="white", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=SOFT, titleFontWeight="normal", labelFontSize=11,
            gridColor="#eceef0", tickColor=GREY, domainColor=GREY,
        )
        .configure_legend(titleColor=SOFT, titleFontWeight="normal", labelLimit=LABEL_WIDTH)
        .configure_header(labelFontWeight="bold", labelColor=INK)
    )  # fmt: skip
    specification: dict[str, Any] = configured.to_dict()
    return specification


def forest_chart(
    name: str,
    title: str,
    rows: Sequence[CardRow],
    sides: tuple[str, str],
    compared: str,
    picks: Sequence[str],
    margin: float,
) -> Chart:
    """Return a forest plot of a card: each row is a comparison, with a dot, its interval and its result.

    A dot on the right of 1 is a faster candidate. `sides` are the labels of the baseline and the candidate.
    `compared` is the axis of the card's question, such as `format`. `picks` are the axes on which a reader
    can pick a value. A grey band shows the factors from 1 / `margin` to `margin` (such as 1.1), which are no
    reason to change.
    """
    import altair

    baseline, candidate = sides
    ends = [end for row in rows for end in (row.pair.ratio, row.pair.low, row.pair.high)]
    x = _factor_axis("ratio", f"← {baseline} faster | {candidate} faster →", ends)
    records = [_forest_record(row) for row in rows]
    y = _row_axis([str(record["label"]) for record in records])
    # All rows are as high as the one with most lines.
    texts_of_rows = [str(record[key]) for record in records for key in ("label", "result")]
    lines = 1 + max((text.count("\n") for text in texts_of_rows), default=0)
    strokes = []
    fills = []
    for colour, is_filled in OUTCOMES.values():
        strokes.append(colour)
        fills.append(colour if is_filled else "white")
    stroke_scale = altair.Scale(domain=list(OUTCOMES), range=strokes)
    fill_scale = altair.Scale(domain=list(OUTCOMES), range=fills)
    # The page explains the colours below the chart.
    stroke = altair.Color("style:N", scale=stroke_scale, legend=None)
    fill = altair.Fill("style:N", scale=fill_scale, legend=None)
    tooltip = _tooltip(
        {
            "case:N": "Case",
            "result:N": "Result",
            "interval:N": "95 % interval",
            "note:N": "Notes",
        }
    )

    # Layers share the scales of both axes, so only one layer (the points) defines the horizontal axis.
    band = (
        altair.Chart(altair.Data(values=[{"from": 1 / margin, "to": margin}]))
        .mark_rect(color=BAND)
        .encode(x=altair.X("from:Q"), x2="to:Q")
    )
    # These layers have no data of their own: they take the data of the whole chart, set at the end.
    fitting_rows = altair.Chart().transform_filter(_pick_filter(picks, compared)).encode(y=y)
    whiskers = fitting_rows.mark_rule(strokeWidth=1.6).encode(
        x=altair.X("low:Q"), x2="high:Q", color=stroke, tooltip=tooltip
    )
    points = fitting_rows.mark_point(size=60, opacity=1).encode(
        x=x, stroke=stroke, fill=fill, tooltip=tooltip
    )
    texts = fitting_rows.mark_text(
        align="left", baseline="middle", limit=TEXT_WIDTH, color=INK, lineBreak="\n"
    ).encode(x=altair.value(FOREST_WIDTH + TEXT_GAP), text="result:N", tooltip=tooltip)
    chart = (
        altair.layer(band, _line_at_1(), whiskers, points, texts)
        .add_params(*_pick_parameters(picks))
        .properties(
            data=altair.Data(values=records),
            width=FOREST_WIDTH,
            height=altair.Step(FOREST_ROW + FOREST_LINE * (lines - 1)),
            padding=PADDING,
        )
    )
    return Chart(name, title, _specification(chart))


def _forest_record(row: CardRow) -> dict[str, object]:
    """Return a row of a forest plot as the data of Vega-Lite: texts, the ratio, and the interval's ends.

    A long label or result has several lines. The tooltip has the whole label as `case`.

    Example: `{"command": "log", "label": "cold log over svn", "baseline": "f6", "candidate": "f7", "ratio":
    1.24, "low": 1.2, "high": 1.28, "style": "candidate", "result": "f7 1.2x faster, 1.24 s → 1.00 s", ...}`.
    The axis values of the row are keys, too, because the picks filter the rows by them.
    """
    pair = row.pair
    result = row.text
    if row.times:
        result = f"{row.text}, {' → '.join(row.times)}"
    return {
        **row.where,
        "label": "\n".join(textwrap.wrap(row.label, LABEL_LINE)),
        "case": row.label,
        "baseline": pair.baseline,
        "candidate": pair.candidate,
        "ratio": pair.ratio,
        # An unknown end is 0. The line of the interval then begins and ends at the dot, so it is invisible.
        "low": pair.low or pair.ratio,
        "high": pair.high or pair.ratio,
        "style": row.style,
        "result": "\n".join(textwrap.wrap(result, TEXT_LINE)),
        "interval": row.interval,
        "note": row.note or "none",
    }


def findings_chart(dots: Sequence[FindingDot], verdicts: Sequence[str]) -> Chart:
    """Return a plot with a row for each finding, on one axis of factors.

    `verdicts` has each verdict of the dots. The rows are in the order of `verdicts`.
    """
    import altair

    ends = [end for dot in dots for end in _ends_of(dot)]
    rows = [_finding_row(dot) for dot in sorted(dots, key=lambda dot: verdicts.index(dot.verdict))]
    y = _row_axis([str(row["label"]) for row in rows])
    titles = ("statement", "verdict", "expected", "published", "measured", "interval")
    tooltip = _tooltip({f"{name}:N": name.capitalize() for name in titles})

    base = altair.Chart().encode(y=y)
    expected = base.mark_bar(color=BAND, height=24).encode(
        x=altair.X("expected_low:Q"), x2="expected_high:Q", tooltip=tooltip
    )
    whiskers = base.mark_rule(color=INK, strokeWidth=2).encode(
        x=altair.X("low:Q"), x2="high:Q", tooltip=tooltip
    )
    published = base.mark_point(
        shape="diamond", size=110, color=INK, fill="white", opacity=1
    ).encode(x=altair.X("published_at:Q"), tooltip=tooltip)
    measured = base.mark_point(size=70, color=INK, fill=INK, opacity=1).encode(
        x=_factor_axis("measured_at", "factor, logarithmic", ends), tooltip=tooltip
    )
    texts = base.mark_text(align="left", color=INK).encode(
        x=altair.value(PLOT_WIDTH + TEXT_GAP), text="verdict:N", tooltip=tooltip
    )
    # A later layer covers an earlier one: the bar of the expected range is behind everything.
    chart = altair.layer(expected, _line_at_1(), whiskers, published, measured, texts).properties(
        data=altair.Data(values=rows),
        width=PLOT_WIDTH,
        height=altair.Step(FINDING_ROW),
        padding=PADDING,
    )
    return Chart(
        "findings",
        "Published findings: published and measured factors",
        _specification(chart),
        "Hollow diamond: published. Dot: measured, with its 95 % interval. Grey bar: the expected range.",
    )


def _finding_row(dot: FindingDot) -> dict[str, object]:
    """Return a finding as the data of a row of Vega-Lite; a number that is not drawn is None.

    The label is the statement in lines of up to LABEL_LINE characters.
    """
    expected_low = dot.expected_low
    expected_high = dot.expected_high
    # `at least 2` has no upper end, and `at most 2` no lower one. The bar of this range then ends where an
    # axis of this finding alone would end. An end of 0 counts as open, because a logarithmic axis has no 0.
    axis_low, axis_high = _domain(_ends_of(dot))
    if expected_high and not expected_low:
        expected_low = axis_low
    elif expected_low and not expected_high:
        expected_high = axis_high
    return {
        **dot.texts,
        "label": "\n".join(textwrap.wrap(dot.label, LABEL_LINE)),
        "statement": dot.label,
        "verdict": dot.verdict,
        "expected_low": expected_low or None,
        "expected_high": expected_high or None,
        "published_at": dot.published,
        "measured_at": dot.measured,
        "low": dot.low,
        "high": dot.high,
    }


def _ends_of(dot: FindingDot) -> list[float | None]:
    """Return all numbers that the axis should show for a finding, None for each that is unknown."""
    return [dot.published, dot.measured, dot.low, dot.high, dot.expected_low, dot.expected_high]


def line_chart(
    name: str,
    title: str,
    points: Sequence[LinePoint],
    places: Sequence[str],
    labels: tuple[str, str],
) -> Chart:
    """Return a plot of lines, with the values on a logarithmic vertical axis.

    Points with the same `line` are joined. `places` are the positions of the horizontal axis from left to
    right, such as `1`, `4` and `8` clients. `labels` are the titles of the horizontal and the vertical axis.
    """
    import altair

    place_label, value_label = labels
    # 0 has no place on a logarithmic axis.
    shown_points = [point for point in points if point.value > 0]
    rows = [
        {"line": point.line, "place": point.place, "value": point.value} for point in shown_points
    ]
    lines = unique_values(point.line for point in shown_points)
    # The first six lines have six colours and circles, the next six the same colours and squares, and so on.
    colours = []
    shapes = []
    for number in range(len(lines)):
        colours.append(LINE_COLOURS[number % len(LINE_COLOURS)])
        shapes.append(LINE_SHAPES[number // len(LINE_COLOURS) % len(LINE_SHAPES)])
    colour_scale = altair.Scale(domain=lines, range=colours)
    shape_scale = altair.Scale(domain=lines, range=shapes)
    # By default, Vega-Lite leaves out all but 30 lines of a legend.
    legend = altair.Legend(title=None, orient="right", symbolLimit=0)
    tooltip = [
        altair.Tooltip("line:N", title="Cells"),
        altair.Tooltip("place:N", title=place_label),
        altair.Tooltip("value:Q", title=value_label, format=".4~g"),
    ]
    x = altair.X("place:N", title=place_label, sort=list(places), axis=altair.Axis(labelAngle=0))
    y = altair.Y(
        "value:Q",
        title=value_label,
        scale=altair.Scale(type="log"),
        axis=altair.Axis(format="~g"),
    )
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=x,
            y=y,
            color=altair.Color("line:N", scale=colour_scale, legend=legend),
            shape=altair.Shape("line:N", scale=shape_scale, legend=legend),
            tooltip=tooltip,
        )
        .properties(width=PLOT_WIDTH, height=240)
    )
    return Chart(name, title, _specification(chart), "Logarithmic axis.")


def noise_chart(dots: Sequence[RoundDot], picks: Sequence[str]) -> Chart:
    """Return a plot with a row for each cell, and in it a stroke for each round.

    A stroke is at the round's distance from the cell's mean. The cell with the largest distance, above or
    below its mean, is first. `picks` are the axes on which a reader can pick a value: the plot shows fitting
    cells.
    """
    import altair

    # By the label of a cell: the largest distance of its rounds, without the sign.
    largest_pct: dict[str, float] = {}
    rows = []
    for dot in dots:
        deviation_pct = abs(dot.deviation_pct)
        largest_pct[dot.label] = max(largest_pct.get(dot.label, 0.0), deviation_pct)
        rows.append(
            {
                **dot.where,
                "label": dot.label,
                "round": dot.number,
                "deviation": round(dot.deviation_pct, 2),
                "seconds": dot.seconds,
            }
        )
    noisiest_first = sorted(largest_pct, key=lambda label: -largest_pct[label])
    tooltip = _tooltip(
        {
            "label:N": "Cell",
            "round:N": "Round",
            "seconds:N": "Time",
            "deviation:Q": "Above the mean, in per cent",
        }
    )
    x = altair.X("deviation:Q", title="time of a round above the cell's mean, in per cent")
    chart = (
        altair.Chart(altair.Data(values=rows))
        .transform_filter(_pick_filter(picks))
        .mark_tick(color=BLUE, thickness=2, height=10)
        .encode(x=x, y=_row_axis(noisiest_first), tooltip=tooltip)
        .add_params(*_pick_parameters(picks))
        .properties(width=PLOT_WIDTH, height=altair.Step(NOISE_ROW))
    )
    return Chart(
        "noise",
        "Noise of each cell",
        _specification(chart),
        "Each stroke is the mean time of a round.",
    )


def time_chart(seconds: Mapping[str, float]) -> Chart:
    """Return one horizontal bar that consists of parts: `seconds` maps each part's name to its length.

    Example of the parts: `{"preparation": 60, "measuring": 700}`, drawn in this order.
    """
    import altair

    parts = list(seconds)
    rows = [{"part": part, "seconds": round(spent, 1)} for part, spent in seconds.items()]
    colours = altair.Scale(domain=parts, range=list(LINE_COLOURS[: len(parts)]))
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_bar()
        .encode(
            x=altair.X("seconds:Q", title="seconds", stack="zero"),
            color=altair.Color(
                "part:N", scale=colours, sort=parts, legend=altair.Legend(title=None)
            ),
            order=altair.Order("index:O"),
            tooltip=_tooltip({"part:N": "Part", "seconds:Q": "Seconds"}),
        )
        # Without a number for each part, Vega-Lite stacks them by alphabet.
        .transform_calculate(index=f"indexof({json.dumps(parts)}, datum.part)")
        .properties(width=600, height=36)
    )
    return Chart("time", "Use of the time", _specification(chart))


@cache
def script_bundle() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed, which works offline."""
    import vl_convert

    # Without a snippet of code, the bundle assigns vegaEmbed to the window, as the page's script needs it.
    # The type stub of vl_convert wrongly requires a snippet, so the cast to Any hides the call from mypy.
    bundle = cast(str, cast(Any, vl_convert).javascript_bundle())
    # HTML ends a script element at the first `</script`, even inside a string of JavaScript.
    return bundle.replace("</script", "<\\/script")


def draw(charts: Iterable[Chart]) -> dict[str, str]:
    """Return the SVG of each chart by its name."""
    import vl_convert

    return {chart.name: vl_convert.vegalite_to_svg(dict(chart.spec)) for chart in charts}


def image_url(svg: str) -> str:
    """Return an SVG as the address of an image inside the page: `data:image/svg+xml;base64,PHN2...`."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def write_charts(charts: Iterable[Chart], svgs: Mapping[str, str], folder: Path) -> None:
    """Write each chart as NAME.vl.json, to be changed, and as NAME.svg, for a paper."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        text = json.dumps(chart.spec, indent=1, ensure_ascii=False)
        (folder / f"{chart.name}.vl.json").write_text(text + "\n", encoding="utf-8")
        (folder / f"{chart.name}.svg").write_text(svgs[chart.name], encoding="utf-8")
