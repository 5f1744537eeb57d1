"""Drift: how the blocks' elapsed times move from round to round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench.evidence import flags
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import Chart, ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, distinct, grouped_by, name_of, values_of, varying

READING = """Per cent above or below each cell's own median: the line is a block's geometric mean over its
cells in a round, a grey point a run. A slow fall over the rounds is what caches below this system do: they
keep what earlier rounds read, and cannot be emptied from here. What the cells of a block share in a round
cancels in the comparisons, which are paired by round."""


def drift_charts(
    measurements: Sequence[Record],
    order: Mapping[str, Sequence[str]],
    block: Sequence[str],
    lines: Sequence[str],
) -> ChartGroup:
    """How times move from round to round, relative to each cell's median: in panels a line per block, the
    cells that agree on the axes `block`, and machine. Of these axes `lines` tell the lines of a panel apart.

    Runs with a false label are left out; there is no chart with fewer than two rounds.
    """
    metric = metric_of(DEFAULT)
    usable = [
        {**row, "value": value}
        for row in measurements
        if not flags.has_false_label(row.get("flags") or "")
        and (value := panels.value_of(metric, row))
    ]
    charts = []
    if varying(usable, ["round"]):
        rank = Layout((), tuple(block), (), order).sort_key(block)
        usable.sort(key=lambda row: rank(values_of(row, block)))
        panel_axes = [axis for axis in block if axis not in lines]
        runs = _relative(usable, panel_axes, varying(usable, [*lines, "host"]))
        charts = [Chart("chart-drift", "", _drift_spec(_run_points(runs), _block_points(runs)))]
    return ChartGroup("Drift over the rounds", READING, charts)


def _relative(
    rows: Sequence[Record], panel_axes: Sequence[str], several: Sequence[str]
) -> PointList:
    """Each run against the median of its cell, of each machine by itself."""
    cells = grouped_by(rows, lambda row: (row["cell"], row.get("host", "")))
    return [
        {
            "panel": name_of(row, panel_axes) or "all cells",
            "line": name_of(row, several),
            "round": row["round"],
            "log": math.log(row["value"] / middle),
            "cell": row["cell"],
            "started": row.get("started_at") or "",
        }
        for of_cell in cells.values()
        for middle in [statistics.median(row["value"] for row in of_cell)]
        for row in of_cell
    ]


def _run_points(runs: PointList) -> PointList:
    if len(runs) > panels.MANY_POINTS:
        return []
    kept = ("panel", "round", "cell", "started")
    return [{**{key: run[key] for key in kept}, "pct": _percent(run["log"])} for run in runs]


def _block_points(runs: PointList) -> PointList:
    """A point per block and round, with when its first cell began."""
    groups = grouped_by(runs, lambda run: (run["panel"], run["line"], run["round"]))
    return [
        {
            "panel": panel,
            "line": line,
            "block": f"{panel} {line}".strip(),
            "round": number,
            "drift": _percent(statistics.fmean(run["log"] for run in of_block)),
            "cells": len({run["cell"] for run in of_block}),
            "started": min(run["started"] for run in of_block),
        }
        for (panel, line, number), of_block in groups.items()
    ]


def _percent(log: float) -> float:
    return round(100 * math.expm1(log), 1)


def _drift_spec(runs: PointList, blocks: PointList) -> dict[str, Any]:
    import altair as alt

    rounds = sorted({point["round"] for point in blocks})
    axis = alt.Axis(values=rounds if len(rounds) <= 12 else alt.Undefined, format="d", grid=False)
    x = alt.X("round:Q", title="round", scale=alt.Scale(nice=False, padding=8), axis=axis)
    y: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=5, format="+d")}
    dots = alt.Chart().mark_circle(size=14, opacity=0.3, color=panels.GREY)
    dots = dots.encode(
        x=x, y=alt.Y("pct:Q", **y), tooltip=["cell:N", "round:Q", "pct:Q", "started:N"]
    )
    names = distinct(point["line"] for point in blocks)
    colour: Any = alt.value(panels.HUES[1])
    if len(names) > 1:
        hues = alt.Scale(domain=names, range=list(panels.HUES))
        colour = alt.Color("line:N", title=None, scale=hues, legend=alt.Legend(orient="top"))
    about = ["block:N", "round:Q", "drift:Q", "cells:Q", "started:N"]
    line = alt.Chart().mark_line(strokeWidth=2, point={"size": 36, "filled": True})
    line = line.encode(x=x, y=alt.Y("drift:Q", **y), color=colour, tooltip=about)
    layer = alt.layer(
        panels.reference().encode(y=alt.datum(0)),
        dots.transform_filter("isValid(datum.pct)"),
        line.transform_filter("isValid(datum.drift)"),
    )
    return panels.faceted(layer, runs + blocks, 110, independent=False)
