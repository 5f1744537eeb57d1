"""Drift: how elapsed times move from round to round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench.report.charts.panels import (
    GREY,
    HUES,
    MANY_POINTS,
    Chart,
    ChartGroup,
    PointList,
    Record,
    name_of,
    panels,
)
from vcsbench.report.grids import Layout

READING = """Per cent above or below the cell's median: a point is a run, the line their median.
Where it falls from left to right, runs got faster from round to round, as cold ones do where
something below this system keeps what they read."""


def drift_charts(measurements: Sequence[Record], order: Mapping[str, Sequence[str]]) -> ChartGroup:
    """How elapsed times move from round to round, relative to each cell's median, with a panel per
    command and cache state; no chart with fewer than two rounds."""
    axes = tuple(axis for axis in ("command", "cache") if axis in order)
    if len({row["round"] for row in measurements}) < 2:
        return ChartGroup("Drift over the rounds", READING, [])
    cells: dict[tuple[str, str], list[Record]] = {}
    for row in measurements:  # of each machine by itself
        cells.setdefault((row["cell"], row.get("host", "")), []).append(row)
    rank = Layout((), axes, (), order).sort_key(axes)
    points = []
    for rows in sorted(
        cells.values(), key=lambda rows: rank(tuple(rows[0][axis] for axis in axes))
    ):
        middle = statistics.median(row["elapsed_s"] for row in rows)
        points += [
            {
                "panel": name_of(row, axes) or "all cells",
                "round": row["round"],
                "pct": round(100 * (row["elapsed_s"] / middle - 1), 1),
                "cell": row["cell"],
            }
            for row in rows
        ]
    chart = Chart("chart-drift", "", _drift_spec(points))
    return ChartGroup("Drift over the rounds", READING, [chart])


def _drift_spec(points: PointList) -> dict[str, Any]:
    import altair as alt

    groups: dict[tuple[str, int], list[float]] = {}
    for point in points:
        groups.setdefault((point["panel"], point["round"]), []).append(point["pct"])
    middles = [
        {"panel": panel, "round": number, "median": round(statistics.median(values), 1)}
        for (panel, number), values in groups.items()
    ]
    shown = points if len(points) <= MANY_POINTS else []
    rounds = sorted({point["round"] for point in points})
    axis = alt.Axis(values=rounds if len(rounds) <= 12 else alt.Undefined, format="d", grid=False)
    x = alt.X("round:Q", title="round", scale=alt.Scale(nice=False, padding=8), axis=axis)
    y: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=5, format="+d")}
    zero = alt.Chart().mark_rule(color=GREY, strokeDash=[2, 2]).encode(y=alt.datum(0))
    dots = alt.Chart().mark_circle(size=16, opacity=0.4, color=GREY)
    dots = dots.encode(x=x, y=alt.Y("pct:Q", **y), tooltip=["cell:N", "round:Q", "pct:Q"])
    dots = dots.transform_filter("isValid(datum.pct)")
    line = alt.Chart().mark_line(color=HUES[1], strokeWidth=2)
    line = line.encode(x=x, y=alt.Y("median:Q", **y)).transform_filter("isValid(datum.median)")
    return panels(alt.layer(zero, dots, line), shown + middles, 110, independent=False)
