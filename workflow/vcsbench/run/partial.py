"""What becomes of a run in which something failed: another Snakemake makes the report of what there is; where
the run has minutes, that measures the other cells until they are used up, else nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vcsbench import processes
from vcsbench.run import lock as running
from vcsbench.run.inputs import tables_by_rule

# Set for the second Snakemake only: to this where it measures.
VARIABLE = "VCSBENCH_PARTIAL"
MEASURES = "measures"
# All that run after the cells, beside those that make tables.
RULES = (
    "all",
    "grid",
    "measurements",
    "noise",
    "findings",
    "baseline_table",
    "history",
    "expectations",
    "advice",
    "report",
    "index",
    "account",
)
# And what runs before.
MEASURING = ("cell", "decide", "calls", "ceiling")


def is_partial() -> bool:
    """Whether this Snakemake makes the report of what there is."""
    return VARIABLE in os.environ


def measures() -> bool:
    """Whether it is that and measures first, all but what has failed."""
    return os.environ.get(VARIABLE) == MEASURES


def only_tells() -> bool:
    """Whether it is that and measures nothing: what is not there is left out."""
    return is_partial() and not measures()


def report_what_there_is(
    root: Path, config: Mapping[str, Any], snakefile: str, unfinished: bool = False
) -> None:
    """Make the reports with the cells that were measured; says where they are. `unfinished`: there may be
    time for more rounds of those that did not fail."""
    measured = _measured(root)
    if running.interrupted or is_partial() or not measured:
        return
    while unfinished:
        running.say("something failed; the other cells go on")
        if _make(root, config, snakefile, MEASURES) == 0:
            break
        # Something failed again. What was measured before that is more to decide by.
        before, measured = measured, _measured(root)
        unfinished = measured > before
    if unfinished or _make(root, config, snakefile) == 0:
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


def _measured(root: Path) -> int:
    return sum(1 for _ in root.glob("results/cells/*/**/round*.json"))


def _make(root: Path, config: Mapping[str, Any], snakefile: str, mode: str = "1") -> int:
    """Make the reports of the cells that were measured as the configuration says; the exit code."""
    measuring = mode == MEASURES
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=root / ".snakemake") as file:
        json.dump(config, file)
        file.flush()
        command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--cores", "1"),
            *("--nolock", "--configfile", file.name),
            # Nothing else may run: a cell that failed is for the next run.
            *("--allowed-rules", *RULES, *tables_by_rule(), *MEASURING * measuring),
        ]
        # It measures: it must not outlive the run that it belongs to.
        command = processes.tied(command, "TERM")
        return subprocess.run(command, env={**os.environ, VARIABLE: mode}).returncode
