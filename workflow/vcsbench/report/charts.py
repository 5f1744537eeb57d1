"""The charts of a page, made by altair: forest plots, findings, lines, noise of cells, use of time.

A chart is a specification of Vega-Lite. The page draws it, filters it by the reader's picks and shows numbers
under the pointer. Print, readers without scripts and papers get the SVG of vl-convert.
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

if TYPE_CHECKING:
    import altair

    AltairChart = altair.Chart | altair.LayerChart | altair.FacetChart

# A value of a parameter that fits every row.
ANY = "any"
# Factors beyond are drawn at the end of the axis. Their numbers are in the tables.
MAX_FACTOR = 30.0
# The least range of an axis of factors: a difference of a few per cent must look small.
LEAST_FACTOR = 1.3
BLUE, ORANGE, GREY, INK, SOFT = "#1f6fb2", "#b85c00", "#767c84", "#1b1d20", "#5a5f66"
BAND = "#e3e6ea"
LINES = (BLUE, ORANGE, "#1b6e45", "#8e44ad", GREY, "#a33b5b")
# An outcome of a comparison: its colour, and True if its dot is filled.
OUTCOMES = {
    "candidate": (BLUE, True),
    "reference": (ORANGE, True),
    "equal": (GREY, True),
    "undecided": (GREY, False),
    "small": ("#b0b5bb", False),
}
ROW_HEIGHT = 18
# The labels of rows, and the texts next to a forest plot, in pixels.
LABEL_WIDTH, TEXT_WIDTH = 380, 230


@dataclass(frozen=True)
class Chart:
    """A chart: its name in files, its title, and its specification. `key` explains its marks."""

    name: str
    title: str
    spec: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True)
class ForestDot:
    """A comparison in a forest plot, with its texts. `where` and both sides are for the picks.

    Without an interval, `low` and `high` are 0.
    """

    label: str
    where: Mapping[str, str]
    baseline: str
    candidate: str
    ratio: float
    low: float
    high: float
    style: str
    text: str
    times: str
    interval: str
    note: str


@dataclass(frozen=True)
class FindingDot:
    """A finding in the plot of findings. Unknown numbers are None."""

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
    """A point of a line plot. `place` is its value on the horizontal axis."""

    line: str
    place: str
    value: float


@dataclass(frozen=True)
class RoundDot:
    """The time of a cell in a round, in per cent above the cell's mean. `where` is for the picks."""

    label: str
    where: Mapping[str, str]
    number: int
    deviation_pct: float
    seconds: str


def factor_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high` for a logarithmic axis. 1 is one of them if it is inside."""
    decades = math.log10(high / low)
    steps = [1.0, 2.0, 5.0]
    if decades > 3:
        steps = [1.0]
    elif decades < 0.5:
        steps = [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0]
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    numbers = [float(f"{step * 10.0**power:.6g}") for power in powers for step in steps]
    return [number for number in numbers if low <= number <= high]


def _domain(values: Iterable[float | None]) -> list[float]:
    """Return the ends of an axis of factors that shows some values, with a margin."""
    inside = [1 / LEAST_FACTOR, LEAST_FACTOR]
    for value in values:
        if value and math.isfinite(value) and value > 0:
            inside.append(min(max(value, 1 / MAX_FACTOR), MAX_FACTOR))
    return [min(inside) / 1.08, max(inside) * 1.08]


def _factor_axis(field: str, title: str, values: Iterable[float | None]) -> altair.X:
    import altair

    domain = _domain(values)
    axis = altair.Axis(values=factor_ticks(*domain), labelExpr="format(datum.value, '~g') + 'x'")
    scale = altair.Scale(type="log", domain=domain, clamp=True, nice=False)
    return altair.X(field, type="quantitative", title=title, scale=scale, axis=axis)


def _row_axis(order: Sequence[str]) -> altair.Y:
    """Return the axis of rows in this order. A line break in a label makes a line of its own."""
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


def _pick_parameters(axes: Iterable[str]) -> list[altair.Parameter]:
    import altair

    return [altair.param(name=f"pick_{axis}", value=ANY) for axis in axes]


def _pick_filter(axes: Iterable[str], compared: str = "") -> str:
    """Return the expression by which a row fits the picks. A row fits any value of an axis that it lacks.

    A pick on the `compared` axis fits a comparison of that value.
    """
    tests = ["true"]
    for axis in axes:
        fits = f"!datum['{axis}'] || datum['{axis}'] === pick_{axis}"
        if axis == compared:
            fits = f"datum.baseline === pick_{axis} || datum.candidate === pick_{axis}"
        tests.append(f"(pick_{axis} === '{ANY}' || {fits})")
    return " && ".join(tests)


def _specification(chart: AltairChart) -> dict[str, Any]:
    """Return the specification with the look of the page."""
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
    dots: Sequence[ForestDot],
    sides: tuple[str, str],
    compared: str,
    picks: Sequence[str],
    margin: float,
) -> Chart:
    """Return the comparisons of a card, one in each row.

    `sides` are the labels of both sides, `compared` is the axis of the question, `picks` are the axes of the
    picks, and a ratio below the `margin` (such as 1.1) counts as equal.
    """
    import altair

    ends = [end for dot in dots for end in (dot.ratio, dot.low, dot.high)]
    rows = [
        {
            **dot.where,
            "label": dot.label,
            "baseline": dot.baseline,
            "candidate": dot.candidate,
            "ratio": dot.ratio,
            "low": dot.low or dot.ratio,
            "high": dot.high or dot.ratio,
            "style": dot.style,
            "result": f"{dot.text}, {dot.times}" if dot.times else dot.text,
            "interval": dot.interval,
            "note": dot.note or "none",
        }
        for dot in dots
    ]
    x = _factor_axis("ratio", f"← {sides[0]} faster | {sides[1]} faster →", ends)
    y = _row_axis([dot.label for dot in dots])
    styles = altair.Scale(domain=[*OUTCOMES], range=[colour for colour, _ in OUTCOMES.values()])
    fills = altair.Scale(
        domain=[*OUTCOMES],
        range=[colour if filled else "white" for colour, filled in OUTCOMES.values()],
    )
    colour = altair.Color("style:N", scale=styles, legend=None)
    tooltip = [
        altair.Tooltip("label:N", title="Case"),
        altair.Tooltip("result:N", title="Result"),
        altair.Tooltip("interval:N", title="95 % interval"),
        altair.Tooltip("note:N", title="Notes"),
    ]
    fitting = altair.Chart().transform_filter(_pick_filter(picks, compared)).encode(y=y)
    band = (
        altair.Chart(altair.Data(values=[{"from": 1 / margin, "to": margin}]))
        .mark_rect(color=BAND)
        .encode(x=altair.X("from:Q"), x2="to:Q")
    )
    centre = altair.Chart(altair.Data(values=[{"one": 1}])).mark_rule(color=GREY).encode(x="one:Q")
    whiskers = fitting.mark_rule(strokeWidth=1.6).encode(
        x=altair.X("low:Q"), x2="high:Q", color=colour, tooltip=tooltip
    )
    points = fitting.mark_point(size=60, opacity=1).encode(
        x=x, stroke=colour, fill=altair.Fill("style:N", scale=fills, legend=None), tooltip=tooltip
    )
    texts = fitting.mark_text(align="left", limit=TEXT_WIDTH, color=INK).encode(
        x=altair.value(320), text="result:N", tooltip=tooltip
    )
    chart = (
        altair.layer(band, centre, whiskers, points, texts)
        .add_params(*_pick_parameters(picks))
        .properties(
            data=altair.Data(values=rows),
            width=310,
            height=altair.Step(ROW_HEIGHT),
            padding={"right": 40},
        )
    )
    return Chart(name, title, _specification(chart))


def findings_chart(dots: Sequence[FindingDot], verdicts: Sequence[str]) -> Chart:
    """Return all findings that are factors, grouped by verdict in this order, on one axis."""
    import altair

    rows = []
    shown_labels = []
    for dot in sorted(dots, key=lambda dot: verdicts.index(dot.verdict)):
        ends = [dot.published, dot.measured, dot.low, dot.high, *_known(dot)]
        domain = _domain(ends)
        label = "\n".join(textwrap.wrap(dot.label, 64, max_lines=2, placeholder=" …"))
        shown_labels.append(label)
        rows.append(
            {
                **dot.texts,
                "label": label,
                "statement": dot.label,
                "verdict": dot.verdict,
                # An open end of the expected range reaches to the end of the axis.
                "expected_low": dot.expected_low or (domain[0] if dot.expected_high else None),
                "expected_high": dot.expected_high or (domain[1] if dot.expected_low else None),
                "published_at": dot.published,
                "measured_at": dot.measured,
                "low": dot.low,
                "high": dot.high,
            }
        )
    ends = [
        end
        for dot in dots
        for end in (dot.published, dot.measured, dot.low, dot.high, *_known(dot))
    ]
    titles = ("statement", "verdict", "expected", "published", "measured", "interval")
    tooltip = [altair.Tooltip(f"{name}:N", title=name.capitalize()) for name in titles]
    base = altair.Chart().encode(y=_row_axis(shown_labels))
    shared = {"tooltip": tooltip}
    expected = base.mark_bar(color=BAND, height=24).encode(
        x=altair.X("expected_low:Q"), x2="expected_high:Q", **shared
    )
    whiskers = base.mark_rule(color=INK, strokeWidth=2).encode(
        x=altair.X("low:Q"), x2="high:Q", **shared
    )
    published = base.mark_point(
        shape="diamond", size=110, color=INK, fill="white", opacity=1
    ).encode(x=altair.X("published_at:Q"), **shared)
    measured = base.mark_point(size=70, color=INK, fill=INK, opacity=1).encode(
        x=_factor_axis("measured_at", "factor, logarithmic", ends), **shared
    )
    centre = altair.Chart(altair.Data(values=[{"one": 1}])).mark_rule(color=GREY).encode(x="one:Q")
    texts = base.mark_text(align="left", color=INK).encode(
        x=altair.value(432), text="verdict:N", **shared
    )
    chart = altair.layer(expected, centre, whiskers, published, measured, texts).properties(
        data=altair.Data(values=rows), width=420, height=altair.Step(34), padding={"right": 40}
    )
    return Chart(
        "findings",
        "Published findings: published and measured factors",
        _specification(chart),
        "Hollow diamond: published. Dot: measured, with its 95 % interval. Grey bar: the expected range.",
    )


def _known(dot: FindingDot) -> list[float]:
    return [end for end in (dot.expected_low, dot.expected_high) if end]


def line_chart(
    name: str,
    title: str,
    points: Sequence[LinePoint],
    places: Sequence[str],
    labels: tuple[str, str],
) -> Chart:
    """Return lines over `places`, on a logarithmic axis. `labels` are of both axes, the horizontal first."""
    import altair

    rows = [
        {"line": point.line, "place": point.place, "value": point.value}
        for point in points
        if point.value > 0
    ]
    lines = list(dict.fromkeys(point.line for point in points if point.value > 0))
    x = altair.X("place:N", title=labels[0], sort=list(places), axis=altair.Axis(labelAngle=0))
    y = altair.Y(
        "value:Q", title=labels[1], scale=altair.Scale(type="log"), axis=altair.Axis(format="~g")
    )
    colours = altair.Scale(domain=lines, range=[LINES[n % len(LINES)] for n in range(len(lines))])
    # Lines of the same colour differ by their shapes.
    shapes = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
    forms = altair.Scale(
        domain=lines, range=[shapes[n // len(LINES) % len(shapes)] for n in range(len(lines))]
    )
    tooltip = [
        altair.Tooltip("line:N", title="Cells"),
        altair.Tooltip("place:N", title=labels[0]),
        altair.Tooltip("value:Q", title=labels[1], format=".4~g"),
    ]
    legend = altair.Legend(title=None, orient="right", symbolLimit=0)
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=x,
            y=y,
            color=altair.Color("line:N", scale=colours, legend=legend),
            shape=altair.Shape("line:N", scale=forms, legend=legend),
            tooltip=tooltip,
        )
        .properties(width=420, height=240)
    )
    return Chart(name, title, _specification(chart), "Logarithmic axis.")


def noise_chart(dots: Sequence[RoundDot], picks: Sequence[str]) -> Chart:
    """Return the rounds of each cell, the noisiest cell first."""
    import altair

    spread: dict[str, float] = {}
    for dot in dots:
        spread[dot.label] = max(spread.get(dot.label, 0.0), abs(dot.deviation_pct))
    rows = [
        {
            **dot.where,
            "label": dot.label,
            "round": dot.number,
            "deviation": round(dot.deviation_pct, 2),
            "seconds": dot.seconds,
        }
        for dot in dots
    ]
    order = sorted(spread, key=lambda label: -spread[label])
    x = altair.X("deviation:Q", title="time of a round above the cell's mean, in per cent")
    chart = (
        altair.Chart(altair.Data(values=rows))
        .transform_filter(_pick_filter(picks))
        .mark_tick(color=BLUE, thickness=2, height=10)
        .encode(
            x=x,
            y=_row_axis(order),
            tooltip=[
                altair.Tooltip("label:N", title="Cell"),
                altair.Tooltip("round:N", title="Round"),
                altair.Tooltip("seconds:N", title="Time"),
                altair.Tooltip("deviation:Q", title="Above the mean, in per cent"),
            ],
        )
        .add_params(*_pick_parameters(picks))
        .properties(width=420, height=altair.Step(14))
    )
    title = "Noise of each cell"
    return Chart("noise", title, _specification(chart), "Each stroke is the mean time of a round.")


def time_chart(seconds: Mapping[str, float]) -> Chart:
    """Return the use of the time by its parts, in seconds."""
    import altair

    rows = [{"part": part, "seconds": round(spent, 1)} for part, spent in seconds.items()]
    parts = list(seconds)
    colours = altair.Scale(domain=parts, range=list(LINES[: len(parts)]))
    chart = (
        altair.Chart(altair.Data(values=rows))
        .mark_bar()
        .encode(
            x=altair.X("seconds:Q", title="seconds", stack="zero"),
            color=altair.Color(
                "part:N", scale=colours, sort=parts, legend=altair.Legend(title=None)
            ),
            order=altair.Order("index:O"),
            tooltip=[
                altair.Tooltip("part:N", title="Part"),
                altair.Tooltip("seconds:Q", title="Seconds"),
            ],
        )
        .transform_calculate(index=f"indexof({json.dumps(parts)}, datum.part)")
        .properties(width=600, height=36)
    )
    return Chart("time", "Use of the time", _specification(chart))


@cache
def script_bundle() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed, which works offline."""
    import vl_convert

    # Its stub requires a snippet. Without one, the bundle assigns vegaEmbed to the window.
    bundle = cast(str, cast(Any, vl_convert).javascript_bundle())
    # The end of a script element must not be in its text.
    return bundle.replace("</script", "<\\/script")


def draw(charts: Iterable[Chart]) -> dict[str, str]:
    """Return the SVG of each chart by its name."""
    import vl_convert

    return {chart.name: vl_convert.vegalite_to_svg(dict(chart.spec)) for chart in charts}


def image_url(svg: str) -> str:
    """Return an SVG as the address of an image inside the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def write_charts(charts: Iterable[Chart], svgs: Mapping[str, str], folder: Path) -> None:
    """Write each chart as NAME.vl.json, to be changed, and as NAME.svg, for a paper."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        text = json.dumps(chart.spec, indent=1, ensure_ascii=False)
        (folder / f"{chart.name}.vl.json").write_text(text + "\n", encoding="utf-8")
        (folder / f"{chart.name}.svg").write_text(svgs[chart.name], encoding="utf-8")
