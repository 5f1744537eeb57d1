"""The section of a page on the quality of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from vcsbench import words
from vcsbench.advice.cards import case_label, seconds
from vcsbench.advice.decision import Row
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, is_invalid
from vcsbench.evidence.judgement import acknowledgement_s
from vcsbench.metrics import DEFAULT, name_in
from vcsbench.plan.grid import is_duplicate, originals
from vcsbench.report.answers import NEARLY_ALL
from vcsbench.report.results import (
    Results,
    Rows,
    grouped_by,
    unique_values,
    values_in,
    values_label,
    varying,
)
from vcsbench.report.table_sections import PlainTable, flag_sentence, title_of
from vcsbench.statistics.contract import RESULTS

CALLS = (
    "Intervals are 95 %. Calls are corrected for all comparisons of a table together (Holm): at most 5 of "
    "100 tables without any difference have a call."
)
VALID = "An invalid run broke a promise, such as a cold run with files in memory. Other flagged runs count."
FIXED_HEADS = ["Case", "Start and connection", "Delayed acknowledgements", "Total", "Share"]
FIXED_COST = (
    "Start and connection: the time of the same command on an empty repository. Each delayed acknowledgement "
    "of TCP adds up to 40 ms, in which client and server are idle. Share: of the cell's median time. "
    "Over half, the cell is too small to compare."
)


def quality_of(results: Results) -> tuple[list[PlainTable], list[str]]:
    runs, account = results.measurements, results.account
    noisy = account.get("noisy")
    axes = same_work.work_axes(results.study.axes)
    flags, remarks = _flag_table(runs, results.thresholds)
    work = [*map(str.capitalize, axes), "Output", "Runs", "Runs with other output"]
    same = "Only cells with equal output are compared."
    reason = ["Reason", "Cells"]
    tables = [
        flags,
        PlainTable("Failed rounds", reason, _reasons(results.failures, "reason")),
        PlainTable("Not measurable here", reason, _reasons(results.grid, "skip")),
        PlainTable("Measured again", reason, set_aside(runs)),
        PlainTable("Fixed cost", FIXED_HEADS, _fixed_cost(results), 1, FIXED_COST, is_folded=True),
        PlainTable(
            "Work of the commands", work, work_done(runs, axes), len(axes) + 1, same, is_folded=True
        ),
        PlainTable(
            "Comparisons by table",
            ["Table", "Comparisons", *map(str.capitalize, RESULTS)],
            _comparison_rows(results),
            1,
            is_folded=True,
        ),
        PlainTable(
            "Smallest detectable differences",
            ["Cells", "Comparisons", "Detectable from (median)"],
            _detectable_rows(results),
            1,
            is_folded=True,
        ),
    ]
    invalid = sum(is_invalid(row["flags"]) for row in runs)
    cells = unique_values(row["cell"] for row in runs)
    copies = sum(map(is_duplicate, cells))
    of = (
        f"{words.count_of(len(runs), 'timed run')} of {words.count_of(len(cells) - copies, 'cell')}"
    )
    of += f" and {words.count_of(copies, 'duplicate')}" if copies else ""
    validity = f": {invalid} invalid and not in the tables" if invalid else ", all valid"
    valid = f"{of}{validity}. {VALID}"
    noise = [_noise_sentence(results)]
    if noisy:
        effect = f"equal means within {account['min_effect_pct']:g} %"
        noise += [f"Runs of a cell scatter by {noisy['scatter_pct']:.0f} % here, so {effect}."]
    remarks = [valid, CALLS, *noise, *remarks]
    return [table for table in tables if table.rows], remarks


def _reasons(rows: Rows, column: str) -> list[tuple[str, list[str]]]:
    groups = grouped_by((row for row in rows if row[column]), lambda row: row[column])
    cells = {text: unique_values(row["cell"] for row in of) for text, of in groups.items()}
    return sorted(cells.items(), key=lambda item: -len(item[1]))


def set_aside(measurements: Rows) -> list[tuple[str, list[str]]]:
    again = unique_values(
        (flag, row["cell"], row["round"])
        for row in measurements
        for flag in (row.get("set_aside") or "").replace(",", "").split()
    )
    return _reasons(
        [{"why": f"{f}: {FLAGS[f].message}", "cell": cell} for f, cell, _ in again], "why"
    )


def _flag_table(measurements: Rows, thresholds: Row) -> tuple[PlainTable, list[str]]:
    carried = ((word, row["cell"]) for row in measurements for word in row["flags"].split())
    groups = grouped_by(carried, lambda pair: pair[0])
    rows, sentences = [], []
    for word, runs in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        meaning, number = flag_sentence(word, thresholds), words.group_digits(len(runs))
        if len(runs) > NEARLY_ALL * len(measurements) and not is_invalid(word):
            sentences.append(
                f"{meaning} ({word}, {number} of {words.group_digits(len(measurements))} runs)"
            )
            continue
        invalid = " Invalid runs: not in the tables." if is_invalid(word) else ""
        rows.append((word, meaning + invalid, unique_values(cell for _, cell in runs), number))
    return PlainTable(
        "Flags", ["Flag", "Meaning", "Cells and duplicates", "Runs"], rows, 3
    ), sentences


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
    known = [r["twin_sd"] for r in _of_times(results) if words.is_number(r.get("twin_sd"))]
    if not (twins and known):
        return (
            "No cell has a duplicate with at least two rounds, so the systematic noise is unknown "
            "and nothing is called a difference. Set duplicates to 1 or more."
        )
    have = f"{words.count_of(len(twins), 'cell')} have a duplicate."
    if not max(known):
        return f"{have} It differs by no more than the rounds scatter."
    return (
        f"{have} It differs by {words.significant(100 * math.expm1(max(known)), 2)} % (standard "
        "deviation) beyond the scatter of the rounds. The error of every comparison includes that."
    )


def _of_times(results: Results) -> list[Row]:
    """Return the rows of the tables of elapsed time, without comparisons with saved baselines."""
    return [
        row
        for name, table in results.tables.items()
        if name not in results.notes and name_in(results.study.tables[name]) == DEFAULT
        for row in table
    ]


def _detectable_rows(results: Results) -> list[tuple[str, str, str]]:
    known = [row for row in _of_times(results) if words.is_number(row.get("detectable"))]
    classes = grouped_by(known, lambda row: values_label(row, results.study.variance_group))
    rows = []
    for name, of in classes.items():
        percent = 100 * (median(row["detectable"] for row in of) - 1)
        rows.append((name or "all cells", str(len(of)), f"{words.significant(percent, 2)} %"))
    return rows


def _comparison_rows(results: Results) -> list[tuple[str, ...]]:
    definitions, counts = results.study.tables, results.account.get("tables", {})
    names = {name: title_of(definitions[name]) if name in definitions else name for name in counts}
    rows = [(names[name], sum(n.values()), *n.values()) for name, n in counts.items()]
    sums = [("All tables", *map(sum, zip(*(row[1:] for row in rows), strict=True)))]
    return [tuple(map(str, row)) for row in [*rows, *(sums if len(rows) > 1 else [])]]


def _fixed_cost(results: Results) -> list[tuple[str, ...]]:
    runs = [
        run for run in originals(results.measurements) if words.is_number(run.get("fixed_share"))
    ]
    shown = varying(runs, list(results.order))
    rows: list[tuple[str, ...]] = []
    for of in grouped_by(runs, lambda row: row["cell"]).values():
        total, waits = float(of[0]["fixed_cost_s"]), median(map(acknowledgement_s, of))
        share = f"{100 * of[0]['fixed_share']:.0f} %"
        times = seconds(total - waits), seconds(waits), seconds(total), share
        rows.append((case_label(of[0], shown), *times))
    return rows
