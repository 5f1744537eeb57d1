"""Write the tables of a study, its history, and the verdicts on findings and on the user's expectations.

Tables and findings come from measurements and from published numbers.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import read_frame, read_grid, read_measurements, write_frame
from vcsbench.files import write_json
from vcsbench.run.job import run_rule
from vcsbench.statistics import baseline_comparison, baselines, findings
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.finding_checks import Conditions
from vcsbench.statistics.tables import make_tables
from vcsbench.statistics.verdicts import OF_EXPECTATIONS

snakemake: Any
RESULTS = Path("results")


def compare_published() -> None:
    params, numbers = snakemake.params, list(snakemake.input.numbers)
    write_tables(read_published(numbers, list(params.order), params.by, **params.metadata))


def compare_measured() -> None:
    """Write each table of the measurements, and one against each baseline with notes for its reader."""
    params, study = snakemake.params, snakemake.wildcards.study
    frame = read_measurements(snakemake.input.numbers)
    write_tables(frame)
    if not params.baselines:
        return
    folder, limits = Path(snakemake.output[0]), Limits(**params.limits)
    now = baseline_comparison.load_current(study, RESULTS)
    for baseline in params.baselines:
        before = baseline_comparison.load_baseline(baseline, study)
        pairs = baseline_comparison.pair_cells(before, now, list(params.order), params.block)
        table = baseline_comparison.baseline_table(baseline, pairs, params.order, limits)
        name = baselines.table_name(baseline)
        write_json(folder / f"{name}.json", baseline_comparison.baseline_notes(before, now, pairs))
        write_frame(table, folder / f"{name}.csv")


def write_tables(frame: pd.DataFrame) -> None:
    params, folder = snakemake.params, Path(snakemake.output[0])
    folder.mkdir(parents=True)
    limits = Limits(**params.limits)
    made = make_tables(frame, params.definitions, params.order, params.block, limits)
    for name, table in made.items():
        write_frame(table, folder / f"{name}.csv")


def write_history() -> None:
    params, study = snakemake.params, snakemake.wildcards.study
    settings = params.order, params.block, Limits(**params.limits)
    times = baseline_comparison.history(params.names, study, RESULTS, *settings)
    write_json(snakemake.output[0], times)


def judge_findings() -> None:
    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    published = measured = context = None
    if given.published:
        published = read_published(given.published, params.axes, params.by, **params.metadata)
    if given.measurements:
        measured = read_measurements(given.measurements)
        grid = read_grid(given.grid)[1]
        facts = params.block, Limits(**params.limits), Conditions(**params.conditions), study
        context = findings.context_of(measured, params.axes, grid, *facts, params.by)
    columns = params.axes, published, measured, context, params.by
    write_frame(findings.evaluate_findings(params.findings, *columns), snakemake.output[0])


def judge_expectations() -> None:
    """Write the verdicts on the expectations; named baselines are compared with the present cells."""
    params, study = snakemake.params, snakemake.wildcards.study
    measured = read_measurements(snakemake.input.measurements)
    grid, limits = read_grid(snakemake.input.grid)[1], Limits(**params.limits)
    context = findings.context_of(measured, params.axes, grid, params.block, limits)
    if params.baselines:
        now = baseline_comparison.load_current(study, RESULTS)
        before = {name: baseline_comparison.load_baseline(name, study) for name in params.baselines}
        pair = baseline_comparison.pair_cells
        saved = {name: pair(then, now, params.axes, params.block) for name, then in before.items()}
        context = replace(context, baselines=saved)
    verdicts = findings.evaluate_expectations(params.expectations, params.axes, measured, context)
    write_frame(verdicts, snakemake.output[0])


def join_checks() -> None:
    frames = {Path(path).stem: read_frame(path) for path in snakemake.input.verdicts}
    for study, expected in snakemake.params.of_other_studies.items():
        frames[study] = findings.unmeasured_expectations(study, expected)
    rows = [frame.assign(study=study) for study, frame in frames.items() if len(frame)]
    verdicts = pd.concat(rows) if rows else pd.DataFrame()
    write_frame(verdicts.reindex(columns=["study", *OF_EXPECTATIONS]), snakemake.output[0])


run_rule(
    snakemake,
    published_tables=compare_published,
    tables=compare_measured,
    history=write_history,
    findings=judge_findings,
    expectations=judge_expectations,
    checks=join_checks,
)
