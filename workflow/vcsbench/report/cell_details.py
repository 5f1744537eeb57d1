"""The details behind each number of a page, for its script (workflow/report/script/detail.js).

A reader clicks a number, and a dialog shows the cells that it compares, their runs, and commands to measure
them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import geometric_mean, mean, median
from typing import TypedDict

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import METRICS, Metric, metric_in
from vcsbench.plan.grid import originals
from vcsbench.report.quality_section import explain_flag
from vcsbench.report.results import Results, Rows, grouped_by, name_cells, unique_values
from vcsbench.report.table_sections import TableSection

SIGNIFICANT_DIGITS = 4


class CellDetails(TypedDict):
    """The facts of a cell in the dialog."""

    words: str  # its label
    spent: Sequence[float | None]  # summarise_times
    counted: Sequence[float | None]  # the median of each count, over valid runs
    evidence: Sequence[str]  # sentences
    rounds: int  # the number of its rounds
    runs: tuple[int, int]  # the place of its runs among the runs of all cells (_describe_cells)


def collect_details(results: Results, sections: Sequence[TableSection]) -> dict[str, Row]:
    """Return the details behind all numbers for JSON, for the dialog that a click on a number opens.

    - `of`: the values of the variables REPO, TREE, LOG, STUDY and ARGS. All commands that the dialog prints
      have them, such as `make show CELL=... STUDY=builds`.
    - `counted`: the unit of each count, by its title: `{"Read by system calls": "MiB"}`.
    - `cells`: CellDetails by the path of the cell.
    - `runs`: the values of all runs in each column: `{"round": [1, 1, 2], "flags": [...], ...}`.
    - `tables`: the facts of each table by its anchor in the page.
    """
    runs_by_cell = grouped_by(originals(results.measurements), lambda run: run["cell"])
    # The runs of a cell are neighbours: CellDetails.runs has the index of the first and their number.
    runs = [run for members in runs_by_cell.values() for run in members]
    # A count that is 0 or unknown in all valid runs is left out.
    counts = []
    for metric in METRICS.values():
        if metric.exact and any(_value_in_run(metric, run) for run in results.valid_runs):
            counts.append(metric)
    # The metrics of the tables are added below.
    columns: dict[str, list[object]] = {
        "round": [int(run["round"]) for run in runs],
        "flags": [run["flags"] for run in runs],
    }
    tables: dict[str, Row] = {}
    for section in sections:
        metric = metric_in(results.study.tables[section.name])
        # Tables with the same metric share a column.
        columns[metric.name] = [_shorten(_value_in_run(metric, run)) for run in runs]
        tables[section.anchor] = {
            "name": section.title,
            "metric": metric.name,
            "title": metric.title,
            "unit": metric.unit,
            # The unit of published numbers: a study printed 22 % where the ratio of two times is 1.22.
            "printed": "%" if section.compares else metric.unit,
            # The compared axis, and the value with which the others are compared: `format` and `f6`. Both
            # are "" in a table that compares nothing.
            "compared": section.compared,
            "baseline": section.baseline,
        }
    command = results.command
    return {
        "of": {
            "own": results.own_repository,
            "tree": command.tree,
            "log": command.server_log,
            "study": results.study.name,
            "args": command.arguments,
        },
        "counted": {metric.title: metric.unit for metric in counts},
        "cells": _describe_cells(results, runs_by_cell, counts),
        "runs": columns,
        "tables": tables,
    }


def _describe_cells(
    results: Results, runs_by_cell: Mapping[str, Rows], counts: Sequence[Metric]
) -> dict[str, CellDetails]:
    """Return the facts of each cell by its path: label, times, counts, evidence, and the place of its runs.

    `runs_by_cell` also has invalid runs. The page lists all runs in the same order.
    """
    labels = name_cells(results)
    cells = {}
    first_run = 0
    for cell, runs in runs_by_cell.items():
        valid = [run for run in runs if not is_invalid(run["flags"])]
        # A count is the median of the medians of rounds, as in the tables.
        rounds = grouped_by(valid, lambda run: run["round"]).values()
        medians = [_median_of_rounds(metric, rounds) for metric in counts]
        cells[cell] = CellDetails(
            # `cold log over http (ruby, f6)`, or the path of a cell that the grid lacks.
            words=labels.get(cell, cell),
            spent=[_shorten(value) for value in summarise_times(runs)],
            counted=[_shorten(value) for value in medians],
            evidence=describe_evidence(runs, results.thresholds),
            rounds=len({run["round"] for run in runs}),
            # The index of its first run among the runs of all cells, and the number of its runs.
            runs=(first_run, len(runs)),
        )
        first_run += len(runs)
    return cells


def _median_of_rounds(metric: Metric, rounds: Iterable[Rows]) -> float | None:
    """Return the median of the rounds' medians of a metric, None if no run has a value."""
    medians = []
    for runs in rounds:
        values = [_value_in_run(metric, run) for run in runs]
        medians.append(_median_of_known(values))
    return _median_of_known(medians)


def _value_in_run(metric: Metric, run: Row) -> float | None:
    """Return the value of a metric in a run, None without a needed column, or for a division by 0."""
    if not all(words.is_number(run.get(name)) for name in metric.needs):
        return None
    parts = {name: compute(run) for name, compute in metric.parts.items()}
    try:
        value = metric.value(parts)
    except ZeroDivisionError:
        return None
    return float(value) if words.is_number(value) else None


def _median_of_known(values: Iterable[float | None]) -> float | None:
    """Return the median without unknown values (None), None if no value is known."""
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def _shorten(value: float | None) -> float | None:
    """Return a value with four digits: the page prints three, and the text of all runs is short."""
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def describe_evidence(runs: Rows, thresholds: Row) -> list[str]:
    """Return sentences on the evidence of a cell's runs: caches, reads, server, and flags.

    Example: `clock, 2 runs: hyperfine reported another time ...`. Evidence that no run has is left out.
    """
    sentences = _describe_caches(runs)
    read_bytes = _read_numbers(runs, "device_bytes")
    if read_bytes:
        amount = _format_range(read_bytes, words.size)
        sentences.append(f"Client and server read {amount} from devices in a run.")
    sentences += _describe_server(runs)
    flags = [flag for run in runs for flag in run["flags"].split()]
    for flag in unique_values(flags):
        number = words.count_of(flags.count(flag), "run")
        sentences.append(f"{flag}, {number}: {explain_flag(flag, thresholds)}")
    return sentences


def _describe_caches(runs: Rows) -> list[str]:
    """Return sentences on the clearing of caches, and on the share of the cell's files in memory.

    Example: `Share of its files in memory: 0 % before a run, 31 % to 33 % after a run.`
    """
    # The method, such as drop-caches; "" for a run without clearing.
    ways = unique_values(run.get("cache_cleared_by", "") for run in runs)
    clearing = words.enumeration([way for way in ways if way])
    if clearing:
        sentences = [f"The caches were cleared before a run, by {clearing}."]
    else:
        sentences = ["No cache was cleared before a run."]
    texts = []
    for moment in ("before", "after"):
        # The columns resident_before and resident_after have shares from 0 to 1.
        shares = _read_numbers(runs, f"resident_{moment}")
        if shares:
            range_text = _format_range(shares, _format_share)
            texts.append(f"{range_text} {moment} a run")
    if texts:
        sentences.append(f"Share of its files in memory: {', '.join(texts)}.")
    return sentences


def _format_share(share: float) -> str:
    return f"{words.significant(100 * share, 2)} %"


def _describe_server(runs: Rows) -> list[str]:
    """Return sentences on the age of the server, and on delayed acknowledgements of TCP; [] without a server.

    Example: `The server was 1.20 to 3.40 s old when a run began; after each run it was the same process.`
    """
    ages_s = _read_numbers(runs, "server_age_s")
    if not ages_s:
        return []
    sentence = f"The server was {_format_range(ages_s, words.significant)} s old when a run began"
    # The column has texts, as Python writes a boolean.
    if all(run.get("server_same") == "True" for run in runs):
        sentence += "; after each run it was the same process"
    sentences = [f"{sentence}."]
    delayed_runs = [number for number in _read_numbers(runs, "delayed_acks") if number > 0]
    if delayed_runs:
        share = f"{len(delayed_runs)} of {words.count_of(len(runs), 'run')}"
        sentences.append(f"In {share} TCP delayed an acknowledgement by 40 ms.")
    return sentences


def _read_numbers(runs: Rows, column: str) -> list[float]:
    """Return the known numbers of a column, which the measurements may lack."""
    values = [run.get(column) for run in runs]
    return [value for value in values if value is not None]


def _format_range(numbers: Sequence[float], write: Callable[[float], str]) -> str:
    """Return `31 % to 33 %`, or one number if both ends have the same text."""
    low, high = write(min(numbers)), write(max(numbers))
    return low if low == high else f"{low} to {high}"


def summarise_times(runs: Rows) -> list[float | None]:
    """Return four times of a cell's valid runs in seconds: `[1.24, 0.81, 0.3, 0.13]`; [] without a valid run.

    The page's script reads them by their positions. An unknown time is None:

    - the elapsed time, as in tables: the geometric mean over the rounds,
    - the CPU time of the client, and that of the server: medians of the means of rounds,
    - the waiting: the elapsed time without both CPU times. It can be below 0 if both sides computed at once.
    """
    # A geometric mean needs numbers above 0.
    timed = [run for run in runs if words.is_number(run["elapsed_s"]) and run["elapsed_s"] > 0]
    valid = [run for run in timed if not is_invalid(run["flags"])]
    if not valid:
        return []
    # Each round has one mean, so a round has its full weight even if some of its runs are invalid.
    rounds = grouped_by(valid, lambda run: run["round"]).values()
    means = [geometric_mean(_read_numbers(members, "elapsed_s")) for members in rounds]
    elapsed = geometric_mean(means)
    client = _median_of_means(_sum_client_cpu(members) for members in rounds)
    server = _median_of_means(_read_numbers(members, "server_cpu_s") for members in rounds)
    waiting = None
    if client is not None:
        # A local command has no server, so the server's time is None.
        waiting = elapsed - client - (server or 0.0)
    return [elapsed, client, server, waiting]


def _median_of_means(seconds_of_rounds: Iterable[Sequence[float]]) -> float | None:
    return _median_of_known(mean(seconds) if seconds else None for seconds in seconds_of_rounds)


def _sum_client_cpu(runs: Rows) -> list[float]:
    """Return the CPU seconds of the client, user and system, in each run where both are known."""
    # The known times of each run, none to two: [0.5, 0.3].
    parts = [_read_numbers([run], "user_s") + _read_numbers([run], "system_s") for run in runs]
    return [sum(seconds) for seconds in parts if len(seconds) == 2]
