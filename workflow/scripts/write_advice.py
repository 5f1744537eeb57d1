"""Write the recommendations from a study's measurements."""

from pathlib import Path
from typing import Any

from vcsbench.advice.advise import AdviceSettings, advise, questions_of
from vcsbench.advice.cards import ADVICE
from vcsbench.evidence.measurements import read_frame, read_measurements
from vcsbench.files import write_text
from vcsbench.run.job import job_log
from vcsbench.statistics.contract import NUMBERS, Limits
from vcsbench.statistics.noise import run_scatter

snakemake: Any

with job_log(snakemake.log[0]):
    inputs, params = snakemake.input, snakemake.params
    frame = read_measurements(inputs.measurements)
    limits = Limits(**params.limits).on_machine(run_scatter(frame, params.block))
    for axis, values in params.reference_commands.items():
        frame = frame[~frame[axis].isin(values)]
    questions = questions_of(params.questions, params.apply_commands)
    settings = AdviceSettings(
        params.order, params.scenario_axes, params.block, questions, params.workload, limits
    )
    tables = [
        (definition, read_frame(Path(inputs.tables, f"{name}.csv"), NUMBERS).to_dict("records"))
        for name, definition in {**params.compared, **params.counted}.items()
    ]
    grid, failures = (
        read_frame(path).to_dict("records") for path in (inputs.grid, inputs.failures)
    )
    advice = advise(settings, frame, tables, grid, failures)
    write_text(snakemake.output[0], ADVICE.dump_json(advice, indent=1).decode() + "\n")
