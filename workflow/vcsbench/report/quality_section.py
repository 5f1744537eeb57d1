"""The section of a page on the quality of the data, and the details behind each number, for its script."""

import math
import re
from collections.abc import Callable, Sequence
from statistics import geometric_mean, mean, median

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, detectable_text, seconds
from vcsbench.config.models import Thresholds
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, is_invalid
from vcsbench.evidence.judgement import acknowledgement_s
from vcsbench.metrics import DEFAULT, METRICS, Metric, metric_in, name_in
from vcsbench.plan.grid import is_duplicate, originals
from vcsbench.report.answers import NEARLY_ALL
from vcsbench.report.card_rows import ROW_KEY
from vcsbench.report.results import (
    Results,
    Rows,
    cell_names,
    grouped_by,
    unique_values,
    values_in,
    values_label,
    varying,
)
from vcsbench.report.summary import configfiles_of, variables_of
from vcsbench.report.table_sections import PlainTable, TableSection
from vcsbench.statistics.comparisons import NOISY_PCT

CALLS = (
    "Intervals are 95 %. The test is of paired log ratios, with Student's t on variances pooled over cells "
    "(empirical Bayes), corrected for all comparisons of a table together (Holm): a table without true "
    "differences shows a false one in at most 5 of 100 cases. Verdicts are not corrected for the number of "
    "findings."
)
VALID = "An invalid run broke a promise, such as a cold run with files in memory. Other flagged runs count."
FIXED_HEADS = ["Case", "Start and connection", "Delayed acknowledgements", "Total", "Share"]
FIXED_COST = (
    "Start and connection: the time of the same command on an empty repository, equal for each packing. "
    "Delayed acknowledgements are those of the cell's own runs: each adds up to 40 ms, in which client and "
    "server are idle. Share: of the cell's median time. Over half, the cell is too small to compare."
)
NO_DUPLICATES = (
    "No cell has a duplicate with at least two rounds, so the systematic noise is unknown and nothing is "
    "called a difference. Set duplicates to 1 or more."
)
ERROR = "The error of every comparison includes that."


def quality_of(results: Results) -> tuple[list[PlainTable], list[str]]:
    """Return the tables of the section, and its sentences."""
    runs, axes = results.measurements, same_work.work_axes(results.study.axes)
    flags, of_nearly_all = _flag_rows(runs, results.configured("thresholds"))
    work = [*map(str.capitalize, axes), "Output", "Runs", "Runs with other output"]
    same = "Only cells with equal output are compared."
    reason = ["Reason", "Cells"]
    sizes = "Smallest detectable differences"
    detectable = ["Cells", "Comparisons", "Detectable from (median)"]
    means = f"Detectable: {ROW_KEY['detectable from']}."
    tables = [
        PlainTable("Flags", ["Flag", "Meaning", "Cells and duplicates", "Runs"], flags, 3),
        PlainTable("Failed rounds", reason, _reasons(results.failures, "reason")),
        PlainTable("Not measurable here", reason, _reasons(results.grid, "skip")),
        PlainTable("Measured again", reason, set_aside(runs)),
        PlainTable("Fixed cost", FIXED_HEADS, _fixed_cost(results), 1, FIXED_COST, True),
        PlainTable("Work of the commands", work, work_done(runs, axes), len(axes) + 1, same, True),
        PlainTable(sizes, detectable, _detectable_rows(results), 1, means, True),
    ]
    invalid = sum(is_invalid(row["flags"]) for row in runs)
    of = runs_text(runs)
    of += f": {invalid} invalid and not in the tables" if invalid else ", all valid, none left out"
    noise = [noise_verdict(results.account), _noise_sentence(results)]
    sentences = [f"{of}. {VALID}", *noise, CALLS, *of_nearly_all]
    return [table for table in tables if table.rows], [*filter(None, sentences)]


def runs_text(runs: Rows, what_cells_are: str = "") -> str:
    """Return `930 timed runs of 58 cells and 14 duplicates`."""
    cells = unique_values(row["cell"] for row in runs)
    copies = sum(map(is_duplicate, cells))
    number, originals = words.count_of(len(runs), "timed run"), len(cells) - copies
    text = f"{number} of {words.count_of(originals, 'cell')}{what_cells_are}"
    return f"{text} and {words.count_of(copies, 'duplicate')}" if copies else text


def noise_verdict(account: Row) -> str:
    """Return a sentence on the noise of a run: acceptable or high, "" if it is unknown."""
    scatter, limit = account.get("scatter_pct"), f"{NOISY_PCT:g} %"
    if not scatter:
        return ""
    text = f"runs of a typical cell scatter by {scatter:.2g} % within and between rounds"
    if scatter <= NOISY_PCT:
        return f"Noise is acceptable: {text} (acceptable: up to {limit})."
    return (
        f"Noise is high: {text} (acceptable: up to {limit}), so intervals are wide. "
        f"Measure again on a quiet machine."
    )


def _reasons(rows: Rows, column: str) -> list[tuple[str, list[str]]]:
    groups = grouped_by((row for row in rows if row[column]), lambda row: row[column])
    cells = {text: unique_values(row["cell"] for row in of) for text, of in groups.items()}
    return sorted(cells.items(), key=lambda item: -len(item[1]))


def set_aside(measurements: Rows) -> list[tuple[str, list[str]]]:
    flagged = [
        {"why": f"{flag}: {FLAGS[flag].message}", "cell": row["cell"]}
        for row in measurements
        for flag in (row.get("set_aside") or "").replace(",", "").split()
    ]
    return _reasons(flagged, "why")


def _flag_rows(
    measurements: Rows, thresholds: Row
) -> tuple[list[tuple[str, str, list[str], str]], list[str]]:
    """Return a row for each flag, and sentences on the flags of nearly all runs."""
    carried = ((flag, row["cell"]) for row in measurements for flag in row["flags"].split())
    groups = grouped_by(carried, lambda pair: pair[0])
    rows, sentences, all_ = [], [], words.group_digits(len(measurements))
    for flag, runs in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        meaning, number = flag_sentence(flag, thresholds), words.group_digits(len(runs))
        if len(runs) > NEARLY_ALL * len(measurements) and not is_invalid(flag):
            sentences.append(f"{meaning} ({flag}, {number} of {all_} runs)")
        else:
            invalid = " Invalid runs: not in the tables." if is_invalid(flag) else ""
            cells = unique_values(cell for _, cell in runs)
            rows.append((flag, meaning + invalid, cells, number))
    return rows, sentences


def flag_sentence(flag: str, thresholds: Row) -> str:
    """Return the explanation of a flag, with the values of the thresholds that it names."""
    text = FLAGS[flag].sentence.strip() if flag in FLAGS else "This flag has no explanation."
    values = {**Thresholds().model_dump(), **thresholds}
    for name in re.findall(r"`(\w+)`", text):
        text = text.replace(f"`{name}`", f"{name} ({values[name]})" if name in values else name)
    return text.replace("`", "")


def work_done(measurements: Rows, axes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each combination of the work axes the output of most runs, and the number that agree."""
    valid = [row for row in measurements if not is_invalid(row["flags"])]
    rows = []
    for values, of in grouped_by(valid, lambda row: values_in(row, axes)).items():
        works = {number: row.get("work", "") for number, row in enumerate(of)}
        same = same_work.majority(works)
        output = same_work.figures_of(works[min(same)]) if same else "unknown"
        rows.append((*values, output, str(len(same)), str(len(works) - len(same))))
    return rows


def _noise_sentence(results: Results) -> str:
    twins = {row["cell"] for row in results.measurements if is_duplicate(row["cell"])}
    known = [
        r["duplicate_sd"] for r in _of_times(results) if words.is_number(r.get("duplicate_sd"))
    ]
    if not (twins and known):
        return NO_DUPLICATES
    have = f"{words.count_of(len(twins), 'cell')} have a duplicate"
    if not max(known):
        return f"{have}. They differ by no more than the rounds scatter."
    noise = words.significant(100 * math.expm1(max(known)), 2)
    return f"{have}. Beyond the scatter of the rounds they differ by {noise} % (standard deviation). {ERROR}"


def _of_times(results: Results) -> list[Row]:
    """Return the rows of the tables of elapsed time, without comparisons with saved baselines."""
    return [
        row
        for name, table in results.tables.items()
        if name not in results.notes and name_in(results.study.tables[name]) == DEFAULT
        for row in table
    ]


def _detectable_rows(results: Results) -> list[tuple[str, str, str]]:
    of_times = [row for row in _of_times(results) if not row.get("withheld")]
    known = [row for row in of_times if words.is_number(row.get("detectable"))]
    groups = grouped_by(known, lambda row: values_label(row, results.study.variance_group))
    medians = {name: median(row["detectable"] for row in of) for name, of in groups.items()}
    return [
        (name or "all cells", str(len(groups[name])), detectable_text(value))
        for name, value in medians.items()
    ]


def _fixed_cost(results: Results) -> list[tuple[str, ...]]:
    runs = [r for r in originals(results.measurements) if words.is_number(r.get("fixed_share"))]
    shown = varying(runs, list(results.order))
    rows: list[tuple[str, ...]] = []
    for of in grouped_by(runs, lambda row: row["cell"]).values():
        total, waits = float(of[0]["fixed_cost_s"]), median(map(acknowledgement_s, of))
        share = f"{100 * of[0]['fixed_share']:.0f} %"
        times = seconds(total - waits), seconds(waits), seconds(total), share
        rows.append((case_label(of[0], shown), *times))
    return rows


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
    exact = [metric for metric in METRICS.values() if metric.exact]
    counted = [metric for metric in exact if any(_value(metric, run) for run in runs)]
    cells: dict[str, Row] = {}
    start = 0
    for cell, rows in of_cells.items():
        counts = (_median([_value(metric, run) for run in rows]) for metric in counted)
        cells[cell] = {
            "words": cell_words.get(cell, cell),
            "spent": [_short(value) for value in times_of(rows)],
            "counted": [_short(value) for value in counts],
            "evidence": evidence_sentences(rows, results.configured("thresholds")),
            "rounds": len({run["round"] for run in rows}),
            "runs": [start, len(rows)],
        }
        start += len(rows)
    of = {"own": results.own_repository, "tree": given.get("TREE", ""), "study": results.study.name}
    return {
        "of": {**of, "args": arguments, "files": configfiles_of(arguments)},
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
    elapsed_s = median(median(_column(runs, "elapsed_s")) for runs in rounds)
    mean_s = geometric_mean(geometric_mean(_column(runs, "elapsed_s")) for runs in rounds)
    clients, servers = [], []
    for runs in rounds:
        cpu = [_column([run], "user_s") + _column([run], "system_s") for run in runs]
        clients.append([sum(pair) for pair in cpu if len(pair) == 2])
        servers.append(_column(runs, "server_cpu_s"))
    client_s, server_s = (_median([mean(of) for of in all_ if of]) for all_ in (clients, servers))
    waiting_s = None if client_s is None else elapsed_s - client_s - (server_s or 0.0)
    return [elapsed_s, mean_s, client_s, server_s, waiting_s]
