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
from vcsbench.statistics.evaluations import Conditions
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
    """Return each saved baseline that a table or an expectation compares with, by its name."""
    study, names = snakemake.wildcards.study, snakemake.params.baselines
    # load_current() reads the settings of all cells from many files.
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

    `frame` has a row per timed run. The table against the baseline `old` is `old-vs-now.csv`. Next to it,
    `old-vs-now.json` has sentences for its reader, such as a list of the changes since then.
    """
    # Snakemake has removed the folder of an earlier job.
    folder = Path(snakemake.output.tables)
    folder.mkdir(parents=True)
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    for name, table in tables.items():
        write_frame(table, folder / f"{name}.csv")
    for baseline, (before, now, pairs) in paired.items():
        table = baseline_comparison.make_baseline_table(
            baseline, pairs, settings.order, settings.limits
        )
        notes = baseline_comparison.list_baseline_notes(before, now, pairs)
        name = baselines.table_name(baseline)
        write_json(folder / f"{name}.json", notes)
        write_frame(table, folder / f"{name}.csv")


def judge_findings(frame: pd.DataFrame, grid: Grid, settings: StudySettings) -> None:
    """Write the verdicts on the findings of the study as a CSV file, a row per finding.

    `frame` has a row per timed run, and `grid` a row per cell of the study, measured or not.
    """
    params = snakemake.params
    axes, by = settings.axes, settings.by
    # Without published numbers, findings are judged by the measurements alone.
    published = None
    if snakemake.input.published:
        # Facts that the files lack: a file about format 7 has no column for the format.
        metadata = PublishedMetadata(**params.metadata)
        published = read_published(snakemake.input.published, axes, by, metadata)
    # The conditions of the published numbers, such as the storage, may explain a difference.
    conditions = Conditions(**params.conditions)
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

    An expectation may be about a baseline: "not slower than before-upgrade". `frame` has a row per timed run,
    and `grid` a row per cell of the study, measured or not.
    """
    # Expectations are on cells, and use none of the further columns that tables group by.
    context = findings.make_context(frame, grid, replace(settings, by=[]))
    pairs_by_baseline = {name: baseline.pairs for name, baseline in paired.items()}
    context = replace(context, baselines=pairs_by_baseline)
    expectations = snakemake.params.expectations
    verdicts = findings.evaluate_expectations(expectations, settings.axes, frame, context)
    write_frame(verdicts, snakemake.output.expectations)


def write_history(settings: StudySettings) -> None:
    """Write the history of the study over its saved baselines as JSON; {} without any baseline.

    The history has the time of each cell in each baseline and now, for a chart.
    """
    saved, study = snakemake.params.saved, snakemake.wildcards.study
    history = {}
    if saved:
        history = baseline_comparison.make_history(saved, study, RESULTS, settings)
    write_json(snakemake.output.history, history)


def write_account(frame: pd.DataFrame, settings: StudySettings) -> None:
    """Write the account of the study's time as JSON: where it went, and what more time would give.

    `frame` has a row per timed run. The account has the keys of budget.budget_report(), and three more:

    - `minutes`: the time that the user gave to this study, None if the number of rounds is fixed.
    - `studies`: the number of studies of the run, which share the time.
    - `why`: the reason why the study gets no more rounds (StopReason), or "".
    """
    params = snakemake.params
    # Only comparisons of times need further rounds, because counts have no noise.
    time_settings = settings.of_times()
    tables = read_tables(time_settings)
    block = settings.block
    comparisons = list_comparisons(tables, time_settings.tables, block, settings.limits)
    # `prepared` are records of loads and copies, with their times.
    spent = break_down_time(frame, block, params.prepared)
    number_of_cell_rounds = len(frame[["cell", "round"]].drop_duplicates())
    # The standard deviation of ln(time) of a run: 0.03 for 3 %.
    scatter = run_scatter(frame, block)
    account = budget_report(comparisons, spent, number_of_cell_rounds, settings.limits, scatter)
    account |= {"minutes": params.minutes, "studies": params.studies, "why": read_stop_reason()}
    write_json(snakemake.output.account, account)


def read_stop_reason() -> str:
    """Return the reason why the study gets no more rounds (StopReason); "" if it may get more.

    The last decision on further rounds counts.
    """
    why = ""
    for path in snakemake.params.decisions:
        # After an aborted run, the last files are missing ({}), so the reason of an earlier decision stays.
        why = read_json(path).get("why", why)
    return why


def read_tables(settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Return the tables of the settings by name, as read from the CSV files that write_tables() wrote.

    The frames of make_tables() have the same numbers, but other types: in the files, a count becomes a float,
    and an empty number NaN. So the account and the advice are those that another program would compute from
    the files.
    """
    folder = Path(snakemake.output.tables)
    tables = {}
    for name, definition in settings.tables.items():
        # Columns of the measurements by which a table is grouped are used like axes, whose values are texts.
        tables[name] = read_frame(folder / f"{name}.csv", texts=definition.get("by", ()))
    return tables


def write_advice(frame: pd.DataFrame, grid: Grid, settings: StudySettings) -> None:
    """Write the recommendations for an administrator as JSON: which format or server to choose, for example.

    The recommendations are computed from the tables that compare values, such as two formats. `frame` has a
    row per timed run, and `grid` a row per cell of the study, measured or not.
    """
    params = snakemake.params
    # No user can choose commands that others are only compared with, such as {"command": ["cp", "tar"]}.
    for axis, commands in params.reference_commands.items():
        frame = frame[~frame[axis].isin(commands)]
    advice_settings = AdviceSettings(
        order=settings.order,
        # The axes whose values a user cannot choose, such as the command.
        scenario_axes=params.scenario_axes,
        block=settings.block,
        # An answer prints the settings of a server configuration (`apply_commands`).
        questions=read_questions(params.questions, params.apply_commands),
        # How often the user's own server performs each operation.
        workload=[WeightedOperation(**operation) for operation in params.workload],
        limits=settings.limits,
    )
    comparing = replace(settings, tables=settings.comparing_tables)
    tables = []
    for name, table in read_tables(comparing).items():
        tables.append((comparing.tables[name], table.to_dict("records")))
    # The advice names the values that could not be measured.
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
