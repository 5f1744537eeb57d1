"""Findings: what a study concluded, evaluated on published and on measured numbers alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.errors import UserError
from vcsbench.intervals import Estimate, mean_interval, ratio_interval
from vcsbench.reduction import by_round
from vcsbench.validation import read_yaml

COLUMNS = ["id", "statement", "published", "measured", "low", "high", "expected", "verdict"]
REDUCERS = ("median", "min", "max")
NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


def read_findings(path: str | Path, study: str, axes: Sequence[str]) -> list[dict[str, Any]]:
    """The findings of a study, as the file's heading defines them; none if it has none.

    Raises a UserError where one lacks a key or names an axis that the study does not have.
    """
    findings: list[dict[str, Any]] = (read_yaml(Path(path)) or {}).get(study, [])
    for index, finding in enumerate(findings):
        name = f"{path}: `{study}[{index}]`"
        for key in ("id", "statement", "where", "expect"):
            if key not in finding:
                raise UserError(f"{name}: `{key}` is missing; see the file's heading")
        if ("compare" in finding) == ("level" in finding):
            raise UserError(f"{name}: needs either `compare` or `level`; see the file's heading")
        if finding["expect"].get("over") not in REDUCERS:
            raise UserError(f"{name}: `expect.over` is none of {', '.join(REDUCERS)}")
        compared = finding.get("compare", {}).get("axis")
        for axis in [*finding["where"], *([compared] if compared else [])]:
            if axis not in axes:
                raise UserError(f"{name}: the study has no axis `{axis}`; it has {', '.join(axes)}")
    return findings


def verdicts(
    findings: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
) -> pd.DataFrame:
    """A row per finding: id, statement, published, measured, low, high, expected, verdict.

    `published` is a frame of published.read_published, `measured` of the measurements; either may
    be None. `measured` is the mean over rounds (geometric for ratios) of the finding's value within
    each round, `low` and `high` its t interval.
    """
    known = None if published is None else by_round(published, axes)
    ours = None if measured is None else by_round(measured, axes)
    return pd.DataFrame([_row(finding, axes, known, ours) for finding in findings], columns=COLUMNS)


def _row(
    finding: Mapping[str, Any],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
) -> dict[str, Any]:
    ours = NOTHING if measured is None else estimate(finding, measured, axes)
    theirs = NOTHING if published is None else estimate(finding, published, axes)
    return {
        "id": finding["id"],
        "statement": finding["statement"],
        "published": theirs.value,
        "measured": ours.value,
        "low": ours.low,
        "high": ours.high,
        "expected": expected(finding),
        "verdict": verdict(finding, ours),
    }


def estimate(finding: Mapping[str, Any], rounds: pd.DataFrame, axes: Sequence[str]) -> Estimate:
    """The finding's value with its interval, from a frame of reduction.by_round.

    Only rounds in which nothing is missing are counted, so that all reduce the same cells.
    """
    rows = _where(rounds, finding["where"])
    compare = finding.get("compare")
    if compare:
        values = _speedups(rows, compare, [axis for axis in axes if axis != compare["axis"]])
    else:
        values = rows.assign(value=rows[finding["level"]])[[*axes, "round", "value"]]
    values = values[values["value"].notna()]
    pairs = len({tuple(row) for row in values.drop(columns=["round", "value"]).to_numpy()})
    by_pair = values.groupby("round")["value"]
    reduced = by_pair.agg(finding["expect"]["over"])[by_pair.count() == pairs]
    if len(reduced) == 1:  # as it is, not through a logarithm and back
        return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
    return ratio_interval(np.log(reduced)) if compare else mean_interval(reduced)


def _where(rounds: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    for axis, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        rounds = rounds[rounds[axis].isin([str(value) for value in values])]
    return rounds


def _speedups(
    rows: pd.DataFrame, compare: Mapping[str, Any], others: Sequence[str]
) -> pd.DataFrame:
    """baseline / candidate of each pair of cells within a round and a host; above 1 the candidate
    is faster."""
    metric = compare.get("metric", "elapsed_s")
    keys = [*others, "host", "round"]
    sides = [
        rows[rows[compare["axis"]] == str(compare[side])][[*keys, metric]]
        for side in ("baseline", "candidate")
    ]
    pairs = sides[0].merge(sides[1], on=keys, suffixes=("_baseline", "_candidate"))
    pairs["value"] = pairs[f"{metric}_baseline"] / pairs[f"{metric}_candidate"]
    return pairs[[*others, "round", "value"]]


def expected(finding: Mapping[str, Any]) -> str:
    """What the value must be, as people write it: `1.8 to 4.0`, `at least 4.5`, `at most 0.7`."""
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def holds(finding: Mapping[str, Any], value: float) -> bool:
    """Whether a value is what the finding expects."""
    expect = finding["expect"]
    return bool(expect.get("at_least", -math.inf) <= value <= expect.get("at_most", math.inf))


def verdict(finding: Mapping[str, Any], measured: Estimate) -> str:
    """reproduced, differs, inconclusive or not measured.

    It is inconclusive with too few rounds, and where the interval crosses a bound.
    """
    if not measured.n:
        return "not measured"
    if measured.low_n:
        return "inconclusive"
    expect = finding["expect"]
    # A bound beyond the noise floor will be asked for here.
    if holds(finding, measured.low) and holds(finding, measured.high):
        return "reproduced"
    below = measured.high < expect.get("at_least", -math.inf)
    above = measured.low > expect.get("at_most", math.inf)
    return "differs" if below or above else "inconclusive"
