"""What the charts share: panels side by side, their colours, and the points' order and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.metrics import Metric
from vcsbench.report.grids import Layout
from vcsbench.report.records import Record, distinct, values_of

PointList = list[dict[str, Any]]

# Before the page fits the panels into the room that it has.
PANEL_WIDTH = 250
# Above so many points a chart shows medians and ranges instead: it stays quick to open.
MANY_POINTS = 3000
# Hues that hold on white and on black, in print and for the colour-blind. The first two are the
# grids' colours of baseline and candidate, which come in this order.
HUES = ("#d9730d", "#2f7fc4", "#8a63b8", "#3a9a78", "#b8527a", "#8a8a2f")
GREY = "#8b8f94"


@dataclass(frozen=True)
class Chart:
    """A chart: an anchor, a title and its specification."""

    anchor: str
    title: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class ChartGroup:
    """Charts of one kind under a heading, with a sentence on how to read them."""

    title: str
    reading: str
    charts: list[Chart]


def faceted(layer: Any, points: PointList, height: int, independent: bool) -> dict[str, Any]:
    """The layer once for each panel that its points name, as one Vega-Lite specification."""
    import altair as alt

    layer = layer.properties(width=PANEL_WIDTH, height=height)
    chart = layer.facet(
        facet=alt.Facet("panel:N", sort=distinct(point["panel"] for point in points), title=None),
        columns=3,
        data=alt.NamedData(name="points"),
    )
    if independent:
        chart = chart.resolve_scale(x="independent")
    # Each part was checked when it was made.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["data"] = {"values": points}  # only now: altair copies and checks all that it is given
    spec.pop("$schema", None)  # the bundled Vega-Lite is the one that it was written for
    spec.pop("config", None)  # the page has one for all charts
    return spec


def hue_of(points: PointList, title: str) -> Any:
    """The colour of points by their `hue`, in the order in which its values come."""
    import altair as alt

    hues = distinct(point["hue"] for point in points if "hue" in point)
    scale = alt.Scale(domain=hues, range=list(HUES[: len(hues)]))
    legend = alt.Legend(orient="top") if len(hues) > 1 else None
    return alt.Color("hue:N", sort=hues, title=title, scale=scale, legend=legend)


def lines_of(points: PointList, hue: str) -> tuple[int, int, dict[str, Any]]:
    """How many lines points are on and how many hues they have, and where that puts them: lines below one
    another, and in each the hues; `hue` is the colours' title."""
    import altair as alt

    lines, hues = (distinct(point[key] for point in points) for key in ("line", "hue"))
    put = {
        "y": alt.Y("line:N", sort=lines, title=None),
        "yOffset": alt.YOffset("hue:N", sort=hues),
        "color": hue_of(points, hue),
    }
    return len(lines), len(hues), put


def told_apart(
    rows: Iterable[Record], **axes: Sequence[str]
) -> dict[str, dict[str, dict[str, str]]]:
    """For each field of a chart's points (`panel`, `line`, `hue`) what its texts stand for: the values of
    the axes that it is made of. The page filters the points by it."""
    found: dict[str, dict[str, dict[str, str]]] = {field: {} for field in axes}
    for row in rows:
        for field, names in axes.items():
            keys = {name: words.plain(row.get(name, "")) for name in names if name}
            found[field].setdefault(" ".join(filter(None, keys.values())), keys)
    return found


def charts_of(
    table: str,
    rows: Iterable[Record],
    layout: Layout,
    spec_of: Callable[[list[Record]], dict[str, Any]],
) -> list[Chart]:
    """A chart per remaining axis value of a table, drawn of its rows in the layout's order."""
    axes = (*layout.columns, *layout.rows)
    rank = layout.sort_key(axes)
    charts = []
    for name, values, found in layout.sheets(rows, lambda row: row):
        ordered = sorted(found, key=lambda row: rank(values_of(row, axes)))
        spec = spec_of(ordered)
        spec.setdefault("usermeta", {})["all"] = dict(zip(layout.rest, values, strict=True))
        charts.append(Chart(f"chart-{words.slug(f'{table} {name}')}", name, spec))
    return charts


def value_of(metric: Metric, row: Record) -> float | None:
    """A metric of one run; None where it was not measured."""
    if not all(words.is_number(row.get(column)) for column in metric.needs):
        return None
    try:
        value = metric.value({name: part(row) for name, part in metric.parts.items()})
    except ZeroDivisionError:  # a time may be rounded to 0
        return None
    return float(value) if words.is_number(value) else None


def short(value: float | None) -> float | None:
    """Four significant digits: a chart shows no more, and the page stays small. None for no number."""
    return float(f"{value:.4g}") if words.is_number(value) else None


def reference() -> Any:
    """A dashed line of what values are compared with, where it is put."""
    import altair as alt

    return alt.Chart().mark_rule(color=GREY, strokeDash=[2, 2])
