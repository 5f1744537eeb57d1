"""The cases of a question: everything that was compared of one axis, from the rows of tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vcsbench.evidence.measurements import DECIDING_SHARE
from vcsbench.metrics import DEFAULT, metric_of, name_in
from vcsbench.statistics.contract import NOT_SHOWN, TOO_NOISY, TOO_SMALL
from vcsbench.words import is_number

Row = Mapping[Any, Any]
# A table of a study: its definition and its rows.
Table = tuple[Mapping[str, Any], Sequence[Row]]

BETTER, WORSE, EQUAL = "better", "worse", "equal"
NOISY, SMALL, FEW = "too noisy", "mostly start-up", "too few rounds"
# Above this share of fixed cost, a comparison is shown and decides nothing.
MOSTLY_FIXED = DECIDING_SHARE


@dataclass(frozen=True)
class Pair:
    """One comparison: `ratio` = time of the baseline / time of the candidate, with its 95 % interval.

    `outcome` is that of the candidate: BETTER, WORSE, EQUAL, or the reason for no decision.
    """

    baseline: str
    candidate: str
    ratio: float
    low: float
    high: float
    rounds: int
    outcome: str

    @property
    def is_decided(self) -> bool:
        """Return True if the comparison has a result."""
        return self.outcome in (BETTER, WORSE, EQUAL)


@dataclass(frozen=True)
class Case:
    """All comparisons between cells that differ in the axis of the question only.

    `where` has the values of the other axes, `times` the geometric mean in seconds of each value's rounds.
    """

    where: Mapping[str, str]
    pairs: tuple[Pair, ...]
    times: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def costs(self) -> dict[str, float]:
        """Return the time of each value as a multiple of the best one, from the decided pairs.

        Values without a decided path to the first pair's baseline are missing. Equal values cost the same.
        """
        decided = [pair for pair in self.pairs if pair.is_decided]
        logs = {decided[0].baseline: 0.0} if decided else {}
        for _ in decided:
            for pair in decided:
                step = 0.0 if pair.outcome == EQUAL else math.log(pair.ratio)
                if pair.baseline in logs:
                    logs.setdefault(pair.candidate, logs[pair.baseline] - step)
                elif pair.candidate in logs:
                    logs[pair.baseline] = logs[pair.candidate] + step
        least = min(logs.values(), default=0.0)
        return {value: math.exp(log - least) for value, log in logs.items()}

    @property
    def is_decided(self) -> bool:
        """Return True if the case counts for a recommendation."""
        return bool(self.costs)

    def pair_times(self, pair: Pair) -> tuple[float, float] | None:
        """Return the seconds of the baseline and the candidate, with exactly the pair's ratio."""
        if not (candidate := self.times.get(pair.candidate)):
            return None
        return candidate * pair.ratio, candidate


@dataclass(frozen=True)
class Missing:
    """A value that the grid has and no comparison shows: why, and how many cells."""

    value: str
    reason: str
    cells: int


def cases_of(
    axis: str,
    tables: Iterable[Table],
    axes: Sequence[str],
    values: Sequence[str] = (),
    times: Mapping[tuple[str, ...], float] | None = None,
) -> list[Case]:
    """Return the cases of an axis from the tables that compare its elapsed time.

    `axes` are the study's in order, `values` restrict what is compared (all without any), `times` has the
    geometric mean of each cell by its axis values.
    """
    found: dict[tuple[str, ...], dict[tuple[str, str], Pair]] = {}
    others = [name for name in axes if name != axis]
    for definition, rows in tables:
        if not _compares(definition, axis):
            continue
        for row in rows:
            pair = _pair(row)
            sides = {pair.baseline, pair.candidate} if pair else set()
            if pair and not (values and sides - set(values)):
                key = tuple(str(row.get(name) or "") for name in others)
                found.setdefault(key, {}).setdefault((pair.baseline, pair.candidate), pair)
    place = list(axes).index(axis)
    cases = []
    for key, pairs in found.items():
        named = dict.fromkeys(side for both in pairs for side in both)
        known = {side: (times or {}).get((*key[:place], side, *key[place:])) for side in named}
        seconds = {side: value for side, value in known.items() if value}
        cases.append(Case(dict(zip(others, key, strict=True)), tuple(pairs.values()), seconds))
    return cases


def _compares(definition: Mapping[str, Any], axis: str) -> bool:
    compare = definition.get("compare") or {}
    plain = not {"by", "reduce"} & definition.keys()
    return bool(compare.get("axis") == axis and name_in(definition) == DEFAULT and plain)


def _pair(row: Row) -> Pair | None:
    """Return the comparison of a table's row; None without a ratio."""
    if not is_number(row.get("ratio")) or row.get("withheld"):
        return None
    return Pair(
        baseline=str(row["baseline"]),
        candidate=str(row["candidate"]),
        ratio=float(row["ratio"]),
        low=_number(row.get("low")),
        high=_number(row.get("high")),
        rounds=int(_number(row.get("n")) or 0),
        outcome=outcome_of(row),
    )


def outcome_of(row: Row) -> str:
    """Return the outcome of a table's row for its candidate."""
    call, words = row.get("call") or "", metric_of(DEFAULT).words
    share = row.get("fixed_share")
    if call == TOO_SMALL or (is_number(share) and share > MOSTLY_FIXED):
        return SMALL
    known = {words.better: BETTER, words.worse: WORSE, NOT_SHOWN: EQUAL, TOO_NOISY: NOISY}
    return known.get(call, FEW)


def _number(value: object) -> float:
    return float(value) if is_number(value) else 0.0


def missing_values(
    axis: str, cases: Sequence[Case], grid: Sequence[Row], failures: Sequence[Row]
) -> list[Missing]:
    """Return the values of an axis without any comparison, with the most frequent reason.

    `grid` has a row per cell (cell, axes, skip), `failures` one per failed round (cell, reason).
    """
    compared = {side for c in cases for p in c.pairs for side in (p.baseline, p.candidate)}
    failed: dict[str, str] = {str(row["cell"]): str(row["reason"]) for row in failures}
    reasons: dict[str, dict[str, int]] = {}
    for row in grid:
        value, reason = str(row.get(axis) or ""), str(row.get("skip") or "")
        reason = reason or failed.get(str(row["cell"]), "")
        if value and value not in compared and reason:
            counts = reasons.setdefault(value, {})
            counts[reason] = counts.get(reason, 0) + 1
    return [
        Missing(value, max(counts, key=lambda reason: counts[reason]), sum(counts.values()))
        for value, counts in reasons.items()
    ]
