"""A table as GitHub Markdown: a grid for each value of the axes that it does not lay out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.compare.columns import is_exact, keys_of
from vcsbench.evidence.flags import WITHHOLDING
from vcsbench.evidence.samework import by_reason
from vcsbench.metrics import metric_in
from vcsbench.report.grids import Grid, Layout, Point, layout_of, make_grids, with_numbers
from vcsbench.report.points import not_measured, numbered
from vcsbench.report.readings import (
    LEGEND,
    LEGEND_OF_CALLS,
    has_interval,
    interval,
    reading,
    reading_of_measured,
    written,
)
from vcsbench.report.records import Record, varying


def to_markdown(
    name: str,
    definition: Mapping[str, Any],
    rows: Sequence[Record],
    order: Mapping[str, Sequence[str]],
    caveats: Mapping[str, str],
) -> str:
    """The text of a table's Markdown file.

    `rows` has the columns of tables.make_table; `order` the study's axes and their values in order;
    `caveats` a sentence for each command that has one: it stands under the command's grids.
    """
    layout = layout_of(definition, order)
    points = [_point(row, definition) for row in rows]
    missing = not_measured(definition, points)
    grids = make_grids([] if missing else points, layout)
    blocks = [f"# {name}", reading(definition)]
    for grid in grids:
        blocks += _blocks(grid, definition, layout, caveats)
    blocks += _comparisons(rows, definition)
    used = {mark for grid in grids for point in grid.points for mark in point.mark}
    legend = {**LEGEND, **LEGEND_OF_CALLS}
    blocks += [f"{mark} {says}." for mark, says in legend.items() if mark in used]
    if not grids:
        blocks.append(
            f"Not measured: {missing}." if missing else "There is no number for this table."
        )
    return "\n\n".join(blocks) + "\n"


def _comparisons(rows: Sequence[Record], definition: Mapping[str, Any]) -> list[str]:
    """Each comparison that has a call: its number and interval, call, what it differs by at most, and its
    number reduced as the published ones are."""
    judged = [row for row in rows if row.get("call")]
    if not judged:
        return []
    keys = list(keys_of(judged[0]))
    lines = [
        [*keys, "measured", "95 % interval", "call", "at most", "detectable", "as published"],
        ["---"] * len(keys) + ["---:", "---:", "---", "---:", "---:", "---:"],
    ]
    for row in judged:
        ends = [
            written(row[name]) if words.is_number(row[name]) else ""
            for name in ("within", "detectable")
        ]
        if words.is_number(row["value"]):
            ends.append(words.percentage(row["value"], 1))
        between = "exact" if is_exact(row) else interval(row) if has_interval(row) else ""
        named = (str(row[key]) for key in keys)
        lines.append([*named, written(row["ratio"]), between, row["call"], *ends])
    what = f"In per cent. {reading_of_measured(definition)} "
    what += f"The call is of the candidate against {definition['compare']['baseline']}."
    return ["## Every comparison", _table(lines), what]


def _point(row: Record, definition: Mapping[str, Any]) -> Point:
    if words.is_number(row["value"]) and not row["withheld"]:
        return numbered(definition, row)
    flags = row["flags"].split()
    shown = WITHHOLDING.intersection(flags) if row["withheld"] else flags
    text = " ".join(flag for flag in flags if flag in shown)
    return Point(keys_of(row), "withheld", text=text, reason=row["withheld"])


def _blocks(
    grid: Grid, definition: Mapping[str, Any], layout: Layout, caveats: Mapping[str, str]
) -> Iterator[str]:
    """The heading of a grid, the grid, and the caveats of its commands."""
    if grid.title:
        yield f"## {grid.title}"
    if grid.constant:
        yield ", ".join(f"{axis} {value}" for axis, value in grid.constant)
    compares = definition.get("compare")
    yield _grid(grid if compares else with_numbers(grid, metric_in(definition).unit), layout)
    withheld = by_reason((point.reason, point.keys) for point in grid.points if point.reason)
    yield from (f"*Withheld: {reason} ({'; '.join(where)}).*" for reason, where in withheld.items())
    named = dict.fromkeys(value for point in grid.points for value in point.keys.values())
    yield from (f"*{caveats[command]}*" for command in named if command in caveats)


def _grid(grid: Grid, layout: Layout) -> str:
    columns = [""] * len(grid.starts)
    for level in grid.headings:
        spread = [heading.text for heading in level for _ in range(heading.span)]
        columns = [f"{above} {text}".strip() for above, text in zip(columns, spread, strict=True)]
    axes = varying([point.keys for point in grid.points], layout.rows)
    lines = [[*axes, *columns], [*["---"] * len(axes), *["---:"] * len(columns)]]
    for group in grid.groups:
        for row in group.rows:
            labels = [label.text for label in row.labels]
            above = [group.title] if len(axes) > len(labels) else []
            values = [point.text + point.mark if point else "" for point in row.points]
            lines.append([*above, *labels, *values])
    return _table(lines)


def _table(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
