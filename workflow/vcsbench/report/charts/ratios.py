"""Ratios of a table X-vs-Y with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.compare.columns import keys_of
from vcsbench.compare.decisions import is_difference
from vcsbench.metrics import metric_in
from vcsbench.report.charts import panels
from vcsbench.report.charts.panels import Chart, ChartGroup, PointList, Record
from vcsbench.report.grids import Layout
from vcsbench.report.readings import direction, sides

CALLS = {"baseline": panels.HUES[0], "candidate": panels.HUES[1], "neither": panels.GREY}


def ratio_charts(
    table: str, definition: Mapping[str, Any], rows: Sequence[Record], layout: Layout
) -> ChartGroup:
    """A chart per remaining axis value of a table X-vs-Y: each ratio with its interval."""
    charts = []
    rows = [row for row in rows if words.is_number(row["ratio"])]
    for name, sheet in panels.sheets(rows, layout):
        varying = [a for a in layout.rows if len({keys_of(row).get(a, "") for row in sheet}) > 1]
        points = [
            {
                "panel": panels.name_of(row, layout.columns),
                "line": panels.name_of(row, varying) or "all",
                "ratio": panels.short(row["ratio"]),
                "low": panels.short(row["low"]) if words.is_number(row["low"]) else None,
                "high": panels.short(row["high"]) if words.is_number(row["high"]) else None,
                "n": row["n"],
                "call": _better(row, direction(definition)),
            }
            for row in sheet
        ]
        charts.append(Chart(f"chart-{words.slug(f'{table} {name}')}", name, _ratio_spec(points)))
    return ChartGroup(f"Ratio {table}", _reading(definition), charts)


def _reading(definition: Mapping[str, Any]) -> str:
    metric, (baseline, candidates) = metric_in(definition), sides(definition)
    side = "Right" if direction(definition) > 0 else "Left"
    return (
        f"{metric.title} of {baseline} over that of {candidates}, with its 95 % interval, on a scale of "
        f"factors. {side} of 1, {candidates} is {metric.words[0]}; grey where it is not called a difference: "
        f"the interval, corrected for the number of comparisons, includes 1, it is within the noise floor, "
        f"or there are too few rounds."
    )


def _better(row: Record, direction: int) -> str:
    if not is_difference(row.get("call", "")):
        return "neither"
    return "candidate" if (row["ratio"] - 1) * direction > 0 else "baseline"


def _ratio_spec(points: PointList) -> dict[str, Any]:
    import altair as alt

    lines = panels.distinct(points, "line")
    # An interval from two rounds may span decades: the scale follows the ratios, and clips it.
    ratios = [point["ratio"] for point in points]
    domain = [min(0.8, *ratios, 1) / 1.15, max(1.25, *ratios, 1) * 1.15]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    shared = {
        "y": alt.Y("line:N", sort=lines, title=None),
        "color": alt.Color(
            "call:N", legend=None, scale=alt.Scale(domain=list(CALLS), range=list(CALLS.values()))
        ),
    }
    x: dict[str, Any] = {
        "title": None,
        "scale": scale,
        "axis": alt.Axis(values=_factors(domain), format="~g"),
    }
    equal = alt.Chart().mark_rule(strokeDash=[2, 2], color=panels.GREY).encode(x=alt.datum(1))
    interval = alt.Chart().mark_rule(clip=True, strokeWidth=1.5)
    interval = interval.encode(x=alt.X("low:Q", **x), x2="high:Q", **shared)
    about = [alt.Tooltip(f"{name}", format=".3") for name in ("ratio:Q", "low:Q", "high:Q")]
    dot = alt.Chart().mark_circle(size=42, opacity=1)
    dot = dot.encode(x=alt.X("ratio:Q", **x), tooltip=["line:N", *about, "n:Q"], **shared)
    height = max(40, len(lines) * 17)
    return panels.faceted(alt.layer(equal, interval, dot), points, height, independent=False)


def _factors(domain: Sequence[float]) -> list[float]:
    """Factors worth a tick: as few as read well over the whole of the domain."""
    wide = domain[1] / domain[0]
    if wide < 1.8:
        ticks = [0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4]
    elif wide < 3.5:
        ticks = [0.4, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 2.5, 3]
    elif wide < 15:
        ticks = [0.1, 0.2, 0.33, 0.5, 1, 2, 3, 5, 10]
    else:
        ticks = [0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 1000]
    return [tick for tick in ticks if domain[0] <= tick <= domain[1]]
