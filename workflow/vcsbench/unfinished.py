"""The report of what there is after a failure: made by a second Snakemake that measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Set for the second Snakemake only.
VARIABLE = "VCSBENCH_PARTIAL"


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
    try:
        context = json.loads(export.with_name(f"{export.stem}.context.json").read_text())
    except (OSError, ValueError):
        return False
    return export.exists() and context["spec_digest"] == digest_of(
        context["study"], context["cell"]
    )


def report_what_there_is(root: Path, config: Mapping[str, Any], snakefile: str) -> None:
    """Make the reports with the cells that were measured; says where they are."""
    if wanted() or not any(root.glob("results/cells/*/**/round*.json")):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            snakefile,
            "--cores",
            "1",
            "--nolock",
        ]
        # Nothing else may run: a cell that failed is for the next run.
        rules = [
            "all",
            "grid",
            "measurements",
            "table",
            "published_table",
            "findings",
            "baseline_table",
            "expectations",
            "advice",
            "report",
            "index",
        ]
        command += ["--quiet", "all", "--configfile", file.name, "--allowed-rules", *rules]
        done = subprocess.run(command, env={**os.environ, VARIABLE: "1"})
    if done.returncode == 0:
        print(
            "Something failed; the report is made of what there is: reports/index.html",
            file=sys.stderr,
        )
