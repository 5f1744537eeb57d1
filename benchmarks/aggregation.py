"""Time the way from exports to the report, for 2,520 and 12,096 cell-rounds.

usage: python benchmarks/aggregation.py
Fakes the results (faked.py), and runs the workflow that makes measurements, tables, findings, advice and
the report of them: the fastest of three. The peer reads the same files into one bare pandas frame and writes
a CSV.
"""

from __future__ import annotations

import re
import sys

from faked import Project, faked_project, make_results
from rows import Row, cost, print_table

# Limits of the duration, by the number of rounds: 2,520 and 12,096 cell-rounds.
LIMITS_S = {5: 10.0, 24: 30.0}
LIMIT_MIB = 1000.0
# Run again: single times scatter by a fifth on a machine that others use.
AGAIN = ("--forcerun", "measurements", "published_tables")
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


def aggregation(project: Project, jobs: int, limit_s: float) -> list[Row]:
    """Return the rows of one size."""
    cells = project.path / "results" / "cells"
    peer = cost([sys.executable, "-c", PEER, cells, project.path / "peer.csv"], project.path)
    costs = [cost(project.command(*more), project.path) for more in ((), AGAIN, AGAIN)]
    ours = min(costs, key=lambda one: one.elapsed)
    what = f"{jobs:,} cell-rounds"
    return [
        Row(f"{what}: all, with Snakemake's start", ours.elapsed, limit_s, "s", "limit"),
        Row(f"{what}: processor time", ours.seconds, peer.seconds, "s", "bare pandas"),
        Row(f"{what}: memory", ours.peak_mib, LIMIT_MIB, "MiB", "limit"),
    ]


def main() -> None:
    """Measure, and print a table."""
    with faked_project(min(LIMITS_S)) as (project, _):
        text, rows = project.config.read_text(), []
        for rounds, limit_s in LIMITS_S.items():
            settings = re.sub(r"^rounds: .*", f"rounds: {rounds}", text, flags=re.MULTILINE)
            project.config.write_text(settings)
            rows += aggregation(project, make_results(project), limit_s)
    print_table(rows)


if __name__ == "__main__":
    main()
