"""Tables from measured numbers whose ratios are known."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.synthetic import AXES, make_study, rows_frame
from vcsbench.codes import WhyUndecided, WithheldCode
from vcsbench.statistics.comparisons import ComparisonRow
from vcsbench.statistics.tables import make_table

FORMATS = {"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]}}
ACCESS = {"compare": {"axis": "access", "baseline": "http", "candidates": ["svn", "file"]}}
ELAPSED = {"metric": "elapsed_s"}
CLIENT = {"metric": "client_cpu_pct"}
FORMAT_ONLY = {"format": ["f6", "f7", "f8"]}


def frame_of(tmp_path, **options):
    return make_study(tmp_path, **options).frame()


def table_of(frame, definition, axes=FORMAT_ONLY):
    return make_table(frame, "a-table", definition, axes, ["command", "repo", "cache"])


def row_of(frame, definition=FORMATS):
    table = table_of(frame, definition)
    assert len(table) == 1
    return table.iloc[0]


def frame_with(f6, f7=None, **columns):
    """Return measurements of formats, from their times in rounds 1, 2, 3, ..."""
    rows = [
        {"format": value, "round": number, "elapsed_s": elapsed}
        for value, rounds in (("f6", f6), ("f7", f7 or []))
        for number, elapsed in enumerate(rounds, start=1)
    ]
    return rows_frame(rows, **columns)


TWICE = frame_with([2.0] * 5, [1.0] * 5)


def test_make_table_value_and_ratio_are_of_the_rounds():
    row = row_of(frame_with([2.0, 2.2, 2.1, 4.0, 2.0], [1.0, 1.1, 1.0, 1.0, 0.5]))
    assert row["value"] == pytest.approx(100 * (row["ratio"] - 1))
    assert row["baseline_mean"] / row["candidate_mean"] == pytest.approx(row["ratio"])
    d = np.log([2.0, 2.0, 2.1, 4.0, 4.0])
    low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    expected = [math.exp(x) for x in (d.mean(), low, high)]
    assert row[["ratio", "low", "high"]].tolist() == pytest.approx(expected)
    assert row["n"] == 5


def test_make_table_has_row_per_candidate_and_inapplicable_axis_is_empty(tmp_path):
    axes = {**AXES, "command": ["log", "dump"]}
    frame = frame_of(tmp_path, axes=axes, noise=0)
    table = table_of(frame, ACCESS, axes)
    assert "access" not in table
    assert set(table["command"]) == {"log"}  # dump has no access to compare
    first = table[["candidate", "value"]].head(2).values.tolist()
    assert first == [["svn", pytest.approx(25)], ["file", pytest.approx(100 * (1 / 0.6 - 1))]]
    dumps = table_of(frame, FORMATS, axes).query("command == 'dump'")
    assert set(dumps["access"]) == {""} and len(dumps) == 12
    levels = table_of(frame.iloc[::-1], ELAPSED, axes)
    assert levels["access"].unique().tolist() == [*AXES["access"], ""], "in the order of the study"


@pytest.mark.parametrize(
    ("frame", "definition", "value", "n"),
    [
        # The quotient of medians of the parts.
        (frame_with([1.0, 2.0, 4.0], user_s=[1.0, 1.5, 0.1]), CLIENT, 100 * 1.1 / 2.0, 3),
        # The runs of a round count once.
        (frame_with([1, 1, 1, 1, 4, 8, 2], round=[1, 2, 3, 4, 5, 5, 5]), ELAPSED, 4 ** (1 / 5), 5),
        (frame_with([1.0, 2.0, 4.0], round=1), ELAPSED, 2.0, 1),
        (frame_with([1.0, 2.0, 9.0], round=1), {**ELAPSED, "reduce": "worst"}, 9.0, 1),
        # A statistic that the table names is no mean.
        (frame_with([1.0, 2.0, 9.0]), {**ELAPSED, "reduce": "median"}, 2.0, 3),
    ],
)
def test_make_table_level_is_the_mean_of_a_duration_and_the_median_of_cpu_times(
    frame, definition, value, n
):
    row = row_of(frame, definition)
    assert (row["value"], row["n"]) == (pytest.approx(value), n)


def test_make_table_ratio_is_of_geometric_means_of_times_and_medians_of_counts():
    frame = frame_with([1.0, 2.0, 9.0], [1.0, 1.0, 1.0], round=1)
    row = row_of(frame)
    assert (row["value"], row["n"]) == (pytest.approx(100 * (18 ** (1 / 3) - 1)), 1)
    assert row["ratio"] == pytest.approx(18 ** (1 / 3)) and row[["low", "high"]].isna().all()
    best = row_of(frame, {**FORMATS, "reduce": "best"})
    assert (best["value"], best["ratio"]) == (pytest.approx(0.0), pytest.approx(1.0))
    counts = {"compare": FORMATS["compare"] | {"metric": "read_calls"}}
    frame = frame_with([0.0, 2.0, 4.0], [1.0, 1.0, 1.0], round=1)
    assert row_of(frame.assign(read_calls=frame["elapsed_s"]), counts)["ratio"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("f6", "call", "why"),
    [
        ([*[4.0] * 9, 0.9], "undecided", WhyUndecided.DISTURBED),
        ([*[4.0] * 9, 1.2], "faster", None),
        # The rounds scatter too much for any call, so the disturbance is not the reason.
        ([*[4.0] * 2, *[0.8] * 3], "undecided", WhyUndecided.WIDE_INTERVAL),
    ],
)
def test_difference_that_undisturbed_runs_reverse_is_undecided(f6, call, why):
    """f7 takes 1 s in each round. In some rounds, other programs make f6 so slow that it takes 4 s."""
    frame = frame_with(f6, [1.0] * len(f6))
    twins = frame[frame["format"] == "f7"].assign(cell="f7~2")
    frame = pd.concat([frame.assign(cell=frame["format"]), twins])
    frame["flags"] = np.where(frame["elapsed_s"] == 4.0, "cpu-busy", "")
    row = row_of(frame)
    assert (row["ratio"] > 1, row["call"]) == (True, call)
    assert ("disturbed" in row["flags"].split()) == (why == WhyUndecided.DISTURBED)
    assert ComparisonRow.of_record(row.to_dict()).why_undecided == why


@pytest.mark.parametrize(
    ("metric", "call", "best", "worst"),
    [("elapsed_s", "slower", min, max), ("throughput_mb_s", "more", max, min)],
)
def test_make_table_call_and_reduction_follow_which_value_is_better(metric, call, best, worst):
    """Both metrics have the same values, which are larger for f7."""
    numbers = np.random.default_rng(1)
    rows = [
        {"cell": f"log/{fmt}/cold{twin}", "format": fmt, "round": n, "run": run}
        | {"elapsed_s": value * numbers.normal(1, 0.001)}
        for fmt, twin, value in (("f6", "", 1), ("f7", "", 2), ("f7", "~2", 2))
        for n, run in product(range(1, 6), (1, 2, 3))
    ]
    frame = rows_frame(rows, command="log", cache="cold", carried_s=1.0)
    frame["tree_bytes"] = frame["elapsed_s"] * 2**20
    axes = {"command": ["log"], **FORMAT_ONLY, "cache": ["cold"]}
    compare = {"compare": {**FORMATS["compare"], "metric": metric}}
    (row,) = make_table(frame, "t", compare, axes, ["command", "cache"]).to_dict("records")
    assert (row["call"], row["ratio"]) == (call, pytest.approx(0.5, rel=0.01))
    of_f7 = frame[frame["cell"] == "log/f7/cold"]["elapsed_s"]
    for reduce, value in (("best", best(of_f7)), ("worst", worst(of_f7))):
        table = make_table(frame, "t", {"metric": metric, "reduce": reduce}, axes, [])
        assert table.set_index("format")["value"]["f7"] == pytest.approx(value)


def test_make_table_few_paired_rounds_are_low_n():
    assert row_of(TWICE)["flags"] == "no-duplicates"
    few = TWICE[(TWICE["format"] == "f6") | (TWICE["round"] > 2)]
    row = row_of(few)
    assert (row["n"], row["flags"]) == (3, "no-duplicates low-n")
    assert table_of(few, ELAPSED)["flags"].tolist() == ["", "low-n"]


def test_make_table_excludes_invalid_runs():
    frame = frame_with([9.0, 2.0, 2.0, 2.0, 2.0, 2.0], [1.0] * 6)
    frame["flags"] = ["cache-not-cold", "cpu-steal", "", "", "", ""] * 2
    row = row_of(frame)
    assert (row["n"], row["value"], row["ratio"]) == (5, 100, pytest.approx(2))
    assert row["flags"] == "cpu-steal no-duplicates"
    frame.loc[frame["format"] == "f7", "flags"] = "no-disk-reads"
    assert table_of(frame, FORMATS).empty
    assert table_of(frame, ELAPSED)["format"].tolist() == ["f6"]


def test_make_table_withholds_different_hosts():
    frame = TWICE.assign(host=np.where(TWICE["format"] == "f6", "old", "new"))
    row = row_of(frame)
    assert (row["n"], set(row["flags"].split())) == (0, {"hosts-differ", "low-n"})
    assert row[["value", "ratio", "low", "high"]].isna().all() and row["withheld"]


@pytest.mark.parametrize("metric", ["elapsed_s", "user_s", "read_calls"])
def test_make_table_sides_without_common_round_are_withheld(metric):
    frame = frame_with([2.0] * 6, [1.0] * 6)
    frame = frame.assign(user_s=frame["elapsed_s"], read_calls=frame["elapsed_s"])
    # The first three rounds of f7 failed, and the last three of f6.
    frame = frame[(frame["format"] == "f6") == (frame["round"] <= 3)]
    row = row_of(frame, {"compare": {**FORMATS["compare"], "metric": metric}})
    assert (row["withheld"], row["n"]) == (WithheldCode.NO_SHARED_ROUND, 0)
    assert row[["value", "ratio", "low", "high"]].isna().all() and row["call"] == ""


@pytest.mark.parametrize(
    ("moved", "is_flagged"), [((), False), ((3,), False), ((1, 2, 3, 4, 5), True)]
)
def test_make_table_sides_not_in_turns_have_welch_interval(moved, is_flagged):
    """Rounds of f7 that were measured on another day share no drift with those of f6."""
    f6, f7 = [2.0, 2.2, 2.4, 2.6, 2.8], [1.0, 1.1, 1.2, 1.3, 1.4]
    frame = frame_with(f6, f7)
    days = 11 + ((frame["format"] == "f7") & frame["round"].isin(moved))
    hours = zip(days, frame["round"], frame["format"], strict=True)
    frame["started_at"] = [f"2026-11-{day}T0{number}:0{f[1]}Z" for day, number, f in hours]
    row = row_of(frame)
    assert ("not-in-turns" in row["flags"].split()) is is_flagged
    expected = (2, 2)
    if is_flagged:
        welch = stats.ttest_ind(np.log(f6), np.log(f7), equal_var=False).confidence_interval()
        expected = (math.exp(welch.low), math.exp(welch.high))
    assert (row["low"], row["high"]) == pytest.approx(expected)


@pytest.mark.parametrize("reduce", ["best", "worst"])
def test_make_table_interval_of_best_or_worst_run_is_of_its_scatter(reduce):
    random = np.random.default_rng(3)
    times = np.exp(random.normal([[[0.7]], [[0.0]]], 0.1, (2, 6, 4)))
    rows = [
        {"format": ("f6", "f7")[side], "round": number + 1, "run": run + 1, "elapsed_s": time}
        for (side, number, run), time in np.ndenumerate(times)
    ]
    row = row_of(rows_frame(rows), {**FORMATS, "reduce": reduce})
    chosen = times.min(axis=2) if reduce == "best" else times.max(axis=2)
    test = stats.ttest_1samp(np.log(chosen[0] / chosen[1]), 0).confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((math.exp(test.low), math.exp(test.high)))


def test_make_table_of_some_cells_has_the_noise_of_all():
    random, caches = np.random.default_rng(5), ["cold", "hot-os"]
    rows = [
        {"cell": f"{value}/{cache}{suffix}", "format": value, "cache": cache, "round": number}
        for number in range(1, 7)
        for value, cache in product(["f6", "f7"], caches)
        for suffix in ["", "~2"] * (value == "f6" and cache == "hot-os") or [""]
    ]
    frame = rows_frame(rows, elapsed_s=np.exp(random.normal(0, 0.1, len(rows))))
    axes, columns = {"format": ["f6", "f7"], "cache": caches}, ["low", "high", "duplicate_sd"]
    of_all = table_of(frame, FORMATS, axes)
    of_some = table_of(frame, {**FORMATS, "where": {"cache": "cold"}}, axes)
    assert of_some[columns].iloc[0].tolist() == of_all[columns].iloc[0].tolist()
    assert of_some["duplicate_sd"].notna().all() and "no-duplicates" not in of_some["flags"].iloc[0]


@pytest.mark.parametrize(
    ("by", "values"),
    [
        ("scale", {"0.02": 2**0.5, "0.1": 12**0.5}),
        ("host", {"a": 2**0.5, "b": 12**0.5}),
        ("round", {"1": 1.0, "2": 2.0, "3": 3.0, "4": 4.0}),
    ],
)
def test_make_table_by_a_column_of_runs_has_a_row_for_each_value(by, values):
    frame = frame_with([1.0, 2.0, 3.0, 4.0], [0.5, 1.0, 1.5, 2.0])
    is_first = frame["round"] < 3
    frame = frame.assign(
        scale=np.where(is_first, 0.02, 0.1),
        host=np.where(is_first, "a", "b") if by == "host" else "here",
        round=frame["round"].astype(float),
    )
    levels = table_of(frame, {**ELAPSED, "by": [by]}).query("format == 'f6'")
    assert dict(zip(levels[by], levels["value"], strict=True)) == pytest.approx(values)
    ratios = table_of(frame, {**FORMATS, "by": [by]})
    assert dict.fromkeys(ratios[by]) == dict.fromkeys(values)
    assert ratios["ratio"].tolist() == pytest.approx([2.0] * len(values))


def test_make_table_hosts_that_measure_at_the_same_time_are_in_turns():
    frame = frame_with([2.0, 2.2, 2.4, 2.6], [1.0, 1.1, 1.2, 1.3])
    frame["host"] = np.where(frame["round"] < 3, "a", "b")
    minute = 10 * (frame["round"] % 2) + 2 * (frame["format"] == "f7") + (frame["host"] == "b")
    frame["started_at"] = [f"2026-11-11T01:{of:02}Z" for of in minute]
    assert "not-in-turns" not in row_of(frame)["flags"].split()


def test_make_table_rounds_of_one_host_have_ratio():
    frame = frame_with([2.0, 2.0, 20.0, 20.0, 20.0], [1.0, 1.0, 10.0, 10.0, 10.0])
    frame["host"] = np.where(frame["round"] < 3, "fast", "slow")
    row = row_of(frame)
    assert (row["ratio"], row["n"]) == (pytest.approx(2), 5)
    assert row["flags"] == "hosts-differ no-duplicates" and math.isnan(row["value"])
    assert row["withheld"] and row["call"] == ""
    levels = table_of(frame, ELAPSED)
    assert levels["value"].isna().all() and set(levels["flags"]) == {"hosts-differ"}
