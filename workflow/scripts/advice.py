"""Write the recommendations that a study's measurements support."""

import json
from pathlib import Path
from typing import Any

from vcsbench.advice.advise import StudyResults, StudyTerms, advise
from vcsbench.advice.cards import card_from, markdown_of
from vcsbench.advice.questions import questions_of
from vcsbench.evidence.frames import read_frame
from vcsbench.evidence.measurements import read_measurements
from vcsbench.files import write_text
from vcsbench.run.job import job_log
from vcsbench.statistics.contract import NUMBERS, Limits
from vcsbench.statistics.noise import machine_limits

snakemake: Any

with job_log(snakemake.log[0]):
    given, params = snakemake.input, snakemake.params
    frame = read_measurements(given.measurements)
    limits = machine_limits(Limits(**params.limits), frame, params.block)
    for axis, values in params.no_choices.items():
        frame = frame[~frame[axis].isin(values)]
    questions = questions_of(params.questions, params.typed)
    terms = StudyTerms(params.order, params.given, params.block, questions, params.mix, limits)
    tables = [
        (definition, read_frame(Path(given.tables, f"{name}.csv"), NUMBERS).to_dict("records"))
        for name, definition in {**params.compared, **params.counted}.items()
    ]
    grid, failures = (read_frame(path).to_dict("records") for path in (given.grid, given.failures))
    advice = advise(terms, StudyResults(frame, tables, grid, failures))
    data = {"study": snakemake.wildcards.study} | advice
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(snakemake.output.data, text + "\n")
    cards = [card_from(card) for card in advice["cards"]]
    write_text(snakemake.output.markdown, markdown_of(params.title, cards))
