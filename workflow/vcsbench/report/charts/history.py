"""The history of a study: each cell's elapsed time over the saved baselines and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import Chart, ChartGroup, PointList
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, distinct, name_of, values_of, varying

ANCHOR = "chart-history"
READING = """Elapsed time (s, geometric mean over the rounds, and its 95 % interval) of each cell at each
saved baseline, in the order of their dates, and now. A triangle is a cell that is told to be faster (blue,
upwards) or slower (orange, downwards) than the time before on the same machine, by the rule of every table; a
dot is one that is not. A line ends where its cell became another one: on another machine, of another command,
repository or work."""
FASTER, SLOWER = "faster", "slower"
# What is told of a point, and how that looks.
SHAPES = {FASTER: "triangle-up", SLOWER: "triangle-down"}


def history_charts(
    history: Mapping[str, Any], order: Mapping[str, Sequence[str]], block: Sequence[str]
) -> ChartGroup:
    """A chart of a study's history (compare.history) with a panel per block, the cells that agree on the axes
    `block`; none where there are fewer than two points in time."""
    rows = history.get("points", [])
    if not rows:
        return ChartGroup("History", READING, [])
    rank = Layout((), tuple(order), (), order).sort_key(list(order))
    rows = sorted(rows, key=lambda row: rank(values_of(row, list(order))))
    told = varying(rows, [axis for axis in order if axis not in block])
    points = [_point(row, block, told) for row in rows]
    names = [time["name"] for time in history["times"]]
    return ChartGroup("History", READING, [Chart(ANCHOR, "", _spec(points, names))])


def _point(row: Record, block: Sequence[str], told: Sequence[str]) -> dict[str, Any]:
    cell, call = name_of(row, told) or "the cell", row["call"]
    return {
        "panel": name_of(row, block) or "all cells",
        "cell": cell,
        "detail": f"{cell} {row['host']} {row['line']}",
        "time": row["time"],
        "host": row["host"],
        **{name: panels.short(row[name]) for name in ("value", "low", "high")},
        "call": call if call in SHAPES else "",
        "said": _said(row),
    }


def _said(row: Record) -> str:
    """The call with its ratio, for who points at it."""
    found = row["ratio"]
    if not found:
        return "not compared"
    ratio, low, high = (
        words.significant(found[name]) if words.is_number(found[name]) else "?"
        for name in ("ratio", "low", "high")
    )
    return f"{row['call']}: before / then {ratio} ({low} to {high})"


def _spec(points: PointList, names: Sequence[str]) -> dict[str, Any]:
    import altair as alt

    unit = metric_of(DEFAULT).unit
    x = alt.X("time:N", sort=list(names), title=None, axis=alt.Axis(labelAngle=-30))
    scale = alt.Scale(type="log", nice=False, padding=8)
    title: dict[str, Any] = {"title": unit, "scale": scale}
    shared: dict[str, Any] = {"x": x, "detail": "detail:N"}
    line = alt.Chart().mark_line(color=panels.GREY, strokeWidth=1.2)
    line = line.encode(y=alt.Y("value:Q", **title), **shared)
    interval = alt.Chart().mark_rule(color=panels.GREY, opacity=0.5)
    interval = interval.encode(y=alt.Y("low:Q", **title), y2="high:Q", **shared)
    about = ["cell:N", "time:N", "host:N"]
    numbers = [alt.Tooltip(f"{n}:Q", title=f"{n} ({unit})") for n in ("value", "low", "high")]
    encoded = shared | {"y": alt.Y("value:Q", **title), "tooltip": [*about, *numbers, "said:N"]}
    dot = alt.Chart().mark_circle(size=20, opacity=1, color=panels.GREY).encode(**encoded)
    called = alt.Chart().mark_point(filled=True, size=70, opacity=1)
    called = called.encode(**encoded, **_of_call())
    layer = alt.layer(
        interval.transform_filter("isValid(datum.low)"),
        line,
        dot,
        called.transform_filter("datum.call !== ''"),
    )
    spec = panels.faceted(layer, points, 160, independent=False)
    # Cold and hot are far apart, and what is looked for is small beside that.
    spec["resolve"] = {"scale": {"y": "independent"}}
    return spec


def _of_call() -> dict[str, Any]:
    """The colour and the shape of what is told."""
    import altair as alt

    hues, shapes = [panels.HUES[1], panels.HUES[0]], list(SHAPES.values())
    return {
        "color": alt.Color("call:N", legend=None, scale=alt.Scale(domain=[*SHAPES], range=hues)),
        "shape": alt.Shape("call:N", legend=None, scale=alt.Scale(domain=[*SHAPES], range=shapes)),
    }


def history_rows(history: Mapping[str, Any]) -> list[dict[str, str]]:
    """The points in time as rows of text: name, when, host, vcsbench, before, calls, changed. None where
    there are fewer than two."""
    times = history.get("times", [])
    return [_row(time) for time in times] if len(times) > 1 else []


def _row(time: Mapping[str, Any]) -> dict[str, str]:
    first, last = (words.moment(time[name]) for name in ("first", "last"))
    calls = ", ".join(f"{number} {call}" for call, number in time["calls"].items() if number)
    changed = "; ".join(time["changed"]) or ("nothing that is known" if time["before"] else "")
    return {
        "name": time["name"],
        "when": words.period(first, last) if first and last else "",
        "host": words.enumeration(distinct(time["hosts"])),
        "vcsbench": time["vcsbench"],
        "before": time["before"],
        "calls": calls or ("none that can be compared" if time["before"] else ""),
        "changed": changed,
    }
