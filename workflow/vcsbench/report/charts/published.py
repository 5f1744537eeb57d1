"""Published against measured ratios: a point for each number that both have, and the line of equality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.compare.columns import keys_of
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import Chart, ChartGroup, PointList
from vcsbench.report.charts.ratios import CALLS, better
from vcsbench.report.readings import direction
from vcsbench.report.records import Record, name_of

TITLE = "Published against measured"
READING = """Each point is a number that both have: across how many times the baseline took in the published
study, upwards the same as measured here, on scales of factors. On the dashed line the two agree; in the
quarters at the upper left and the lower right they contradict one another. Grey: not called a difference
here. Only ratios are compared, each of one machine."""

Tables = Mapping[str, Sequence[Record]]


def published_charts(
    definitions: Mapping[str, Mapping[str, Any]], measured: Tables, published: Tables
) -> ChartGroup:
    """A panel for each table that compares and has such points; all on one scale."""
    points: PointList = []
    for name, definition in definitions.items():
        if definition.get("compare"):
            points += _points(name, definition, measured.get(name, ()), published.get(name, ()))
    charts = [Chart("chart-published", "", _spec(points))] if points else []
    return ChartGroup(TITLE, READING, charts)


def _points(
    name: str, definition: Mapping[str, Any], measured: Sequence[Record], said: Sequence[Record]
) -> PointList:
    by_keys = {
        tuple(keys_of(row).items()): 1 + row["value"] / 100
        for row in said
        if words.is_number(row["value"])
    }
    points: PointList = []
    for row in measured:
        keys = keys_of(row)
        before = by_keys.get(tuple(keys.items()))
        if before is not None and before > 0 and words.is_number(row["ratio"]):
            points.append(
                {
                    "panel": name,
                    "cell": name_of(keys, keys),
                    "published": panels.short(before),
                    "measured": panels.short(row["ratio"]),
                    "call": better(row, direction(definition)),
                }
            )
    return points


def _spec(points: PointList) -> dict[str, Any]:
    import altair as alt

    ratios = [point[side] for point in points for side in ("published", "measured")]
    ends = [min(0.8, *ratios) / 1.1, max(1.25, *ratios) * 1.1]
    scale = alt.Scale(type="log", domain=ends, nice=False)
    axis = alt.Axis(tickCount=5, format="~r", grid=True)
    corners = alt.InlineData(values=[{"x": end, "y": end} for end in ends])
    equal = alt.Chart(corners).mark_line(color=panels.GREY, strokeDash=[4, 3])
    equal = equal.encode(
        x=alt.X("x:Q", scale=scale, title="published", axis=axis),
        y=alt.Y("y:Q", scale=scale, title="measured", axis=axis),
    )
    colours = alt.Scale(domain=list(CALLS), range=list(CALLS.values()))
    dot = alt.Chart().mark_point(size=40, filled=True, opacity=0.85)
    dot = dot.encode(
        x=alt.X("published:Q", scale=scale),
        y=alt.Y("measured:Q", scale=scale),
        color=alt.Color("call:N", legend=None, scale=colours),
        shape=alt.Shape(
            "call:N",
            legend=None,
            scale=alt.Scale(domain=list(CALLS), range=["square", "circle", "cross"]),
        ),
        tooltip=["cell:N", "published:Q", "measured:Q"],
    )
    return panels.faceted(alt.layer(equal, dot), points, 250, independent=False)
