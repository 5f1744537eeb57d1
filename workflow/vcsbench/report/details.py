"""The details behind each measured number: its runs, its time, its counts and its evidence.

The page unpacks the details when a number is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.evidence.flags import FLAGS
from vcsbench.metrics import Metric, metric_in, metric_of, names
from vcsbench.plan.grid import originals
from vcsbench.report.grids import Point, has_interval, percent
from vcsbench.report.results import Results, Rows, grouped_by, unique, values_in
from vcsbench.report.table_sections import TableSection, sides
from vcsbench.statistics.contract import TOO_NOISY, is_exact

# For a number whose interval excludes 1, and whose call is no difference.
CORRECTED = (
    "The interval is of this number alone. The call is corrected for all comparisons of its table, "
    "because some are far out by chance."
)


def value_in(metric: Metric, run: Row) -> float | None:
    """Return the metric of a run; None if it was not measured."""
    if not all(words.is_number(run.get(name)) for name in metric.needs):
        return None
    try:
        value = metric.value({name: part(run) for name, part in metric.parts.items()})
    except ZeroDivisionError:
        return None
    return float(value) if words.is_number(value) else None


def _short(value: float | None) -> float | None:
    """Return a number with four significant digits, which is enough for a picture."""
    return float(f"{value:.4g}") if words.is_number(value) else None


def details(results: Results, sections: Sequence[TableSection]) -> dict[str, Row]:
    """Return the details of all numbers, for JSON.

    `runs` has a list per column (round, flags, and each metric of a table). A cell has its first run and its
    number of runs in these lists. `tables` has by anchor the numbers by the values of their axes.
    """
    of_cells = grouped_by(originals(results.measurements), lambda row: row["cell"])
    runs = [run for rows in of_cells.values() for run in rows]
    metrics = {m.name: m for s in sections for m in [metric_in(results.study.tables[s.name])]}
    counted = [m for m in map(metric_of, names()) if m.exact and any(value_in(m, r) for r in runs)]
    cells: dict[str, Row] = {}
    start = 0
    for cell, rows in of_cells.items():
        cells[cell] = {
            "rounds": len({run["round"] for run in rows}),
            "spent": [_short(value) for value in _times(rows)],
            "counted": [_median_of(metric, rows) for metric in counted],
            "evidence": evidence_sentences(rows),
            "runs": [start, len(rows)],
        }
        start += len(rows)
    columns = {name: [_short(value_in(m, run)) for run in runs] for name, m in metrics.items()}
    flags = [run["flags"] for run in runs]
    return {
        "of": {"study": results.study.name, "own": results.own_repository},
        "counted": {metric.title: metric.unit for metric in counted},
        "cells": cells,
        "runs": {"round": [int(run["round"]) for run in runs], "flags": flags, **columns},
        "tables": {s.anchor: _table(s, results.study.tables[s.name]) for s in sections},
    }


def _median_of(metric: Metric, runs: Rows) -> float | None:
    values = [value for run in runs if (value := value_in(metric, run)) is not None]
    return _short(median(values)) if values else None


def _table(section: TableSection, definition: Row) -> Row:
    metric, numbers = metric_in(definition), {}
    for pair in section.pairs:
        published = {
            tuple(point.keys.items()): point.text
            for point in (pair.published.points if pair.published else [])
            if point.kind == "published"
        }
        for point in pair.measured.points if pair.measured else []:
            # A table with `by` has several numbers of a cell.
            if point.row is not None and point.cells and not definition.get("by"):
                numbers["/".join(map(str, values_in(point.keys, section.axes)))] = {
                    "cells": point.cells,
                    "text": point.text,
                    "sentences": number_sentences(point, definition),
                    "published": published.get(tuple(point.keys.items()), ""),
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


def number_sentences(point: Point, definition: Row) -> list[str]:
    """Return a measured number in sentences: the ratio with its interval and the call, or its reduction."""
    row, metric = point.row or {}, metric_in(definition)
    rounds = words.count_of(int(row["n"] or 0), "round")
    if not definition.get("compare"):
        reduction = definition.get("reduce", "median")
        return [f"{words.with_unit(row['value'], metric.unit)}, the {reduction} over {rounds}."]
    quotient = f"{metric.quantity} {sides(definition)[0]} ÷ {metric.quantity} {row['candidate']}"
    if not has_interval(row):
        return [f"{quotient}: {point.text} %, over {rounds}; too few for an interval."]
    ratio, low, high = (words.significant(row[name]) for name in ("ratio", "low", "high"))
    if is_exact(row):
        return [f"{quotient} = {ratio}, exact: all {rounds} count the same.", *_call(row, metric)]
    sentences = [f"{quotient} = {ratio} (95 % interval {low} to {high}), over {rounds}."]
    sentences += _call(row, metric)
    if row.get("call") == TOO_NOISY and not row["low"] <= 1 <= row["high"]:
        sentences.append(CORRECTED)
    if words.is_number(row.get("detectable")):
        sentences.append(f"The smallest detectable difference is {percent(row['detectable'])} %.")
    return sentences


def _call(row: Row, metric: Metric) -> list[str]:
    call = row.get("call")
    if call in metric.calls:
        return [f"{row['candidate']} {metric.words.verb}{call}."]
    return [f"Call: {call}."] if call else []


def evidence_sentences(runs: Rows) -> list[str]:
    """Return the evidence of a cell's runs in sentences. Runs that differ give a range."""
    ways = unique(filter(None, (run.get("cache_cleared_by") for run in runs)))
    by = f"The caches were cleared before a run, by {words.enumeration(ways)}."
    sentences = [by if ways else "No cache was cleared before a run."]
    shares = [
        f"{_between(numbers, _percentage)} {when} a run"
        for when in ("before", "after")
        if (numbers := _numbers(runs, f"resident_{when}"))
    ]
    if shares:
        sentences.append(f"Share of its files in memory: {', '.join(shares)}.")
    if read := _numbers(runs, "device_bytes"):
        sentences.append(
            f"Client and server read {_between(read, words.size)} from devices in a run."
        )
    if ages := _numbers(runs, "server_age_s"):
        same = {run.get("server_same") for run in runs} == {"True"}
        after = "; after each run it was the same process" if same else ""
        age = _between(ages, words.significant)
        sentences.append(f"The server was {age} s old when a run began{after}.")
        if late := sum(number > 0 for number in _numbers(runs, "delayed_acks")):
            of = f"In {late} of {words.count_of(len(runs), 'run')}"
            sentences.append(f"{of} TCP delayed an acknowledgement by 40 ms.")
    flags = [flag for run in runs for flag in run["flags"].split()]
    for flag in unique(flags):
        meaning = FLAGS[flag].sentence.strip() if flag in FLAGS else "Unknown flag."
        meaning = meaning.replace("`", "")
        sentences.append(f"{flag}, {words.count_of(flags.count(flag), 'run')}: {meaning}")
    return sentences


def _numbers(runs: Rows, column: str) -> list[float]:
    values = (run.get(column) for run in runs)
    return [float(value) for value in values if value not in (None, "")]


def _between(numbers: Sequence[float], written: Callable[[float], str]) -> str:
    return " to ".join(unique(map(written, (min(numbers), max(numbers)))))


def _percentage(share: float) -> str:
    return f"{words.significant(100 * share, 2)} %"


def _times(rows: Rows) -> list[float | None]:
    """Return the medians over rounds of elapsed, client, server and waiting seconds; None if unknown.

    Waiting is the time that neither client nor server computed, below 0 if both computed at once.
    """
    rounds = grouped_by((r for r in rows if words.is_number(r["elapsed_s"])), lambda r: r["round"])
    if not rounds:
        return []
    parts = []
    for runs in rounds.values():
        cpu = [_numbers([run], "user_s") + _numbers([run], "system_s") for run in runs]
        client = [sum(pair) for pair in cpu if len(pair) == 2]
        server = _numbers(runs, "server_cpu_s")
        elapsed = median(_numbers(runs, "elapsed_s"))
        parts.append((elapsed, mean(client) if client else None, mean(server) if server else None))
    known = [
        [value for value in column if value is not None] for column in zip(*parts, strict=True)
    ]
    medians = [median(column) if column else None for column in known]
    elapsed_s, client_s, server_s = medians
    waiting_s = None
    if elapsed_s is not None and client_s is not None:
        waiting_s = elapsed_s - client_s - (server_s or 0.0)
    return [*medians, waiting_s]
