"""Ratios of a table X-vs-Y with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.compare.decisions import is_difference
from vcsbench.metrics import metric_in
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.readings import direction, has_interval, interval, sides, written
from vcsbench.report.records import Record, distinct, name_of, varying

CALLS = {"baseline": panels.HUES[0], "candidate": panels.HUES[1], "neither": panels.GREY}
# The ticks of a scale that spans less than so many times.
TICKS: dict[float, list[float]] = {
    1.8: [0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4],
    3.5: [0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3],
    6: [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4],
    15: [0.1, 0.2, 0.5, 1, 2, 5, 10],
    math.inf: [0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 1000],
}


def ratio_charts(
    table: str, definition: Mapping[str, Any], rows: Sequence[Record], layout: Layout
) -> ChartGroup:
    """A chart per remaining axis value of a table X-vs-Y: each number of its grid with its interval."""

    def spec_of(sheet: list[Record]) -> dict[str, Any]:
        lines = varying(sheet, layout.rows)
        apart: dict[str, Any] = panels.told_apart(sheet, panel=layout.columns, line=lines)
        compared = {"compares": layout.compared, "baseline": sides(definition)[0]}
        spec = _ratio_spec(
            [
                {
                    "panel": name_of(row, layout.columns),
                    "line": name_of(row, lines) or "all",
                    **{key: panels.short(row[key]) for key in ("ratio", "low", "high")},
                    "pct": written(row["ratio"]),
                    "interval": interval(row) if has_interval(row) else "none",
                    "n": row["n"],
                    "call": better(row, direction(definition)),
                }
                for row in sheet
            ]
        )
        return {**spec, "usermeta": {**apart, **compared}}

    known = [row for row in rows if words.is_number(row["ratio"])]
    charts = panels.charts_of(table, known, layout, spec_of)
    return ChartGroup(table, _reading(definition), charts)


def _reading(definition: Mapping[str, Any]) -> str:
    metric, (baseline, candidates) = metric_in(definition), sides(definition)
    side = "Right" if direction(definition) > 0 else "Left"
    return (
        f"{metric.title} of {baseline} against that of {candidates}, in per cent, with its 95 % interval: "
        f"the numbers of the table, on a scale of factors. {side} of 0, {candidates} "
        f"{metric.words.is_better}; grey where it is not called a difference: among all comparisons of the "
        f"table it is not told from 0, or there are too few rounds."
    )


def better(row: Record, direction: int) -> str:
    """Which side of a measured row is called the better one: baseline, candidate or neither."""
    if not is_difference(row.get("call", "")):
        return "neither"
    return "candidate" if (row["ratio"] - 1) * direction > 0 else "baseline"


def _ratio_spec(points: PointList) -> dict[str, Any]:
    import altair as alt

    lines = distinct(point["line"] for point in points)
    # An interval from two rounds may span decades: the scale follows the ratios, and clips it.
    ratios = [point["ratio"] for point in points]
    domain = [min(0.8, *ratios, 1) / 1.15, max(1.25, *ratios, 1) * 1.15]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    colours = alt.Scale(domain=list(CALLS), range=list(CALLS.values()))
    shared = {
        "y": alt.Y("line:N", sort=lines, title=None),
        "color": alt.Color("call:N", legend=None, scale=colours),
    }
    percent = "datum.value == 1 ? '0' : format(100 * (datum.value - 1), '+.3~r')"
    ticks = alt.Axis(values=_factors(domain), labelExpr=percent)
    axis: dict[str, Any] = {"title": None, "scale": scale, "axis": ticks}
    equal = panels.reference().encode(x=alt.datum(1))
    interval = alt.Chart().mark_rule(clip=True, strokeWidth=1.5)
    interval = interval.encode(x=alt.X("low:Q", **axis), x2="high:Q", **shared)
    about = [
        alt.Tooltip("pct:N", title="per cent"),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    dot = alt.Chart().mark_circle(size=42, opacity=1)
    dot = dot.encode(x=alt.X("ratio:Q", **axis), tooltip=["line:N", *about, "n:Q"], **shared)
    height = max(40, len(lines) * 17)
    return panels.faceted(alt.layer(equal, interval, dot), points, height, independent=False)


def _factors(domain: Sequence[float]) -> list[float]:
    """Factors worth a tick: as few as read well over the whole of the domain."""
    wide = domain[1] / domain[0]
    ticks = next(ticks for below, ticks in TICKS.items() if wide < below)
    return [tick for tick in ticks if domain[0] <= tick <= domain[1]]
