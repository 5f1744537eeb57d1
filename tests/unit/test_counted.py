"""Counts of bytes, calls and instructions: columns, tables, findings and advice."""

import json
import math
import re

import pandas as pd
import pytest

from unit.synthetic import make_study
from vcsbench.advice.advise import find_less_work
from vcsbench.codes import Call, WithheldCode
from vcsbench.evidence import run_columns
from vcsbench.measure.runs import Run
from vcsbench.metrics import METRICS
from vcsbench.plan.recipe import TracedCell, traced_cells
from vcsbench.records import complete_run
from vcsbench.report.answer_texts import describe_less_work
from vcsbench.report.table_points import number_sentences
from vcsbench.statistics.aggregation import add_metrics
from vcsbench.statistics.findings import evaluate_findings
from vcsbench.statistics.tables import make_table

MIB = 1 << 20
ORDER = {
    "command": ["log"],
    "access": ["svn", "file"],
    "repo": ["ruby"],
    "format": ["f6", "f7"],
    "packing": ["nopack", "pack"],
    "config": ["slow"],
    "cache": ["cold", "hot-os"],
}
COLD = {"cache": "cold"}
BY_PACKING = {"axis": "packing", "baseline": "nopack", "candidates": ["pack"]}
DEVICE = {
    "compare": {**BY_PACKING, "metric": "device_mib"},
    "where": COLD,
    "rows": ["access", "repo", "format"],
    "columns": ["cache", "config"],
}
CALLS = {**DEVICE, "compare": {**BY_PACKING, "metric": "read_calls"}, "where": {}}


def read(axes, number=1):
    """Return counts. Packed, f7 reads a quarter and f6 half of the bytes, in more calls; svn's vary."""
    cold, packed = axes["cache"] == "cold", axes["packing"] == "pack"
    less = (4 if axes["format"] == "f7" else 2) if packed else 1
    scatter = number * 100 if axes["access"] == "svn" else 0
    return {
        "client_read_bytes": 80 * MIB // less if cold else 0,
        "client_rchar": 10 * MIB,
        "client_syscr": (3000 if packed else 1000) + scatter,
    }


def frame(tmp_path, counts=read, rounds=5, **options):
    study = make_study(tmp_path, axes=ORDER, rounds=rounds, counts=counts, **options)
    frame = study.collected().measurements
    return frame.astype(dict.fromkeys(run_columns.COUNT_COLUMNS, float))


def table(measured, definition):
    return make_table(measured, "t", definition, ORDER, ["command", "cache", "access"])


EVIDENCE = {
    **{"client_read_bytes": 7, "client_rchar": 10, "client_syscr": 2},
    **{"client_write_bytes": 4, "client_wchar": 8},
    **{"device_write_bytes": 4096, "device_flushes": 3},
}


@pytest.mark.parametrize(
    ("more", "filesystem", "expected"),
    [
        ({}, "ext4", (7, 10, 2, None, 8, 4)),
        ({"client_rchar": None, "client_instructions": 5}, "ext4", (7, None, 2, 5, 8, 4)),
        ({"server_kind": "httpd"}, "ext4", (None,) * 6),
        ({"server_kind": "httpd", "server_read_bytes": 1}, "ext4", (8, *(None,) * 5)),
        ({"server_kind": "httpd", "server_wchar": 1}, "ext4", (*(None,) * 4, 9, None)),
        ({}, "tmpfs", (None, 10, 2, None, 8, None)),
    ],
)
def test_count_columns_have_number_or_none(more, filesystem, expected):
    context = {"storage": {"filesystem": filesystem}}
    columns = run_columns.count_columns({**EVIDENCE, **more}, context)
    assert tuple(columns[name] for name in run_columns.SUMMED_COUNTS) == expected
    assert (columns["written_bytes"], columns["flushes"]) == (4096, 3)


@pytest.mark.parametrize("clients", [1, 2])
def test_client_columns_have_cpu_time_of_clients_without_launcher(clients):
    times = {"went_s": 0.1, "ended_s": 0.5, "user_s": 0.2, "system_s": 0.1}
    launched = {"forking_s": 0.01, "all_s": 0.5, "clients": [times] * clients}
    context = {"host": {"cores": 2}}
    timed = Run(elapsed_s=0.6, user_s=0.9, system_s=0.5, exit_code=0)
    columns = run_columns.client_columns(timed, complete_run({"launched": launched}), context)
    assert columns["clients_cpu_s"] == pytest.approx(0.3 * clients)
    assert columns["slowest_client_s"] == pytest.approx(0.4)
    load = METRICS["client_load_pct"].value(columns)
    assert load == pytest.approx(100 * 0.3 * clients / 0.5 / 2)
    alone = complete_run({})
    columns = run_columns.client_columns(timed, alone, context)
    assert columns["clients_cpu_s"] == pytest.approx(1.4)
    unknown = run_columns.client_columns(timed._replace(user_s=None), alone, context)
    assert unknown["clients_cpu_s"] is None


RECIPE = {
    **{"study": "s", "axes": {"command": "log", "cache": "cold"}, "argv": "{svn} log", "stdin": ""},
    **{"state": {"prepare": ["sync"]}, "runs": 1, "clearing": "evict", "time_limit_s": 1},
}


def recipe(cell, **other):
    return {**RECIPE, "cell": cell, "digest": cell, **other}


def test_traced_cells_that_differ_in_cache_share():
    hot = recipe("log/hot", axes={"command": "log", "cache": "hot"}, state={}, runs=6)
    counts = traced_cells([recipe("log/cold"), hot, recipe("dump", argv="{svnadmin} dump")])
    assert counts["log/cold"] == counts["log/hot"]
    assert counts["log/hot"].path == "log/cold" and counts["dump"].path == "dump"
    # A word of the command distinguishes.
    axes = [{"number": number} for number in "12"]
    argv = "{svn} log {number}"
    counts = traced_cells([recipe(of["number"], axes=of, argv=argv) for of in axes])
    assert counts["1"] != counts["2"]


def test_read_traces_of_other_recipe_are_left_out(tmp_path):
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"cell": "log/cold", "digest": "old", "client": {"reads": 1}}))

    def hot(digest):
        traced = {name: TracedCell("log/cold", digest) for name in ("log/cold", "log/hot")}
        return run_columns.read_traces([file], traced).get("log/hot")

    assert hot("new") is None
    assert hot("old")["client"]["reads"] == 1


def test_trace_columns_are_sums_of_both_sides_or_none():
    client, server = {"reads": 2, "bytes_read": 9, "rename": 1}, {"reads": 3, "mmap": 4}
    columns = run_columns.trace_columns({"client": client, "server": server})
    counted = {name: count for name, count in columns.items() if count}
    assert counted == {"reads": 5, "bytes_read": 9, "renames": 1, "all_calls": 10}
    assert set(run_columns.trace_columns({"client": None}).values()) == {None}


@pytest.mark.parametrize(
    ("metric", "words", "sentence_end"),
    [
        ("rpcs", ("less often", "more often"), "calls the server less often"),
        ("reads", ("less often", "more often"), "reads less often"),
        ("exclusive_mib", ("less for itself", "more for itself"), "has less for itself"),
        ("elapsed_s", ("faster", "slower"), "is faster"),
    ],
)
def test_words_of_a_factor_have_no_verb(metric, words, sentence_end):
    assert METRICS[metric].change_words == words
    assert METRICS[metric].words.is_better == sentence_end


@pytest.mark.parametrize(
    ("metric", "withheld"),
    [("flushes", WithheldCode.HIDDEN_COUNT), ("rpcs", None), ("seeks", WithheldCode.UNTRACED)],
)
def test_table_of_missing_counts_has_reason(tmp_path, metric, withheld):
    measured = frame(tmp_path).assign(seeks=float("nan"))
    definition = {"metric": metric, "rows": ["access"], "columns": ["cache"]}
    made = table(measured, definition)
    assert set(made["withheld"]) == ({withheld} if withheld else set())
    assert table(measured.drop(columns="seeks"), {**definition, "metric": "seeks"}).empty


@pytest.mark.parametrize(
    ("metric", "lacking", "level_n", "pair_n"),
    # Round 2 of the packed cells lacks its count. Calls under strace are counted once for all rounds.
    [
        ("read_calls", "client_syscr", 4, 4),
        ("seeks", "", 1, 1),
        ("elapsed_s", "client_syscr", 5, 5),
    ],
)
def test_n_is_the_number_of_rounds_with_the_value(tmp_path, metric, lacking, level_n, pair_n):
    def counts(axes, number):
        is_lacking = (axes["packing"], number) == ("pack", 2)
        return read(axes) | ({lacking: None} if is_lacking and lacking else {})

    measured = frame(tmp_path, counts).assign(seeks=7.0)
    definitions = {"metric": metric}, {"compare": {**BY_PACKING, "metric": metric}}
    levels, pairs = (table(measured, definition) for definition in definitions)
    levels = levels[levels["packing"] == "pack"]
    assert (set(levels["n"]), set(pairs["n"])) == ({level_n}, {pair_n})
    rows = [made.to_dict("records")[0] for made in (levels, pairs)]
    once = [number_sentences(*of)[0] for of in zip(rows, definitions, strict=True)]
    assert all(("counted once" in text) == (metric == "seeks") for text in once)
    assert all(("round" in text) == (metric != "seeks") for text in once)


def test_quotient_of_parts_is_of_the_runs_that_have_both():
    runs = pd.DataFrame({"elapsed_s": [1.0, 9.0], "user_s": [0.5, None], "system_s": [0.1, 0.1]})
    added = add_metrics(runs)
    assert added["client_cpu_pct/elapsed_s"].tolist() == [1.0, pytest.approx(math.nan, nan_ok=True)]
    assert added["client_cpu_pct"].iloc[0] == pytest.approx(60)


@pytest.mark.parametrize(
    ("much", "call"), [(1.009, Call.EQUAL), (0.992, Call.EQUAL), (1.02, Call.LESS)]
)
def test_table_counts_within_1_pct_are_equal(tmp_path, much, call):
    def counts(axes, number):
        return {"client_read_bytes": int(MIB * (1 if axes["packing"] == "pack" else much))}

    assert set(table(frame(tmp_path, counts), DEVICE)["call"]) == {call}


FINDING = {"statement": "Packed, less is read.", "expect": {"over": "min", "at_least": 1.9}}
PACKED = {"axis": "packing", "baseline": "nopack", "candidate": "pack"}


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("rounds", [1, 5])
def test_count_of_0_has_no_ratio_and_the_reason(tmp_path, counts, rounds):
    # In all or in one of five rounds, a side has no calls.
    def calls(axes, number):
        count = counts[axes["packing"] == "pack"] if number <= rounds else 7
        return {**read(axes), "client_syscr": count}

    measured = frame(tmp_path, calls)
    made = table(measured, CALLS)
    assert set(made["withheld"]) == {WithheldCode.ZERO} and set(made["n"]) == {5}
    assert made[["value", "ratio", "low", "high"]].isna().all(axis=None)
    assert set(made["call"]) == {""}
    compare = {**PACKED, "metric": "read_calls"}
    finding = {**FINDING, "id": "x", "where": COLD, "compare": compare}
    (verdict,) = evaluate_findings([finding], list(ORDER), None, measured).to_dict("records")
    assert verdict["verdict"] == "not measured" and WithheldCode.ZERO in verdict["reasons"]


def test_finding_on_count(tmp_path):
    ratio = {**FINDING, "id": "x", "where": COLD, "compare": {**PACKED, "metric": "device_mib"}}
    level = {**FINDING, "id": "y", "where": {**COLD, "packing": "nopack"}, "level": "device_mib"}
    level["expect"] = {"over": "max", "at_most": 79}
    missing = {**FINDING, "id": "z", "where": {}, "level": "flushes"}
    measured = frame(tmp_path)
    rows = evaluate_findings([ratio, level, missing], list(ORDER), None, measured).set_index("id")
    assert rows["verdict"].to_dict() == {"x": "reproduced", "y": "stronger", "z": "not measured"}
    assert rows["measured"]["x"] == pytest.approx(2) and rows["measured"]["y"] == pytest.approx(80)
    assert WithheldCode.HIDDEN_COUNT in rows["reasons"]["z"]


def test_less_work_counts_cases_of_both_directions(tmp_path):
    made = [(d, table(frame(tmp_path), d).astype(object)) for d in (DEVICE, CALLS)]
    # As a report reads the rows: None for a missing number.
    tables = [(d, rows.where(rows.notna(), None).to_dict("records")) for d, rows in made]
    read, calls = map(describe_less_work, find_less_work(tables, 10))
    assert re.findall(r"^packed|[\d.]+x", read) == ["packed", "2.0x", "4.0x"]
    assert re.findall(r"^not packed|[\d.]+x", calls) == ["not packed", "2.6x", "3.0x"]


def test_table_varying_counts_have_interval(tmp_path):
    made = table(frame(tmp_path, twins=1), CALLS).set_index("access")
    assert (made.loc["file", "low"] == made.loc["file", "high"]).all()
    varying = made.loc["svn"]
    assert (varying["low"] < varying["ratio"]).all() and (varying["ratio"] < varying["high"]).all()
    assert set(made["call"]) == {Call.MORE}
