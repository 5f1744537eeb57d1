"""Where rounds go: to the blocks in which they answer most for the time that they take."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd
import pytest

from vcsbench.evidence.spent import OfBlock, Spent
from vcsbench.statistics.budget import (
    Allocation,
    Comparison,
    ComparisonSettings,
    allocate,
    allocate_rounds,
    comparisons_of,
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
from vcsbench.statistics.intervals import t_quantile
from vcsbench.statistics.multiple_testing import ALPHA, EQUIVALENCE_ALPHA

ROUNDS = 5


def one(block: str, wants: float, table: str = "t", call: str = TOO_NOISY) -> Comparison:
    """A comparison within a block, or of cells of several (`a+b`), that wants so many rounds more."""
    return Comparison(table, frozenset(block.split("+")), call, ROUNDS, ROUNDS + wants)


def test_what_is_told_soonest_comes_first() -> None:
    near, far = one("near", 20), one("far", 300)
    assert allocate([near, far], {"near": 10, "far": 10}, 100) == {"near": 10}


def test_what_is_all_but_told_waits_for_what_is_not() -> None:
    all_but, far = one("all but", 2), one("far", 30)
    assert allocate([all_but, far], {"all but": 10, "far": 10}, 50) == {"far": 5}
    assert allocate([all_but, far], {"all but": 10, "far": 10}, 1000) == {"all but": 2, "far": 30}


def test_a_round_that_tells_many_goes_before_one_that_tells_few_for_the_same_time() -> None:
    many, few = [one("many", 10)] * 12, [one("few", 8)]
    assert allocate([*many, *few], {"many": 10, "few": 10}, 30) == {"many": 3}
    assert allocate([*many, *few], {"many": 200, "few": 10}, 30) == {"few": 3}


def test_a_block_whose_round_does_not_fit_gets_none_and_others_do() -> None:
    assert allocate([one("long", 1), one("short", 20)], {"long": 100, "short": 10}, 35) == {
        "short": 3
    }


def test_settled_blocks_and_those_that_nothing_settles_get_none() -> None:
    done, never = one("done", 0), one("never", math.inf)
    assert allocate([done, never], {"done": 1, "never": 1}, 1000) == {}


def test_blocks_that_are_compared_with_each_other_get_their_rounds_together() -> None:
    assert allocate([one("a+b", 3), one("b", 1)], {"a": 10, "b": 5}, 100) == {"a": 3, "b": 3}


def test_the_outlook_tells_when_what_is_too_noisy_to_say_is_told() -> None:
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
def test_a_run_ends_for_a_reason(wants: list[float], left: float, why: str) -> None:
    spent = Spent(blocks={"a": OfBlock(rounds=ROUNDS, seconds=50, waiting_s=0)})
    found = allocate_rounds([one("a", want) for want in wants], spent, left)
    assert (found.rounds, found.why) == ({}, why)


def test_a_pass_leaves_half_of_the_time_to_those_that_know_more() -> None:
    spent = Spent(blocks={"a": OfBlock(rounds=ROUNDS, seconds=50, waiting_s=0)})
    assert allocate_rounds([one("a", 100)], spent, 600).rounds == {"a": 30}
    assert allocate_rounds([one("a", 100)], spent, 70).rounds == {
        "a": 6
    }  # no pass is shorter than a minute
    slow = Spent(blocks={"a": OfBlock(rounds=ROUNDS, seconds=2000, waiting_s=0)})
    assert allocate_rounds([one("a", 100)], slow, 600).rounds == {
        "a": 1
    }  # but a round that takes more than half


@pytest.mark.parametrize(
    ("scatter", "wide", "pct"),
    [(0.09, 15, 15), (0.09, 12, 12), (0.07, 15, 10), (math.nan, 15, 10), (0.09, 5, 10)],
)
def test_where_runs_scatter_much_a_larger_difference_is_worth_rounds(
    scatter: float, wide: float, pct: float
) -> None:
    row = {"command": "log", "baseline": "f6", "candidate": "f7", "ratio": 1.0, "call": TOO_NOISY}
    row |= {"n": 5, "error": 0.06, "degrees": 60, "twin_sd": 0.0, "within": 1.2}
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    limits = Limits(min_effect_pct=10, min_effect_pct_if_noisy=wide).on_machine(scatter)
    terms = ComparisonSettings({"t": {"compare": compare}}, {}, ["command"], limits)
    spent = Spent(blocks={"log": OfBlock(rounds=5, seconds=5, waiting_s=0)})
    narrow = math.log1p(pct / 100) / (
        t_quantile(60, 1 - ALPHA) + t_quantile(60, 1 - 2 * EQUIVALENCE_ALPHA)
    )
    wanted = math.ceil(5 * (0.06 / narrow) ** 2)
    comparisons = comparisons_of([pd.DataFrame([row])], terms)
    assert allocate_rounds(comparisons, spent, 1000.0) == Allocation(Counter(log=wanted - 5))


def test_findings_steer_where_rounds_go_and_keep_no_run_going() -> None:
    rows = [
        {"command": name, "baseline": "f6", "candidate": "f7", "ratio": 1.0, "call": TOO_NOISY}
        | {"n": 5, "error": 0.026, "degrees": 60, "twin_sd": 0.0, "within": 1.2}
        for name in ("log", "export")
    ]
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    terms = ComparisonSettings(
        {"t": {"compare": compare}}, {}, ["command"], Limits(min_effect_pct=10)
    )
    blocks = {name: OfBlock(rounds=5, seconds=50, waiting_s=0) for name in ("log", "export")}
    extra = [one("export", 9, "")] * 4
    table, spent = pd.DataFrame(rows), Spent(blocks=blocks)
    open_ones = comparisons_of([table], terms)
    assert allocate_rounds(open_ones, spent, 70, extra).rounds["export"] >= 5
    precise = comparisons_of([table.assign(error=0.001)], terms)
    assert allocate_rounds(precise, spent, 70, extra) == Allocation(why=ALL_DECIDED)
    # A table that wants few rounds more does not open the hour to a finding that wants thousands.
    few = allocate_rounds(open_ones, spent, 3600).rounds
    more = allocate_rounds(open_ones, spent, 3600, [one("export", 4000, "")]).rounds
    assert 0 < more["export"] <= 2 * few.total() and more["log"] >= few["log"]
