"""Findings: what a study concluded, evaluated on published and on measured numbers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import pandas as pd

from vcsbench.compare.bounds import Finding, in_words
from vcsbench.compare.columns import OF_FINDINGS
from vcsbench.compare.decisions import Limits
from vcsbench.compare.evaluation import (
    NOTHING,
    Basis,
    Evaluation,
    estimate,
    evaluate,
    unit_of,
)
from vcsbench.compare.noise import noise_of
from vcsbench.compare.reduction import MEAN, as_reduced, by_round, told_apart
from vcsbench.compare.statistic import STATISTIC
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import samework
from vcsbench.metrics import metric_of


def basis_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published_scale: float | None = None,
) -> Basis:
    """What verdicts on a frame of the measurements stand on; `grid` as in its file."""
    grid = [row for row in grid if row.get("repo") != EMPTY]
    subject = samework.subject_axis(axes)
    lowest = measured.groupby(subject)["scale"].min().dropna() if subject else pd.Series()
    scales = {str(value): float(scale) for value, scale in lowest.items()}
    noise = cache(lambda metric: noise_of(measured, axes, block, metric_of(metric)))
    return Basis(noise, scales, published_scale, grid, limits=limits)


def verdicts(
    findings: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    basis: Basis | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """A row per finding, with the columns OF_FINDINGS.

    `published` is a frame of published.read_published, `measured` of the measurements; either may
    be None. `by` are columns of theirs that tell cells apart like axes. `measured` is the mean over rounds
    (geometric for ratios) of the finding's value within each round, `low` and `high` its interval.
    """
    keys = [*axes, *by]
    basis = basis or Basis()
    known = None if published is None else rounds_of(published, keys, by)
    reduced = None if measured is None else cache(partial(rounds_of, measured, keys, by))
    rows = []
    for finding in findings:
        statistic, plain = without_statistic(finding)
        theirs = None if known is None else as_reduced(known, statistic)
        ours = None if reduced is None else reduced(statistic)
        rows.append(_row(plain, keys, theirs, ours, basis))
    return pd.DataFrame(rows, columns=OF_FINDINGS)


def rounds_of(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    """What findings are evaluated on: the rounds of a frame, each reduced to a statistic."""
    return by_round(told_apart(frame, by)[0], keys, statistic)


def without_statistic(finding: Finding) -> tuple[str, Finding]:
    """Which statistic of the runs a finding is about (the mean, where it says none), and the finding for
    numbers that have been reduced to that."""
    where = finding["where"]
    rest = {axis: values for axis, values in where.items() if axis != STATISTIC}
    return str(where.get(STATISTIC, MEAN)), {**finding, "where": rest}


def _row(
    finding: Mapping[str, Any],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    basis: Basis,
) -> dict[str, Any]:
    theirs = NOTHING if published is None else estimate(finding, published, axes)
    ours = Evaluation() if measured is None else evaluate(finding, measured, axes, basis)
    return {
        "id": finding["id"],
        "statement": finding["statement"],
        "published": theirs.value,
        "measured": ours.estimate.value,
        "low": ours.estimate.low,
        "high": ours.estimate.high,
        "unit": unit_of(finding),
        "over": ours.over,
        "expected": in_words(finding),
        "verdict": ours.verdict,
        "why": "; ".join(ours.why),
    }
