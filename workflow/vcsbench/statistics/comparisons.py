"""Columns and rows of tables, and the limits of a conclusion.

This module imports neither numpy nor pandas, because rules and pages import it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vcsbench import words
from vcsbench.codes import Call, Result, WhyUndecided, WithheldCode
from vcsbench.evidence.column_names import NUMBER_COLUMNS
from vcsbench.evidence.flags import DECIDING_SHARE, Flag

if TYPE_CHECKING:
    from vcsbench.config.configuration import Config

Value = TypeVar("Value")

# The columns `baseline` and `candidate`, and the ends of column names such as `flags_baseline`.
SIDES = ("baseline", "candidate")
STATISTIC, MEDIAN = "statistic", "median"

# The columns of the CSV file of a table, in its order. Those of axes stand between `table` and `baseline`.
LEADING_COLUMNS = (
    "table",
    "baseline",  # the compared value in the numerator of the ratio
    "candidate",  # the compared value in the denominator
    "value",  # as published: 100 x (baseline / candidate - 1); in a table of levels, the number of the cell
)
# Empty for published numbers, which have no rounds.
ROUND_COLUMNS = (
    "ratio",  # baseline_mean / candidate_mean; 2.0: the candidate takes half of the time
    "low",  # the ends of its 95 % interval
    "high",
    "n",  # the rounds that both sides have
    "flags",  # of both sides, separated by blanks
    "withheld",  # codes: why measured cells have no value (WithheldCode)
    "fixed_share",  # the share of start-up in the time, the larger one of both sides
)
# Empty in tables of levels, which compare nothing.
CALL_COLUMNS = (
    "call",  # the outcome of the comparison (Call)
    "result",  # the class in which it is counted (Result)
    "baseline_mean",  # geometric means over the rounds that both sides have
    "candidate_mean",
    "error",  # the standard error of ln(ratio), and its degrees of freedom
    "degrees",
    "duplicate_sd",  # the standard deviation of ln(duplicate / original)
    "detectable",  # the smallest ratio that would have been called; 1.05: 5 %
    "within",  # the largest ratio, in either direction, that is possible
    "detail",  # for readers only: the figures in which works differ
)
COLUMNS = (*LEADING_COLUMNS, *ROUND_COLUMNS, *CALL_COLUMNS)
# The fields of a row that are NaN if they are unknown. `n` is a count, and 0 then.
_FLOAT_FIELDS = tuple(name for name in COLUMNS if name in NUMBER_COLUMNS and name != "n")
# Further columns of the frames from which tables, verdicts and advice are computed, and of their results. In
# all of these, each axis is a column, too.
WORKING_COLUMNS = (
    *("hosts", "key", "log", "logs", "number", "quotient", "refused", "works"),
    *("share_baseline", "share_candidate"),
    *("measured", "published", "published_high", "published_low", "rounds", "runs"),
    *("settings", "time"),
)
ERROR = ("error", "degrees", "duplicate_sd")
MEANS = ("baseline_mean", "candidate_mean")
# These do not identify a row. `candidate` does, because a table may have several.
_FACTS = {*COLUMNS} - {"candidate"}

DIFFERENCES = (Call.FASTER, Call.SLOWER, Call.LESS, Call.MORE)
# In per cent. From here on, more than the 13 rounds of a default run are needed to show that a difference of
# 5 % is below 10 %.
NOISY_PCT = 6.0
# A comparison that shows less than this number of margins is bounded.
BOUNDED_MARGINS = 1.5
# One round has no scatter, and no interval. Two have one, because all cells of a study share their scatter.
CALLED_ROUNDS = 2


@dataclass(frozen=True)
class Limits:
    """Limits from which a conclusion is drawn, set before anything is measured.

    A difference below the margin `min_effect_pct` is not worth noting. `min_rounds` is the number of rounds
    that a comparison should have; fewer have the flag `low-n`, and wide intervals. A comparison of elapsed
    times is too small if its slower side takes less than `decides_from_s` seconds (a key of the study).
    """

    min_effect_pct: float = 10.0
    min_rounds: int = 5
    decides_from_s: float = 0.0

    @classmethod
    def from_config(cls, config: Config) -> Limits:
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
    """A row of a table that compares two values of an axis. Its fields are COLUMNS; missing numbers are NaN.

    `where` has the values of the other axes: `{"command": "log", "cache": "cold"}`.
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
        """Return the row of a record: of a row of make_tables(), or of a table's CSV file with floats.

        `{"command": "log", "baseline": "f6", "candidate": "f7", "ratio": 1.8, "flags": "too-short low-n"}`
        gives `where` {"command": "log"} and `flags` ("too-short", "low-n"). A missing or empty number becomes
        NaN, a text "", `n` 0, and `call` and `result` None. Raise ValueError for an unknown code.
        """

        def text(name: str) -> str:
            return str(record.get(name) or "")

        numbers = {name: finite_number(record.get(name)) for name in _FLOAT_FIELDS}
        # A CSV file has `n` as a float.
        n = finite_number(record.get("n"))
        # keys_of() also returns `candidate`, which is a field of its own.
        where = {axis: str(value or "") for axis, value in keys_of(record).items()}
        where.pop("candidate", None)
        call, result = text("call"), text("result")
        return cls(
            baseline=text("baseline"),
            candidate=text("candidate"),
            table=text("table"),
            where=where,
            n=0 if math.isnan(n) else int(n),
            flags=tuple(text("flags").split()),
            withheld=tuple(WithheldCode(code) for code in text("withheld").split()),
            detail=text("detail"),
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
        """Return why the row is undecided, or has no result yet; None for a result such as `different`."""
        if self.result not in (None, Result.UNDECIDED):
            return None
        if self.n < CALLED_ROUNDS:
            return WhyUndecided.FEW_ROUNDS
        if Flag.NO_DUPLICATES in self.flags:
            return WhyUndecided.NO_DUPLICATES
        # Only a difference that disturbed runs make undecided has this flag here (calls.withdraw_disturbed).
        if Flag.DISTURBED in self.flags:
            return WhyUndecided.DISTURBED
        return WhyUndecided.WIDE_INTERVAL


def comparison_rows(records: Iterable[Mapping[Any, Any]]) -> list[ComparisonRow]:
    return [ComparisonRow.of_record(record) for record in records]


def finite_number(value: object) -> float:
    return float(value) if words.is_number(value) else math.nan


def is_difference(call: str | None) -> bool:
    return call in DIFFERENCES


def classify_call(call: str, ratio: float, limits: Limits, is_count: bool = False) -> Result | None:
    """Return the class in which a call is counted; None if `call` is "".

    A difference is counted as DIFFERENT. If its factor is below the margin of the `limits`, it is counted as
    EQUAL, because it is no reason to change anything. With `is_count`, each difference is DIFFERENT, because
    a count has no noise: 5 % fewer flushes are fewer.
    """
    if not call:
        return None
    if not is_difference(call):
        # Each of the other calls has a class of the same name, such as `undecided`.
        return Result(call)
    factor = max(ratio, 1 / ratio)
    if is_count or factor >= limits.margin:
        return Result.DIFFERENT
    return Result.EQUAL


class StartUpShares(NamedTuple):
    """The shares of start-up in the time of the faster and slower side, and the factor between the sides.

    Start-up is the time of process start and connection. A share is 0 to 1, or NaN if unknown. The slow side
    takes at least `least_factor` times as long as the fast side, by the end of the interval that is nearer
    to 1.
    """

    fast: float
    slow: float
    least_factor: float


def start_up_shares(
    ratio: float, *, low: float, high: float, baseline: float, candidate: float
) -> StartUpShares:
    """Return the shares of start-up by speed, from the interval of a ratio and the shares of its two sides.

    `baseline` and `candidate` are the shares of start-up in the times of the sides. Example: 0.5 (0.4 to 0.6)
    with the shares 0.7 and 0.1 has the faster baseline, and gives (0.7, 0.1, 1.67).
    """
    if ratio >= 1:
        return StartUpShares(fast=candidate, slow=baseline, least_factor=low)
    return StartUpShares(fast=baseline, slow=candidate, least_factor=1 / high)


def can_be_start_up(fast_share: float, slow_share: float, least_factor: float) -> bool:
    """Return True if start-up alone can explain that one side is slower. The arguments are of StartUpShares.

    One of the shares must be above one half, and the slow side without its start-up may take no longer than
    the whole fast side. Example: the fast side is mostly start-up (0.66). The slow side takes at least 4.8
    times as long, and 0.1 of its time is start-up. Then (1 - 0.1) x 4.8 = 4.3, so the work differs: False.
    """
    # No comparison with NaN is true. So two unknown shares give False. If only the share of the slow side is
    # unknown, all of its time could be start-up, and a fast side that is mostly start-up gives True.
    is_mostly_start_up = fast_share > DECIDING_SHARE or slow_share > DECIDING_SHARE
    # In units of the whole time of the fast side.
    slow_work = (1 - slow_share) * least_factor
    is_certainly_slower = slow_work > 1
    return is_mostly_start_up and not is_certainly_slower


def has_longer_start_up(fast_share: float, slow_share: float, least_factor: float) -> bool:
    """Return True if the slow side is certainly slower, but may not be without the start-up of both sides.

    Example: the slow side takes at least 1.36 times as long. Start-up is 0.31 of its time, and 0.03 of the
    fast side's. Then (1 - 0.31) x 1.36 = 0.94 is no more than 1 - 0.03: the start-up of the slow side takes
    longer, not its work. The reason is another server or protocol. If a share is unknown, return False.
    """
    # In units of the whole time of the fast side.
    slow_work = (1 - slow_share) * least_factor
    fast_work = 1 - fast_share
    return least_factor > 1 and slow_work <= fast_work


def start_up_explains(shares: StartUpShares, is_difference: bool) -> bool:
    """Return True if start-up alone can explain that one side is slower.

    A longer start-up of the slow side explains only a comparison that was called a difference.
    """
    return can_be_start_up(*shares) or (is_difference and has_longer_start_up(*shares))


def scatter_pct(scatter: float) -> float:
    """Return the standard deviation of a logarithm in per cent: 35 for 0.3; 0 if it is unknown (NaN)."""
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def list_columns(keys: Sequence[str]) -> list[str]:
    """Return the names of a table's columns. `keys` are its axes, without the compared one."""
    return [COLUMNS[0], *keys, *COLUMNS[1:]]


def keys_of(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return the columns that identify a row of a table, with their values: the axes, and `candidate`."""
    return {name: value for name, value in row.items() if name not in _FACTS}
