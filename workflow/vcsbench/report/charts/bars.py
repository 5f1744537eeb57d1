"""Bars: where the time of each cell went, and what an exact metric counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vcsbench import words
from vcsbench.metrics import Metric
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.odd import rounds_of, typical
from vcsbench.report.records import Record, grouped_by, name_of, values_of, varying

SPENT = "Where the time goes"
SPENT_READING = """Seconds of a run, the medians of the rounds: what client and server computed,
and the rest, which is waiting for the device, the network and each other. Where both computed at once for
longer than they waited, nothing is left, and the bar is longer than the elapsed time. Each panel has its own
scale."""
EXACT_READING = (
    "The numbers of the table, which are counts, in {}; each panel has its own scale, from 0."
)
PARTS = {"client CPU": panels.HUES[1], "server CPU": panels.HUES[0], "waiting": "#b9bec4"}


def spent_charts(
    table: str, measurements: Iterable[Record], layout: Layout, by: Sequence[str] = ()
) -> ChartGroup:
    """A chart per remaining axis value: a bar for each cell of which the client's time is known, of the
    runs that are given; `by` are columns by which the table tells the runs of a cell apart."""
    timed = [
        {**row, **{name: words.plain(row[name]) for name in by}}
        for row in measurements
        if words.is_number(row["elapsed_s"])
    ]
    found = []
    for rows in grouped_by(timed, lambda row: values_of(row, ["cell", *by])).values():
        spent = typical(rounds_of(rows))
        if spent.client_s is not None and spent.waiting_s is not None:
            parts = (spent.client_s, spent.server_s or 0.0, max(0.0, spent.waiting_s))
            found += [
                {**rows[0], "part": part, "value": seconds}
                for part, seconds in zip(PARTS, parts, strict=True)
            ]
    charts = panels.charts_of(
        f"{table} spent", found, layout, lambda rows: _spec(rows, layout, "s")
    )
    return ChartGroup(SPENT, SPENT_READING, charts)


def exact_charts(table: str, metric: Metric, rows: Iterable[Record], layout: Layout) -> ChartGroup:
    """A chart per remaining axis value of a table of an exact metric: a bar for each of its numbers."""
    found = [{**row, "part": metric.title} for row in rows if words.is_number(row["value"])]
    charts = panels.charts_of(table, found, layout, lambda rows: _spec(rows, layout, metric.unit))
    return ChartGroup(metric.title, EXACT_READING.format(metric.unit), charts)


def _spec(rows: Sequence[Record], layout: Layout, unit: str) -> dict[str, Any]:
    import altair as alt

    lines = varying(rows, layout.rows)
    points: PointList = [
        {
            "panel": name_of(row, layout.columns),
            "line": name_of(row, lines) or "all",
            "part": row["part"],
            "value": panels.short(row["value"]),
            "order": list(PARTS).index(row["part"]) if row["part"] in PARTS else 0,
        }
        for row in rows
    ]
    names = list(dict.fromkeys(point["line"] for point in points))
    parts = {point["part"]: PARTS.get(point["part"], panels.HUES[1]) for point in points}
    hues = alt.Scale(domain=list(parts), range=list(parts.values()))
    legend = alt.Legend(orient="top") if len(parts) > 1 else None
    # Thousands and millions of what is counted are k and M; a thousandth of a second is no `m`.
    axis = alt.Axis(tickCount=4) if unit == "s" else alt.Axis(tickCount=4, format="~s")
    bar = alt.Chart().mark_bar(height={"band": 0.7})
    bar = bar.encode(
        x=alt.X("value:Q", title=None, stack="zero", axis=axis),
        y=alt.Y("line:N", sort=names, title=None),
        color=alt.Color("part:N", title=None, scale=hues, sort=list(parts), legend=legend),
        order=alt.Order("order:Q"),
        tooltip=[
            alt.Tooltip("line:N", title="cell"),
            "part:N",
            alt.Tooltip("value:Q", title=unit),
        ],
    )
    spec = panels.faceted(bar, points, max(40, 17 * len(names)), independent=True)
    apart = panels.told_apart(rows, panel=layout.columns, line=lines)
    if not lines:
        apart["line"] = {"all": {}}
    return {**spec, "usermeta": apart}
