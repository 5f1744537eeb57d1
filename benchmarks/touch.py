"""`snakemake --touch` without its pause of 0.1 s for each job: outputs become those that their rules made.

usage: python benchmarks/touch.py SNAKEMAKE_ARGUMENTS
"""

from __future__ import annotations

from snakemake.cli import main
from snakemake.executors.touch import Executor

if __name__ == "__main__":
    Executor.SLEEPING_TIME = 0
    main()
