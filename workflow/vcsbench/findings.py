"""Findings: what a study concluded, evaluated on published and on measured numbers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evaluation import NOTHING, Basis, Judged, estimate, expected, judge
from vcsbench.reduction import by_round
from vcsbench.validation import read_yaml, validate

# `why` says in words what made a verdict inconclusive, and what else it stands on.
COLUMNS = ["id", "statement", "published", "measured", "low", "high", "expected", "verdict", "why"]


def read_findings(path: str | Path, study: str, axes: Sequence[str]) -> list[dict[str, Any]]:
    """The findings of a study, as workflow/schemas/findings.schema.yaml defines them; none if it has
    none.

    Raises a UserError where a key is missing or unknown, one names an axis that the study does not
    have, or an id stands twice.
    """
    findings: list[dict[str, Any]] = _content(str(path)).get(study, [])
    seen: set[str] = set()
    for index, finding in enumerate(findings):
        name = f"{path}: `{study}[{index}]`"
        _check(finding, name, axes)
        if finding["id"] in seen:
            raise UserError(f"{name}: the id `{finding['id']}` stands twice; give it another")
        seen.add(finding["id"])
    return [{"where": {}, **finding} for finding in findings]


@cache
def _content(path: str) -> dict[str, Any]:
    content: Any = read_yaml(Path(path))
    checked: dict[str, Any] = {} if content is None else content
    validate(checked, "findings", lambda _keys: path)
    return checked


def _check(finding: Mapping[str, Any], name: str, axes: Sequence[str]) -> None:
    """Raise a UserError for what the schema cannot say."""
    compare = finding.get("compare")
    if (compare is None) == ("level" not in finding):
        raise UserError(f"{name}: needs either `compare` or `level`; say which")
    if not {"at_least", "at_most"} & finding["expect"].keys():
        raise UserError(f"{name}: `expect` has no bound; add `at_least` or `at_most`")
    if compare is not None:
        _check_compare(compare, name)
    compared = [compare["axis"]] if compare and "axis" in compare else []
    for axis in [*finding.get("where", {}), *compared]:
        if axis not in axes:
            raise UserError(f"{name}: the study has no axis `{axis}`; it has {', '.join(axes)}")


def _check_compare(compare: Mapping[str, Any], name: str) -> None:
    sides = {"axis", "baseline", "candidate"}
    if "to" in compare:
        if mixed := sorted(compare.keys() - {"to"}):
            raise UserError(
                f"{name}: `compare.{mixed[0]}` does not go with `compare.to`; leave one of them out"
            )
    elif missing := sorted(sides - compare.keys()):
        raise UserError(
            f"{name}: `compare.{missing[0]}` is missing; `compare` needs axis, baseline and candidate"
        )


def basis_of(
    measured: pd.DataFrame, grid: Sequence[Mapping[str, str]], published_scale: float | None
) -> Basis:
    """What verdicts on a frame of the measurements stand on; `grid` as in its file."""
    scales: dict[str, float] = {}
    if "repo" in measured:
        lowest = measured.groupby("repo")["scale"].min().dropna()
        scales = {str(repo): float(scale) for repo, scale in lowest.items()}
    return Basis(scales=scales, published_scale=published_scale, grid=grid)


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
