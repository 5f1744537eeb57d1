"""Runs with minutes: the time that was taken, precision, allocation, reasons to stop, and decisions."""

import math
from datetime import datetime, timedelta

import pandas as pd
import pytest

from vcsbench.codes import Call, Result, StopReason
from vcsbench.evidence.time_breakdown import PAUSE_S, BlockTime, TimeBreakdown, break_down_time
from vcsbench.files import write_json
from vcsbench.statistics import budget
from vcsbench.statistics.calls import ALPHA, EQUIVALENCE_ALPHA
from vcsbench.statistics.comparisons import ComparisonRow, Limits
from vcsbench.statistics.estimates import t_quantile

LIMITS = Limits(min_effect_pct=10)
DEGREES = 60
HALF = t_quantile(DEGREES, 1 - ALPHA)
# The error at which both tests together are as wide as the margin.
NARROW = math.log1p(0.1) / (HALF + t_quantile(DEGREES, 1 - 2 * EQUIVALENCE_ALPHA))


def needed(ratio, error, n=5, duplicate_sd=0.0):
    numbers = {"ratio": ratio, "error": error, "degrees": DEGREES, "duplicate_sd": duplicate_sd}
    row = ComparisonRow("f6", "f7", n=n, **numbers)
    return budget.rounds_to_decide(row, ALPHA, LIMITS)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (needed(1.0, 0.999 * NARROW), 5),
        (needed(1.0, 1.001 * NARROW), 6),
        (needed(math.exp(2.01 * HALF * 0.1), 0.1), 5),  # a large ratio needs few
        (needed(1.3, 0.05), needed(1 / 1.3, 0.05)),
        (needed(1.0, 0.04, n=10), pytest.approx(4 * needed(1.0, 0.02, n=10), abs=4)),
        (needed(3.0, 0.001, n=2), LIMITS.min_rounds),
        (needed(3.0, math.nan, n=1), LIMITS.min_rounds),
        # No difference of duplicates is known after one round.
        (needed(3.0, math.nan, n=1, duplicate_sd=math.nan), LIMITS.min_rounds),
        # Without duplicates, nothing is called.
        (needed(3.0, 0.001, duplicate_sd=math.nan), math.inf),
    ],
)
def test_comparison_rounds_follow_widths_and_sizes(rounds, expected):
    assert rounds == expected


def comparison(block, more, table="t", result=Result.UNDECIDED):
    """Return a comparison in a block, or in several (`a+b`), that needs this number of rounds more."""
    return budget.Comparison(table, frozenset(block.split("+")), result, more)


@pytest.mark.parametrize(
    ("comparisons", "round_s", "seconds", "rounds"),
    [
        # The fewest needed rounds come first.
        (["near 20", "far 300"], {"near": 10, "far": 10}, 100, {"near": 10}),
        (["near 2", "far 30"], {"near": 10, "far": 10}, 50, {"near": 2, "far": 3}),
        (["near 2", "near 3", "far 30"], {"near": 10, "far": 10}, 1000, {"near": 3, "far": 30}),
        # More decisions per second come first.
        (["many 10"] * 12 + ["few 8"], {"many": 10, "few": 10}, 30, {"many": 3}),
        (["many 10"] * 12 + ["few 8"], {"many": 200, "few": 10}, 30, {"few": 3}),
        # A round must fit into the time.
        (["long 1", "short 20"], {"long": 100, "short": 10}, 35, {"short": 3}),
        # Precise and unreachable comparisons get none, compared blocks get them together.
        (["done 0", "never inf"], {"done": 1, "never": 1}, 1000, {}),
        (["a+b 3", "b 1"], {"a": 10, "b": 5}, 100, {"a": 3, "b": 3}),
    ],
)
def test_allocate_gives_rounds_where_they_decide_most(comparisons, round_s, seconds, rounds):
    pairs = [text.split() for text in comparisons]
    made = [comparison(block, float(more)) for block, more in pairs]
    assert budget.allocate(made, round_s, seconds) == rounds


@pytest.mark.parametrize(
    ("more", "result", "left_s", "why"),
    [
        ([0, 0], Result.EQUAL, 900, StopReason.ALL_DECIDED),
        ([4, 0], Result.EQUAL, 5, StopReason.TIME_IS_UP),
        ([math.inf, 0], Result.UNDECIDED, 900, StopReason.UNREACHABLE),
        # It is precise enough, but not called.
        ([0, 0], Result.UNDECIDED, 900, StopReason.UNREACHABLE),
    ],
)
def test_allocate_rounds_without_rounds_has_reason(more, result, left_s, why):
    comparisons = [comparison("a", rounds, result=result) for rounds in more]
    assert budget.allocate_rounds(comparisons, {"a": 10}, left_s) == ({}, why)


@pytest.mark.parametrize(
    ("round_s", "left_s", "rounds"),
    # A batch takes half of the time, but a minute or one round at least.
    [(10, 600, 30), (10, 70, 6), (400, 600, 1)],
)
def test_allocate_rounds_batch_takes_half_of_time(round_s, left_s, rounds):
    batch = budget.allocate_rounds([comparison("a", 100)], {"a": round_s}, left_s)
    assert batch == ({"a": rounds}, None)


def test_undecided_over_time_counts_by_table():
    parts = (("a", 1, "x"), ("a", 4, "y"), ("a", math.inf, "y"), ("b", 2, "x"))
    # The last one is decided already.
    comparisons = [*(comparison(*part) for part in parts), comparison("a", 3, "x", Result.EQUAL)]
    ahead = budget.undecided_over_time(comparisons, {"a": 10, "b": 100})
    assert ahead[:2] == [(0, {"x": 2, "y": 2}), (10, {"x": 1, "y": 2})]
    assert ahead[-1] == (240, {"y": 1})  # 4 rounds of a, 2 of b


@pytest.mark.parametrize(("scatter", "percent"), [(0.3, 35.0), (0.02, 2.0), (math.nan, 0.0)])
def test_budget_report_has_rounds_that_decide_and_the_scatter(scatter, percent):
    comparisons = [comparison("a", more) for more in (0, 3, math.inf)]
    breakdown = TimeBreakdown(0.0, 50.0, 0.0, 0.0, {"a": BlockTime(5, 50, 10)})
    report = budget.budget_report(comparisons, breakdown, 5, LIMITS, scatter)
    assert report["more_rounds"] == [3]
    assert [moment["left"] for moment in report["outlook"]] == [{"t": 3}, {"t": 2}]
    assert report["scatter_pct"] == percent


def table_comparisons(error, **change):
    """Return the comparison of the logs of a table of equal formats with this error."""
    row = {"baseline": "f6", "candidate": "f7", "ratio": 1.0, "error": error}
    row |= {"n": 5, "degrees": DEGREES, "duplicate_sd": 0.0, "within": 1.2, "withheld": ""}
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    table = pd.DataFrame([{"command": "log", **row, **change}])
    return budget.list_comparisons({"t": table}, {"t": {"compare": compare}}, ["command"], LIMITS)


def upkeep_table(baseline, candidate, command="clone"):
    """Return a table with one row, which compares two states of a repository."""
    row = {"command": command, "baseline": baseline, "candidate": candidate, "ratio": 1.0}
    numbers = {"error": 0.01, "n": 5, "degrees": DEGREES, "duplicate_sd": 0.0, "within": 1.1}
    return pd.DataFrame([{**row, **numbers, "withheld": "", "result": Result.EQUAL}])


def upkeep_definition(baseline, candidate, **more):
    compare = {"axis": "upkeep", "baseline": baseline, "candidates": [candidate]}
    return {"compare": {**compare, **more}}


@pytest.mark.parametrize(
    ("command", "more", "listed"),
    [
        # The same two cells, also with exchanged sides, are one comparison of the first table.
        ("clone", {}, ["first"]),
        ("fetch", {}, ["first", "second"]),
        ("clone", {"metric": "server_cpu_s"}, ["first", "second"]),
    ],
)
@pytest.mark.parametrize("sides", [("one-pack", "many-packs"), ("many-packs", "one-pack")])
def test_comparison_of_two_tables_is_listed_once(sides, command, more, listed):
    tables = {"first": upkeep_table("one-pack", "many-packs")}
    definitions = {"first": upkeep_definition("one-pack", "many-packs")}
    tables["second"] = upkeep_table(*sides, command)
    definitions["second"] = upkeep_definition(*sides, **more)
    comparisons = budget.list_comparisons(tables, definitions, ["command"], LIMITS)
    assert [each.table for each in comparisons] == listed


def test_comparisons_that_a_table_withholds_are_no_result():
    assert table_comparisons(0.06, result=Result.EQUAL, withheld="hosts-differ") == []


@pytest.mark.parametrize(
    ("call", "result", "rounds"),
    [
        (Call.TOO_SMALL, Result.TOO_SMALL, {}),
        (Call.UNDECIDED, Result.UNDECIDED, {"log": 6}),
        (Call.BOUNDED, Result.BOUNDED, {"log": 6}),
        (Call.EQUAL, Result.EQUAL, {"log": 6}),
    ],
)
def test_comparison_that_is_mostly_start_up_is_offered_no_rounds(call, result, rounds):
    comparisons = table_comparisons(0.06, call=call, result=result)
    assert [c.result for c in comparisons] == [result]
    given, why = budget.allocate_rounds(comparisons, {"log": 10}, 100.0)
    assert (given, why) == (rounds, None if rounds else StopReason.ALL_DECIDED)
    breakdown = TimeBreakdown(0.0, 50.0, 0.0, 0.0, {"log": BlockTime(5, 50, 10)})
    report = budget.budget_report(comparisons, breakdown, 5, LIMITS, 0.01)
    assert report["tables"]["t"] == {**dict.fromkeys(Result, 0), result: 1}
    assert len(report["more_rounds"]) == (result in budget.OPEN_RESULTS)


BEGAN = datetime(2026, 11, 22, 4, 0, 0)


def cell_rounds(*rounds):
    """Return cell-rounds from their start in seconds, command, round, duration and waiting time."""
    rows = pd.DataFrame([*rounds], columns=["at", "command", "round", "cell_round_s", "waited_s"])
    started = [BEGAN + timedelta(seconds=at) for at in rows["at"]]
    return rows.assign(
        cell=rows["command"] + "/cold",
        cell_round_started_at=[time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for time in started],
        elapsed_s=0.4 * rows["cell_round_s"],
    )


def test_time_breakdown_has_cell_rounds_and_waiting():
    rows = cell_rounds((0, "log", 1, 10, 0), (10.5, "dump", 1, 4, 0), (15, "log", 2, 12, 0))
    breakdown = break_down_time(rows, ["command"], [])
    assert breakdown.measuring_s == 26 and breakdown.waiting_s == pytest.approx(1.0)
    assert breakdown.blocks["log"].rounds == 2
    assert breakdown.blocks["log"].round_s == pytest.approx(11.5)
    assert breakdown.total_s == pytest.approx(27)
    rows = cell_rounds((0, "log", 1, 10, 0))
    breakdown = break_down_time(pd.concat([rows, rows]), ["command"], [])
    assert breakdown.total_s == 10 and breakdown.timed_s == 8, "each of two runs was timed"


def test_time_breakdown_of_traffic_has_the_time_between_its_hooks():
    rows = cell_rounds((0, "log", 1, 10, 0), (11, "requests", 1, 4, 0))
    rows["window_s"] = ["4.1", "3.2"]
    rows.loc[rows["command"] == "requests", "elapsed_s"] = float("nan")
    assert break_down_time(rows, ["command"], []).timed_s == pytest.approx(4 + 3.2)


def test_time_breakdown_excludes_pauses_and_other_measurements():
    stopped = cell_rounds((0, "log", 1, 10, 0), (10 + PAUSE_S + 1, "log", 2, 10, 0))
    assert break_down_time(stopped, ["command"], []).waiting_s == 0
    kept_out = cell_rounds((0, "log", 1, 10, 0), (310, "log", 2, 10, 299))
    assert break_down_time(kept_out, ["command"], []).total_s == pytest.approx(21)


def test_time_breakdown_includes_preparation_records(tmp_path):
    write_json(tmp_path / "loaded.json", {"seconds": 40.5})
    records = [tmp_path / "loaded.json", tmp_path / "vanished.json"]
    rounds = cell_rounds((0, "log", 1, 10, 0))
    totals = [break_down_time(of, ["command"], records).total_s for of in (rounds, rounds.iloc[:0])]
    assert totals == [50.5, 40.5]


def test_time_breakdown_counts_preparations_at_the_same_time_once(tmp_path):
    # A load, one within it, one that goes on after it, the copies after them, and a trace of a later session.
    spans = [(1000.0, 40.0), (1005.0, 10.0), (1010.0, 50.0), (1060.0, 5.0), (9000.0, 3.0)]
    records = [tmp_path / f"{number}.json" for number in range(len(spans))]
    for path, (began, seconds) in zip(records, spans, strict=True):
        write_json(path, {"began": began, "seconds": seconds})
    # Of an earlier version.
    write_json(tmp_path / "old.json", {"seconds": 7.0})
    records.append(tmp_path / "old.json")
    nothing = cell_rounds((0, "log", 1, 10, 0)).iloc[:0]
    breakdown = break_down_time(nothing, ["command"], records)
    assert breakdown.preparation_s == pytest.approx(65 + 3 + 7)


def test_remaining_seconds_have_a_share_of_set_up_for_each_study():
    spent = TimeBreakdown(100.0, 50.0, 10.0, 20.0, {})
    alone = budget.remaining_seconds(15, 300.0, 1, spent, 20)
    assert alone == pytest.approx(900 - 300 - budget.taken_s(spent, 20))
    assert budget.remaining_seconds(15, 300.0, 5, spent, 20) == pytest.approx(alone + 240)
