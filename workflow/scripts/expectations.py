"""Write the verdicts on a user's expectations of a study, those of all studies, or the history of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vcsbench.files import write_json, write_text
from vcsbench.run.job import job_log
from vcsbench.statistics.contract import OF_EXPECTATIONS, Limits

snakemake: Any


def judge() -> None:
    """Write the verdicts on a study; the cells of named baselines are compared with the present ones."""
    params, study = snakemake.params, snakemake.wildcards.study
    if not params.expectations:
        # Mostly there are none, and what judges them takes longer to import than all that is left to do.
        write_text(snakemake.output[0], ",".join(OF_EXPECTATIONS) + "\n")
        return
    from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
    from vcsbench.statistics import baseline_comparison
    from vcsbench.statistics.findings import context_of, evaluate_expectations

    axes, limits = params.axes, Limits(**params.limits)
    measured = read_measurements(snakemake.input.measurements)
    grid = read_grid(snakemake.input.grid)[1]
    basis = context_of(measured, axes, grid, params.block, limits)
    if params.baselines:
        now = baseline_comparison.load_current(study, Path("results"))
        sides = {name: baseline_comparison.load_baseline(name, study) for name in params.baselines}
        saved = {
            name: baseline_comparison.pair_cells(side, now, axes) for name, side in sides.items()
        }
        basis = replace(basis, baselines=saved)
    write_frame(
        evaluate_expectations(params.expectations, axes, measured, basis), snakemake.output[0]
    )


def join() -> None:
    """Write the verdicts of all studies into one file, their study in front."""
    import pandas as pd

    from vcsbench.evidence.measurements import read_frame, write_frame
    from vcsbench.statistics.findings import unmeasured_expectations

    frames = {Path(path).stem: read_frame(path) for path in snakemake.input.verdicts}
    for study, expected in snakemake.params.of_other_studies.items():
        frames[study] = unmeasured_expectations(study, expected)
    rows = [frame.assign(study=study) for study, frame in frames.items() if len(frame)]
    verdicts = pd.concat(rows) if rows else pd.DataFrame()
    write_frame(verdicts.reindex(columns=["study", *OF_EXPECTATIONS]), snakemake.output[0])


def history() -> None:
    """Write the measurements of a study over its saved baselines, and the present ones."""
    from vcsbench.statistics import baseline_comparison

    params, study = snakemake.params, snakemake.wildcards.study
    settings = params.order, params.block, Limits(**params.limits)
    times = baseline_comparison.history(params.names, study, Path("results"), *settings)
    write_json(snakemake.output[0], times)


with job_log(snakemake.log[0]):
    {"judge_findings": judge, "join_checks": join, "write_history": history}[
        snakemake.params.task
    ]()
