"""The section of a page on the quality of the data."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import median

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, detectable_text, seconds
from vcsbench.config.models import Thresholds
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, is_invalid
from vcsbench.evidence.judgement import acknowledgement_s
from vcsbench.metrics import DEFAULT, name_in
from vcsbench.plan.grid import is_duplicate, originals
from vcsbench.report.answers import NEARLY_ALL
from vcsbench.report.charts import ROW_KEY
from vcsbench.report.results import (
    Results,
    Rows,
    grouped_by,
    unique_values,
    values_in,
    values_label,
    varying,
)
from vcsbench.report.table_sections import PlainTable
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


def quality_of(results: Results) -> tuple[list[PlainTable], list[str]]:
    """Return the tables of the section, and its sentences."""
    runs, axes = results.measurements, same_work.work_axes(results.study.axes)
    flags, of_nearly_all = _flag_rows(runs, results.thresholds)
    work = [*map(str.capitalize, axes), "Output", "Runs", "Runs with other output"]
    same = "Only cells with equal output are compared."
    reason = ["Reason", "Cells"]
    detectable = ["Cells", "Comparisons", "Detectable from (median)"]
    means = f"Detectable: {ROW_KEY['detectable from']}."
    tables = [
        PlainTable("Flags", ["Flag", "Meaning", "Cells and duplicates", "Runs"], flags, 3),
        PlainTable("Failed rounds", reason, _reasons(results.failures, "reason")),
        PlainTable("Not measurable here", reason, _reasons(results.grid, "skip")),
        PlainTable("Measured again", reason, set_aside(runs)),
        PlainTable("Fixed cost", FIXED_HEADS, _fixed_cost(results), 1, FIXED_COST, True),
        PlainTable("Work of the commands", work, work_done(runs, axes), len(axes) + 1, same, True),
        PlainTable(
            *("Smallest detectable differences", detectable, _detectable_rows(results)),
            *(1, means, True),
        ),
    ]
    invalid = sum(is_invalid(row["flags"]) for row in runs)
    cells = unique_values(row["cell"] for row in runs)
    copies = sum(map(is_duplicate, cells))
    number = words.count_of(len(runs), "timed run")
    of = f"{number} of {words.count_of(len(cells) - copies, 'cell')}"
    of += f" and {words.count_of(copies, 'duplicate')}" if copies else ""
    of += f": {invalid} invalid and not in the tables" if invalid else ", all valid, none left out"
    noise = [noise_verdict(results.account), _noise_sentence(results)]
    sentences = [f"{of}. {VALID}", *noise, CALLS, *of_nearly_all]
    return [table for table in tables if table.rows], [*filter(None, sentences)]


def noise_verdict(account: Row) -> str:
    """Return a sentence on the noise of a run: acceptable or high, "" if it is unknown."""
    noisy = account.get("noisy") or {}
    scatter, limit = noisy.get("scatter_pct") or account.get("scatter_pct"), f"{NOISY_PCT:g} %"
    if not scatter:
        return ""
    text = f"runs of a typical cell scatter by {scatter:.2g} % within and between rounds"
    if scatter <= NOISY_PCT:
        return f"Noise is acceptable: {text} (acceptable: up to {limit})."
    usual = f", not {noisy['usual_pct']:g} %" if "usual_pct" in noisy else ""
    return (
        f"Noise is high: {text} (acceptable: up to {limit}), so equal means within "
        f"{account['min_effect_pct']:g} %{usual}, and intervals are wide. Measure again on a quiet machine."
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
    known = [r["twin_sd"] for r in _of_times(results) if words.is_number(r.get("twin_sd"))]
    if not (twins and known):
        return (
            "No cell has a duplicate with at least two rounds, so the systematic noise is unknown "
            "and nothing is called a difference. Set duplicates to 1 or more."
        )
    have = f"{words.count_of(len(twins), 'cell')} have a duplicate"
    if not max(known):
        return f"{have}. They differ by no more than the rounds scatter."
    return (
        f"{have}. Beyond the scatter of the rounds they differ by "
        f"{words.significant(100 * math.expm1(max(known)), 2)} % (standard deviation). The error of every "
        "comparison includes that."
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
    groups = grouped_by(known, lambda row: values_label(row, results.study.variance_group))
    return [
        (
            *(name or "all cells", str(len(of))),
            detectable_text(median(row["detectable"] for row in of)),
        )
        for name, of in groups.items()
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
