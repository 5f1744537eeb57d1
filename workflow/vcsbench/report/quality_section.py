"""The section of a page on the quality of the data: flags, left-out rounds, fixed cost, work, and noise."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from statistics import median
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, seconds
from vcsbench.config.models import Thresholds
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, is_invalid
from vcsbench.evidence.judgement import acknowledgement_s
from vcsbench.metrics import DEFAULT_METRIC, name_in
from vcsbench.plan.grid import is_duplicate
from vcsbench.plan.result_state import PENDING
from vcsbench.report.account import Account
from vcsbench.report.answers import NEARLY_ALL
from vcsbench.report.results import Results, Rows, grouped_by, unique_values, values_in, varying
from vcsbench.report.table_sections import PlainTable
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import NOISY_PCT

METHOD = (
    "Intervals are 95 %. The test is of paired log ratios, with Student's t on variances pooled over cells "
    "(empirical Bayes), corrected for all comparisons of a table together (Holm): a table without true "
    "differences shows a false one in at most 5 of 100 cases. Verdicts are not corrected for the number of "
    "findings."
)
SURENESS = (
    "Intervals are 95 %. A difference counts if it is certain after a correction for all comparisons of its "
    "table; verdicts of findings have no such correction."
)
PROMISE = "An invalid run broke a promise, such as a cold run with files in memory. Other flagged runs count."
FIXED_COST_NOTE = (
    "Start and connection: the time of the same command on an empty repository, equal for each packing. "
    "Delayed acknowledgements are those of the cell's own runs: each adds up to 40 ms, in which client and "
    "server are idle. Share: of the cell's median time. A comparison is too small only if start-up can "
    "explain its difference, or if runs are short. A cell with a share over half can still be compared."
)
SAME_WORK_NOTE = "Only cells with equal output are compared."
NO_SYSTEMATIC_NOISE = "so the systematic noise is unknown and nothing is called a difference"
NO_DUPLICATES = f"No cell has a duplicate, {NO_SYSTEMATIC_NOISE}. Set duplicates to 1 or more."
# Only rounds that a cell and its duplicate both have can be compared.
FEW_DUPLICATE_ROUNDS = (
    f"No cell and its duplicate share two rounds, {NO_SYSTEMATIC_NOISE}. Measure more rounds."
)
NOTHING_TIMED = "No run was timed."


class FlagUse(NamedTuple):
    """A flag, such as `cpu-busy`, with the number of runs that have it, and the paths of their cells.

    `is_summed_up` is True for a flag of nearly all runs, unless it makes them invalid. A list of nearly all
    cells is no help, so the page has a sentence.
    """

    flag: str
    runs: int
    cells: Sequence[str]
    is_summed_up: bool


def make_quality_tables(results: Results) -> list[PlainTable]:
    """Return the tables on the quality of a study's data, such as the flags of runs and the failed rounds.

    A table without a row is left out.
    """
    heads = ["Reason", "Cells"]
    # Pending cell-rounds did not fail: the next run measures them.
    pending = []
    for row in results.failures:
        if row["reason"] in PENDING:
            pending.append({**row, "reason": texts.failure_text(row["reason"])})
    tables = [
        _make_flag_table(results),
        PlainTable("Failed rounds", heads, count_reasons(results.failed_rounds, "reason")),
        PlainTable("Rounds still to measure", heads, count_reasons(pending, "reason")),
        PlainTable("Not measurable here", heads, count_reasons(results.grid, "skip")),
        # These cell-rounds have a result, but only of a later attempt.
        PlainTable("Measured again", heads, list_set_aside(results.measurements)),
        _make_fixed_cost_table(results),
        _make_work_table(results),
    ]
    return [table for table in tables if table.rows]


def describe_quality(results: Results) -> list[str]:
    """Return the sentences on the quality of the data: invalid runs, noise, method, and frequent flags."""
    runs = results.measurements
    if not runs:
        return [NOTHING_TIMED]
    number_invalid = sum(is_invalid(run["flags"]) for run in runs)
    if number_invalid:
        validity = f"{count_runs(runs)}: {number_invalid} invalid and not in the tables."
    else:
        validity = f"{count_runs(runs)}, all valid, none left out."
    sentences = [f"{validity} {PROMISE}"]
    noise = judge_noise(results.account)
    if noise:
        sentences.append(noise)
    sentences.append(_describe_duplicates(results))
    sentences.append(METHOD)
    # A flag that is summed up has a sentence in place of a row in the table of flags (FlagUse).
    for use in _count_flags(runs):
        if use.is_summed_up:
            meaning = explain_flag(use.flag, results.thresholds)
            share = f"{words.group_digits(use.runs)} of {words.group_digits(len(runs))} runs"
            sentences.append(f"{meaning} ({use.flag}, {share})")
    return sentences


def count_runs(runs: Rows, explanation: str = "") -> str:
    """Return `930 timed runs of 58 cells, in 5 rounds of 1 to 4 runs; 14 cells are measured twice
    as a check`.

    The runs of a duplicate count, but it is no further cell. An `explanation`, such as ` (a command with all
    its settings)`, stands behind the number of cells.
    """
    cells = unique_values(run["cell"] for run in runs)
    duplicates = sum(is_duplicate(cell) for cell in cells)
    number_of_cells = words.count_of(len(cells) - duplicates, "cell")
    text = f"{words.count_of(len(runs), 'timed run')} of {number_of_cells}{explanation}"
    if runs:
        runs_of_rounds = Counter((run["cell"], run["round"]) for run in runs)
        rounds_of_cells = Counter(cell for cell, _ in runs_of_rounds)
        rounds = _count_between(rounds_of_cells.values(), "round")
        text += f", in {rounds} of {_count_between(runs_of_rounds.values(), 'run')}"
    if not duplicates:
        return text
    verb = words.is_or_are(duplicates)
    return f"{text}; {words.count_of(duplicates, 'cell')} {verb} measured twice as a check"


def _count_between(counts: Collection[int], noun: str) -> str:
    """Return `5 rounds`, or `2 to 5 rounds` for different counts."""
    return words.count_between(min(counts), max(counts), noun)


def judge_noise(account: Account) -> str:
    """Return a sentence on the noise of the runs: their standard deviation in per cent, "" if unknown."""
    if not account.scatter_pct:
        return ""
    scatter = (
        f"runs of a typical cell scatter by {account.scatter_pct:.2g} % (acceptable: up to "
        f"{NOISY_PCT:g} %)"
    )
    if account.scatter_pct <= NOISY_PCT:
        return f"Noise is acceptable: {scatter}."
    return f"Noise is high: {scatter}, so intervals are wide. Measure again on a quiet machine."


def _count_flags(runs: Rows) -> list[FlagUse]:
    """Return the flags of the runs, the most frequent one first."""
    cells_by_flag: defaultdict[str, list[str]] = defaultdict(list)
    for run in runs:
        for flag in run["flags"].split():
            cells_by_flag[flag].append(run["cell"])
    uses = []
    for flag, cells in cells_by_flag.items():
        is_summed_up = len(cells) > NEARLY_ALL * len(runs) and not is_invalid(flag)
        uses.append(FlagUse(flag, len(cells), unique_values(cells), is_summed_up))
    return sorted(uses, key=lambda use: (-use.runs, use.flag))


def _make_flag_table(results: Results) -> PlainTable:
    """Return the table of flags, without those that are only summed up in a sentence.

    Example of a row: `("cpu-busy", "Other programs used ...", ["log/svn/ruby", ...], "12")`.
    """
    rows = []
    for use in _count_flags(results.measurements):
        if use.is_summed_up:
            continue
        meaning = explain_flag(use.flag, results.thresholds)
        if is_invalid(use.flag):
            meaning += " Invalid runs: not in the tables."
        rows.append((use.flag, meaning, use.cells, words.group_digits(use.runs)))
    heads = ["Flag", "Meaning", "Cells and duplicates", "Runs"]
    return PlainTable("Flags", heads, rows, numbers_from=3)


def explain_flag(flag: str, thresholds: Row) -> str:
    """Return the explanation of a flag, with the values of the thresholds that it names.

    Example: "Fewer rounds than the threshold min_rounds (5): the interval is wide. Raise rounds. ..."
    `thresholds` are those that the configuration changes, by name.
    """
    text = FLAGS[flag].sentence.strip()
    values = {**Thresholds().model_dump(), **thresholds}
    for name in re.findall(r"`(\w+)`", text):
        if name in values:
            text = text.replace(f"`{name}`", f"{name} ({values[name]})")
    # Other names between backticks are keys and options, which the page prints as plain text.
    return text.replace("`", "")


def count_reasons(rows: Rows, column: str) -> list[tuple[str, list[str]]]:
    """Return the different texts of a column with the paths of their cells, the text with most cells first.

    Example: `[("no root", ["log/ruby/...", ...])]`. Rows in which the column is "" are left out.
    """
    reasons = []
    for reason, members in grouped_by(rows, lambda row: row[column]).items():
        if reason:
            reasons.append((reason, unique_values(row["cell"] for row in members)))
    return sorted(reasons, key=lambda reason: -len(reason[1]))


def list_set_aside(measurements: Rows) -> list[tuple[str, list[str]]]:
    """Return the reasons why cell-rounds were measured again, each with the paths of their cells.

    Example: `[("cache-not-warm: A hot run read from the device.", ["log/ruby/...", ...])]`. The column
    `set_aside` has the flags that made earlier attempts invalid: `cache-not-warm, cache-not-warm clock` are
    two attempts, the second one with two flags.
    """
    reasons = []
    for row in measurements:
        for flag in row.get("set_aside", "").replace(",", "").split():
            reasons.append({"reason": f"{flag}: {FLAGS[flag].message}", "cell": row["cell"]})
    return count_reasons(reasons, "reason")


def _make_fixed_cost_table(results: Results) -> PlainTable:
    """Return the table of the fixed cost of each cell: its two parts, their sum, and its share of the time.

    The first part is the time of the command on an empty repository: start and connection. The second part
    is the time that the cell's runs wait for delayed acknowledgements of TCP, as a median. Example of a row:
    `("cold log", "0.020 s", "0.040 s", "0.060 s", "60 %")`.
    """
    # Only valid runs count, as in the stored fixed cost. `fixed_share` (0 to 1) is None if it is unknown.
    runs = [run for run in results.valid_runs if words.is_number(run.get("fixed_share"))]
    distinguishing_axes = varying(runs, list(results.order))
    rows = []
    for members in grouped_by(runs, lambda run: run["cell"]).values():
        # Each run has the fixed cost of its whole cell, so the first run stands for all.
        first_run = members[0]
        total_s = first_run["fixed_cost_s"]
        # Only the sum of both parts is stored. The second one is computed again, and the first is the rest.
        wait_s = median(acknowledgement_s(run) for run in members)
        start_s = total_s - wait_s
        times = [seconds(time_s) for time_s in (start_s, wait_s, total_s)]
        share = f"{100 * first_run['fixed_share']:.0f} %"
        rows.append((case_label(first_run, distinguishing_axes), *times, share))
    heads = ["Case", "Start and connection", "Delayed acknowledgements", "Total", "Share"]
    return PlainTable(
        "Fixed cost", heads, rows, numbers_from=1, note=FIXED_COST_NOTE, is_folded=True
    )


def _make_work_table(results: Results) -> PlainTable:
    """Return the table of the output of the commands, which shows whether valid runs did the same work.

    A row has a value of each axis on which the work depends, the most frequent output, and the numbers of
    runs with this output, with another one and with an unknown one: `("log", "ruby", "6,000 revisions", "30",
    "0", "0")`. Without a most frequent output, its place has `different outputs` or `unknown`.
    """
    axes = same_work.work_axes(results.study.axes)
    valid = [run for run in results.measurements if not is_invalid(run["flags"])]
    rows = []
    for values, members in grouped_by(valid, lambda run: values_in(run, axes)).items():
        # majority() returns keys, so each run has its position as a key: {0: '{"revisions":6000}', 1: ""}.
        works = {position: run.get("work", "") for position, run in enumerate(members)}
        # No run agrees if two outputs are equally frequent, or if no output is known.
        agreeing = same_work.majority(works)
        known = [work for work in works.values() if work]
        if agreeing:
            output = same_work.figures_of(works[min(agreeing)])
        else:
            output = "different outputs" if known else "unknown"
        # An unknown output may be the same as in the other runs, so it does not count as another one.
        number_other = len(known) - len(agreeing)
        numbers = (len(agreeing), number_other, len(works) - len(known))
        rows.append((*values, output, *map(str, numbers)))
    number_heads = ["Runs", "Runs with other output", "Runs with unknown output"]
    return PlainTable(
        title="Work of the commands",
        heads=[*(axis.capitalize() for axis in axes), "Output", *number_heads],
        rows=rows,
        numbers_from=len(axes) + 1,
        note=SAME_WORK_NOTE,
        is_folded=True,
    )


def _describe_duplicates(results: Results) -> str:
    """Return sentences on the systematic noise, which is the difference between cells and their duplicates.

    A duplicate is a cell that is measured a second time as a check. Example: `14 cells have a duplicate.
    Beyond the scatter of the rounds they differ by 1.2 % (standard deviation). ...`.
    """
    duplicates = {run["cell"] for run in results.measurements if is_duplicate(run["cell"])}
    if not duplicates:
        return NO_DUPLICATES
    verb, pronoun = ("has", "it") if len(duplicates) == 1 else ("have", "them")
    subject = f"{words.count_of(len(duplicates), 'cell')} {verb} a duplicate"
    # The standard deviation between duplicates is a column of the tables that compare times.
    comparisons = _list_time_comparisons(results)
    if not comparisons:
        return f"{subject}. No comparison of times uses {pronoun}."
    # It is None unless some cell of the study and its duplicate have two rounds in common.
    numbers = [row.get("duplicate_sd") for row in comparisons]
    deviations = [number for number in numbers if words.is_number(number)]
    if not deviations:
        return FEW_DUPLICATE_ROUNDS
    # The deviations are in logarithms: 0.02 is about 2 %.
    largest_pct = 100 * math.expm1(max(deviations))
    # It is 0 if the scatter of the rounds explains the whole difference.
    if largest_pct == 0:
        return f"{subject}. They differ by no more than the rounds scatter."
    return (
        f"{subject}. Beyond the scatter of the rounds they differ by "
        f"{words.significant(largest_pct, 2)} % (standard deviation). "
        "The error of every comparison includes that."
    )


def _list_time_comparisons(results: Results) -> list[Row]:
    """Return the rows of the study's tables that compare the elapsed times of two cells.

    Tables that compare with a saved baseline are left out. So are rows whose cells must not be compared, such
    as times of two machines (`withheld`).
    """
    comparisons: list[Row] = []
    for name, rows in results.tables.items():
        # `notes` has an entry for each table that compares with a saved baseline, and for no other.
        is_with_saved_baseline = name in results.notes
        if is_with_saved_baseline or name_in(results.study.tables[name]) != DEFAULT_METRIC:
            continue
        for row in rows:
            if words.is_number(row.get("ratio")) and not row.get("withheld"):
                comparisons.append(row)
    return comparisons
