"""Write the noise of each class of a study's cells."""

from typing import Any

from vcsbench.evidence.measurements import read_measurements, write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.noise import noise_of, noise_table

snakemake: Any

with job_log(snakemake.log[0]):
    frame = read_measurements(snakemake.input.measurements)
    params = snakemake.params
    noise = noise_of(frame, params.axes, params.block)
    write_frame(noise_table(frame, params.axes, params.variance_group, noise), snakemake.output[0])
