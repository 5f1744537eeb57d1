"""Judges the runs of a cell-round while it is measured: what passes is tried again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vcsbench.evidence import hyperfine_export, judgement


def judge_by(
    recipe: Mapping[str, Any], thresholds: Mapping[str, float]
) -> Callable[[Path, list[dict[str, Any]]], None]:
    """What adds to runs the times that an export tells of them, and their flags."""
    promises = recipe["state"]["promises"]

    def judge(export: Path, runs: list[dict[str, Any]]) -> None:
        for run, timed in zip(runs, hyperfine_export.read(export), strict=True):
            run["certificate"] = judgement.with_times(run["certificate"], timed)
            of_run = judgement.promised(promises, run["run"])
            run["flags"] = judgement.judge(run["certificate"], timed.elapsed_s, of_run, thresholds)

    return judge
