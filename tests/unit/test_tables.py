"""Tables from measured numbers whose ratios are known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.synthetic import AXES, WORK, known_seconds, make_study
from vcsbench.evidence.measurements import (
    collect,
    measurements,
    read_grid,
    read_measurements,
    write_frame,
)
from vcsbench.statistics.contract import DEFAULT_LIMITS, NOT_SHOWN, TOO_NOISY, Limits
from vcsbench.statistics.tables import make_table, make_tables

FORMATS = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    "rows": ["ra"],
    "columns": ["cache"],
}
ACCESS = {
    "compare": {"axis": "ra", "baseline": "http", "candidates": ["svn", "file"]},
    "rows": ["candidate"],
    "columns": ["cache"],
}
ELAPSED = {"metric": "elapsed_s", "rows": ["ra"], "columns": ["cache"]}
CLIENT = {**ELAPSED, "metric": "client_cpu_pct"}
BLOCK = ["command", "repo", "cache"]
CALL = ["call", "error", "degrees", "twin_sd", "detectable", "within"]
STATISTICS = ["ratio", "low", "high", "n", "flags", "withheld", "fixed_share", *CALL]


def frame_of(tmp_path, **options):
    study = make_study(tmp_path, **options)
    axes, grid = read_grid(study.grid)
    logs = study.results / "logs" / "cells" / study.name
    exports = [path for path in study.exports if study.results.joinpath(path).exists()]
    frame = measurements(collect(axes, grid, study.rounds, exports, logs))
    write_frame(frame, tmp_path / "m.csv")
    return read_measurements(tmp_path / "m.csv")


def table_of(frame, definition, axes=AXES, name="a-table"):
    return make_table(frame, name, definition, axes, BLOCK)


def row_of(table, **keys):
    for key, value in keys.items():
        table = table[table[key] == value]
    assert len(table) == 1
    return table.iloc[0]


def frame_with(times, **columns):
    """Return measurements of one axis. `times` maps a format to its times in rounds 1, 2, 3, ..."""
    rows = [
        {"format": value, "round": number, "elapsed_s": elapsed}
        for value, rounds in times.items()
        for number, elapsed in enumerate(rounds, start=1)
    ]
    given = {"user_s": 0.1, "system_s": 0.1, "host": "here", "flags": "", "work": WORK} | columns
    return pd.DataFrame(rows).assign(**given)


FORMAT_ONLY = {"format": ["f6", "f7", "f8"]}


def test_make_table_has_columns(tmp_path):
    table = table_of(frame_of(tmp_path), FORMATS, name="f6-vs-f7")
    others = [axis for axis in AXES if axis != "format"]
    assert list(table) == ["table", *others, "baseline", "candidate", "value", *STATISTICS]
    assert set(table["table"]) == {"f6-vs-f7"}
    assert (set(table["baseline"]), set(table["candidate"])) == ({"f6"}, {"f7"})
    assert len(table) == 72


def test_make_table_value_is_of_medians_ratio_of_rounds():
    frame = frame_with({"f6": [2.0, 2.2, 2.1, 4.0, 2.0], "f7": [1.0, 1.1, 1.0, 1.0, 0.5]})
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert row["value"] == pytest.approx(100 * (2.1 / 1.0 - 1))
    d = np.log([2.0, 2.0, 2.1, 4.0, 4.0])
    assert row["ratio"] == pytest.approx(math.exp(d.mean()))
    low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((math.exp(low), math.exp(high)))
    assert row["n"] == 5


def test_make_table_has_known_ratios(tmp_path):
    table = table_of(frame_of(tmp_path, noise=0.002, drift=0.3), FORMATS)
    # Drift makes the rounds differ by a factor of 3; round by round it has no part in the ratio.
    assert table["ratio"].tolist() == pytest.approx([2.0] * 72, rel=0.01)
    assert ((table["low"] < table["ratio"]) & (table["ratio"] < table["high"])).all()
    assert (table["high"] - table["low"]).max() < 0.05
    assert table["value"].tolist() == pytest.approx([100.0] * 72, abs=2)


def test_make_table_faster_candidate_is_above_one():
    faster = row_of(table_of(frame_with({"f6": [2.0] * 5, "f7": [1.0] * 5}), FORMATS, FORMAT_ONLY))
    slower = row_of(table_of(frame_with({"f6": [1.0] * 5, "f7": [2.0] * 5}), FORMATS, FORMAT_ONLY))
    assert (faster["value"], faster["ratio"]) == (100, pytest.approx(2))
    assert (slower["value"], slower["ratio"]) == (-50, pytest.approx(0.5))
    assert slower["high"] < 1 < faster["low"]


def test_make_table_has_row_per_candidate(tmp_path):
    axes = {**AXES, "command": ["log", "dump"]}
    table = table_of(frame_of(tmp_path, axes=axes, noise=0), ACCESS, axes)
    assert "ra" not in table
    assert set(table["command"]) == {"log"}  # dump has no ra to compare
    first = table[["candidate", "value"]].head(2).values.tolist()
    assert first == [["svn", pytest.approx(25)], ["file", pytest.approx(100 * (1 / 0.6 - 1))]]


def test_make_table_inapplicable_axis_is_empty(tmp_path):
    axes = {**AXES, "command": ["dump"]}
    table = table_of(frame_of(tmp_path, axes=axes), FORMATS, axes)
    assert set(table["ra"]) == {""}
    assert len(table) == 12


def test_make_table_without_comparison_has_levels(tmp_path):
    table = table_of(frame_of(tmp_path, noise=0, drift=0), ELAPSED, name="elapsed")
    assert list(table) == ["table", *AXES, "baseline", "candidate", "value", *STATISTICS]
    row = row_of(
        table,
        **{"command": "log", "ra": "svn", "format": "f7", "packing": "pack"},
        **{"config": "fast", "cache": "cold"},
    )
    expected = {axis: row[axis] for axis in AXES}
    assert row["value"] == pytest.approx(known_seconds(expected))
    assert (row["baseline"], row["candidate"], row["n"]) == ("", "", 5)
    assert row[["ratio", "low", "high"]].isna().all()


def test_make_table_client_cpu_is_quotient_of_medians():
    frame = frame_with({"f6": [1.0, 2.0, 4.0]}).assign(user_s=[1.0, 1.5, 0.1])
    row = row_of(table_of(frame, CLIENT, FORMAT_ONLY))
    assert row["value"] == pytest.approx(100 * 1.1 / 2.0)


def test_make_table_runs_of_round_count_once():
    frame = frame_with({"f6": [1.0, 1.0, 1.0, 1.0, 5.0, 9.0, 9.0]})
    frame["round"] = [1, 2, 3, 4, 5, 5, 5]
    row = row_of(table_of(frame, ELAPSED, FORMAT_ONLY))
    assert (row["value"], row["n"]) == (1.0, 5)
    three_runs = frame_with({"f6": [1.0, 2.0, 9.0]}).assign(round=1)
    row = row_of(table_of(three_runs, ELAPSED, FORMAT_ONLY))
    assert (row["value"], row["n"]) == (2.0, 1)


def test_make_table_ratio_is_of_geometric_means():
    frame = frame_with({"f6": [1.0, 2.0, 9.0], "f7": [1.0, 1.0, 1.0]}).assign(round=1)
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert (row["value"], row["n"]) == (pytest.approx(100.0), 1)
    assert row["ratio"] == pytest.approx(18 ** (1 / 3))
    best = row_of(table_of(frame, {**FORMATS, "reduce": "best"}, FORMAT_ONLY))
    assert (best["value"], best["ratio"]) == (pytest.approx(0.0), pytest.approx(1.0))


def test_make_table_ratio_of_counts_is_of_medians():
    frame = frame_with({"f6": [0.0, 2.0, 4.0], "f7": [1.0, 1.0, 1.0]}).assign(round=1)
    frame["read_calls"] = frame["elapsed_s"]
    counts = {"compare": FORMATS["compare"] | {"metric": "read_calls"}, "rows": [], "columns": []}
    assert row_of(table_of(frame, counts, FORMAT_ONLY))["ratio"] == pytest.approx(2.0)


def test_make_table_rows_have_order_of_study(tmp_path):
    axes = {**AXES, "cache": ["hot-svn", "cold"], "ra": ["file", "http"]}
    frame = frame_of(tmp_path, axes=axes).sample(frac=1, random_state=1)
    table = table_of(frame, ELAPSED, axes)
    assert table["command"].tolist() == ["log"] * 32 + ["export"] * 32
    assert table["ra"].head(32).tolist() == ["file"] * 16 + ["http"] * 16
    assert table["cache"].head(4).tolist() == ["hot-svn", "cold"] * 2


def test_make_table_unmeasured_value_has_no_row(tmp_path):
    frame = frame_of(tmp_path, axes={**AXES, "ra": ["svn"]})
    definition = {**FORMATS, "compare": {"axis": "format", "baseline": "f7", "candidates": ["f8"]}}
    table = table_of(frame, definition)
    write_frame(table, tmp_path / "t.csv")
    others = [axis for axis in AXES if axis != "format"]
    columns = ["table", *others, "baseline", "candidate", "value", *STATISTICS]
    assert (tmp_path / "t.csv").read_text() == ",".join(columns) + "\n"


@pytest.mark.parametrize("definition", [FORMATS, ELAPSED, CLIENT])
def test_make_table_empty_has_columns(tmp_path, definition):
    frame = frame_of(tmp_path, skip=lambda axes: "not here")
    table = table_of(frame, definition)
    assert table.empty
    assert list(table)[-15:] == ["candidate", "value", *STATISTICS]


def test_make_table_pairs_rounds_of_both_cells():
    frame = frame_with({"f6": [2.0] * 6, "f7": [1.0] * 6})
    frame = frame[~((frame["format"] == "f7") & (frame["round"] <= 2))]
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert (row["n"], row["flags"]) == (4, "no-duplicates low-n")


def test_make_table_few_rounds_are_low_n():
    frame = frame_with({"f6": [2.0] * 5, "f7": [1.0] * 5})
    assert row_of(table_of(frame, FORMATS, FORMAT_ONLY))["flags"] == "no-duplicates"
    few = frame[frame["round"] < 5]
    assert row_of(table_of(few, FORMATS, FORMAT_ONLY))["flags"] == "no-duplicates low-n"
    assert set(table_of(few, ELAPSED, FORMAT_ONLY)["flags"]) == {"low-n"}


def test_make_table_one_round_has_no_interval():
    row = row_of(table_of(frame_with({"f6": [2.0], "f7": [1.0]}), FORMATS, FORMAT_ONLY))
    assert (row["ratio"], row["n"]) == (pytest.approx(2), 1)
    assert row[["low", "high"]].isna().all()


def test_make_table_excludes_invalid_runs():
    frame = frame_with({"f6": [9.0, 2.0, 2.0, 2.0, 2.0, 2.0], "f7": [1.0] * 6})
    frame["flags"] = ["cache-not-cold", "cpu-steal", "", "", "", ""] * 2
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert (row["n"], row["value"], row["ratio"]) == (5, 100, pytest.approx(2))
    assert row["flags"] == "cpu-steal no-duplicates"


def test_make_table_cell_without_valid_run_has_no_row():
    frame = frame_with({"f6": [2.0] * 5, "f7": [1.0] * 5})
    frame.loc[frame["format"] == "f7", "flags"] = "no-disk-reads"
    assert table_of(frame, FORMATS, FORMAT_ONLY).empty
    assert table_of(frame, ELAPSED, FORMAT_ONLY)["format"].tolist() == ["f6"]


def test_make_table_joins_flags_of_both_cells():
    frame = frame_with({"f6": [2.0] * 5, "f7": [1.0] * 5})
    frame["flags"] = ["outlier-10", "", "", "", "", "too-short outlier-20", "", "", "", "odd"]
    assert (
        row_of(table_of(frame, FORMATS, FORMAT_ONLY))["flags"]
        == "too-short outlier-20 no-duplicates odd"
    )


def test_make_table_withholds_different_hosts():
    frame = frame_with({"f6": [2.0] * 5, "f7": [1.0] * 5})
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert row["n"] == 0
    assert set(row["flags"].split()) == {"hosts-differ", "low-n"}
    assert row[["value", "ratio", "low", "high"]].isna().all()


def test_make_table_rounds_of_one_host_have_ratio():
    frame = frame_with({"f6": [2.0, 2.0, 20.0, 20.0, 20.0], "f7": [1.0, 1.0, 10.0, 10.0, 10.0]})
    frame["host"] = np.where(frame["round"] < 3, "fast", "slow")
    row = row_of(table_of(frame, FORMATS, FORMAT_ONLY))
    assert (row["ratio"], row["n"], row["flags"]) == (
        pytest.approx(2),
        5,
        "hosts-differ no-duplicates",
    )
    assert math.isnan(row["value"])
    levels = table_of(frame, ELAPSED, FORMAT_ONLY)
    assert levels["value"].isna().all()
    assert set(levels["flags"]) == {"hosts-differ"}


def test_make_table_zero_time_has_no_row():
    frame = pd.DataFrame({"format": ["f6", "f7"], "elapsed_s": [1.0, 0.0]})
    assert table_of(frame, FORMATS, FORMAT_ONLY).empty


def test_make_tables_noisy_machine_has_larger_limit(tmp_path):
    frame = frame_of(tmp_path, noise=0.04, twins=1, factors={})
    quiet, noisy, wide = (
        make_tables(frame, {"t": FORMATS}, AXES, BLOCK, limits, scatter)["t"]
        for limits, scatter in (
            (DEFAULT_LIMITS, 0.05),
            (DEFAULT_LIMITS, 0.07),
            (Limits(min_effect_pct=15), 0.07),
        )
    )
    more = noisy[(noisy["call"] == NOT_SHOWN) & (quiet["call"] == TOO_NOISY)]
    assert len(more) and more["within"].between(1.10, 1.15).all()
    assert list(noisy["call"]) == list(wide["call"])
