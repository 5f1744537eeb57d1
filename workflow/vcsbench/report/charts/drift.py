"""Drift: how the blocks' elapsed times move from round to round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench.evidence import flags
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import Chart, ChartGroup, PointList, Record
from vcsbench.report.grids import Layout

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
    if len({row["round"] for row in usable}) < 2:
        return ChartGroup("Drift over the rounds", READING, [])
    rank = Layout((), tuple(block), (), order).sort_key(block)
    usable.sort(key=lambda row: rank(tuple(row.get(axis, "") for axis in block)))
    panel_axes = [axis for axis in block if axis not in lines]
    several = [key for key in (*lines, "host") if len({row.get(key, "") for row in usable}) > 1]
    runs = _relative(usable, panel_axes, several)
    spec = _drift_spec(_run_points(runs), _block_points(runs))
    return ChartGroup("Drift over the rounds", READING, [Chart("chart-drift", "", spec)])


def _relative(
    rows: Sequence[Record], panel_axes: Sequence[str], several: Sequence[str]
) -> PointList:
    """Each run against the median of its cell, of each machine by itself."""
    cells: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        cells.setdefault((row["cell"], row.get("host", "")), []).append(row)
    return [
        {
            "panel": panels.name_of(row, panel_axes) or "all cells",
            "line": panels.name_of(row, several),
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
    return [
        {
            **{key: run[key] for key in ("panel", "round", "cell", "started")},
            "pct": _percent(run["log"]),
        }
        for run in runs
    ]


def _block_points(runs: PointList) -> PointList:
    """A point per block and round, with when its first cell began."""
    groups: dict[tuple[str, str, int], PointList] = {}
    for run in runs:
        groups.setdefault((run["panel"], run["line"], run["round"]), []).append(run)
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
    zero = alt.Chart().mark_rule(color=panels.GREY, strokeDash=[2, 2]).encode(y=alt.datum(0))
    dots = alt.Chart().mark_circle(size=14, opacity=0.3, color=panels.GREY)
    dots = dots.encode(
        x=x, y=alt.Y("pct:Q", **y), tooltip=["cell:N", "round:Q", "pct:Q", "started:N"]
    )
    dots = dots.transform_filter("isValid(datum.pct)")
    names = panels.distinct(blocks, "line")
    colour = (
        alt.Color(
            "line:N",
            title=None,
            scale=alt.Scale(domain=names, range=list(panels.HUES)),
            legend=alt.Legend(orient="top"),
        )
        if len(names) > 1
        else alt.value(panels.HUES[1])
    )
    line = alt.Chart().mark_line(strokeWidth=2, point={"size": 36, "filled": True})
    line = line.encode(
        x=x,
        y=alt.Y("drift:Q", **y),
        color=colour,
        tooltip=["block:N", "round:Q", "drift:Q", "cells:Q", "started:N"],
    ).transform_filter("isValid(datum.drift)")
    return panels.faceted(alt.layer(zero, dots, line), runs + blocks, 110, independent=False)
