"""A metric over an axis of numbers: how many clients, and what they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.metrics import Metric
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, distinct, name_of, varying

READING = """{title} ({unit}) over {axis}. A point is a run, a line goes through the numbers of the table; a
cross is a run in which the machine's cores were saturated (clients and server together)."""
CEILINGS = """ Dashed is what this machine does at most, measured beside it: what so many sockets carry over
loopback, and how fast one core copies memory."""
# What is drawn with a ceiling.
THROUGHPUT = "throughput_mb_s"
SATURATED = "cores saturated"


def over_charts(
    table: str,
    axis: str,
    metric: Metric,
    measurements: Iterable[Record],
    rows: Iterable[Record],
    layout: Layout,
    ceiling: Mapping[str, Any],
) -> ChartGroup:
    """A chart of a metric over an axis: colour is the last row axis that varies, a panel each value of the
    others. `rows` are the table's, `ceiling` is the machine's (measure.ceiling)."""
    measurements = list(measurements)
    hosts = {row["host"] for row in measurements}
    # Another machine's is none of this one's.
    ceiling = ceiling if metric.name == THROUGHPUT and hosts == {ceiling.get("host")} else {}
    told = [row for row in rows if words.is_number(row["value"])]
    several = varying(told, layout.rows)
    hue, lines = (several[-1], several[:-1]) if several else ("", [])
    runs = [
        _point(row, axis, lines, hue, value)
        | {"kind": "run", "busy": SATURATED if "saturated" in row["flags"].split() else ""}
        for row in measurements
        if row.get(axis) and (value := panels.value_of(metric, row)) is not None
    ]
    points = [
        *runs,
        *(_point(row, axis, lines, hue, row["value"]) | {"kind": "told"} for row in told),
    ]
    points += _ceilings(points, ceiling)
    title = metric.title
    reading = READING.format(title=title, unit=metric.unit, axis=axis) + CEILINGS * bool(ceiling)
    charts = []
    if told:
        anchor = f"chart-{words.slug(table)}"
        charts.append(panels.Chart(anchor, "", _spec(points, axis, hue, metric.unit)))
    return ChartGroup(f"{title} over {axis}", reading, charts)


def _point(row: Record, axis: str, lines: Sequence[str], hue: str, value: float) -> dict[str, Any]:
    return {
        "panel": name_of(row, lines),
        "hue": words.plain(row.get(hue, "")),
        "x": int(row[axis]),
        "value": panels.short(value),
    }


def _ceilings(points: PointList, ceiling: Mapping[str, Any]) -> PointList:
    """The machine's ceilings in each panel, for the numbers that it has."""
    if not ceiling:
        return []
    found: PointList = []
    for panel in distinct(point["panel"] for point in points):
        numbers = sorted({point["x"] for point in points if point["panel"] == panel})
        by_number = ceiling["loopback_mib_s"]
        known = [number for number in numbers if str(number) in by_number]
        both = {
            "loopback": {number: by_number[str(number)] for number in known},
            "memory": dict.fromkeys(numbers, ceiling["memory_mib_s"]),
        }
        found += [
            {"panel": panel, "what": what, "x": x, "value": panels.short(value), "kind": "ceiling"}
            for what, values in both.items()
            for x, value in values.items()
        ]
    return found


def _spec(points: PointList, axis: str, hue: str, unit: str) -> dict[str, Any]:
    import altair as alt

    numbers = sorted({point["x"] for point in points})
    of_hue = panels.hue_of(points, hue)
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("x:Q", title=axis, scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=numbers))
    y = alt.Y("value:Q", title=unit, scale=scale)
    about = [alt.Tooltip("x:Q", title=axis), alt.Tooltip("value:Q", title=unit)]
    shape = alt.Shape(
        "busy:N", scale=alt.Scale(domain=["", SATURATED], range=["circle", "cross"]), legend=None
    )
    told = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=of_hue)
    run = alt.Chart().mark_point(size=36, filled=True, opacity=0.6)
    run = run.encode(x=x, y=y, color=of_hue, shape=shape, tooltip=[*about, "hue:N", "busy:N"])
    most = alt.Chart().mark_line(color=panels.GREY, strokeDash=[4, 3])
    most = most.encode(x=x, y=y, detail="what:N", tooltip=["what:N", *about])
    layers = [
        layer.transform_filter(f"datum.kind === '{kind}'")
        for layer, kind in ((most, "ceiling"), (told, "told"), (run, "run"))
    ]
    return panels.faceted(alt.layer(*layers), points, 260, independent=False)
