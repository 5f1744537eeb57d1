"""Counts side by side: a panel each, measured and published in one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vcsbench import words
from vcsbench.metrics import COUNT
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, name_of, values_of, varying

TITLE = "{title}, counted"
READING = """A panel is a count, a bar what was counted here, a ring what was published; each panel has its
own scale, which is logarithmic from 1 on."""
TICKS = [0, 10, 10**3, 10**5, 10**7, 10**9, 10**11, 10**13]


def count_charts(
    table: str,
    title: str,
    rows: Iterable[Record],
    published: Iterable[Record],
    layout: Layout,
) -> ChartGroup:
    """A chart of a table that has counts side by side (its `each`), with the published one, of the lines that
    were measured; colour is the last row axis that varies."""
    counted = [row for row in rows if words.is_number(row["value"])]
    said = [row for row in published if words.is_number(row["value"])]
    several = varying([*counted, *said], layout.rows)
    hue = several[-1] if several else ""
    lines = [axis for axis in several if axis != hue]
    axes = (*layout.columns, *layout.rows)
    rank = layout.sort_key(axes)
    ordered = sorted(counted, key=lambda row: rank(values_of(row, axes)))
    points = _points(ordered, "counted", lines, hue)
    measured = {(point["panel"], point["line"]) for point in points}
    rings = [
        point
        for point in _points(said, "published", lines, hue)
        if (point["panel"], point["line"]) in measured
    ]
    charts = []
    if points:
        anchor = f"chart-{words.slug(table)}"
        charts.append(panels.Chart(anchor, "", _spec([*points, *rings], hue)))
    return ChartGroup(TITLE.format(title=title), READING, charts)


def _points(rows: Sequence[Record], kind: str, lines: Sequence[str], hue: str) -> PointList:
    return [
        {
            "panel": row[COUNT],
            "line": name_of(row, lines),
            "hue": words.plain(row.get(hue, "")),
            "value": panels.short(row["value"]),
            "kind": kind,
        }
        for row in rows
    ]


def _spec(points: PointList, hue: str) -> dict[str, Any]:
    import altair as alt

    lines, hues, shared = panels.lines_of(points, hue)
    shared["tooltip"] = [
        alt.Tooltip("line:N", title="cells"),
        alt.Tooltip("hue:N", title=hue or "all"),
        alt.Tooltip("value:Q", format=","),
        "kind:N",
    ]
    # Some count nothing: a logarithm that has a zero.
    x = alt.X(
        "value:Q",
        title=None,
        scale=alt.Scale(type="symlog", nice=False),
        axis=alt.Axis(format="~s", values=TICKS),
    )
    bar = alt.Chart().mark_bar(opacity=0.75, height=8).encode(x=x, **shared)
    ring = alt.Chart().mark_point(size=60, filled=False, strokeWidth=2).encode(x=x, **shared)
    layers = [
        bar.transform_filter("datum.kind === 'counted'"),
        ring.transform_filter("datum.kind === 'published'"),
    ]
    height = max(40, lines * (14 * max(1, hues) + 8))
    return panels.faceted(alt.layer(*layers), points, height, independent=True)
