"""From exports to the report: what becomes of 2,500 cell-rounds after they were measured.

usage: python benchmarks/aggregation.py
Fakes their results (faked.py), and times the workflow that makes measurements, tables, findings, advice and
the report of them, with the seconds of each rule. The peer reads the same exports and contexts into one
bare pandas frame and writes it as CSV.
"""

from __future__ import annotations

import base64
import json
import sys
from collections import defaultdict

from faked import Project, faked_project
from rows import Row, run, seconds, show

ROUNDS = 5
PEER = """
import json, sys
from pathlib import Path
import pandas as pd
rows = []
for path in Path(sys.argv[1]).rglob("round*.context.json"):
    context = json.loads(path.read_bytes())
    export = json.loads(path.with_name(path.name.replace(".context", "")).read_bytes())
    rows.append({**context, **export["results"][0]})
pd.json_normalize(rows).to_csv(sys.argv[2])
"""


def rules(project: Project) -> dict[str, tuple[int, float]]:
    """Jobs and seconds of each rule, from Snakemake's records of the outputs."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for path in (project.path / ".snakemake" / "metadata").rglob("*"):
        if path.is_file():
            record = json.loads(path.read_text())
            name = base64.b64decode(path.name + "==", b"-_").decode(errors="replace")
            if not name.startswith("results/cells"):
                # Each output has a record; a job has one log.
                job = " ".join(record["log"])
                found[record["rule"]][job] = record["endtime"] - record["starttime"]
    return {rule: (len(jobs), sum(jobs.values())) for rule, jobs in found.items()}


def main() -> None:
    """Measure, and print the rows of a table."""
    with faked_project(ROUNDS, record=False) as (project, jobs):
        cells = project.path / "results" / "cells"
        peer = [sys.executable, "-c", PEER, cells, project.path / "peer.csv"]
        bare = seconds(lambda: run(peer, project.path))
        before = rules(project)
        taken = seconds(lambda: run(project.command(), project.path))
        after = {rule: one for rule, one in rules(project).items() if before.get(rule) != one}
    against = "pandas, bare"
    rows = [
        Row(f"{jobs:,} cell-rounds: all, Snakemake's start included", taken, bare, "s", against)
    ]
    rows += [
        Row(f"rule `{rule}`" + f", {count} jobs" * (count > 1), spent, bare, "s", against)
        for rule, (count, spent) in sorted(after.items(), key=lambda item: -item[1][1])
    ]
    show(rows)


if __name__ == "__main__":
    main()
