"""Write the grid of a study: a row per cell."""

import csv
from pathlib import Path
from typing import Any

snakemake: Any

with Path(snakemake.output[0]).open("w", newline="", encoding="utf-8") as file:
    csv.writer(file, lineterminator="\n").writerows(snakemake.params.cells)
