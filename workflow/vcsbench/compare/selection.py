"""Which cells a finding is about, and which of them count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench import words
from vcsbench.compare.bounds import Finding, matches, values_of
from vcsbench.compare.reduction import FIXED_SHARE
from vcsbench.evidence import counted, samework
from vcsbench.evidence.fixed_cost import DECIDING_SHARE
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import Metric


def where(rounds: pd.DataFrame, wanted: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of the cells that a finding names."""
    for axis, values in wanted.items():
        rounds = rounds[rounds[axis].isin(values_of(values))]
    return rounds


def sides_of(finding: Finding) -> list[str]:
    """The values that a finding compares, the baseline first; none where it compares nothing."""
    compare = finding.get("compare", {})
    return [str(compare[side]) for side in ("baseline", "candidate") if side in compare]


def keys_of(finding: Finding, axes: Sequence[str]) -> list[str]:
    """The axes that tell what a finding reduces apart, cells or pairs of them: all but the compared one."""
    return [axis for axis in axes if axis != finding.get("compare", {}).get("axis")]


def involved(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The rows of the cells that a finding is about; where it compares, of those with a partner."""
    rows = where(rounds, finding["where"])
    sides = sides_of(finding)
    if not sides:
        return rows
    compared = finding["compare"]["axis"]
    both = pd.concat([rows[rows[compared] == side] for side in sides])
    found = grouped(both, keys_of(finding, axes))[compared].transform("nunique")
    return both[found == len(sides)]


def comparable(
    finding: Finding, rows: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of the cells that did the same work as what they are compared with, and why each of
    the others was left out; `rows` as involved() has them."""
    compare = finding.get("compare")
    keys = keys_of(finding, axes)
    kept = [rows.iloc[:0]]
    refused: dict[str, None] = {}
    for _, part in grouped(rows, keys):
        names = part[compare["axis"]] if compare else [""] * len(part)
        name = samework.name_of(dict(part.iloc[0]), keys)
        refusal = samework.refusal(name, dict(zip(names, part["work"], strict=True)))
        # A number that is compared with none needs but to be of one thing.
        if refusal and (compare or refusal.flag == samework.OTHER):
            refused[f"{refusal.flag.replace('-', ' ')}: {refusal.reason}"] = None
        else:
            kept.append(part)
    return pd.concat(kept), tuple(refused)


def large_enough(
    finding: Finding, rows: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """Return the rows of the cells that are not mostly fixed cost, and a clause about the others.

    A pair is left out if one of its cells is.
    """
    keys = keys_of(finding, axes)
    if rows.empty or FIXED_SHARE not in rows:
        return rows, ""
    small = grouped(rows, keys)[FIXED_SHARE].transform("max") > DECIDING_SHARE
    if not small.any():
        return rows, ""
    all_of_them = grouped(rows, keys).ngroups
    left_out = grouped(rows[small], keys).ngroups
    thing = "pair" if sides_of(finding) else "cell"
    return rows[~small], (
        f"mostly fixed cost: {left_out} of {words.count_of(all_of_them, thing)} left out; "
        "a larger scale has less of it"
    )


def not_counted(rows: pd.DataFrame, metric: Metric) -> str:
    """Why rows have no number of a metric although they were measured; "" where that is not told."""
    found = (counted.why_not(why, metric.needs) for why in rows["not_counted"].unique())
    return next((f"not counted: {why}" for why in found if why), "")


def why_nothing(finding: Finding, grid: Sequence[Mapping[str, str]]) -> str:
    """Why there is no value: the grid lacks cells, this machine cannot measure them, or no run counts."""
    for side in [{finding["compare"]["axis"]: side} for side in sides_of(finding)] or [{}]:
        named = {**finding["where"], **side}
        cells = [cell for cell in grid if matches(cell, named)]
        said = ", ".join(f"{axis} {' or '.join(values_of(v))}" for axis, v in named.items())
        if not cells:
            return f"not in the grid: cells with {said or 'any'}"
        if all(cell["skip"] for cell in cells):
            return f"skipped: {cells[0]['skip']}"
    return "no result: the cells failed, or no run of theirs was what its label says"


def only_some(
    finding: Finding,
    rounds: pd.DataFrame,
    kept: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
) -> tuple[str, ...]:
    """How many of the grid's cells that a finding is about were measured, and over how many cells or pairs
    of cells its value was reduced; nothing where all were. `rounds` are of all cells that have a value of
    the finding's metric, `kept` of those that it was made of."""
    in_grid = [axis for axis in axes if grid and axis in grid[0]]
    compare = finding.get("compare")
    if not in_grid or (compare and compare["axis"] not in in_grid):
        return ()
    named = {**finding, "where": {a: v for a, v in finding["where"].items() if a in in_grid}}
    about = involved(named, pd.DataFrame(grid)[in_grid], in_grid).drop_duplicates()
    measured = about.merge(where(rounds, finding["where"])[in_grid].drop_duplicates())
    if len(measured) == len(about):
        return ()
    n = grouped(kept, keys_of(finding, axes)).ngroups
    said = f"of {len(about)} cells {len(measured)} were measured: reduced over"
    return (f"{said} {words.count_of(n, 'pair' if compare else 'cell')}",)
