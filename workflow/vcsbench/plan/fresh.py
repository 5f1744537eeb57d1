"""The report of what there is after a failure: made by a second Snakemake that measures nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
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


def wanted() -> bool:
    """Whether this Snakemake makes the report of what there is."""
    return VARIABLE in os.environ


def only_fresh(exports: Sequence[str], digest_of: Callable[[str, str], str]) -> list[str]:
    """Those of the exports that exist and were measured as the configuration says now.

    `digest_of` gives the digest of a cell's spec, by study and path.
    """
    return [path for path in exports if is_fresh(Path(path), digest_of)]


def is_fresh(export: Path, digest_of: Callable[[str, str], str]) -> bool:
    """Whether an export exists and was measured as the configuration says now."""
    measured = measured_as(export)
    return measured is not None and measured[2] == digest_of(measured[0], measured[1])


def export_of(path: Path) -> Path:
    """The export that a file of a cell-round belongs to: itself, or that beside its context."""
    return path.with_name(f"{path.name.split('.')[0]}.json")


def measured_as(export: Path) -> tuple[str, str, str] | None:
    """The study, the cell and the digest of the spec that an export was measured as; None where the
    export or its context is missing or not whole."""
    context = export.with_name(f"{export.stem}.context.json")
    try:
        return _measured_as(export, export.stat().st_ctime_ns, context, context.stat().st_ctime_ns)
    except OSError:
        return None


@cache
def _measured_as(export: Path, _: int, context: Path, __: int) -> tuple[str, str, str] | None:
    content = export.read_bytes()
    try:
        said = json.loads(context.read_bytes())
        if said["export_sha256"] != hashlib.sha256(content).hexdigest():
            return None
        return said["study"], said["cell"], said["recipe_digest"]
    except (ValueError, KeyError, TypeError):
        return None


def report_what_there_is(root: Path, config: Mapping[str, Any], snakefile: str) -> None:
    """Make the reports with the cells that were measured; says where they are."""
    if running.interrupted or wanted() or not any(root.glob("results/cells/*/**/round*.json")):
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
    if not targets and not wanted() and _make(root, config, snakefile) != 0:
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
