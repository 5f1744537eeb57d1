"""Columns and rows of tables, and the limits of a conclusion.

This module imports neither numpy nor pandas, because rules and pages import it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vcsbench import words
from vcsbench.codes import Call, Result, WhyUndecided, WithheldCode
from vcsbench.evidence.flags import DECIDING_SHARE, Flag

if TYPE_CHECKING:
    from vcsbench.config.configuration import Config

Value = TypeVar("Value")

SIDES = ("baseline", "candidate")
STATISTIC, MEDIAN = "statistic", "median"
# `withheld` has codes if measured cells are not compared. `fixed_share` is the larger of both sides.
STATISTICS = ("ratio", "low", "high", "n", "flags", "withheld", "fixed_share")
# Standard error and degrees of freedom of ln ratio, and standard deviation between duplicates.
ERROR = ("error", "degrees", "duplicate_sd")
# Geometric means of both sides over their common rounds; their quotient is the ratio.
MEANS = ("baseline_mean", "candidate_mean")
# `detectable` is the smallest ratio that would have been called, `within` the largest that is possible.
# `detail` is for readers only: the figures in which works differ.
CALL = ("call", "result", *MEANS, *ERROR, "detectable", "within", "detail")
NUMBERS = (
    *("value", "ratio", "low", "high", "n", "fixed_share", *MEANS, *ERROR),
    *("detectable", "within"),
)
_FACTS = {"table", "baseline", "value", *STATISTICS, *CALL}

DIFFERENCES = (Call.FASTER, Call.SLOWER, Call.LESS, Call.MORE)
_RESULTS = {
    Call.EQUAL: Result.EQUAL,
    Call.BOUNDED: Result.BOUNDED,
    Call.UNDECIDED: Result.UNDECIDED,
    Call.TOO_SMALL: Result.TOO_SMALL,
}
# Results that answer the question of a comparison.
ANSWERS = (Result.DIFFERENT, Result.EQUAL)

ALL_DECIDED, TIME_IS_UP, UNREACHABLE = "answered", "time is up", "more rounds tell nothing"

# In per cent. From here on, more than the 13 rounds of a default run are needed to show that a difference of
# 5 % is below 10 %.
NOISY_PCT = 6.0
# A comparison that shows less than so many margins is bounded.
BOUNDED_MARGINS = 1.5
# One round has no scatter, and no interval. Two have one, because all cells of a study share their scatter.
CALLED_ROUNDS = 2


@dataclass(frozen=True)
class Limits:
    """Limits from which a conclusion is drawn, set before anything is measured.

    A difference below the margin `min_effect_pct` is not worth noting. `min_rounds` is the number of rounds
    that a comparison should have; fewer have the flag `low-n`, and wide intervals.
    """

    min_effect_pct: float = 10.0
    min_rounds: int = 5

    @classmethod
    def of(cls, config: Config) -> Limits:
        return cls(config.settings.min_effect_pct, config.least_rounds)

    @property
    def margin(self) -> float:
        """Return the smallest ratio that is worth noting, such as 1.1."""
        return 1 + self.min_effect_pct / 100

    @property
    def bound(self) -> float:
        """Return the largest possible ratio of a bounded comparison, such as 1.15."""
        return 1 + BOUNDED_MARGINS * self.min_effect_pct / 100

    def has_few_rounds(self, rounds: float) -> bool:
        return rounds < self.min_rounds


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class ComparisonRow:
    """A row of a table that compares two values of an axis. Missing numbers are NaN.

    `where` has the values of the other axes. `ratio` is baseline_mean / candidate_mean with its 95 %
    interval, `within` the largest ratio, in either direction, that is possible.
    """

    baseline: str
    candidate: str
    table: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    value: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    flags: tuple[str, ...] = ()
    withheld: tuple[WithheldCode, ...] = ()
    detail: str = ""
    fixed_share: float = math.nan
    call: Call | None = None
    result: Result | None = None
    baseline_mean: float = math.nan
    candidate_mean: float = math.nan
    error: float = math.nan
    degrees: float = math.nan
    duplicate_sd: float = math.nan
    detectable: float = math.nan
    within: float = math.nan

    @classmethod
    def of_record(cls, record: Mapping[Any, Any]) -> ComparisonRow:
        """Return the row of a record of a table's CSV file or frame."""
        numbers = {name: finite_number(record.get(name)) for name in NUMBERS if name != "n"}
        rounds = finite_number(record.get("n"))
        call, result = (str(record.get(name) or "") for name in ("call", "result"))
        return cls(
            baseline=str(record.get("baseline") or ""),
            candidate=str(record.get("candidate") or ""),
            table=str(record.get("table") or ""),
            where={
                axis: str(value or "")
                for axis, value in keys_of(record).items()
                if axis != "candidate"
            },
            n=0 if math.isnan(rounds) else int(rounds),
            flags=tuple(str(record.get("flags") or "").split()),
            withheld=tuple(map(WithheldCode, str(record.get("withheld") or "").split())),
            detail=str(record.get("detail") or ""),
            call=Call(call) if call else None,
            result=Result(result) if result else None,
            **numbers,
        )

    @property
    def has_ratio(self) -> bool:
        return math.isfinite(self.ratio) and not self.withheld

    @property
    def is_exact(self) -> bool:
        """Return True if the ratio is of counts that were equal in every round."""
        return self.low == self.high

    @property
    def why_undecided(self) -> WhyUndecided | None:
        """Return why the row is undecided; None for any other result."""
        if self.result not in (None, Result.UNDECIDED):
            return None
        if self.n < CALLED_ROUNDS:
            return WhyUndecided.FEW_ROUNDS
        if Flag.NO_DUPLICATES in self.flags:
            return WhyUndecided.NO_DUPLICATES
        return WhyUndecided.WIDE_INTERVAL


def comparison_rows(records: Iterable[Mapping[Any, Any]]) -> list[ComparisonRow]:
    return [ComparisonRow.of_record(record) for record in records]


def finite_number(value: object) -> float:
    return float(value) if words.is_number(value) else math.nan


def is_difference(call: str | None) -> bool:
    return call in DIFFERENCES


def result_of(call: str, ratio: float, limits: Limits, is_count: bool = False) -> Result | None:
    """Return how a call is counted. A difference of times below the margin is counted as equal."""
    if not call:
        return None
    if not is_difference(call):
        return _RESULTS[Call(call)]
    is_large = is_count or max(ratio, 1 / ratio) >= limits.margin
    return Result.DIFFERENT if is_large else Result.EQUAL


def can_be_start_up(fast_share: float, slow_share: float, least_factor: float) -> bool:
    """Return True if start-up alone can explain that one side is slower than the other.

    The shares are of fixed cost: process start and connection. `least_factor` is the end of the interval
    that is nearer to 1. Start-up explains no difference that is left without the start-up of the slow side.
    """
    # An unknown share is NaN, and larger than nothing.
    is_mostly_start_up = fast_share > DECIDING_SHARE or slow_share > DECIDING_SHARE
    is_explained = not (1 - slow_share) * least_factor > 1
    return is_mostly_start_up and is_explained


def scatter_pct(scatter: float) -> float:
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def columns(keys: Sequence[str]) -> list[str]:
    return ["table", *keys, "baseline", "candidate", "value", *STATISTICS, *CALL]


def keys_of(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return what identifies a row: the values of axes, and the candidate."""
    return {name: value for name, value in row.items() if name not in _FACTS}
