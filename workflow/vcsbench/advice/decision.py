"""The cases of a question, and the decision rule: recommend the value with the smallest worst regret.

The regret of a value in a case is its time divided by the best time there. With a workload the rule
takes the smallest weighted mean of the logarithms of the regrets. A value that is missing or too noisy
in a case counts as the reference, which stays if the user changes nothing. One that is mostly start-up
has no regret.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS
from vcsbench.metrics import DEFAULT, METRICS, name_in
from vcsbench.statistics import comparisons, verdicts
from vcsbench.words import count_of, is_number

Row = Mapping[Any, Any]
Where = Mapping[str, str]
Cell = tuple[str, ...]

BETTER, WORSE, EQUAL = "better", "worse", comparisons.EQUAL
NOISY, SMALL, FEW = "too noisy", comparisons.TOO_SMALL, "too few rounds"
NO_DUPLICATES = "no duplicates"
VALUE, DEPENDS, UNDECIDED = "value", "depends", comparisons.UNDECIDED
NOT_MEASURED, NOT_COMPARED = verdicts.NOT_MEASURED, "not compared"
NO_SHARED_ROUND = "no round has valid runs of both sides"
# A table withholds comparisons with these flags.
REFUSING = {"hosts-differ", *same_work.REFUSED}
SAME = 1e-9
SAME_BINARIES = "same-binaries"


@dataclass(frozen=True)
class Pair:
    """One comparison: `ratio` = time of the baseline / time of the candidate, with its 95 % interval.

    `fixed_share` is the larger share of fixed cost of the two, 0 if unknown; `flags` are of both.
    """

    baseline: str
    candidate: str
    ratio: float
    low: float
    high: float
    rounds: int
    outcome: str
    fixed_share: float = 0.0
    detectable: float = 0.0
    flags: str = ""

    @property
    def is_decided(self) -> bool:
        return self.outcome in (BETTER, WORSE, EQUAL)

    @property
    def is_noise_check(self) -> bool:
        """Return True if both builds have the same binaries (A/A test)."""
        return SAME_BINARIES in self.flags.split()


@dataclass(frozen=True)
class Case:
    """The comparisons of cells that differ in the axis of the question only.

    `where` has the values of the other axes, `times` the geometric mean in seconds of each value.
    """

    where: Where
    pairs: tuple[Pair, ...]
    times: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def costs(self) -> dict[str, float]:
        """Return the time of each value as a multiple of the best one, from the decided pairs.

        Values without a decided path to the first pair's baseline are missing. Equal values cost the
        same.
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

    @cached_property
    def small(self) -> set[str]:
        pairs = [pair for pair in self.pairs if pair.outcome == SMALL]
        return {side for p in pairs for side in (p.baseline, p.candidate)} - self.costs.keys()

    @property
    def is_decided(self) -> bool:
        return bool(self.costs)

    def decides(self, value: str) -> bool:
        """Return True if the case decides a value, or any if the value is ""."""
        return value in self.costs if value else self.is_decided

    @property
    def is_small(self) -> bool:
        return bool(self.small) and not self.costs

    def regret(self, value: str, reference: str) -> float:
        if value in self.small:
            return 1.0
        return self.costs.get(value, self.costs.get(reference, 1.0))


@dataclass(frozen=True)
class Missing:
    """A value that the grid has and no comparison shows: why, and how many cells."""

    value: str
    reason: str
    cells: int

    def sentence(self, label: str) -> str:
        cells = count_of(self.cells, "cell")
        return f"{label}: {cells} not measured: {self.reason.rstrip('.')}."


@dataclass(frozen=True)
class Withheld:
    """A comparison of measured cells that has no result, with the reason and a remedy.

    `where` has the values of the other axes.
    """

    where: Where
    baseline: str
    candidate: str
    reason: str


def compares_times(definition: Mapping[str, Any], axis: str) -> bool:
    is_of_axis = (definition.get("compare") or {}).get("axis") == axis
    return (
        is_of_axis and name_in(definition) == DEFAULT and not {"by", "reduce"} & definition.keys()
    )


def cases_of(
    axis: str,
    rows: Iterable[Row],
    axes: Sequence[str],
    values: Sequence[str] = (),
    times: Mapping[Cell, float] | None = None,
) -> tuple[list[Case], list[Withheld]]:
    """Return the cases of an axis, and the comparisons of measured cells without a result.

    `rows` are from the tables that compare elapsed times of the axis. `axes` are the study's in order,
    `values` restrict what is compared (all if empty), `times` has the geometric mean of each cell.
    """
    place, others = list(axes).index(axis), [name for name in axes if name != axis]
    pairs_of: dict[Cell, dict[tuple[str, str], Pair]] = {}
    withheld: list[Withheld] = []
    for row in rows:
        sides = str(row["baseline"]), str(row["candidate"])
        if values and not {*sides} <= {*values}:
            continue
        where = {name: str(row.get(name) or "") for name in others}
        flags = str(row.get("flags") or "")
        if is_number(row.get("ratio")) and not row.get("withheld"):
            low, high, n, share, detectable = (
                row[name] if is_number(row.get(name)) else 0.0
                for name in ("low", "high", "n", "fixed_share", "detectable")
            )
            ratio, outcome = float(row["ratio"]), outcome_of(row)
            pair = Pair(*sides, ratio, low, high, int(n), outcome, share, detectable, flags)
            pairs_of.setdefault(tuple(where.values()), {}).setdefault(sides, pair)
            continue
        remedy = next((FLAGS[flag].advice for flag in flags.split() if flag in REFUSING), "")
        reason = f"{row.get('withheld') or NO_SHARED_ROUND}. {remedy}".strip()
        if (comparison := Withheld(where, *sides, reason)) not in withheld:
            withheld.append(comparison)
    cases = []
    for key, pairs in pairs_of.items():
        values_of = dict.fromkeys(side for both in pairs for side in both)
        known = {side: (times or {}).get((*key[:place], side, *key[place:])) for side in values_of}
        seconds = {side: value for side, value in known.items() if value}
        cases.append(Case(dict(zip(others, key, strict=True)), tuple(pairs.values()), seconds))
    return cases, withheld


def outcome_of(row: Row) -> str:
    result, flags = comparisons.result_of(row), str(row.get("flags") or "").split()
    if result == comparisons.DIFFERENT:
        return BETTER if row["call"] == METRICS[DEFAULT].words.better else WORSE
    if result != UNDECIDED:
        return result
    if "low-n" in flags or not row.get("call"):
        return FEW
    return NO_DUPLICATES if "no-duplicates" in flags else NOISY


def missing_values(
    axis: str, cases: Sequence[Case], grid: Sequence[Row], failures: Sequence[Row]
) -> list[Missing]:
    """Return the values without any comparison, with the most frequent reason.

    `grid` has a row per cell (cell, axes, skip), `failures` one per failed round (cell, reason).
    """
    compared = {side for c in cases for p in c.pairs for side in (p.baseline, p.candidate)}
    failed = {row["cell"]: str(row["reason"]) for row in failures}
    reasons: dict[str, Counter[str]] = {}
    for row in grid:
        value = str(row.get(axis) or "")
        reason = str(row.get("skip") or "") or failed.get(row["cell"], "")
        if value and value not in compared and reason:
            reasons.setdefault(value, Counter())[reason] += 1
    return [Missing(value, of.most_common(1)[0][0], of.total()) for value, of in reasons.items()]


def recommend(
    cases: Sequence[Case], reference: str, min_effect_pct: float, weights: Sequence[float] = ()
) -> tuple[str, str]:
    """Return the kind of the answer, and the value to choose even if the answer depends on the case."""
    decided = [case for case in cases if case.is_decided]
    if not decided:
        return UNDECIDED if cases else NOT_MEASURED, ""
    best, worst = smallest_regret(decided, reference)
    if max(worst.values()) <= 1 + SAME:
        return EQUAL, reference if reference in worst else next(iter(worst))
    if any(weights):
        # An undecided case has no regret.
        return VALUE, min(worst, key=lambda value: _log_regret(value, cases, reference, weights))
    return VALUE if worst[best] <= 1 + min_effect_pct / 100 + SAME else DEPENDS, best


def smallest_regret(cases: Sequence[Case], reference: str) -> tuple[str, dict[str, float]]:
    """Return the value with the smallest worst regret, and the worst regret of each value.

    Of equal values, the smallest mean is best.
    """
    values = dict.fromkeys(value for case in cases for value in case.costs)
    worst = {value: max(case.regret(value, reference) for case in cases) for value in values}

    def rank(value: str) -> tuple[float, float]:
        return round(worst[value], 6), _log_regret(value, cases, reference)

    return min(worst, key=rank), worst


def _log_regret(
    value: str, cases: Sequence[Case], reference: str, weights: Iterable[float] = repeat(1.0)
) -> float:
    logs = (math.log(case.regret(value, reference)) for case in cases)
    return math.fsum(weight * log for log, weight in zip(logs, weights, strict=False))
