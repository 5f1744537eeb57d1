"""Write the advice that a study's measurements support."""

import json
from typing import Any

from vcsbench.advice.recommend import advise
from vcsbench.evidence.frames import value_order
from vcsbench.evidence.measurements import read_measurements
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_sealed

snakemake: Any

with logged(snakemake.log[0]):
    frame = read_measurements(snakemake.input.measurements)
    order = value_order(snakemake.params.axes, frame)
    params = snakemake.params
    made = advise(frame, order, params.caveats, params.notable_pct)
    advice = {"study": snakemake.wildcards.study} | made
    text = json.dumps(advice, indent=1, ensure_ascii=False, allow_nan=False)
    write_sealed(snakemake.output[0], text + "\n")
