"""Write the recommendations of a study, its report, or the index of the reports in a folder."""

from pathlib import Path
from typing import Any

from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.cards import ADVICE
from vcsbench.advice.labels import questions_of
from vcsbench.config.study import load_study
from vcsbench.evidence.measurements import read_frame, read_measurements
from vcsbench.files import write_json, write_text
from vcsbench.report.page import build_index, build_page, read_entries
from vcsbench.report.results import read_results
from vcsbench.run.job import run_rule
from vcsbench.run.provenance import provenance
from vcsbench.statistics.comparisons import NUMBERS, Limits

snakemake: Any


def write_advice() -> None:
    inputs, params = snakemake.input, snakemake.params
    frame = read_measurements(inputs.measurements)
    limits = Limits(**params.limits)
    for axis, values in params.reference_commands.items():
        frame = frame[~frame[axis].isin(values)]
    questions = questions_of(params.questions, params.apply_commands)
    settings = AdviceSettings(
        params.order, params.scenario_axes, params.block, questions, params.workload, limits
    )
    tables = [
        (definition, read_frame(Path(inputs.tables, f"{name}.csv"), NUMBERS).to_dict("records"))
        for name, definition in params.tables.items()
    ]
    grid, failures = (
        read_frame(path).to_dict("records") for path in (inputs.grid, inputs.failures)
    )
    advice = advise(settings, frame, tables, grid, failures)
    write_text(snakemake.output[0], ADVICE.dump_json(advice, indent=1).decode() + "\n")


def write_page() -> None:
    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    names = ("order", "expectations", "baselines", "own", "found")
    made_with = {name: snakemake.params[name] for name in names}
    write_json(snakemake.output.made_with, made_with)
    # Before the results are read, because the page cites it.
    write_json(snakemake.output.provenance, provenance(Path.cwd(), snakemake.config))
    results = read_results(study, Path("results"), definitions, **made_with)
    write_text(snakemake.output.page, build_page(results))


def write_index() -> None:
    path = Path(snakemake.output[0])
    write_text(path, build_index(read_entries(path.parent), snakemake.params.studies))


run_rule(snakemake, advice=write_advice, report=write_page, index=write_index)
