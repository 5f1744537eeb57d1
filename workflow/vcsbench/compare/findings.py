"""Findings: what a study concluded, evaluated on published and on measured numbers alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench.compare.evaluation import NOTHING, Basis, Judged, estimate, expected, judge
from vcsbench.compare.noise import floors
from vcsbench.compare.reduction import by_round

# `why` says in words what made a verdict inconclusive, and what else it stands on.
COLUMNS = ["id", "statement", "published", "measured", "low", "high", "expected", "verdict", "why"]


def basis_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    published_scale: float | None,
) -> Basis:
    """What verdicts on a frame of the measurements stand on; `grid` as in its file."""
    scales: dict[str, float] = {}
    if "repo" in measured:
        lowest = measured.groupby("repo")["scale"].min().dropna()
        scales = {str(repo): float(scale) for repo, scale in lowest.items()}
    known = floors(measured, axes).by_class
    return Basis(
        floor=lambda *key: known.get(key, math.nan),
        scales=scales,
        published_scale=published_scale,
        grid=grid,
    )


def verdicts(
    findings: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    basis: Basis | None = None,
) -> pd.DataFrame:
    """A row per finding: id, statement, published, measured, low, high, expected, verdict, why.

    `published` is a frame of published.read_published, `measured` of the measurements; either may
    be None. `measured` is the mean over rounds (geometric for ratios) of the finding's value within
    each round, `low` and `high` its t interval.
    """
    known = None if published is None else by_round(published, axes)
    ours = None if measured is None else by_round(measured, axes)
    basis = basis or Basis()
    return pd.DataFrame(
        [_row(finding, axes, known, ours, basis) for finding in findings], columns=COLUMNS
    )


def _row(
    finding: Mapping[str, Any],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    basis: Basis,
) -> dict[str, Any]:
    theirs = NOTHING if published is None else estimate(finding, published, axes)
    ours = Judged() if measured is None else judge(finding, measured, axes, basis)
    return {
        "id": finding["id"],
        "statement": finding["statement"],
        "published": theirs.value,
        "measured": ours.estimate.value,
        "low": ours.estimate.low,
        "high": ours.estimate.high,
        "expected": expected(finding),
        "verdict": ours.verdict,
        "why": "; ".join(ours.why),
    }
