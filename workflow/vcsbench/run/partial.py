"""The report of what there is after a failure: made by a second Snakemake that measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vcsbench.run import lock as running

# Set for the second Snakemake only.
VARIABLE = "VCSBENCH_PARTIAL"
# All that run after the cells.
RULES = (
    "all",
    "grid",
    "measurements",
    "noise",
    "table",
    "published_table",
    "findings",
    "baseline_table",
    "expectations",
    "advice",
    "report",
    "index",
)


def is_partial() -> bool:
    """Whether this Snakemake makes the report of what there is."""
    return VARIABLE in os.environ


def report_what_there_is(root: Path, config: Mapping[str, Any], snakefile: str) -> None:
    """Make the reports with the cells that were measured; says where they are."""
    if running.interrupted or is_partial() or not any(root.glob("results/cells/*/**/round*.json")):
        return
    if _make(root, config, snakefile) == 0:
        print(
            "Something failed; the report is made of what there is: reports/index.html",
            file=sys.stderr,
        )


def report_what_was_passed_over(
    root: Path, config: Mapping[str, Any], snakefile: str, targets: Collection[str]
) -> None:
    """After a run that only made copies, make the reports: Snakemake looks at no job behind one that
    runs if what lies between them is `ancient`, and so passes over tables that are missing or stale."""
    if not targets and not is_partial() and _make(root, config, snakefile) != 0:
        print("The copies are made; run again for the report", file=sys.stderr)


def _make(root: Path, config: Mapping[str, Any], snakefile: str) -> int:
    """Make the reports of the cells that were measured as the configuration says; the exit code."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=root / ".snakemake") as file:
        json.dump(config, file)
        file.flush()
        command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--cores", "1"),
            *("--nolock", "--quiet", "all", "--configfile", file.name),
            # Nothing else may run: a cell that failed is for the next run.
            *("--allowed-rules", *RULES),
        ]
        return subprocess.run(command, env={**os.environ, VARIABLE: "1"}).returncode
