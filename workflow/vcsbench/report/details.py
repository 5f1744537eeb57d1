"""What stands behind each measured number: its runs, its interval in words, where the time went, what was
counted, its certificate. The page unpacks it when a number is chosen."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from vcsbench import words
from vcsbench.metrics import Metric, metric_in, metric_of, names
from vcsbench.plan.grid import originals
from vcsbench.report.certificates import certificate
from vcsbench.report.grids import Point
from vcsbench.report.odd import rounds_of, typical
from vcsbench.report.readings import has_interval, sides
from vcsbench.report.records import Record, grouped_by, values_of
from vcsbench.report.results import Results
from vcsbench.report.sections import TableSection
from vcsbench.statistics.contract import TOO_NOISY, is_exact

# Of a number whose interval tells it from 1, and whose call does not.
ALONE = (
    "The interval is that of this number by itself; a call is corrected for all comparisons of its table, "
    "of which some are far out by chance."
)


def short(value: float | None) -> float | None:
    """Return a number with four significant digits, which is enough for a picture; None for no number."""
    return float(f"{value:.4g}") if words.is_number(value) else None


def value_of(metric: Metric, run: Record) -> float | None:
    """Return the metric of a run; None where it was not measured."""
    if not all(words.is_number(run.get(name)) for name in metric.needs):
        return None
    try:
        value = metric.value({name: part(run) for name, part in metric.parts.items()})
    except ZeroDivisionError:
        return None
    return float(value) if words.is_number(value) else None


def details(results: Results, sections: Sequence[TableSection]) -> dict[str, Any]:
    """All that the page tells of a number that is chosen; `own` is the user's repository, if it is of one.

    `runs` has a list per column (round, flags, and each metric that a table is of), in which `cells` gives
    each cell's first run and how many it has; `tables` by anchor the numbers by the values of their axes.
    """
    rows = originals(results.measurements)
    found = grouped_by(rows, lambda row: row["cell"])
    runs = [run for of_cell in found.values() for run in of_cell]
    shown = {section.name: metric_in(results.study.tables[section.name]) for section in sections}
    metrics = {metric.name: metric for metric in shown.values()}
    counted = [m for m in map(metric_of, names()) if m.exact and any(value_of(m, r) for r in runs)]
    cells, start = {}, 0
    for cell, of_cell in found.items():
        cells[cell] = _cell(of_cell, counted) | {"runs": [start, len(of_cell)]}
        start += len(of_cell)
    return {
        "study": results.study.name,
        "own": results.own,
        "commands": {"explain": "show", "measure": "measure"},
        "counted": [[metric.title, metric.unit] for metric in counted],
        "cells": cells,
        "runs": {
            "round": [int(run["round"]) for run in runs],
            "flags": [run["flags"] for run in runs],
            **{name: [short(value_of(m, run)) for run in runs] for name, m in metrics.items()},
        },
        "tables": {
            section.anchor: _table(section, results.study.tables[section.name])
            for section in sections
        },
    }


def packed(content: Mapping[str, Any]) -> str:
    """As JSON, packed by gzip, in base64: the same content gives the same text."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _cell(runs: Sequence[Record], counted: Sequence[Metric]) -> dict[str, Any]:
    timed = [run for run in runs if words.is_number(run["elapsed_s"])]
    spent = typical(rounds_of(timed)) if timed else None
    return {
        "rounds": len({run["round"] for run in runs}),
        "spent": [
            short(seconds)
            for seconds in (spent.elapsed_s, spent.client_s, spent.server_s, spent.waiting_s)
        ]
        if spent
        else [],
        "counted": [_counted(metric, runs) for metric in counted],
        "evidence": certificate(runs),
    }


def _counted(metric: Metric, runs: Sequence[Record]) -> float | None:
    values = [value for run in runs if (value := value_of(metric, run)) is not None]
    return short(median(values)) if values else None


def _table(section: TableSection, definition: Mapping[str, Any]) -> dict[str, Any]:
    metric = metric_in(definition)
    numbers: dict[str, Any] = {}
    for pair in section.pairs:
        beside = {
            tuple(point.keys.items()): point.text
            for point in (pair.published.points if pair.published else [])
            if point.kind == "published"
        }
        for point in pair.measured.points if pair.measured else []:
            # Where runs of a cell are told apart, what is known of all of them is not that number's.
            if point.row is not None and point.cells and not definition.get("by"):
                numbers["/".join(map(str, values_of(point.keys, section.axes)))] = {
                    "cells": point.cells,
                    "text": point.text,
                    "sentences": said_of(point, definition),
                    "published": beside.get(tuple(point.keys.items()), ""),
                }
    return {
        "name": section.name,
        "metric": metric.name,
        "title": metric.title,
        "unit": metric.unit,
        "compares": section.compares,
        "baseline": section.baseline,
        "numbers": numbers,
    }


def said_of(point: Point, definition: Mapping[str, Any]) -> list[str]:
    """A measured number in sentences: the ratio with its interval and the call, or how it is reduced."""
    row, metric = point.row, metric_in(definition)
    assert row is not None
    rounds = words.count_of(int(row["n"] or 0), "round")
    if not definition.get("compare"):
        reduced = definition.get("reduce", "median")
        return [f"{words.with_unit(row['value'], metric.unit)}, the {reduced} over {rounds}."]
    baseline, _ = sides(definition)
    quotient = f"{metric.quantity} {baseline} ÷ {metric.quantity} {row['candidate']}"
    if not has_interval(row):
        return [f"{quotient}: {point.text} %, over {rounds}; too few for an interval."]
    if is_exact(row):
        said = [
            f"{quotient} = {words.significant(row['ratio'])}, exact: all {rounds} count the same."
        ]
    else:
        low, high = words.significant(row["low"]), words.significant(row["high"])
        ratio = words.significant(row["ratio"])
        said = [f"{quotient} = {ratio} (95 % interval {low} to {high}), over {rounds}."]
    if row.get("call"):
        said.append(_called(row, metric))
        if row["call"] == TOO_NOISY and not row["low"] <= 1 <= row["high"]:
            said.append(ALONE)
    if words.is_number(row.get("detectable")) and not is_exact(row):
        said.append(f"A factor of {words.significant(row['detectable'])} could have been told.")
    return said


def _called(row: Record, metric: Metric) -> str:
    call = row["call"]
    if call in metric.calls:
        return f"{row['candidate']} {metric.words.verb}{call}."
    return f"Called: {call}."
