"""Give the rounds of a run with minutes to the comparisons that they can still decide.

A comparison is precise enough if its interval decides it on either side:

    t_difference + t_equivalence <= ln(1 + smallest effect),  or  t_difference <= half of |ln ratio|

(half widths at the level of the call). That depends on widths and magnitudes, never on the winner: a run
that stops by it makes no more false calls (benchmarks/simulation.py, `by minutes`).

Blocks whose cells are compared get rounds together. With a share x of the rounds that it needs, a
comparison is decided with a probability of about Phi(T (2 sqrt(x) - 1)). Rounds go where this grows most
per second, over as many rounds ahead as are best.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vcsbench.evidence.measurements import TimeBreakdown
from vcsbench.metrics import metric_of
from vcsbench.plan.result_state import block_name
from vcsbench.statistics.contract import (
    ALL_DECIDED,
    TIME_IS_UP,
    TOO_NOISY,
    UNREACHABLE,
    Limits,
    is_difference,
    rounds_needed,
    scatter_pct,
)
from vcsbench.statistics.estimates import t_quantile
from vcsbench.statistics.findings import EvaluationContext, FindingCheck, rounds_of
from vcsbench.statistics.multiple_testing import EQUIVALENCE_ALPHA, holm_level
from vcsbench.statistics.noise import noise_of
from vcsbench.statistics.tables import SIDES

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition
    from vcsbench.config.study import TableDefinition

# A batch takes half of the remaining time, because the next decision has more data; but no less than this.
MIN_BATCH_S = 60.0
# Time outside of measuring: start of Snakemake, tables and report.
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01
# Longest forecast: a year.
FORECAST_S = 365 * 24 * 3600.0
# About Student's t at the level of a difference.
T = 3.0
ROUNDS_AHEAD = np.unique(np.geomspace(1, 1000, 25).astype(int))
# A finding with the rounds that it needs has its verdict in half of all cases; a comparison needs a quarter.
FINDING_ROUNDS_FACTOR = 4


@dataclass(frozen=True)
class Comparison:
    """A row of a table: its blocks, call, rounds, and the rounds that it needs (infinite if unreachable)."""

    table: str
    blocks: frozenset[str]
    call: str
    rounds: int
    needed: float

    @property
    def is_precise_enough(self) -> bool:
        """Return True if more rounds change nothing."""
        return self.rounds >= self.needed

    @property
    def is_decided(self) -> bool:
        """Return True if it has a call."""
        return self.call != TOO_NOISY


@dataclass(frozen=True)
class ComparisonSettings:
    """Definitions of a study's noisy comparison tables, its axes with values in order, and its limits."""

    tables: Mapping[str, TableDefinition]
    order: Mapping[str, list[str]]
    block: Sequence[str]
    limits: Limits

    @classmethod
    def on_machine(cls, params: Mapping[str, Any], scatter: float) -> ComparisonSettings:
        """Return the settings from the params of a rule, on a machine whose runs scatter by this much."""
        return cls(**{**params, "limits": Limits(**params["limits"]).on_machine(scatter)})


def comparisons_of(
    tables: Iterable[pd.DataFrame], settings: ComparisonSettings
) -> list[Comparison]:
    """Return the comparisons of tables, which are in the order of the settings."""
    comparisons = []
    for (name, definition), table in zip(settings.tables.items(), tables, strict=True):
        rows = table[table["ratio"].notna()].to_dict("records")
        level = holm_level(sum(not is_difference(row["call"]) for row in rows))
        axis = definition["compare"]["axis"]
        for row in rows:
            where = {key: row.get(key) for key in settings.block}
            blocks = frozenset(block_name(settings.block, {**where, axis: row[s]}) for s in SIDES)
            needed = comparison_rounds(row, level, settings.limits)
            comparisons.append(Comparison(name, blocks, row["call"], int(row["n"]), needed))
    return comparisons


def comparison_rounds(row: Mapping[str, Any], level: float, limits: Limits) -> float:
    """Return the rounds after which a table's row is precise enough, with today's mean and scatter.

    All of its error is taken to shrink, because after few rounds the part of duplicates is mostly chance.
    """
    if math.isnan(row["twin_sd"]):  # Without duplicates nothing is called.
        return math.inf
    if math.isnan(row["error"]):
        return limits.min_rounds
    difference = t_quantile(row["degrees"], 1 - level)
    equivalence = t_quantile(row["degrees"], 1 - 2 * EQUIVALENCE_ALPHA)
    smallest = math.log1p(limits.min_effect_pct / 100) / (difference + equivalence)
    narrow = max(smallest, abs(math.log(row["ratio"])) / 2 / difference)
    return max(limits.min_rounds, math.ceil(row["n"] * (row["error"] / narrow) ** 2))


def rounds_needed_by_findings(
    findings: Iterable[FindingDefinition],
    frame: pd.DataFrame,
    settings: ComparisonSettings,
    by: Sequence[str] = (),
) -> list[Comparison]:
    """Return the rounds that findings need for a verdict, as comparisons without a table.

    A finding counts as often as it has pairs of cells, each of one block. It directs rounds, but does not
    extend a run: a value on its bound never gets a verdict.
    """
    axes, keys = [*settings.order], [*settings.order, *by]
    noise = cache(lambda metric: noise_of(frame, axes, settings.block, metric_of(metric)))
    context = EvaluationContext(noise, limits=settings.limits)
    rounds_by = cache(partial(rounds_of, frame, keys, by))
    comparisons: list[Comparison] = []
    for finding in findings:
        check = FindingCheck(finding, keys)
        rounds = rounds_by(check.statistic)
        value = check.evaluate(rounds, context).estimate
        if not value.n > 1 or math.isnan(value.error) or "to" in check.compare:
            continue
        needed = rounds_needed(finding, value)
        if needed > value.n:
            needed *= FINDING_ROUNDS_FACTOR
        needed = max(settings.limits.min_rounds, needed)
        cells = check.involved(rounds)[keys].drop_duplicates().to_dict("records")
        names = Counter(block_name(settings.block, cell) for cell in cells)
        for name, count in names.items():
            comparison = Comparison("", frozenset([name]), "", value.n, needed)
            comparisons += [comparison] * (count // 2 if check.compare else count)
    return comparisons


def probability_decided(share: np.ndarray) -> np.ndarray:
    """Return the probability that a comparison with a share of the needed rounds is decided."""
    from scipy.special import ndtr

    return np.asarray(ndtr(T * (2 * np.sqrt(np.minimum(share, 1)) - 1)))


@dataclass
class BlockGroup:
    """Blocks that get rounds together, the time of a round, and the comparisons that need rounds."""

    blocks: frozenset[str]
    round_s: float
    open: list[Comparison]
    rounds: int = 0

    @cached_property
    def marginal_gain(self) -> float:
        """Return the decided comparisons per second that the best number of rounds gives."""
        rounds, needed = np.array([(c.rounds + self.rounds, c.needed) for c in self.open]).T
        now = probability_decided(rounds / needed)
        then = probability_decided((rounds + ROUNDS_AHEAD[:, None]) / needed)
        return float(((then - now).sum(axis=1) / ROUNDS_AHEAD).max()) / self.round_s

    def assign(self) -> list[Comparison]:
        """Add one round and return the comparisons that are then precise enough."""
        self.rounds += 1
        precise = [c for c in self.open if c.rounds + self.rounds >= c.needed]
        self.open = [c for c in self.open if c.rounds + self.rounds < c.needed]
        self.__dict__.pop("marginal_gain", None)
        return precise


def allocate(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Counter[str]:
    """Return the rounds of each block; `round_s` has the time of a round by block."""
    rounds: Counter[str] = Counter()
    for group, _, _ in _assignments(comparisons, round_s, seconds):
        rounds.update(group.blocks)
    return rounds


def undecided_over_time(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float]
) -> list[tuple[float, dict[str, int]]]:
    """Return seconds from now and the comparisons of each table that are then still undecided.

    If the last entry has any, no number of rounds decides them.
    """
    undecided = Counter(c.table for c in comparisons if not c.is_decided)
    forecast = [(0.0, dict(undecided))]
    for _, seconds, precise in _assignments(comparisons, round_s, FORECAST_S):
        decided = Counter(c.table for c in precise if not c.is_decided)
        if decided:
            undecided -= decided
            forecast.append((seconds, dict(undecided)))
    return forecast


def _assignments(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Iterator[tuple[BlockGroup, float, list[Comparison]]]:
    """Yield each round's blocks, the seconds taken so far, and what becomes precise enough."""
    groups, taken = _groups(comparisons, round_s), 0.0
    while fitting := [g for g in groups if g.open and taken + g.round_s <= seconds]:
        if not any(c.table for group in groups for c in group.open):
            return  # Findings alone get no rounds.
        best = max(fitting, key=lambda group: group.marginal_gain)
        taken += best.round_s
        yield best, taken, best.assign()


def _groups(comparisons: Iterable[Comparison], round_s: Mapping[str, float]) -> list[BlockGroup]:
    """Return the blocks, joined where a comparison has cells of both."""
    groups: list[BlockGroup] = []
    for comparison in comparisons:
        touched = [group for group in groups if group.blocks & comparison.blocks]
        blocks = comparison.blocks.union(*(group.blocks for group in touched))
        still_open = [c for group in touched for c in group.open]
        if not comparison.is_precise_enough and math.isfinite(comparison.needed):
            still_open.append(comparison)
        groups = [group for group in groups if group not in touched]
        seconds = sum(round_s.get(block, math.inf) for block in blocks)
        groups.append(BlockGroup(blocks, seconds, still_open))
    return groups


def remaining_s(
    seconds: float, spent: TimeBreakdown, cell_rounds: int, setup_s: float = 0.0
) -> float:
    """Return the seconds of a budget that are left to measure; `setup_s` is the time before this run."""
    return seconds - setup_s - spent.total_s - AROUND_S - AROUND_PER_CELL_ROUND_S * cell_rounds


def allocate_rounds(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    seconds: float,
    extra: Sequence[Comparison] = (),
) -> tuple[Counter[str], str]:
    """Return the rounds of each block in the next batch, or none and the reason.

    `extra` (of findings) direct rounds while tables need some.
    """
    everything = comparisons if stop_reason(comparisons) else [*comparisons, *extra]
    for part in (min(seconds, max(seconds / 2, MIN_BATCH_S)), seconds):
        if rounds := allocate(everything, spent.round_s, part):
            return rounds, ""
    return Counter(), stop_reason(everything) or TIME_IS_UP


def stop_reason(comparisons: Sequence[Comparison]) -> str:
    """Return why no comparison needs rounds, whatever the time; "" if a comparison does."""
    imprecise = [c for c in comparisons if not c.is_precise_enough]
    if not imprecise:
        return ALL_DECIDED
    return "" if any(c.needed < math.inf for c in imprecise) else UNREACHABLE


def budget_report(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, object]:
    """Return the use of the minutes, the decided comparisons, and a forecast.

    `limits` come from the configuration, `scatter` from runs on this machine.
    """
    here = limits.on_machine(scatter)
    return {
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "timed_s": round(spent.timed_s, 1),
        "around_s": AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds,
        "min_effect_pct": here.min_effect_pct,
        "noisy": None if here == limits else {"scatter_pct": scatter_pct(scatter)},
        "blocks": [
            {"block": name, "rounds": block.rounds, "seconds": round(block.seconds, 1)}
            for name, block in spent.blocks.items()
        ],
        "tables": {
            name: _counts([c for c in comparisons if c.table == name])
            for name in dict.fromkeys(c.table for c in comparisons)
        },
        "outlook": [
            {"seconds": round(seconds, 1), "left": undecided}
            for seconds, undecided in undecided_over_time(comparisons, spent.round_s)
        ],
    }


def _counts(comparisons: Sequence[Comparison]) -> dict[str, int]:
    return {
        "comparisons": len(comparisons),
        "different": sum(c.is_decided and is_difference(c.call) for c in comparisons),
        "alike": sum(c.is_decided and not is_difference(c.call) for c in comparisons),
    }
