"""The specifications of charts, made by altair: forest plots, findings, lines, noise of cells, use of time.

The picks are the axis values that a reader selects at the top of the page, such as the access `svn`. A factor
is time of the baseline / time of the candidate: above 1, the candidate is faster.
"""

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair

from vcsbench.report.card_rows import CardRow
from vcsbench.report.charts import Chart, FindingDot, LinePoint, RoundDot
from vcsbench.report.results import unique_values

# A row of the data of Vega-Lite.
Record = dict[str, object]
# The value of a pick that the reader has not made. It fits every row.
ANY = "any"
# Factors above 30 and below 1/30 are drawn at the end of the axis. Their numbers are in the tables.
MAX_FACTOR = 30.0
# The least range of an axis of factors: a difference of a few per cent must look small.
LEAST_FACTOR = 1.3
FACTOR_BELOW_1 = 0.7
# An axis is longer than its values need by this factor at both ends, so that no dot is cut.
AXIS_MARGIN = 1.08
BLUE = "#1f6fb2"
ORANGE = "#b85c00"
GREY = "#767c84"
INK = "#1b1d20"
SOFT = "#5a5f66"
BAND = "#e3e6ea"
LINE_COLOURS = (BLUE, ORANGE, "#1b6e45", "#8e44ad", GREY, "#a33b5b")
# More lines than colours differ by the shapes of their points.
LINE_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# By the style of a row (texts.OUTCOMES): the colours of the dot's line and of its inside. "candidate"
# is a faster candidate, "reference" a faster baseline.
DOT_COLOURS = {
    "candidate": (BLUE, BLUE),
    "reference": (ORANGE, ORANGE),
    "equal": (GREY, GREY),
    "undecided": (GREY, "white"),
    "small": ("#b0b5bb", "white"),
}
# Sizes in pixels. The texts of a forest plot and the verdicts of findings stand to the right of the plot.
LABEL_WIDTH = 400
TEXT_WIDTH = 370
TEXT_GAP = 10
FOREST_WIDTH = 310
# The heights of a row with one line in a forest plot and in the plot of findings, and of each further line.
FOREST_ROW = 18
FINDING_ROW = 25
FOREST_LINE = 14
# Characters in a line of a label, and of a text on the right. Longer ones have several lines.
LABEL_LINE = 60
TEXT_LINE = 60
# Characters in a line of the title of an axis.
TITLE_LINE = 50
PLOT_WIDTH = 420
NOISE_ROW = 14
# Vega and browsers measure texts with different fonts, so the texts on the right, and the title of the axis
# below the plot, need some space.
PADDING = {"left": 5, "top": 5, "right": 40, "bottom": 14}


def factor_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high` for a logarithmic axis. 1 is one of them if it is inside.

    Example: 0.5, 1, 2, 5 and 10 for an axis from 0.4 to 12.
    """
    decades = math.log10(high / low)
    if decades > 3:
        # More labels would overlap.
        digits = [1.0]
    elif decades < 0.5:
        # With 1, 2 and 5 only, an axis from 0.7 to 1.4 would have one label.
        digits = [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0]
    else:
        digits = [1.0, 2.0, 5.0]
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    # Without rounding, 3 x 0.1 is 0.30000000000000004.
    ticks = [float(f"{digit * 10.0**power:.6g}") for power in powers for digit in digits]
    shown = [tick for tick in ticks if low <= tick <= high]
    # Without a tick below 1, such as on an axis from 0.6 to 12, a reader cannot read the factors there.
    if low <= FACTOR_BELOW_1 and shown[:1] == [1.0]:
        shown.insert(0, FACTOR_BELOW_1)
    return shown


def factor_domain(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the two ends of an axis of factors that shows `values`, with a margin for the dots.

    The axis has at least the factors from 1 / LEAST_FACTOR to LEAST_FACTOR, and none beyond MAX_FACTOR.
    """
    factors = [1 / LEAST_FACTOR, LEAST_FACTOR]
    for value in values:
        # Factors of 0 and infinity have no place on a logarithmic axis.
        if value is not None and 0 < value < math.inf:
            factors.append(min(max(value, 1 / MAX_FACTOR), MAX_FACTOR))
    return min(factors) / AXIS_MARGIN, max(factors) * AXIS_MARGIN


def _factor_axis(field: str, title: str | list[str], values: Iterable[float | None]) -> altair.X:
    """Return the logarithmic horizontal axis of a field, with ticks such as `2x`, that shows all `values`.

    A list as title has its lines.
    """
    low, high = factor_domain(values)
    axis = altair.Axis(values=factor_ticks(low, high), labelExpr="format(datum.value, '~g') + 'x'")
    # Factors beyond the axis are drawn at its end.
    scale = altair.Scale(type="log", domain=[low, high], clamp=True, nice=False)
    return altair.X(field, type="quantitative", title=title, scale=scale, axis=axis)


def _row_axis_in_order(records: Sequence[Record]) -> altair.Y:
    """Return the vertical axis: a row for each different `label` of the records, the first one at the top.

    A line break in a label begins a new line of the drawn text.
    """
    labels = unique_values(str(record["label"]) for record in records)
    axis = altair.Axis(
        labelLimit=LABEL_WIDTH,
        # A fixed width, because browsers and vl-convert measure texts with different fonts.
        minExtent=LABEL_WIDTH,
        # Vega draws a list of texts as lines.
        labelExpr="split(datum.label, '\\n')",
        ticks=False,
        domain=False,
        grid=False,
    )
    # Without `sort`, Vega-Lite would draw the rows in alphabetical order.
    return altair.Y("label", type="nominal", title=None, sort=labels, axis=axis)


def _row_height(height_of_one_line: int, texts: Sequence[str]) -> altair.Step:
    """Return the height of each row in pixels: enough for the text with most lines."""
    further_lines = max(text.count("\n") for text in texts)
    return altair.Step(height_of_one_line + FOREST_LINE * further_lines)


def _tooltip(titles: Mapping[str, str]) -> list[altair.Tooltip]:
    """Return what appears under the pointer: a line for each field, with its title.

    A key is a field of the data with its type in Vega-Lite: `label:N` is a text, `seconds:Q` a number.
    """
    return [altair.Tooltip(field, title=title) for field, title in titles.items()]


def _line_at_1() -> altair.Chart:
    """Return a vertical line at the factor 1, where both sides take the same time."""
    data = altair.Data(values=[{"one": 1}])
    return altair.Chart(data).mark_rule(color=GREY).encode(x="one:Q")


def _pick_parameters(axes: Iterable[str]) -> list[altair.Parameter]:
    """Return a parameter for each axis, such as `pick_access`. The page's script sets them to the picks.

    Without a pick (and in the SVG) a parameter is ANY, so that all rows are drawn.
    """
    return [altair.param(name=f"pick_{axis}", value=ANY) for axis in axes]


def pick_filter(axes: Iterable[str], compared: str = "") -> str:
    """Return the Vega expression that is true for a row that fits the axis values picked by the reader.

    The part for the axis `cache` is `(pick_cache === 'any' || !datum['cache'] || datum['cache'] ===
    pick_cache)`: a row without a value of an axis fits every pick. A pick on the axis `compared` fits a row
    that has the picked value on either side.
    """
    # Without an axis, every row fits.
    tests = ["true"]
    for axis in axes:
        if axis == compared:
            fits = f"datum.baseline === pick_{axis} || datum.candidate === pick_{axis}"
        else:
            fits = f"!datum['{axis}'] || datum['{axis}'] === pick_{axis}"
        tests.append(f"(pick_{axis} === '{ANY}' || {fits})")
    return " && ".join(tests)


def _specification(chart: altair.Chart | altair.LayerChart | altair.FacetChart) -> dict[str, Any]:
    """Return the chart as a JSON object of Vega-Lite, in the fonts and colours of the page."""
    return (
        chart.configure(background="white", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=SOFT, titleFontWeight="normal", labelFontSize=12,
            gridColor="#eceef0", tickColor=GREY, domainColor=GREY,
        )
        .configure_legend(titleColor=SOFT, titleFontWeight="normal", labelLimit=LABEL_WIDTH)
        .configure_header(labelFontWeight="bold", labelColor=INK)
        .to_dict()
    )  # fmt: skip


def forest_chart(
    *,
    name: str,
    title: str,
    rows: Sequence[CardRow],
    sides: tuple[str, str],
    compared: str,
    picks: Sequence[str],
    margin: float,
) -> Chart:
    """Return a forest plot of a card: each row is a comparison, with a dot, its interval and its result.

    A dot on the right of 1 is a faster candidate. `sides` are the labels of the baseline and the candidate. A
    grey band shows the factors from 1 / `margin` to `margin` (such as 1.1), which are no reason to change.

    On each axis of `picks`, a reader of the page can pick a value. Only rows that fit the picks are drawn
    (pick_filter). `compared` is the axis of the card's question, such as `format`: a pick of f7 there fits
    each row that compares f7. `rows` must not be empty.
    """
    records = [_forest_record(row) for row in rows]
    # An unknown end of an interval is 0. factor_domain() leaves it out.
    factors: list[float | None] = []
    for row in rows:
        factors += [row.pair.ratio, row.pair.low, row.pair.high]
    x = _factor_axis("ratio", _title_directions(sides), factors)
    y = _row_axis_in_order(records)
    stroke, fill = _dot_colours()
    headings = {"case": "Case", "result": "Result", "interval": "95 % interval", "note": "Notes"}
    tooltip = _tooltip({f"{field}:N": heading for field, heading in headings.items()})

    # The band has data of its own. The three layers after it have none, so they draw `records`: the data of
    # the whole chart. All layers share one horizontal axis, which the layer `points` defines.
    band = (
        altair.Chart(altair.Data(values=[{"from": 1 / margin, "to": margin}]))
        .mark_rect(color=BAND)
        .encode(x=altair.X("from:Q"), x2="to:Q")
    )
    fitting_rows = altair.Chart().transform_filter(pick_filter(picks, compared)).encode(y=y)
    whiskers = fitting_rows.mark_rule(strokeWidth=1.6).encode(
        x=altair.X("low:Q"), x2="high:Q", color=stroke, tooltip=tooltip
    )
    points = fitting_rows.mark_point(size=60, opacity=1).encode(
        x=x, stroke=stroke, fill=fill, tooltip=tooltip
    )
    texts = fitting_rows.mark_text(
        align="left", baseline="middle", limit=TEXT_WIDTH, color=INK, fontSize=12, lineBreak="\n"
    ).encode(x=altair.value(FOREST_WIDTH + TEXT_GAP), text="result:N", tooltip=tooltip)
    texts_of_rows = [str(record[key]) for record in records for key in ("label", "result")]
    # A later layer covers an earlier one: the grey band is behind everything.
    chart = (
        altair.layer(band, _line_at_1(), whiskers, points, texts)
        .add_params(*_pick_parameters(picks))
        .properties(
            data=altair.Data(values=records),
            width=FOREST_WIDTH,
            height=_row_height(FOREST_ROW, texts_of_rows),
            padding=PADDING,
        )
    )
    return Chart(name, title, _specification(chart))


def _title_directions(sides: tuple[str, str]) -> str | list[str]:
    """Return the title of the horizontal axis: `← f6 faster | f7 faster →`, or two lines if it is long."""
    baseline, candidate = sides
    title = f"← {baseline} faster | {candidate} faster →"
    # A longer title would be cut at the ends of the plot.
    if len(title) > TITLE_LINE:
        return [f"← {baseline} faster", f"{candidate} faster →"]
    return title


def _dot_colours() -> tuple[altair.Color, altair.Fill]:
    """Return the colours of a dot's line and of its inside, by the `style` of its row (DOT_COLOURS).

    The page explains them below the chart, so the chart needs no legend.
    """
    styles = list(DOT_COLOURS)
    line_colours = [line for line, _ in DOT_COLOURS.values()]
    inside_colours = [inside for _, inside in DOT_COLOURS.values()]
    line_scale = altair.Scale(domain=styles, range=line_colours)
    inside_scale = altair.Scale(domain=styles, range=inside_colours)
    line = altair.Color("style:N", scale=line_scale, legend=None)
    inside = altair.Fill("style:N", scale=inside_scale, legend=None)
    return line, inside


def _forest_record(row: CardRow) -> Record:
    """Return a row of a forest plot: texts, the ratio, and the interval's ends.

    The axis values of the row are keys, too, because the picks filter by these values. `case` is the whole
    label for the tooltip.

    Example: `{"command": "log", "label": "cold log over svn", "baseline": "f6", "candidate": "f7", "ratio":
    1.24, "low": 1.2, "high": 1.28, "style": "candidate", "result": "f7 1.2x faster, 1.24 s → 1.00 s", ...}`.
    """
    pair = row.pair
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
        "result": "\n".join(textwrap.wrap(row.result, TEXT_LINE)),
        "interval": row.interval,
        "note": row.note or "none",
    }


def findings_chart(dots: Sequence[FindingDot]) -> Chart:
    """Return a plot with a row for each finding, in the given order, on one axis of factors.

    A row has the expected range (a bar), the published factor (a diamond), and the measured factor with its
    interval. `dots` must not be empty.
    """
    factors: list[float | None] = []
    for dot in dots:
        factors += [dot.published, dot.measured]
        factors += [dot.low, dot.high, dot.expected_low, dot.expected_high]
    axis_ends = factor_domain(factors)
    records = [_finding_record(dot, axis_ends) for dot in dots]
    fields = ("statement", "verdict", "expected", "published", "measured", "interval")
    tooltip = _tooltip({f"{name}:N": name.capitalize() for name in fields})

    # The layers made from `base` have no data of their own, so they draw `records`: the data of the whole
    # chart. They share one horizontal axis, which the layer `measured` defines.
    base = altair.Chart().encode(y=_row_axis_in_order(records))
    expected = base.mark_bar(color=BAND, height=24).encode(
        x=altair.X("expected_low:Q"), x2="expected_high:Q", tooltip=tooltip
    )
    whiskers = base.mark_rule(color=INK, strokeWidth=2).encode(
        x=altair.X("low:Q"), x2="high:Q", tooltip=tooltip
    )
    published = base.mark_point(
        shape="diamond", size=130, color=INK, fill="transparent", strokeWidth=1.6, opacity=1
    ).encode(x=altair.X("published_at:Q"), tooltip=tooltip)
    measured = base.mark_point(size=70, color=INK, fill=INK, opacity=1).encode(
        x=_factor_axis("measured_at", "factor, logarithmic", factors), tooltip=tooltip
    )
    texts = base.mark_text(
        align="left", baseline="middle", color=INK, fontSize=12, lineBreak="\n"
    ).encode(x=altair.value(PLOT_WIDTH + TEXT_GAP), text="outcome:N", tooltip=tooltip)
    key = "Dot: measured, with its 95 % interval. Grey bar: the expected range."
    if any(dot.published for dot in dots):
        key = f"Hollow diamond: published. {key} On the right: published → measured."
    # `Factors above 30x` includes 1/40: the baseline is 40x faster. Such a factor is drawn at the left end. A
    # factor of 0 has no place on the axis, and is not drawn.
    if any(factor and not 1 / MAX_FACTOR <= factor <= MAX_FACTOR for factor in factors):
        key += f" Factors above {MAX_FACTOR:g}x are drawn at the end of the axis."
    labels = [str(record["label"]) for record in records]
    # A later layer covers an earlier one: the bar of the expected range is behind everything.
    chart = altair.layer(expected, _line_at_1(), whiskers, measured, published, texts).properties(
        data=altair.Data(values=records),
        width=PLOT_WIDTH,
        height=_row_height(FINDING_ROW, labels),
        padding=PADDING,
    )
    title = "Published findings: published and measured factors"
    return Chart("findings", title, _specification(chart), key)


def _finding_record(dot: FindingDot, axis_ends: tuple[float, float]) -> Record:
    """Return the data of a finding's row: its label, the numbers to draw, and the texts under the pointer.

    Example: `{"label": "f7 is twice as fast\\nabove 1x: f7 is faster", "expected_low": 1.5, "expected_high":
    2.5, "published_at": 2.0, "measured_at": 1.4, "low": 1.3, "high": 1.5, ...}`. A number that is None is not
    drawn. The range `at least 2` has no upper end, so its bar ends at the right one of `axis_ends`.

    `published` and `measured` are keys of the texts (`dot.texts`), so their numbers have other keys.
    """
    # An open end is None. An end of 0 counts as open, too, because a logarithmic axis has no 0.
    axis_low, axis_high = axis_ends
    bar_low = dot.expected_low or axis_low
    bar_high = dot.expected_high or axis_high
    # With two open ends, there is no bar.
    has_bar = bool(dot.expected_low or dot.expected_high)
    label_lines = textwrap.wrap(dot.label, LABEL_LINE)
    label_lines += textwrap.wrap(f"above 1x: {dot.right_side}", LABEL_LINE)
    return {
        **dot.texts,
        "label": "\n".join(label_lines),
        "statement": dot.label,
        "verdict": dot.verdict,
        # In two lines: `weaker`, and `4.2x → 1.43x`, the published and the measured factor.
        "outcome": f"{dot.verdict}\n{_published_and_measured(dot)}",
        "expected_low": bar_low if has_bar else None,
        "expected_high": bar_high if has_bar else None,
        "published_at": dot.published,
        "measured_at": dot.measured,
        "low": dot.low,
        "high": dot.high,
    }


def _published_and_measured(dot: FindingDot) -> str:
    """Return `4.2x → 1.43x`, or the measured factor alone if none was published."""
    measured = dot.texts["measured"]
    return f"{dot.texts['published']} → {measured}" if dot.published else measured


def line_chart(
    *,
    name: str,
    title: str,
    points: Sequence[LinePoint],
    places: Sequence[str],
    place_title: str,
    value_title: str,
) -> Chart:
    """Return a plot of lines, with the values on a logarithmic vertical axis.

    Points with the same `line` are joined. `places` are the positions of the horizontal axis from left to
    right, such as `1`, `4` and `8` clients.
    """
    # 0 has no place on a logarithmic axis.
    shown_points = [point for point in points if point.value > 0]
    records = [
        {"line": point.line, "place": point.place, "value": point.value} for point in shown_points
    ]
    lines = unique_values(point.line for point in shown_points)
    # The first six lines have six colours and circles, the next six the same colours and squares, and so on.
    colours = []
    shapes = []
    for number in range(len(lines)):
        group_of_six, number_in_group = divmod(number, len(LINE_COLOURS))
        colours.append(LINE_COLOURS[number_in_group])
        shapes.append(LINE_SHAPES[group_of_six % len(LINE_SHAPES)])
    colour_scale = altair.Scale(domain=lines, range=colours)
    shape_scale = altair.Scale(domain=lines, range=shapes)
    # By default, Vega-Lite leaves out all but 30 lines of a legend. 0 is no limit.
    legend = altair.Legend(title=None, orient="right", symbolLimit=0)
    place_axis = altair.Axis(labelAngle=0)
    x = altair.X("place:N", title=place_title, sort=list(places), axis=place_axis)
    value_axis = altair.Axis(format="~g")
    value_scale = altair.Scale(type="log")
    y = altair.Y("value:Q", title=value_title, scale=value_scale, axis=value_axis)
    chart = (
        altair.Chart(altair.Data(values=records))
        .mark_line(point=True)
        .encode(
            x=x,
            y=y,
            color=altair.Color("line:N", scale=colour_scale, legend=legend),
            shape=altair.Shape("line:N", scale=shape_scale, legend=legend),
            tooltip=[
                *_tooltip({"line:N": "Cells", "place:N": place_title}),
                altair.Tooltip("value:Q", title=value_title, format=".4~g"),
            ],
        )
        .properties(width=PLOT_WIDTH, height=240)
    )
    return Chart(name, title, _specification(chart), "Logarithmic axis.")


def noise_chart(dots: Sequence[RoundDot], picks: Sequence[str]) -> Chart:
    """Return a plot with a row for each cell, and a stroke for each round.

    A stroke is at the distance of the round's time from the cell's mean, in per cent: 10 for 1.1 s with the
    mean 1.0 s. The cell with the largest distance is first. `picks` are the axes on which a reader can pick a
    value. The plot shows only the cells that fit the picks.
    """
    # The rows of cells have the order in which the cells first occur in `records` (_row_axis_in_order).
    noisiest_first = sorted(dots, key=lambda dot: -abs(dot.deviation_pct))
    records: list[Record] = [
        {
            # The axis values of the cell, {"command": "log", "access": "svn"}, which pick_filter() tests.
            **dot.where,
            "label": dot.label,
            "round": dot.number,
            "deviation": round(dot.deviation_pct, 2),
            "seconds": dot.seconds,
        }
        for dot in noisiest_first
    ]
    titles = {"label:N": "Cell", "round:N": "Round", "seconds:N": "Time"}
    tooltip = _tooltip({**titles, "deviation:Q": "Above the mean, in per cent"})
    x = altair.X("deviation:Q", title="time of a round above the cell's mean, in per cent")
    chart = (
        altair.Chart(altair.Data(values=records))
        .transform_filter(pick_filter(picks))
        .mark_tick(color=BLUE, thickness=2, height=10)
        .encode(x=x, y=_row_axis_in_order(records), tooltip=tooltip)
        .add_params(*_pick_parameters(picks))
        .properties(width=PLOT_WIDTH, height=altair.Step(NOISE_ROW))
    )
    explanation = "Each stroke is the mean time of a round."
    return Chart("noise", "Noise of each cell", _specification(chart), key=explanation)


def time_chart(seconds: Mapping[str, float]) -> Chart:
    """Return one horizontal bar that consists of parts: `seconds` has the length of each part by its name.

    Example: `{"preparation": 60, "measuring": 700}`, drawn in this order.
    """
    parts = list(seconds)
    records = [{"part": part, "seconds": round(spent, 1)} for part, spent in seconds.items()]
    colours = altair.Scale(domain=parts, range=list(LINE_COLOURS[: len(parts)]))
    legend = altair.Legend(title=None)
    chart = (
        altair.Chart(altair.Data(values=records))
        .mark_bar()
        .encode(
            # Each part begins where the part before it ends, and the first one at 0.
            x=altair.X("seconds:Q", title="seconds", stack="zero"),
            color=altair.Color("part:N", scale=colours, sort=parts, legend=legend),
            order=altair.Order("index:O"),
            tooltip=_tooltip({"part:N": "Part", "seconds:Q": "Seconds"}),
        )
        # Vega-Lite stacks the parts by alphabet, unless the field `index` has their order.
        .transform_calculate(index=f"indexof({json.dumps(parts)}, datum.part)")
        .properties(width=600, height=36)
    )
    return Chart("time", "Use of the time", _specification(chart))
