"""Verdicts on what the studies concluded, on published and on made-up measured numbers."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.synthetic import WORK
from vcsbench.config.definitions import read_findings
from vcsbench.config.study import load_study
from vcsbench.errors import UserError
from vcsbench.metrics import names
from vcsbench.statistics import verdicts
from vcsbench.statistics.contract import DEFAULT_LIMITS
from vcsbench.statistics.findings import (
    Conditions,
    EvaluationContext,
    evaluate,
    evaluate_findings,
    rounds_of,
)
from vcsbench.statistics.intervals import ratio
from vcsbench.statistics.noise import Noise
from vcsbench.statistics.published import read_published
from vcsbench.statistics.variance import Variance
from vcsbench.statistics.verdicts import Reason, is_expected

CONFIG = Path(__file__).parents[2] / "config"
FINDINGS = CONFIG / "published" / "findings.yaml"
AXES = ["command", "format"]


def finding(**changes):
    return {
        "id": "f7-log",
        "statement": "Format 7 is about twice as fast for the log.",
        "where": {"command": "log"},
        "compare": {"axis": "format", "baseline": "f6", "candidate": "f7"},
        "expect": {"over": "median", "at_least": 1.8, "at_most": 2.2},
    } | changes


def measured(ratios, commands=("log",)):
    """Measurements whose f6 takes `ratios` times its f7 in rounds 1, 2, 3, ..."""
    rows = [
        {"command": command, "format": value, "round": number, "elapsed_s": elapsed}
        for command in commands
        for number, ratio in enumerate(ratios, start=1)
        for value, elapsed in (("f6", ratio * number), ("f7", 1.0 * number))
    ]
    return pd.DataFrame(rows).assign(user_s=0.3, system_s=0.1, host="here", flags="", work=WORK)


def verdict_of(frame, **changes):
    return evaluate_findings([finding(**changes)], AXES, None, frame).iloc[0]


@pytest.mark.parametrize(("name", "count"), [("fsfs-san-2014", 19), ("fsfs-ssd-2014", 10)])
def test_findings_hold_on_published_numbers(name, count):
    study = load_study(CONFIG / "studies" / f"{name}.yaml")
    axes = list(study.axes)
    found = read_findings(FINDINGS, name, axes, names())
    numbers = read_published([CONFIG / "published" / study.published.numbers], axes)
    rows = evaluate_findings(found, axes, numbers, None)
    assert len(rows) == count
    for check, (_, row) in zip(found, rows.iterrows(), strict=True):
        assert is_expected(check, row["published"]), row
        assert row["verdict"] == "not measured"
    assert rows[["measured", "low", "high"]].isna().all(axis=None)


def test_evaluate_findings_reduces_published_pairs():
    # Of the numbers' own, by hand: null-log from hot server caches, fast: http against svn.
    study = load_study(CONFIG / "studies" / "fsfs-san-2014.yaml")
    axes = list(study.axes)
    numbers = read_published([CONFIG / "published" / "fsfs-san-2014.csv"], axes)
    checks = read_findings(FINDINGS, study.name, axes, names())
    check = next(f for f in checks if "null-log-peak" in f["id"])
    rows = numbers.query("command == 'null-log' and cache == 'hot-svn' and config == 'fast'")
    times = rows.set_index(["repo", "format", "packing", "ra"])["elapsed_s"].unstack("ra")
    expected = (times["http"] / times["svn"]).max()
    assert evaluate_findings([check], axes, numbers, None)["published"][0] == expected


def test_evaluate_findings_has_columns():
    rows = evaluate_findings([finding()], AXES, None, measured([2.0] * 5))
    assert list(rows) == [
        *["id", "statement", "published", "measured", "low", "high", "unit", "over"],
        *["expected", "verdict", "why"],
    ]
    assert rows["expected"][0] == "1.8 to 2.2"
    least = finding(expect={"over": "min", "at_least": 4.5})
    most = finding(expect={"over": "max", "at_most": 0.7})
    assert evaluate_findings([least, most], AXES, None, None)["expected"].tolist() == [
        *["at least 4.5", "at most 0.7"]
    ]


@pytest.mark.parametrize(
    ("ratios", "verdict", "why"),
    [
        ([2.0, 2.01, 1.99, 2.0, 2.02], "reproduced", ""),
        ([1.0, 1.01, 0.99, 1.0, 1.02], "differs", ""),
        ([3.0, 3.01, 2.99, 3.0, 3.02], "differs", ""),
        ([1.7, 1.9, 1.75, 1.85, 1.802], "inconclusive", Reason("on-bound").text),
        ([1.0, 1.01, 0.99, 1.0], "inconclusive", "low n: 4 rounds"),
        ([2.0], "inconclusive", "low n: 1 round"),
    ],
)
def test_evaluate_findings_known_ratios_have_verdicts(ratios, verdict, why):
    row = verdict_of(measured(ratios))
    assert (row["verdict"], row["why"]) == (verdict, why)


def test_evaluate_findings_inconclusive_has_needed_rounds():
    row = verdict_of(measured([1.75, 1.95, 1.8, 1.9, 1.85]))
    half = math.log(row["high"] / row["measured"])
    wanted = math.ceil(5 * (half / math.log(row["measured"] / 1.8)) ** 2)
    assert 10 < wanted < 30
    reason = Reason("needs-rounds", {"needed": wanted, "n": 5})
    assert (row["verdict"], row["why"]) == ("inconclusive", reason.text)


def test_verdict_of_almost_unknown_error_is_on_bound():
    hardly = ratio(math.log(1.8001), 0.5, 0.001, 5)
    word, (why,) = verdicts.verdict_of(finding(), hardly, DEFAULT_LIMITS)
    assert (word, why.code) == ("inconclusive", "on-bound")


@pytest.mark.parametrize(
    ("ratio", "expect", "verdict", "why"),
    [
        (1.2, {"at_least": 0.5, "at_most": 0.9}, "differs", Reason("reversed").text),
        (0.8, {"at_least": 1.05, "at_most": 1.25}, "differs", Reason("reversed").text),
        (0.95, {"at_least": 0.5, "at_most": 0.9}, "differs", ""),
        (1.5, {"at_least": 1.05, "at_most": 1.25}, "differs", ""),
        (1.2, {"at_most": 1.1}, "differs", ""),  # which says nothing of a direction
    ],
)
def test_evaluate_findings_reversed_has_reason(ratio, expect, verdict, why):
    frame = measured([ratio * factor for factor in (1.0, 1.01, 0.99, 1.0, 1.02)])
    row = verdict_of(frame, expect={"over": "median", **expect})
    assert (row["verdict"], row["why"]) == (verdict, why)


def test_evaluate_findings_level_is_never_reversed():
    frame = measured([1.0] * 5).query("format == 'f7'").assign(elapsed_s=[1.4, 1.5, 1.4, 1.5, 1.4])
    level = finding(level="elapsed_s", expect={"over": "max", "at_most": 0.9})
    del level["compare"]
    assert evaluate_findings([level], AXES, None, frame)[["verdict", "why"]].values.tolist() == [
        ["differs", ""]
    ]


def test_evaluate_findings_has_unit_and_reduction():
    frame = measured([2.0] * 5, commands=("log", "null-log"))
    where = {"command": ["log", "null-log"]}
    level = finding(level="client_cpu_pct", where=where, expect={"over": "min", "at_least": 1})
    del level["compare"]
    rows = evaluate_findings([finding(where=where), level, finding()], AXES, None, frame)
    assert rows[["unit", "over"]].to_numpy().tolist() == [
        ["times, f6 / f7", "median of 2 pairs"],
        ["%", "least of 4 cells"],
        ["times, f6 / f7", "1 pair"],
    ]
    none = evaluate_findings([finding()], AXES, None, None)
    assert none[["unit", "over"]].to_numpy().tolist() == [["times, f6 / f7", ""]]


@pytest.mark.parametrize(("twin_sd", "verdict"), [(0.01, "reproduced"), (0.06, "inconclusive")])
def test_evaluate_findings_interval_contains_duplicate_variance(twin_sd, verdict):
    basis = EvaluationContext(noise=lambda metric: Noise(duplicates=Variance(twin_sd**2, 20)))
    row = evaluate_findings(
        [finding()], AXES, None, measured([2.0, 2.02, 1.98, 2.0, 2.01]), basis
    ).iloc[0]
    assert row["verdict"] == verdict
    assert row["high"] / row["measured"] > math.exp(2 * twin_sd)


def test_evaluate_findings_average_has_error_of_average():
    """Over 12 pairs twins count for a twelfth, and the pairs' own noise does."""
    rng = np.random.default_rng(4)
    commands = [f"c{i}" for i in range(12)]
    noisy = measured([2.0] * 8, commands)
    noisy["elapsed_s"] *= np.exp(rng.normal(0, 0.05, len(noisy)))

    def width(commands, twins):
        basis = EvaluationContext(noise=lambda metric: Noise(duplicates=Variance(twins, 30)))
        row = evaluate_findings(
            [finding(where={"command": commands})], AXES, None, noisy, basis
        ).iloc[0]
        return math.log(row["high"] / row["low"])

    assert width(commands, 0.0) < 0.6 * width(commands[:1], 0.0)
    assert width(commands, 0.04) < 0.6 * width(commands[:1], 0.04)
    assert width(commands, 0.04) > width(commands, 0.0)


def test_evaluate_findings_without_duplicates_has_reason():
    basis = EvaluationContext(noise=lambda metric: Noise())
    row = evaluate_findings([finding()], AXES, None, measured([2.0] * 5), basis).iloc[0]
    assert (row["verdict"], row["why"]) == ("reproduced", Reason("no-duplicates").text)


def test_evaluate_findings_smaller_scale_has_reason():
    frame = measured([2.0] * 5).assign(repo="ruby")
    basis = EvaluationContext(scales={"ruby": 0.1304, "bsd": 1.0}, published=Conditions(1))
    axes = [*AXES, "repo"]
    row = evaluate_findings([finding()], axes, None, frame, basis).iloc[0]
    assert (row["verdict"], row["why"]) == ("reproduced", "scale: ruby at 0.13 of the published 1")
    assert (
        evaluate_findings([finding()], axes, None, frame.assign(repo="bsd"), basis)["why"][0] == ""
    )


def codes(frame, context):
    rounds = rounds_of(frame, [*AXES, "repo"], [])
    return [reason.code for reason in evaluate(finding(), rounds, [*AXES, "repo"], context).reasons]


@pytest.mark.parametrize(
    ("published", "measured_versions", "ratio", "expected"),
    [
        ("1.9", ["1.14.2"], 1.0, ["scale", "newer-version"]),
        ("1.9", ["1.14.2"], 2.0, ["scale"]),
        ("1.14", ["1.14.5"], 1.0, ["scale"]),
        ("1.9", ["1.8.19"], 1.0, ["scale"]),
        ("", ["1.14.2"], 1.0, ["scale"]),
        ("1.9", [], 1.0, ["scale"]),
        ("1.9", ["unknown"], 1.0, ["scale"]),
    ],
)
def test_reasons_of_differing_verdict_name_newer_version(
    published, measured_versions, ratio, expected
):
    context = EvaluationContext(
        scales={"ruby": 0.12}, versions=measured_versions, published=Conditions(1, published)
    )
    frame = measured([ratio * factor for factor in (1.0, 1.01, 0.99, 1.0, 1.02)])
    assert codes(frame.assign(repo="ruby"), context) == expected


@pytest.mark.parametrize(
    ("published", "measured_on", "expected"),
    [
        ("spinning disk", ["SSD"], ["other-storage"]),
        ("spinning disk", ["SSD", "spinning disk"], []),
        ("spinning disk", [""], []),
        ("", ["SSD"], []),
    ],
)
def test_reasons_of_differing_verdict_name_other_storage(published, measured_on, expected):
    context = EvaluationContext(storages=measured_on, published=Conditions(1, storage=published))
    frame = measured([1.0, 1.01, 0.99, 1.0, 1.02]).assign(repo="ruby")
    assert codes(frame, context) == expected


def test_reasons_of_differing_verdict_name_how_to_test_them():
    context = EvaluationContext(
        scales={"ruby": 0.12}, versions=["1.14.2"], published=Conditions(1, "1.9"), study="s"
    )
    frame = measured([1.0, 1.01, 0.99, 1.0, 1.02]).assign(repo="ruby")
    rounds = rounds_of(frame, [*AXES, "repo"], [])
    scale, version = evaluate(finding(), rounds, [*AXES, "repo"], context).reasons
    assert (scale.values["scale"], scale.values["published"]) == (0.12, 1)
    assert (version.values["measured"], version.values["published"]) == ("1.14.2", "1.9")
    assert "make report STUDY=s" in scale.test and "make report STUDY=builds" in version.test


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ([("log", "f6", "")], "not in the grid: cells with command log, format f7"),
        ([("log", "f6", ""), ("log", "f7", "no httpd here")], "skipped: no httpd here"),
        ([("log", "f6", ""), ("log", "f7", "")], Reason("no-result").text),
    ],
)
def test_evaluate_findings_unmeasured_has_reason(grid, why):
    rows = [{"command": c, "format": f, "skip": skip} for c, f, skip in grid]
    frame = measured([2.0] * 5).query("format == 'f6'")
    row = evaluate_findings([finding()], AXES, None, frame, EvaluationContext(grid=rows)).iloc[0]
    assert row["verdict"] == "not measured"
    assert row["why"].startswith(why)


def test_evaluate_findings_partial_grid_has_reason():
    frame = measured([2.0] * 5, commands=("log", "null-log"))
    lacking = (frame["command"] == "null-log") & (frame["format"] == "f7")
    where = {"command": ["log", "null-log", "export"]}
    cells = [(c, f) for c in where["command"] for f in ("f6", "f7")]
    grid = [{"cell": f"{c}/{f}", "command": c, "format": f, "skip": ""} for c, f in cells]
    grid += [{**cell, "cell": f"{cell['cell']}~2"} for cell in grid[:1]]
    basis = EvaluationContext(
        grid=[*grid, {"cell": "dump/f6", "command": "dump", "format": "f6", "skip": ""}]
    )
    row = evaluate_findings([finding(where=where)], AXES, None, frame[~lacking], basis).iloc[0]
    assert (row["verdict"], row["why"]) == (
        "reproduced",
        "measured: 3 of 6 cells, reduced over 1 pair",
    )
    level = finding(level="elapsed_s", where=where, expect={"over": "min", "at_least": 1})
    del level["compare"]
    assert evaluate_findings([level], AXES, None, frame[~lacking], basis)["why"][0].endswith(
        "measured: 3 of 6 cells, reduced over 3 cells"
    )
    basis = EvaluationContext(grid=grid[:4])
    assert evaluate_findings([finding(where=where)], AXES, None, frame, basis)["why"][0] == ""


def test_evaluate_findings_reduces_within_rounds():
    first, second = measured([2.0, 2.2, 2.1, 1.9, 2.0]), measured([1.0, 4.0, 3.0, 3.0, 3.0])
    frame = pd.concat([first, second.assign(command="null-log")])
    where = {"command": ["log", "null-log"]}
    row = verdict_of(frame, where=where, expect={"over": "max", "at_least": 1.0})
    d = np.log([2.0, 4.0, 3.0, 3.0, 3.0])
    interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert row["measured"] == pytest.approx(math.exp(d.mean()))
    assert (row["low"], row["high"]) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )


def test_evaluate_findings_incomplete_round_is_excluded():
    frame = measured([2.0] * 6, commands=("log", "null-log"))
    lacking = (frame["command"] == "null-log") & (frame["round"] == 1) & (frame["format"] == "f7")
    frame.loc[(frame["command"] == "log") & (frame["round"] == 1), "elapsed_s"] = [900.0, 1.0]
    where = {"command": ["log", "null-log"]}
    row = verdict_of(frame[~lacking], where=where, expect={"over": "max", "at_least": 1.8})
    assert row["measured"] == pytest.approx(2.0)
    assert row["verdict"] == "reproduced"


def test_evaluate_findings_level_is_per_round():
    frame = measured([2.0] * 5).query("format == 'f7'")
    # user and system time are 0.4 s, elapsed 1 to 5 s
    check = finding(level="client_cpu_pct", expect={"over": "min", "at_least": 80})
    del check["compare"]
    row = evaluate_findings([check], AXES, None, frame).iloc[0]
    expected = [100 * 0.4 / number for number in range(1, 6)]
    assert row["measured"] == pytest.approx(np.mean(expected))


def test_evaluate_findings_without_pair_is_not_measured():
    row = verdict_of(measured([2.0] * 5), where={"command": "export"})
    assert (row["verdict"], math.isnan(row["measured"])) == ("not measured", True)
    only_f6 = measured([2.0] * 5).query("format == 'f6'")
    assert verdict_of(only_f6)["verdict"] == "not measured"


def test_evaluate_findings_excludes_invalid_runs():
    frame = measured([2.0] * 5 + [50.0])
    frame.loc[frame["round"] == 6, "flags"] = "restarted"
    assert verdict_of(frame)["measured"] == pytest.approx(2.0)


def test_evaluate_findings_different_hosts_are_inconclusive():
    frame = measured([2.0] * 5)
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    row = verdict_of(frame)
    assert (row["verdict"], math.isnan(row["measured"])) == ("inconclusive", True)
    assert row["why"].startswith("hosts differ: measured on new, old")


def test_evaluate_findings_pairs_of_one_host_each_have_value():
    frame = measured([2.0] * 5, ("log", "export"))
    both = {"where": {}}
    alone = verdict_of(frame, **both)
    frame["host"] = np.where(frame["command"] == "log", "n1", "n2")
    row = verdict_of(frame, **both)
    assert row["measured"] == alone["measured"] == pytest.approx(2.0)
    assert row["over"] == "median of 2 pairs"
    # One pair that is of two hosts is one too many.
    frame.loc[(frame["command"] == "log") & (frame["format"] == "f7"), "host"] = "n2"
    assert verdict_of(frame, **both)["why"].startswith("hosts differ: measured on n1, n2")


def test_evaluate_findings_rounds_of_several_hosts_have_no_value():
    frame = measured([2.0] * 6)
    frame["host"] = np.where(frame["round"] > 3, "old", "new")
    level = finding(level="elapsed_s", expect={"over": "max", "at_most": 80})
    del level["compare"]
    rows = evaluate_findings([finding(), level], AXES, None, frame)
    assert rows["measured"].isna().all()
    assert rows["why"].str.startswith("hosts differ").all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [{id: x, statement: y}]", "`a[0].expect` is missing"),
        ("a: [{id: x, statement: y, expct: {}}]", "`a[0].expct` is not a key here. Did you mean"),
        ("a: [{id: x, statement: y, expect: {over: min, at_most: 2}}]", "needs either"),
        (
            "a: [{id: x, statement: y, level: elapsed_s, expect: {over: mean, at_most: 2}}]",
            "`a[0].expect.over`: 'mean' must be one of 'median', 'min' or 'max'",
        ),
        (
            "a: [{id: x, statement: y, level: elapsed_s, expect: {over: min}}]",
            "`a[0]`: `expect` has no bound; add `at_least` or `at_most`",
        ),
        (
            "a: [{id: x, statement: y, where: {cash: cold}, level: elapsed_s,"
            " expect: {over: min, at_most: 2}}]",
            "has no axis `cash`; it has command, format",
        ),
        (
            "a: [{id: x, statement: y, compare: {axis: format, baseline: f6},"
            " expect: {over: min, at_most: 2}}]",
            "`compare.candidate` is missing",
        ),
        (
            "a: [{id: x, statement: y, compare: {to: old, axis: format}, expect: {over: min, at_most: 2}}]",
            "`compare.axis` does not go with `compare.to`",
        ),
        (
            "a: [{id: x, statement: y, level: elapsed_s, expect: {over: min, at_most: 2}},"
            " {id: x, statement: z, level: elapsed_s, expect: {over: min, at_most: 2}}]",
            "`a[1]`: the id `x` stands twice",
        ),
        (
            "a: [{id: x, statement: y, level: mb_s, expect: {over: min, at_most: 2}}]",
            "`a[0]`: `level`: mb_s is no metric; say one of all_calls, bytes_read, bytes_written, call_mib,",
        ),
        (
            "a: [{id: x, statement: y, compare: {axis: format, baseline: f6, candidate: f7, metric: mb_s},"
            " expect: {over: min, at_most: 2}}]",
            "`a[0]`: `compare.metric`: mb_s is no metric; say one of all_calls, bytes_read, bytes_written,",
        ),
        ("[]", "'[]' must be a mapping"),
    ],
)
def test_read_findings_invalid_is_user_error(tmp_path, text, says):
    path = tmp_path / "findings.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_findings(path, "a", AXES, names())
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_read_findings_unknown_study_has_none():
    assert read_findings(FINDINGS, "of-my-own", AXES, names()) == []


def test_evaluate_findings_single_axis_works():
    frame = measured([2.0] * 5).drop(columns="command")
    row = evaluate_findings([finding(where={})], ["format"], None, frame).iloc[0]
    assert (row["measured"], row["verdict"]) == (pytest.approx(2.0), "reproduced")
