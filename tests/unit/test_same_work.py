"""Comparisons of cells with different work are withheld with the reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from unit.synthetic import SAME_WORK, make_study
from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.cards import Situation
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import (
    collect,
    measurements,
    read_grid,
    read_measurements,
    write_frame,
)
from vcsbench.report.quality_section import work_done
from vcsbench.statistics.findings import evaluate_findings
from vcsbench.statistics.tables import make_table

AXES = {
    "command": ["log"],
    "repo": ["ruby"],
    "format": ["f6", "f7", "f8"],
    "cache": ["cold", "hot-os"],
}
F6_F7 = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    "rows": ["repo"],
    "columns": ["cache"],
}
ELAPSED = {"metric": "elapsed_s", "unit": "s", "rows": ["format"], "columns": ["cache"]}
FINDING = {
    "id": "f7-log",
    "statement": "Format 7 is about twice as fast for the log.",
    "where": {"command": "log"},
    "compare": {"axis": "format", "baseline": "f6", "candidate": "f7"},
    "expect": {"over": "median", "at_least": 1.5},
}
SHORT = {**SAME_WORK, "revisions": 5000, "digest": "fedcba9876543210"}
REASON = "log: 6,000 revisions (f6) against 5,000 (f7)"


def text(**work: Any) -> str:
    return json.dumps(work, sort_keys=True)


def frame_of(tmp_path: Path, work: Any, **options: Any) -> Any:
    study = make_study(tmp_path, axes=AXES, work=work, drift=0.0, **options)
    axes, grid = read_grid(study.grid)
    logs = study.results / "logs" / "cells" / study.name
    write_frame(
        measurements(collect(axes, grid, study.rounds, study.exports, logs)), tmp_path / "m.csv"
    )
    return read_measurements(tmp_path / "m.csv")


def table_of(frame: Any, definition: Any) -> list[dict[Any, Any]]:
    return make_table(frame, "a-table", definition, AXES, []).to_dict("records")


def cold_f7_is_short(axes: dict[str, str], _number: int) -> dict[str, Any]:
    return SHORT if (axes["format"], axes["cache"]) == ("f7", "cold") else SAME_WORK


def test_table_same_work_is_compared(tmp_path: Path) -> None:
    rows = table_of(frame_of(tmp_path, lambda axes, number: SAME_WORK), F6_F7)
    assert [(row["flags"], row["withheld"]) for row in rows] == [("no-duplicates", "")] * 2
    assert all(row["low"] < row["ratio"] < row["high"] for row in rows)


def test_table_other_work_withholds_ratio(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, cold_f7_is_short)
    cold, hot = table_of(frame, F6_F7)
    assert all(math.isnan(cold[name]) for name in ("value", "ratio", "low", "high"))
    assert (cold["flags"], cold["withheld"], cold["n"]) == ("other-work", REASON, 5)
    assert hot["ratio"] > 1 and hot["flags"] == "no-duplicates" and not hot["withheld"]
    # Only these runs have other work.
    odd = frame[frame["flags"] == "other-work"]
    assert set(odd["format"] + odd["cache"]) == {"f7cold"} and len(odd) == 5


def test_table_of_times_keeps_other_work(tmp_path: Path) -> None:
    rows = table_of(frame_of(tmp_path, cold_f7_is_short), ELAPSED)
    assert [(r["format"], r["cache"]) for r in rows if r["flags"]] == [("f7", "cold")]
    assert all(row["value"] > 0 and not row["withheld"] for row in rows)


def one_round_is_short(axes: dict[str, str], number: int) -> dict[str, Any]:
    return SHORT if (axes["format"], number) == ("f7", 3) else SAME_WORK


def test_table_rounds_with_different_work_are_withheld(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, one_round_is_short)
    reason = "did not all do the same: 6,000 revisions against 5,000"
    for row in table_of(frame, F6_F7):
        assert math.isnan(row["ratio"]) and row["flags"] == "other-work"
        assert row["withheld"] == f"log: the rounds of f7 {reason}"
    for row in table_of(frame, ELAPSED):
        assert math.isnan(row["value"]) == (row["format"] == "f7")
        assert row["withheld"] == (f"log: the rounds {reason}" if row["format"] == "f7" else "")
    assert set(frame[frame["flags"] != ""]["round"]) == {3.0}


def f7_is_unknown(axes: dict[str, str], _number: int) -> dict[str, Any]:
    return {} if axes["format"] == "f7" else SAME_WORK


def test_table_unknown_work_is_withheld(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, f7_is_unknown)
    for row in table_of(frame, F6_F7):
        assert math.isnan(row["value"]) and math.isnan(row["ratio"])
        assert (row["flags"], row["withheld"]) == (
            "work-unknown",
            "log: the work of f7 is unknown",
        )
    shown = [row for row in table_of(frame, ELAPSED) if row["format"] == "f7"]
    assert all(row["value"] > 0 and row["flags"] == "work-unknown" for row in shown)
    without_column = table_of(frame.drop(columns="work"), F6_F7)
    assert all("work-unknown" in row["flags"] for row in without_column)


def test_table_ignores_work_of_invalid_run(tmp_path: Path) -> None:
    frame = frame_of(
        tmp_path,
        one_round_is_short,
        rounds=6,
        flags=lambda axes, number: (
            ["cache-not-cold"] if (axes["format"], number) == ("f7", 3) else []
        ),
    )
    assert not any(row["withheld"] for row in table_of(frame, F6_F7))


def verdict_of(frame: Any, **changes: Any) -> Any:
    return evaluate_findings([{**FINDING, **changes}], list(AXES), None, frame).iloc[0]


def test_finding_leaves_out_other_work(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, cold_f7_is_short)
    row = verdict_of(frame)
    assert (row["verdict"], row["why"]) == ("inconclusive", f"other work: {REASON}")
    assert row["measured"] == pytest.approx(2.0, rel=0.05)
    hot = verdict_of(frame, where={"command": "log", "cache": "hot-os"})
    assert (hot["verdict"], hot["why"]) == ("reproduced", "")
    cold = verdict_of(frame, where={"command": "log", "cache": "cold"})
    assert (cold["verdict"], cold["why"]) == ("not measured", f"other work: {REASON}")
    assert math.isnan(cold["measured"])


def test_finding_on_level_needs_same_work_in_rounds(tmp_path: Path) -> None:
    level = {"compare": None, "level": "elapsed_s", "where": {"format": "f7", "cache": "cold"}}
    level["expect"] = {"over": "median", "at_most": 100}
    for work, verdict in ((cold_f7_is_short, "reproduced"), (one_round_is_short, "not measured")):
        finding = {key: value for key, value in level.items() if value}
        base = {key: FINDING[key] for key in ("id", "statement")}
        frame = frame_of(tmp_path / verdict, work)
        row = evaluate_findings([{**base, **finding}], list(AXES), None, frame).iloc[0]
        assert row["verdict"] == verdict
        assert ("did not all do the same" in row["why"]) == (verdict == "not measured")


def advice_of(frame: Any, cache: str) -> Situation:
    settings = AdviceSettings(AXES, ["command", "repo", "cache"], ["command", "cache", "ra"])
    situations = advise(settings, frame).situations
    return next(item for item in situations if item.where["cache"] == cache)


def test_advice_compares_majority_only(tmp_path: Path) -> None:
    item = advice_of(frame_of(tmp_path, cold_f7_is_short), "cold")
    reason = "5,000 revisions against 6,000"
    assert item.other_work == [({"format": "f7"}, reason)]
    # f7 was fastest, and is neither recommended nor compared.
    assert item.best.get("format") != "f7"
    assert "f7" not in [axes.get("format") for axes in item.equal]


def test_advice_whose_best_is_mostly_fixed_cost_has_no_answer(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, lambda _axes, _number: SAME_WORK)
    fastest = frame["format"] == "f7"
    small = advice_of(frame.assign(fixed_share=fastest * 0.6), "cold")
    assert (small.best, small.why_not) == ({}, "mostly start-up, decides nothing")
    large = advice_of(frame.assign(fixed_share=fastest * 0.4), "cold")
    assert (large.best["format"], large.why_not) == ("f7", "")


def test_advice_without_majority_has_no_answer(tmp_path: Path) -> None:
    works = {"f6": SAME_WORK, "f7": SHORT, "f8": {**SAME_WORK, "revisions": 1}}
    item = advice_of(frame_of(tmp_path, lambda axes, number: works[axes["format"]]), "cold")
    assert not item.best and len(item.other_work) == 3


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            {"revisions": 5987, "paths": 9, "digest": "a", "bytes": 99},
            {"revisions": 5000, "paths": 8, "digest": "b", "bytes": 98},
            "5,987 revisions (A) against 5,000 (B), 9 changed paths against 8, 99 bytes against 98",
        ),
        (
            {"files": 2, "bytes": 9, "digest": "a"},
            {"files": 2, "bytes": 9, "digest": "b"},
            "A and B: as many of all that is counted, but names or contents differ",
        ),
        ({"files": 2}, {"revisions": 2}, "their work was recorded in different ways"),
    ],
)
def test_difference_and_figures_sentences(
    one: dict[str, Any], other: dict[str, Any], expected: str
) -> None:
    assert same_work.difference(text(**one), text(**other), ("A", "B")) == expected


def test_majority_needs_more_than_any_other() -> None:
    a, b = text(revisions=1), text(revisions=2)
    assert same_work.majority({1: a, 2: a, 3: b}) == {1, 2}
    assert same_work.majority({1: a, 2: b}) == same_work.majority({1: "", 2: ""}) == set()
    assert same_work.majority({1: a, 2: f"{a}\n{b}", 3: ""}) == {1}


@pytest.mark.parametrize(
    ("kind", "captured", "timed", "is_other"),
    [
        ("log", 407098, 407189, False),
        ("dump", 89575829, 89575922, False),
        ("log", 407098, 405000, True),
        ("stdout", 407098, 410000, True),
        ("log", 407098, None, False),
        # svnbench prints nothing in timed runs.
        ("printed_counts", 4439, 91, False),
    ],
)
def test_has_other_output_beyond_tolerance(
    kind: str, captured: int, timed: int | None, is_other: bool
) -> None:
    context = {"work": {"kind": kind, "captured_io": {"wchar": captured}}}
    run = {"certificate": {"client_wchar": timed}}
    assert same_work.has_other_output(run, context) is is_other
    assert not same_work.has_other_output(run, {})


def test_report_lists_work_of_each_command(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, cold_f7_is_short)
    axes = same_work.work_axes(frame.columns)
    assert axes == ["command", "repo"]
    done = work_done(frame.to_dict("records"), axes)
    assert done == [("log", "ruby", "6,000 revisions", "25", "5")]
    unknown = work_done(frame.drop(columns="work").to_dict("records"), axes)
    assert unknown == [("log", "ruby", "unknown", "0", "30")]
    assert same_work.figures_of(text(paths=9, revisions=1234, digest="a")) == (
        "1,234 revisions, 9 changed paths"
    )
