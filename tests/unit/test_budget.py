"""Rounds of a run with minutes: precision, allocation, findings and the reasons to stop."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unit.test_findings import AXES, finding, measured
from vcsbench.evidence.time_breakdown import BlockTime, TimeBreakdown
from vcsbench.statistics.budget import (
    Allocation,
    Comparison,
    ComparisonSettings,
    allocate,
    allocate_rounds,
    comparison_rounds,
    comparisons_of,
    probability_decided,
    rounds_needed_by_findings,
    undecided_over_time,
)
from vcsbench.statistics.contract import (
    ALL_DECIDED,
    NOT_SHOWN,
    TIME_IS_UP,
    TOO_NOISY,
    UNREACHABLE,
    Limits,
)
from vcsbench.statistics.intervals import Estimate, t_quantile
from vcsbench.statistics.multiple_testing import ALPHA, EQUIVALENCE_ALPHA

LIMITS = Limits(min_effect_pct=10)
DEGREES = 60


def wanted(ratio: float, error: float, n: int = 5, twin_sd: float = 0.0) -> float:
    estimate = Estimate(ratio, math.nan, math.nan, n, error, DEGREES)
    return comparison_rounds(estimate, twin_sd, ALPHA, LIMITS)


def test_comparison_rounds_inverse_ratio_is_equal() -> None:
    for size in (1.0, 1.02, 1.1, 1.3, 3.0):
        assert wanted(size, 0.05) == wanted(1 / size, 0.05)


def test_comparison_rounds_change_at_width_of_both_tests() -> None:
    both = t_quantile(DEGREES, 1 - ALPHA) + t_quantile(DEGREES, 1 - 2 * EQUIVALENCE_ALPHA)
    narrow = math.log1p(0.1) / both
    assert wanted(1.0, 0.999 * narrow) == 5
    assert wanted(1.0, 1.001 * narrow) == 6


def test_comparison_rounds_large_ratio_needs_fewer() -> None:
    half = t_quantile(DEGREES, 1 - ALPHA)
    assert wanted(math.exp(2.01 * half * 0.1), 0.1) == 5
    assert wanted(1.05, 0.1) > 50


def test_comparison_rounds_double_error_needs_four_times() -> None:
    assert wanted(1.0, 0.04, n=10) == pytest.approx(4 * wanted(1.0, 0.02, n=10), abs=4)


def test_comparison_rounds_without_duplicates_is_infinite() -> None:
    assert wanted(3.0, 0.001, n=2) == LIMITS.min_rounds
    assert wanted(3.0, math.nan, n=1) == LIMITS.min_rounds
    assert wanted(3.0, 0.001, twin_sd=math.nan) == math.inf


ROUNDS = 5


def one(block: str, wants: float, table: str = "t", call: str = TOO_NOISY) -> Comparison:
    """A comparison within a block, or of cells of several (`a+b`), that wants so many rounds more."""
    return Comparison(table, frozenset(block.split("+")), call, ROUNDS, ROUNDS + wants)


def test_allocate_fewest_needed_rounds_come_first() -> None:
    near, far = one("near", 20), one("far", 300)
    assert allocate([near, far], {"near": 10, "far": 10}, 100) == {"near": 10}


def test_allocate_nearly_decided_block_waits() -> None:
    all_but, far = one("all but", 2), one("far", 30)
    assert allocate([all_but, far], {"all but": 10, "far": 10}, 50) == {"far": 5}
    assert allocate([all_but, far], {"all but": 10, "far": 10}, 1000) == {"all but": 2, "far": 30}


def test_allocate_prefers_more_decisions_per_second() -> None:
    many, few = [one("many", 10)] * 12, [one("few", 8)]
    assert allocate([*many, *few], {"many": 10, "few": 10}, 30) == {"many": 3}
    assert allocate([*many, *few], {"many": 200, "few": 10}, 30) == {"few": 3}


def test_allocate_round_longer_than_time_gets_none() -> None:
    assert allocate([one("long", 1), one("short", 20)], {"long": 100, "short": 10}, 35) == {
        "short": 3
    }


def test_allocate_precise_and_unreachable_get_none() -> None:
    done, never = one("done", 0), one("never", math.inf)
    assert allocate([done, never], {"done": 1, "never": 1}, 1000) == {}


def test_allocate_compared_blocks_get_rounds_together() -> None:
    assert allocate([one("a+b", 3), one("b", 1)], {"a": 10, "b": 5}, 100) == {"a": 3, "b": 3}


def test_undecided_over_time_counts_by_table() -> None:
    comparisons = [one("a", 1, "x"), one("a", 4, "y"), one("a", math.inf, "y"), one("b", 2, "x")]
    comparisons.append(one("a", 3, "x", NOT_SHOWN))  # is told already
    ahead = undecided_over_time(comparisons, {"a": 10, "b": 100})
    assert ahead[0] == (0, {"x": 2, "y": 2})
    assert ahead[1] == (10, {"x": 1, "y": 2})
    assert ahead[-1] == (240, {"y": 1})  # four rounds of a, two of b; and one that nothing tells


@pytest.mark.parametrize(
    ("wants", "left", "why"),
    [([0, 0], 900, ALL_DECIDED), ([4, 0], 5, TIME_IS_UP), ([math.inf, 0], 900, UNREACHABLE)],
)
def test_allocate_rounds_without_rounds_has_reason(
    wants: list[float], left: float, why: str
) -> None:
    spent = TimeBreakdown(blocks={"a": BlockTime(rounds=ROUNDS, seconds=50, waiting_s=0)})
    found = allocate_rounds([one("a", want) for want in wants], spent, left)
    assert (found.rounds, found.why) == ({}, why)


def test_allocate_rounds_batch_takes_half_of_time() -> None:
    spent = TimeBreakdown(blocks={"a": BlockTime(rounds=ROUNDS, seconds=50, waiting_s=0)})
    assert allocate_rounds([one("a", 100)], spent, 600).rounds == {"a": 30}
    assert allocate_rounds([one("a", 100)], spent, 70).rounds == {
        "a": 6
    }  # no pass is shorter than a minute
    slow = TimeBreakdown(blocks={"a": BlockTime(rounds=ROUNDS, seconds=2000, waiting_s=0)})
    assert allocate_rounds([one("a", 100)], slow, 600).rounds == {
        "a": 1
    }  # but a round that takes more than half


@pytest.mark.parametrize(
    ("scatter", "wide", "pct"),
    [(0.09, 15, 15), (0.09, 12, 12), (0.07, 15, 10), (math.nan, 15, 10), (0.09, 5, 10)],
)
def test_allocate_rounds_noisy_machine_needs_fewer(scatter: float, wide: float, pct: float) -> None:
    row = {"command": "log", "baseline": "f6", "candidate": "f7", "ratio": 1.0, "call": TOO_NOISY}
    row |= {"n": 5, "error": 0.06, "degrees": 60, "twin_sd": 0.0, "within": 1.2}
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    limits = Limits(min_effect_pct=10, min_effect_pct_if_noisy=wide).on_machine(scatter)
    terms = ComparisonSettings({"t": {"compare": compare}}, {}, ["command"], limits)
    spent = TimeBreakdown(blocks={"log": BlockTime(rounds=5, seconds=5, waiting_s=0)})
    narrow = math.log1p(pct / 100) / (
        t_quantile(60, 1 - ALPHA) + t_quantile(60, 1 - 2 * EQUIVALENCE_ALPHA)
    )
    wanted = math.ceil(5 * (0.06 / narrow) ** 2)
    comparisons = comparisons_of([pd.DataFrame([row])], terms)
    assert allocate_rounds(comparisons, spent, 1000.0) == Allocation(Counter(log=wanted - 5))


def test_allocate_rounds_findings_direct_but_do_not_extend() -> None:
    rows = [
        {"command": name, "baseline": "f6", "candidate": "f7", "ratio": 1.0, "call": TOO_NOISY}
        | {"n": 5, "error": 0.026, "degrees": 60, "twin_sd": 0.0, "within": 1.2}
        for name in ("log", "export")
    ]
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    terms = ComparisonSettings(
        {"t": {"compare": compare}}, {}, ["command"], Limits(min_effect_pct=10)
    )
    blocks = {name: BlockTime(rounds=5, seconds=50, waiting_s=0) for name in ("log", "export")}
    extra = [one("export", 9, "")] * 4
    table, spent = pd.DataFrame(rows), TimeBreakdown(blocks=blocks)
    open_ones = comparisons_of([table], terms)
    assert allocate_rounds(open_ones, spent, 70, extra).rounds["export"] >= 5
    precise = comparisons_of([table.assign(error=0.001)], terms)
    assert allocate_rounds(precise, spent, 70, extra) == Allocation(why=ALL_DECIDED)
    # A table that wants few rounds more does not open the hour to a finding that wants thousands.
    few = allocate_rounds(open_ones, spent, 3600).rounds
    more = allocate_rounds(open_ones, spent, 3600, [one("export", 4000, "")]).rounds
    assert 0 < more["export"] <= 2 * few.total() and more["log"] >= few["log"]


RATIOS = [2.0, 2.1, 1.9, 2.05, 1.95, 2.0]


def wants(*findings: dict[str, Any], commands: tuple[str, ...] = ("log",)) -> list[Comparison]:
    frame = measured(RATIOS, commands)
    order = {axis: sorted(set(frame[axis])) for axis in AXES}
    return rounds_needed_by_findings(
        findings, frame, ComparisonSettings({}, order, ["command"], Limits(min_rounds=5))
    )


def test_rounds_needed_by_findings_half_distance_needs_four_times() -> None:
    """Four times as many for a bound that is half as far away."""
    mean = sum(map(math.log, RATIOS)) / len(RATIOS)
    near, far, clear = (
        wants(finding(expect={"over": "median", "at_most": math.exp(mean + away)}))[0]
        for away in (0.01, 0.02, 0.5)
    )
    assert near.blocks == {"log"} and near.rounds == len(RATIOS)
    assert not near.is_precise_enough and near.needed / far.needed == pytest.approx(4, rel=0.05)
    assert clear.is_precise_enough and clear.needed == 5


def test_rounds_needed_by_findings_nearly_decided_is_open() -> None:
    """What lacks but few of its rounds is told less often than not, and not nearly always."""
    mean = sum(map(math.log, RATIOS)) / len(RATIOS)
    bounds = (math.exp(mean + away / 1000) for away in range(10, 100))
    found = (wants(finding(expect={"over": "median", "at_most": bound}))[0] for bound in bounds)
    nearly = [one for one in found if not one.is_precise_enough][-1]
    assert 0.3 < probability_decided(np.array([nearly.rounds / nearly.needed]))[0] < 0.5


def test_rounds_needed_by_findings_has_one_per_pair() -> None:
    where = {"command": ["log", "null-log", "export"]}
    found = wants(finding(where=where), commands=("log", "null-log"))
    assert [[*one.blocks] for one in found] == [["log"], ["null-log"]]
    level = finding(level="elapsed_s", expect={"over": "max", "at_most": 9.0})
    del level["compare"]
    assert len(wants(level)) == 2  # cells


def test_rounds_needed_by_findings_unmeasured_has_none() -> None:
    assert wants(finding(where={"command": "export"})) == []
    assert wants(finding(compare={"to": "before"})) == []
    logs = [math.log(ratio) for ratio in RATIOS]
    bound = math.exp(sum(logs) / len(logs))
    (one,) = wants(finding(expect={"over": "median", "at_most": bound}))
    assert one.needed > 10**6
