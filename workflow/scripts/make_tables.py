"""Compute all results of a study from its measurements, which are read only once.

The results are its tables, the verdicts on findings and on the user's expectations, the history over saved
baselines, the account of the time, and the recommendations.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.cards import ADVICE
from vcsbench.advice.decision import WeightedOperation
from vcsbench.advice.questions import read_questions
from vcsbench.config.definitions import PublishedMetadata
from vcsbench.evidence.measurements import (
    read_frame,
    read_grid,
    read_measurements,
    write_frame,
)
from vcsbench.evidence.time_breakdown import break_down_time
from vcsbench.files import read_json, write_json, write_text
from vcsbench.run.job import job_log
from vcsbench.statistics import baseline_comparison, baselines, findings
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.baseline_comparison import MeasurementSet
from vcsbench.statistics.budget import budget_report, list_comparisons
from vcsbench.statistics.comparisons import NUMBER_COLUMNS
from vcsbench.statistics.finding_checks import Conditions
from vcsbench.statistics.noise import run_scatter
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any
RESULTS = Path("results")
Grid = list[dict[str, str]]


class PairedBaseline(NamedTuple):
    """A saved baseline, the current results, and the frame of pair_cells() of both."""

    before: MeasurementSet
    now: MeasurementSet
    pairs: pd.DataFrame


def pair_with_baselines(settings: StudySettings) -> dict[str, PairedBaseline]:
    """Return each saved baseline that a table or an expectation compares with, by its name.

    A baseline has earlier results of the study, which the user has saved as `before-upgrade`, for example.
    Each cell (a command with everything that it is timed with) is paired with the same cell of the baseline.
    `snakemake` is the job that runs this script: the files and the params of its rule.
    """
    study, names = snakemake.wildcards.study, snakemake.params.baselines
    # load_current() reads the settings of all cells from many files, so it is called only if there is a
    # baseline.
    if not names:
        return {}
    now = baseline_comparison.load_current(study, RESULTS)
    paired = {}
    for name in names:
        before = baseline_comparison.load_baseline(name, study, settings.axes)
        # A row per current cell, with the ratio of its saved time and its current one.
        pairs = baseline_comparison.pair_cells(before, now, settings.axes, settings.block)
        paired[name] = PairedBaseline(before, now, pairs)
    return paired


def write_tables(
    frame: pd.DataFrame, settings: StudySettings, paired: Mapping[str, PairedBaseline]
) -> None:
    """Write the tables of a study as CSV files: those that its definition lists, and one for each baseline.

    `frame` has the measurements, a row per timed run. `settings` has the definitions of the tables. `paired`
    has saved earlier results (baselines) by name, with the current results of the same cells. The table
    against the baseline `old` is `old-vs-now.csv`. Next to it, `old-vs-now.json` has sentences for its
    reader, such as a list of the changes since then. `snakemake` is the job that runs this script.
    """
    # Snakemake has removed the folder of an earlier job, with its files.
    folder = Path(snakemake.output.tables)
    folder.mkdir(parents=True)
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    for name, table in tables.items():
        write_frame(table, folder / f"{name}.csv")
    # `pairs` has a row per cell, with the ratio of the earlier time and the current one.
    for baseline, (before, now, pairs) in paired.items():
        table = baseline_comparison.make_baseline_table(
            baseline, pairs, settings.order, settings.limits
        )
        notes = baseline_comparison.list_baseline_notes(before, now, pairs)
        # Such as `old-vs-now`.
        name = baselines.table_name(baseline)
        write_json(folder / f"{name}.json", notes)
        write_frame(table, folder / f"{name}.csv")


def judge_findings(frame: pd.DataFrame, grid: Grid, settings: StudySettings) -> None:
    """Write the verdicts on the findings of the study as a CSV file, a row per finding.

    A finding is a published statement, such as "format 7 is twice as fast", with the range that it expects.
    The verdict is, for example, that the measurements reproduce it. `frame` has the measurements, a row per
    timed run, and `grid` a row per cell of the study, measured or not. A cell is a command with everything
    that it is timed with. `snakemake` is the job that runs this script: the files and params of its rule.
    """
    params = snakemake.params
    # The columns that identify a cell, such as the command, and further columns that tables group by.
    axes, by = settings.axes, settings.by
    # Without published numbers (an empty input), findings are judged by the measurements alone.
    published = None
    if snakemake.input.published:
        # Facts that the files lack: a file about format 7 has no column for the format.
        metadata = PublishedMetadata(**params.metadata)
        published = read_published(snakemake.input.published, axes, by, metadata)
    # The conditions of the published numbers, such as the storage, may explain a difference.
    conditions = Conditions(**params.conditions)
    # The context has the noise of the measurements, these conditions, and the limits of comparisons.
    context = findings.make_context(frame, grid, settings, conditions)
    verdicts = findings.evaluate_findings(params.findings, axes, published, frame, context, by)
    write_frame(verdicts, snakemake.output.findings)


def judge_expectations(
    frame: pd.DataFrame,
    grid: Grid,
    settings: StudySettings,
    paired: Mapping[str, PairedBaseline],
) -> None:
    """Write the verdicts on the user's expectations as a CSV file, a row per expectation.

    An expectation is a requirement, such as "the warm log takes at most 2 s". It may be about saved earlier
    results, which `paired` has by name: "not slower than before-upgrade". `frame` has the measurements, a row
    per timed run, and `grid` a row per cell of the study, measured or not. A cell is a command with
    everything that it is timed with. `snakemake` is the job that runs this script, with its params.
    """
    # Expectations are on cells, and use none of the further columns that tables group by. The context has
    # the noise of the measurements and the limits of comparisons.
    context = findings.make_context(frame, grid, replace(settings, by=[]))
    # By the name of the baseline: a row per cell, with the ratio of its earlier time and its current one.
    pairs_by_baseline = {name: baseline.pairs for name, baseline in paired.items()}
    context = replace(context, baselines=pairs_by_baseline)
    expectations = snakemake.params.expectations
    verdicts = findings.evaluate_expectations(expectations, settings.axes, frame, context)
    write_frame(verdicts, snakemake.output.expectations)


def write_history(settings: StudySettings) -> None:
    """Write the history of the study over its saved baselines as JSON; {} without any baseline.

    A baseline has earlier results of the study, which the user has saved. The history has the time of each
    cell in each baseline and now, for a chart. `snakemake` is the job that runs this script.
    """
    saved, study = snakemake.params.saved, snakemake.wildcards.study
    history = {}
    if saved:
        history = baseline_comparison.make_history(saved, study, RESULTS, settings)
    write_json(snakemake.output.history, history)


def write_account(frame: pd.DataFrame, settings: StudySettings) -> None:
    """Write the account of the study's time as JSON: where it went, and what more time would give.

    `frame` has the measurements, a row per timed run. A cell is a command with everything that it is timed
    with, and is measured in several rounds. The account has the keys of budget.budget_report(), and three
    more:

    - `minutes`: the time that the user gave to this study, None if the number of rounds is fixed.
    - `studies`: the number of studies of the run, which share the time.
    - `why`: the reason why the study gets no more rounds (StopReason), or "".

    `snakemake` is the job that runs this script, with the params of its rule.
    """
    params = snakemake.params
    # More time would be spent on further rounds. Only comparisons of times need them, because counts have no
    # noise. So all other tables are left out here.
    time_settings = settings.of_times()
    tables = read_tables(time_settings)
    # Cells with equal values of these axes form a block. They run next to each other, and get further rounds
    # together.
    block = settings.block
    # A comparison is a row of a table, with its result and the further rounds that should decide it.
    comparisons = list_comparisons(tables, time_settings.tables, block, settings.limits)
    # `prepared` are the records of loads and copies of repositories, with the time of each.
    spent = break_down_time(frame, block, params.prepared)
    number_of_cell_rounds = len(frame[["cell", "round"]].drop_duplicates())
    # The standard deviation of ln(time) of a run: 0.03 for 3 %.
    scatter = run_scatter(frame, block)
    account = budget_report(comparisons, spent, number_of_cell_rounds, settings.limits, scatter)
    # The three further keys.
    account |= {"minutes": params.minutes, "studies": params.studies, "why": read_stop_reason()}
    write_json(snakemake.output.account, account)


def read_stop_reason() -> str:
    """Return the reason why the study gets no more rounds (StopReason); "" if it may get more.

    With a time limit, vcsbench decides several times how many rounds the study gets next. Each decision is a
    file with the reason `why` it gives no rounds, which is "" if it gives some. The last decision counts.
    `snakemake` is the job that runs this script.
    """
    why = ""
    for path in snakemake.params.decisions:
        # After an aborted run, the last files are missing. read_json() returns {} for a missing file, so the
        # reason of the decision before it stays.
        why = read_json(path).get("why", why)
    return why


def read_tables(settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Return the tables of the settings by name, as read from the CSV files that write_tables() wrote.

    The frames of make_tables() have the same numbers, but other types: in the files, a count becomes a float,
    and an empty number NaN. So the account and the advice are those that another program would compute from
    the files.
    """
    folder = Path(snakemake.output.tables)
    return {name: read_frame(folder / f"{name}.csv", NUMBER_COLUMNS) for name in settings.tables}


def write_advice(frame: pd.DataFrame, grid: Grid, settings: StudySettings) -> None:
    """Write the recommendations for an administrator as JSON: which format or server to choose, for example.

    They are computed from the tables that compare values, such as two formats. `frame` has the measurements,
    a row per timed run, and `grid` a row per cell of the study, measured or not. A cell is a command with
    everything that it is timed with. `snakemake` is the job that runs this script: the files and the params
    of its rule.
    """
    params = snakemake.params
    # A study may have commands that others are only compared with (key `reference_only`). No user can choose
    # them, so they get no advice. `reference_commands` has their names: {"command": ["cp", "tar"]}.
    for axis, commands in params.reference_commands.items():
        frame = frame[~frame[axis].isin(commands)]
    advice_settings = AdviceSettings(
        order=settings.order,
        # The axes whose values a user cannot choose, such as the command.
        scenario_axes=params.scenario_axes,
        # The axes of a block: cells with equal values of them run next to each other.
        block=settings.block,
        # A question is, for example, which format is best. `apply_commands` has the settings of each server
        # configuration, which an answer prints.
        questions=read_questions(params.questions, params.apply_commands),
        # How often the user's own server performs each operation.
        workload=[WeightedOperation(**operation) for operation in params.workload],
        limits=settings.limits,
    )
    comparing = replace(settings, tables=settings.comparing_tables)
    # Each table has its definition and its rows.
    tables = []
    for name, table in read_tables(comparing).items():
        tables.append((comparing.tables[name], table.to_dict("records")))
    # A row per round of a cell without a result. The advice names the values that could not be measured.
    failures = read_frame(snakemake.input.failures).to_dict("records")
    advice = advise(advice_settings, frame, tables, grid, failures)
    write_text(snakemake.output.advice, ADVICE.dump_json(advice, indent=1).decode() + "\n")


with job_log(snakemake.log[0]):
    study_settings = StudySettings.from_param(snakemake.params.settings)
    measurements = read_measurements(snakemake.input.measurements)
    _, cells = read_grid(snakemake.input.grid)
    paired_baselines = pair_with_baselines(study_settings)
    write_tables(measurements, study_settings, paired_baselines)
    judge_findings(measurements, cells, study_settings)
    judge_expectations(measurements, cells, study_settings, paired_baselines)
    write_history(study_settings)
    write_account(measurements, study_settings)
    write_advice(measurements, cells, study_settings)
