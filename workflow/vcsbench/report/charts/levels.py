"""A metric's own values: every run of every cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.metrics import Metric
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, grouped_by, name_of, values_of, varying

READING = """Each panel has its own scale ({}), from 0. A point is a run, a tick the number of the table; for
very many runs a line goes from the least to the greatest."""


def level_charts(
    table: str,
    metric: Metric,
    measurements: Iterable[Record],
    rows: Iterable[Record],
    layout: Layout,
) -> ChartGroup:
    """A chart of a metric per remaining axis value of its table: every run a point, a cell's number in the
    table, of which `rows` are, a tick.

    Panels are the columns of the layout, lines its rows, colour the last row axis that varies.
    """
    axes = (*layout.rest, *layout.columns, *layout.rows)
    measured = _with_numbers(metric, measurements, rows, axes)

    def spec_of(rows: list[Record]) -> dict[str, Any]:
        several = varying(rows, layout.rows)
        few = [a for a in several if len({row[a] for row in rows}) <= len(panels.HUES)]
        hue = few[-1] if few else ""
        lines = [axis for axis in several if axis != hue]
        points = _points(rows, layout.columns, lines, hue)
        ticks = {
            (name_of(row, layout.columns), name_of(row, lines), row.get(hue, "")): row["told"]
            for row in rows
        }
        points = _reduced(points) if len(points) > panels.MANY_POINTS else points
        apart = panels.told_apart(rows, panel=layout.columns, line=lines, hue=[hue])
        return {**_spec(points, _ticks(ticks), hue, metric.unit), "usermeta": apart}

    charts = panels.charts_of(table, measured, layout, spec_of)
    return ChartGroup(metric.title, READING.format(metric.unit), charts)


def _points(
    rows: Iterable[Record], columns: Sequence[str], lines: Sequence[str], hue: str
) -> PointList:
    return [
        {
            "panel": name_of(row, columns),
            "line": name_of(row, lines),
            "hue": row.get(hue, ""),
            "round": row["round"],
            "value": panels.short(row["value"]),
            "flags": row["flags"],
        }
        for row in rows
    ]


def _with_numbers(
    metric: Metric, measurements: Iterable[Record], rows: Iterable[Record], axes: Sequence[str]
) -> list[Record]:
    """The runs that have a value, with that and the number that is told of their cell in the table."""
    told = {values_of(_in_words(row, axes), axes): row["value"] for row in rows}
    return [
        {**row, **keys, "value": value, "told": told.get(values_of(keys, axes))}
        for row in measurements
        if (value := panels.value_of(metric, row)) is not None
        for keys in [_in_words(row, axes)]
    ]


def _in_words(row: Record, axes: Iterable[str]) -> dict[str, str]:
    return {axis: words.plain(row.get(axis, "")) for axis in axes}


def _ticks(told: Mapping[tuple[str, str, Any], Any]) -> PointList:
    """A point for each number of the table, by panel, line and hue."""
    return [
        {"panel": panel, "line": line, "hue": hue, "told": panels.short(value)}
        for (panel, line, hue), value in told.items()
        if words.is_number(value)
    ]


def _spec(points: PointList, ticks: PointList, hue: str, unit: str) -> dict[str, Any]:
    import altair as alt

    lines, hues, shared = panels.lines_of(points, hue)
    reduced = "low" in points[0]
    axis: dict[str, Any] = {
        "title": None,
        "scale": alt.Scale(zero=True, nice=True),
        "axis": alt.Axis(tickCount=4),
    }
    about = [alt.Tooltip("line:N", title="cells"), alt.Tooltip("hue:N", title=hue or "all")]
    if reduced:
        spread = alt.Chart().mark_rule(opacity=0.6).encode(x2="high:Q")
    else:
        said = [*about, "round:Q", alt.Tooltip("value:Q", title=unit), "flags:N"]
        spread = alt.Chart().mark_circle(size=22, opacity=0.55).encode(tooltip=said)
    field = "low" if reduced else "value"
    spread = spread.encode(x=alt.X(f"{field}:Q", **axis), **shared)
    told = alt.Tooltip("told:Q", title=f"in the table, {unit}", format=".4")
    tick = alt.Chart().mark_tick(thickness=2, size=12)
    tick = tick.encode(x=alt.X("told:Q", **axis), tooltip=[*about, told], **shared)
    layers = [
        spread.transform_filter(f"isValid(datum.{field})"),
        tick.transform_filter("isValid(datum.told)"),
    ]
    height = max(40, lines * (12 * max(1, hues) + 8))
    return panels.faceted(alt.layer(*layers), points + ticks, height, independent=True)


def _reduced(points: PointList) -> PointList:
    """The least and the greatest of each cell instead of all its points."""
    cells = grouped_by(points, lambda point: (point["panel"], point["line"], point["hue"]))
    reduced = []
    for (panel, line, hue), found in cells.items():
        values = [point["value"] for point in found]
        spread = {"low": min(values), "high": max(values)}
        reduced.append({"panel": panel, "line": line, "hue": hue, **spread})
    return reduced
