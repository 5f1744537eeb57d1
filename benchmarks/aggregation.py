"""From exports to the report: what becomes of 2,500 and of 12,000 cell-rounds after they were measured.

usage: python benchmarks/aggregation.py
Fakes their results (faked.py), and times the workflow that makes measurements, tables, findings, advice and
the report of them, the best of three: on the clock, in processor time, by rule (jobs side by side, on the
clock), and the memory of the largest process. The peer reads the same exports and contexts into one bare
pandas frame and writes it as CSV.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections import defaultdict

from faked import STUDY, Project, faked_project, make_results
from rows import Row, cost, show

# 2,520 and 12,096 cell-rounds, by the number of rounds: how long they may take.
LIMITS_S = {5: 10.0, 24: 30.0}
LIMIT_MIB = 1000.0
# The same once more: single readings scatter by a fifth on a machine that others use.
AGAIN = ("--forcerun", "measurements", f"published_tables_of_{STUDY}")
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


def aggregated(project: Project, jobs: int, limit_s: float) -> list[Row]:
    """The rows of one size: the clock against its limit, the rest against a bare pandas."""
    cells = project.path / "results" / "cells"
    peer = cost([sys.executable, "-c", PEER, cells, project.path / "peer.csv"], project.path)
    before = rules(project)
    ours = min(
        (cost(project.command(*given), project.path) for given in ((), AGAIN, AGAIN)),
        key=lambda one: one.elapsed,
    )
    after = {rule: one for rule, one in rules(project).items() if before.get(rule) != one}
    what, against = f"{jobs:,} cell-rounds", "pandas, bare"
    rows = [
        Row(f"{what}: all, Snakemake's start included", ours.elapsed, limit_s, "s", "limit"),
        Row(f"{what}: the same, processor time", ours.seconds, peer.seconds, "s", against),
        Row(f"{what}: the same, memory", ours.peak_mib, LIMIT_MIB, "MiB", "limit"),
    ]
    slowest = sorted(after.items(), key=lambda item: -item[1][1])
    return rows + [
        Row(
            f"{what}: `{rule}`" + f", {count} jobs" * (count > 1), spent, peer.elapsed, "s", against
        )
        for rule, (count, spent) in slowest
    ]


def main() -> None:
    """Measure, and print the rows of a table."""
    with faked_project(min(LIMITS_S), record=False) as (project, _):
        text, rows = project.config.read_text(), []
        for rounds, limit_s in LIMITS_S.items():
            wanted = re.sub(r"^rounds: .*", f"rounds: {rounds}", text, flags=re.MULTILINE)
            project.config.write_text(wanted)
            jobs = make_results(project, record=False)
            rows += aggregated(project, jobs, limit_s)
    show(rows)


if __name__ == "__main__":
    main()
