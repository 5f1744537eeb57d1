"""Write the advice that a study's measurements support."""

import json
from typing import Any

from vcsbench.advice.blocks import Terms
from vcsbench.advice.recommend import advise
from vcsbench.compare.decisions import Limits
from vcsbench.evidence.measurements import read_measurements
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_sealed

snakemake: Any

with logged(snakemake.log[0]):
    frame = read_measurements(snakemake.input.measurements)
    params = snakemake.params
    terms = Terms(
        order=params.order,
        block=params.block,
        noise_class=params.noise_class,
        caveats=params.caveats,
        limits=Limits(**params.limits),
    )
    advice = {"study": snakemake.wildcards.study} | advise(frame, terms)
    text = json.dumps(advice, indent=1, ensure_ascii=False, allow_nan=False)
    write_sealed(snakemake.output[0], text + "\n")
