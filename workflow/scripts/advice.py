"""Write the advice that a study's measurements support."""

import json
from pathlib import Path
from typing import Any

from vcsbench.advice.answers import Asked, cards
from vcsbench.advice.blocks import Terms
from vcsbench.advice.cardtext import markdown_of
from vcsbench.advice.recommend import tell
from vcsbench.advice.work import Counted, add_less_work
from vcsbench.compare.columns import NUMBERS
from vcsbench.compare.decisions import Limits
from vcsbench.compare.scatter import limits_here
from vcsbench.evidence.frames import read_frame
from vcsbench.evidence.measurements import read_measurements
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_text

snakemake: Any

with logged(snakemake.log[0]):
    frame = read_measurements(snakemake.input.measurements)
    params = snakemake.params
    limits = Limits(**params.limits)
    here = limits_here(limits, frame, params.block)
    for axis, values in params.no_choices.items():
        frame = frame[~frame[axis].isin(values)]
    terms = Terms(
        order=params.order,
        given=params.given,
        block=params.block,
        caveats=params.caveats,
        limits=here,
    )
    folder = Path(snakemake.input.tables)
    tables = [read_frame(folder / f"{name}.csv") for name in params.advised]
    told = tell(frame, terms, tables)
    advice = {"study": snakemake.wildcards.study} | told.advice
    compared = [
        (definition, read_frame(folder / f"{name}.csv", NUMBERS).to_dict("records"))
        for name, definition in params.compared.items()
    ]
    advice["cards"] = cards(
        told, terms, compared, Asked(params.questions, params.typed, params.mix)
    )
    counted = [
        Counted(definition, read_frame(folder / f"{name}.csv", NUMBERS).to_dict("records"))
        for name, definition in params.counted.items()
    ]
    add_less_work(advice["recommendations"], counted, terms.order, limits)
    text = json.dumps(advice, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(snakemake.output.data, text + "\n")
    write_text(snakemake.output.markdown, markdown_of(params.title, advice["cards"]))
