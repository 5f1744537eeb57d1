"""The details behind each number of a page, for its script: runs, times, counts and evidence of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import geometric_mean, mean, median

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import Metric, metric_in, metric_of, names
from vcsbench.plan.grid import originals
from vcsbench.report.next_steps import configfiles_of, variables_of
from vcsbench.report.quality_section import flag_sentence
from vcsbench.report.results import Results, Rows, cell_names, grouped_by, unique_values
from vcsbench.report.table_sections import TableSection


def details(results: Results, sections: Sequence[TableSection]) -> dict[str, Row]:
    """Return the details of all numbers, for JSON.

    `runs` has a list per column (round, flags, and each metric of a table). A cell has its first run and
    its number of runs in these lists. `tables` are by anchor.
    """
    given = variables_of(results.provenance.get("command", ""))
    arguments, cell_words = given.get("ARGS", ""), cell_names(results)
    of_cells = grouped_by(originals(results.measurements), lambda row: row["cell"])
    runs = [run for rows in of_cells.values() for run in rows]
    of_tables = [(s, metric_in(results.study.tables[s.name])) for s in sections]
    metrics = {metric.name: metric for _, metric in of_tables}
    exact = [metric for metric in map(metric_of, names()) if metric.exact]
    counted = [metric for metric in exact if any(_value(metric, run) for run in runs)]
    cells: dict[str, Row] = {}
    start = 0
    for cell, rows in of_cells.items():
        counts = (_median([_value(metric, run) for run in rows]) for metric in counted)
        cells[cell] = {
            "words": cell_words.get(cell, cell),
            "spent": [_short(value) for value in times_of(rows)],
            "counted": [_short(value) for value in counts],
            "evidence": evidence_sentences(rows, results.thresholds),
            "rounds": len({run["round"] for run in rows}),
            "runs": [start, len(rows)],
        }
        start += len(rows)
    return {
        "of": {
            "own": results.own_repository,
            "tree": given.get("TREE", ""),
            "study": results.study.name,
            "args": arguments,
            "files": configfiles_of(arguments),
        },
        "counted": {metric.title: metric.unit for metric in counted},
        "cells": cells,
        "runs": {
            "round": [int(run["round"]) for run in runs],
            "flags": [run["flags"] for run in runs],
            **{name: [_short(_value(m, run)) for run in runs] for name, m in metrics.items()},
        },
        "tables": {
            section.anchor: {
                "name": section.title,
                "metric": metric.name,
                "title": metric.title,
                "unit": metric.unit,
                "printed": "%" if section.compares else metric.unit,
                "compared": section.compared,
                "baseline": section.baseline,
            }
            for section, metric in of_tables
        },
    }


def _value(metric: Metric, run: Row) -> float | None:
    if not all(words.is_number(run.get(name)) for name in metric.needs):
        return None
    try:
        value = metric.value({name: compute(run) for name, compute in metric.parts.items()})
    except ZeroDivisionError:
        return None
    return float(value) if words.is_number(value) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _short(value: float | None) -> float | None:
    return float(f"{value:.4g}") if words.is_number(value) else None


def evidence_sentences(runs: Rows, thresholds: Row) -> list[str]:
    ways = unique_values(filter(None, (run.get("cache_cleared_by") for run in runs)))
    by = f"The caches were cleared before a run, by {words.enumeration(ways)}."
    sentences = [by if ways else "No cache was cleared before a run."]
    shares = [
        f"{_range(numbers, lambda share: f'{words.significant(100 * share, 2)} %')} {when} a run"
        for when in ("before", "after")
        if (numbers := _column(runs, f"resident_{when}"))
    ]
    if shares:
        sentences.append(f"Share of its files in memory: {', '.join(shares)}.")
    if read := _column(runs, "device_bytes"):
        size = _range(read, words.size)
        sentences.append(f"Client and server read {size} from devices in a run.")
    if ages := _column(runs, "server_age_s"):
        same = {run.get("server_same") for run in runs} == {"True"}
        after = "; after each run it was the same process" if same else ""
        age = _range(ages, words.significant)
        sentences.append(f"The server was {age} s old when a run began{after}.")
        if late := sum(number > 0 for number in _column(runs, "delayed_acks")):
            of = f"In {late} of {words.count_of(len(runs), 'run')}"
            sentences.append(f"{of} TCP delayed an acknowledgement by 40 ms.")
    flags = [flag for run in runs for flag in run["flags"].split()]
    for flag in unique_values(flags):
        meaning = flag_sentence(flag, thresholds)
        sentences.append(f"{flag}, {words.count_of(flags.count(flag), 'run')}: {meaning}")
    return sentences


def _column(runs: Rows, column: str) -> list[float]:
    values = (run.get(column) for run in runs)
    return [float(value) for value in values if value not in (None, "")]


def _range(numbers: Sequence[float], written: Callable[[float], str]) -> str:
    return " to ".join(unique_values(map(written, (min(numbers), max(numbers)))))


def times_of(rows: Rows) -> list[float | None]:
    """Return the median of elapsed seconds over rounds, their geometric mean as in cards, and the medians
    of client, server and waiting seconds; None if unknown.

    Waiting is the time that neither client nor server computed, below 0 if both computed at once.
    """
    valid = (r for r in rows if (r["elapsed_s"] or 0) > 0 and not is_invalid(r["flags"]))
    rounds = grouped_by(valid, lambda row: row["round"]).values()
    if not rounds:
        return []
    of_rounds: list[tuple[float, float | None, float | None]] = []
    for runs in rounds:
        cpu = [_column([run], "user_s") + _column([run], "system_s") for run in runs]
        client = [sum(pair) for pair in cpu if len(pair) == 2]
        server = _column(runs, "server_cpu_s")
        elapsed = median(_column(runs, "elapsed_s"))
        of_rounds.append(
            (elapsed, mean(client) if client else None, mean(server) if server else None)
        )
    elapsed_s, client_s, server_s = map(_median, zip(*of_rounds, strict=True))
    waiting_s = None
    if elapsed_s is not None and client_s is not None:
        waiting_s = elapsed_s - client_s - (server_s or 0.0)
    mean_s = geometric_mean(geometric_mean(_column(runs, "elapsed_s")) for runs in rounds)
    return [elapsed_s, mean_s, client_s, server_s, waiting_s]
