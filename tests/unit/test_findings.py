"""Verdicts on the findings of the studies, on published and on synthetic measured numbers."""

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
LOGS = {"command": ["log", "null-log"]}
NOISY = (1.0, 1.01, 0.99, 1.0, 1.02)


def finding(**changes):
    return {
        "id": "f7-log",
        "statement": "Format 7 is about twice as fast for the log.",
        "where": {"command": "log"},
        "compare": {"axis": "format", "baseline": "f6", "candidate": "f7"},
        "expect": {"over": "median", "at_least": 1.8, "at_most": 2.2},
    } | changes


def level(metric, over, **changes):
    """Return a finding on the values of a metric."""
    where = changes.pop("where", {"command": "log"})
    return {
        "id": "level", "statement": "", "level": metric, "where": where,
        "expect": {"over": over, **changes},
    }  # fmt: skip


def measured(ratios, commands=("log",)):
    """Return measurements whose f6 takes `ratios` times its f7 in rounds 1, 2, 3, ..."""
    rows = [
        {"command": command, "format": value, "round": number, "elapsed_s": elapsed}
        for command in commands
        for number, ratio in enumerate(ratios, start=1)
        for value, elapsed in (("f6", ratio * number), ("f7", 1.0 * number))
    ]
    return pd.DataFrame(rows).assign(user_s=0.3, system_s=0.1, host="here", flags="", work=WORK)


def scaled(ratio):
    """Return measurements with this ratio in five slightly different rounds."""
    return measured([ratio * factor for factor in NOISY])


def row_of(check, frame, context=None, axes=AXES):
    rest = [] if context is None else [context]
    return evaluate_findings([check], axes, None, frame, *rest).iloc[0]


def verdict_of(frame, context=None, **changes):
    return row_of(finding(**changes), frame, context)


def with_duplicates(variance, count):
    noise = Noise(duplicates=Variance(variance, count))
    return EvaluationContext(noise=lambda metric: noise)


def published(name):
    """Return a published study's findings, axes and numbers."""
    study = load_study(CONFIG / "studies" / f"{name}.yaml")
    axes = list(study.axes)
    numbers = read_published([CONFIG / "published" / study.published.numbers], axes)
    return read_findings(FINDINGS, name, axes), axes, numbers


@pytest.mark.parametrize(("name", "count"), [("fsfs-san-2014", 19), ("fsfs-ssd-2014", 10)])
def test_findings_hold_on_published_numbers(name, count):
    checks, axes, numbers = published(name)
    rows = evaluate_findings(checks, axes, numbers, None)
    assert len(rows) == count
    for check, value in zip(checks, rows["published"], strict=True):
        assert is_expected(check, value), check["id"]
    assert set(rows["verdict"]) == {"not measured"}
    assert rows[["measured", "low", "high"]].isna().all(axis=None)


def test_evaluate_findings_reduces_published_pairs():
    checks, axes, numbers = published("fsfs-san-2014")
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


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({"at_least": 1.8, "at_most": 2.2}, "1.8 to 2.2"),
        ({"at_least": 4.5}, "at least 4.5"),
        ({"at_most": 0.7}, "at most 0.7"),
    ],
)
def test_evaluate_findings_expected_is_text_of_bounds(bounds, text):
    assert verdict_of(None, expect={"over": "min", **bounds})["expected"] == text


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
    needed = math.ceil(5 * (half / math.log(row["measured"] / 1.8)) ** 2)
    assert 10 < needed < 30
    reason = Reason("needs-rounds", {"needed": needed, "n": 5})
    assert (row["verdict"], row["why"]) == ("inconclusive", reason.text)


def test_verdict_of_almost_unknown_error_is_on_bound():
    estimate = ratio(math.log(1.8001), 0.5, 0.001, 5)
    verdict, (why,) = verdicts.verdict_of(finding(), estimate, DEFAULT_LIMITS)
    assert (verdict, why.code) == ("inconclusive", "on-bound")


@pytest.mark.parametrize(
    ("ratio", "bounds", "why"),
    [
        (1.2, {"at_least": 0.5, "at_most": 0.9}, Reason("reversed").text),
        (0.8, {"at_least": 1.05, "at_most": 1.25}, Reason("reversed").text),
        (0.95, {"at_least": 0.5, "at_most": 0.9}, ""),
        (1.5, {"at_least": 1.05, "at_most": 1.25}, ""),
        (1.2, {"at_most": 1.1}, ""),  # a bound without a direction
    ],
)
def test_evaluate_findings_reversed_has_reason(ratio, bounds, why):
    row = verdict_of(scaled(ratio), expect={"over": "median", **bounds})
    assert (row["verdict"], row["why"]) == ("differs", why)


def test_evaluate_findings_level_is_never_reversed():
    frame = measured([1.0] * 5).query("format == 'f7'").assign(elapsed_s=[1.4, 1.5, 1.4, 1.5, 1.4])
    row = row_of(level("elapsed_s", "max", at_most=0.9), frame)
    assert (row["verdict"], row["why"]) == ("differs", "")


def test_evaluate_findings_has_unit_and_reduction():
    frame = measured([2.0] * 5, commands=LOGS["command"])
    percent = level("client_cpu_pct", "min", where=LOGS, at_least=1)
    rows = evaluate_findings([finding(where=LOGS), percent, finding()], AXES, None, frame)
    assert rows[["unit", "over"]].to_numpy().tolist() == [
        ["times, f6 / f7", "median of 2 pairs"],
        ["%", "least of 4 cells"],
        ["times, f6 / f7", "1 pair"],
    ]
    unmeasured = verdict_of(None)
    assert (unmeasured["unit"], unmeasured["over"]) == ("times, f6 / f7", "")


@pytest.mark.parametrize(("sd", "verdict"), [(0.01, "reproduced"), (0.06, "inconclusive")])
def test_evaluate_findings_interval_contains_duplicate_variance(sd, verdict):
    row = verdict_of(measured([2.0, 2.02, 1.98, 2.0, 2.01]), with_duplicates(sd**2, 20))
    assert row["verdict"] == verdict
    assert row["high"] / row["measured"] > math.exp(2 * sd)


def test_evaluate_findings_average_has_error_of_average():
    """Over 12 pairs, the variances of duplicates and pairs count a twelfth each."""
    rng = np.random.default_rng(4)
    commands = [f"c{i}" for i in range(12)]
    noisy = measured([2.0] * 8, commands)
    noisy["elapsed_s"] *= np.exp(rng.normal(0, 0.05, len(noisy)))

    def width(commands, variance):
        row = verdict_of(noisy, with_duplicates(variance, 30), where={"command": commands})
        return math.log(row["high"] / row["low"])

    for variance in (0.0, 0.04):
        assert width(commands, variance) < 0.6 * width(commands[:1], variance)
    assert width(commands, 0.04) > width(commands, 0.0)


def test_evaluate_findings_without_duplicates_has_reason():
    row = verdict_of(measured([2.0] * 5), EvaluationContext(noise=lambda metric: Noise()))
    assert (row["verdict"], row["why"]) == ("reproduced", Reason("no-duplicates").text)


@pytest.mark.parametrize(
    ("repo", "why"), [("ruby", "scale: ruby at 0.13 of the published 1"), ("bsd", "")]
)
def test_evaluate_findings_smaller_scale_has_reason(repo, why):
    context = EvaluationContext(scales={"ruby": 0.1304, "bsd": 1.0}, published=Conditions(1))
    row = row_of(finding(), measured([2.0] * 5).assign(repo=repo), context, [*AXES, "repo"])
    assert (row["verdict"], row["why"]) == ("reproduced", why)


def reasons_of(ratio, published, versions, study=""):
    """Return the reasons of a verdict on a repository of another scale."""
    context = EvaluationContext(
        scales={"ruby": 0.12}, versions=versions, published=Conditions(1, published), study=study
    )
    axes = [*AXES, "repo"]
    rounds = rounds_of(scaled(ratio).assign(repo="ruby"), axes, [])
    return evaluate(finding(), rounds, axes, context).reasons


@pytest.mark.parametrize(
    ("published", "versions", "ratio", "codes"),
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
def test_reasons_of_differing_verdict_name_newer_version(published, versions, ratio, codes):
    assert [reason.code for reason in reasons_of(ratio, published, versions)] == codes


def test_reasons_of_differing_verdict_name_how_to_test_them():
    scale, version = reasons_of(1.0, "1.9", ["1.14.2"], study="s")
    assert (scale.values["scale"], scale.values["published"]) == (0.12, 1)
    assert (version.values["measured"], version.values["published"]) == ("1.14.2", "1.9")
    assert "make report STUDY=s" in scale.test and "make report STUDY=builds" in version.test


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ({"f6": ""}, "not in the grid: cells with command log, format f7"),
        ({"f6": "", "f7": "no httpd here"}, "skipped: no httpd here"),
        ({"f6": "", "f7": ""}, Reason("no-result").text),
    ],
)
def test_evaluate_findings_unmeasured_has_reason(grid, why):
    rows = [{"command": "log", "format": fmt, "skip": skip} for fmt, skip in grid.items()]
    frame = measured([2.0] * 5).query("format == 'f6'")
    row = verdict_of(frame, EvaluationContext(grid=rows))
    assert row["verdict"] == "not measured" and row["why"].startswith(why)


def test_evaluate_findings_partial_grid_has_reason():
    frame = measured([2.0] * 5, commands=LOGS["command"])
    partial = frame[(frame["command"] == "log") | (frame["format"] == "f6")]
    where = {"command": ["log", "null-log", "export"]}
    cells = [(c, f) for c in where["command"] for f in ("f6", "f7")]
    grid = [{"cell": f"{c}/{f}", "command": c, "format": f, "skip": ""} for c, f in cells]
    others = [{**grid[0], "cell": "log/f6~2"}, {**grid[0], "cell": "dump/f6", "command": "dump"}]
    context = EvaluationContext(grid=[*grid, *others])
    row = verdict_of(partial, context, where=where)
    expected = "measured: 3 of 6 cells, reduced over 1 pair"
    assert (row["verdict"], row["why"]) == ("reproduced", expected)
    row = row_of(level("elapsed_s", "min", where=where, at_least=1), partial, context)
    assert row["why"].endswith("measured: 3 of 6 cells, reduced over 3 cells")
    assert verdict_of(frame, EvaluationContext(grid=grid[:4]), where=where)["why"] == ""


def test_evaluate_findings_reduces_within_rounds():
    first, second = measured([2.0, 2.2, 2.1, 1.9, 2.0]), measured([1.0, 4.0, 3.0, 3.0, 3.0])
    frame = pd.concat([first, second.assign(command="null-log")])
    row = verdict_of(frame, where=LOGS, expect={"over": "max", "at_least": 1.0})
    d = np.log([2.0, 4.0, 3.0, 3.0, 3.0])
    interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    expected = [math.exp(value) for value in (d.mean(), interval.low, interval.high)]
    assert row[["measured", "low", "high"]].tolist() == pytest.approx(expected)


def test_evaluate_findings_incomplete_round_is_excluded():
    frame = measured([2.0] * 6, commands=LOGS["command"])
    first = frame["round"] == 1
    lacking = first & (frame["command"] == "null-log") & (frame["format"] == "f7")
    frame.loc[first & (frame["command"] == "log"), "elapsed_s"] = [900.0, 1.0]
    row = verdict_of(frame[~lacking], where=LOGS, expect={"over": "max", "at_least": 1.8})
    assert (row["measured"], row["verdict"]) == (pytest.approx(2.0), "reproduced")


def test_evaluate_findings_level_is_per_round():
    frame = measured([2.0] * 5).query("format == 'f7'")
    row = row_of(level("client_cpu_pct", "min", at_least=80), frame)
    # User and system time are 0.4 s, elapsed is 1 to 5 s.
    assert row["measured"] == pytest.approx(np.mean([100 * 0.4 / n for n in range(1, 6)]))


def test_evaluate_findings_without_pair_is_not_measured():
    frame = measured([2.0] * 5)
    row = verdict_of(frame, where={"command": "export"})
    assert row["verdict"] == "not measured" and math.isnan(row["measured"])
    assert verdict_of(frame.query("format == 'f6'"))["verdict"] == "not measured"


def test_evaluate_findings_excludes_invalid_runs():
    frame = measured([2.0] * 5 + [50.0])
    frame.loc[frame["round"] == 6, "flags"] = "restarted"
    assert verdict_of(frame)["measured"] == pytest.approx(2.0)


def test_evaluate_findings_different_hosts_are_inconclusive():
    frame = measured([2.0] * 5)
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    row = verdict_of(frame)
    assert row["verdict"] == "inconclusive" and math.isnan(row["measured"])
    assert row["why"].startswith("hosts differ: measured on new, old")


def test_evaluate_findings_pairs_of_one_host_each_have_value():
    frame = measured([2.0] * 5, ("log", "export"))
    one_host = verdict_of(frame, where={})
    frame["host"] = np.where(frame["command"] == "log", "n1", "n2")
    row = verdict_of(frame, where={})
    assert row["measured"] == one_host["measured"] == pytest.approx(2.0)
    assert row["over"] == "median of 2 pairs"
    frame.loc[(frame["command"] == "log") & (frame["format"] == "f7"), "host"] = "n2"
    assert verdict_of(frame, where={})["why"].startswith("hosts differ: measured on n1, n2")


def test_evaluate_findings_rounds_of_several_hosts_have_no_value():
    frame = measured([2.0] * 6)
    frame["host"] = np.where(frame["round"] > 3, "old", "new")
    for check in (finding(), level("elapsed_s", "max", at_most=80)):
        row = row_of(check, frame)
        assert math.isnan(row["measured"]) and row["why"].startswith("hosts differ")


def test_evaluate_findings_single_axis_works():
    frame = measured([2.0] * 5).drop(columns="command")
    row = row_of(finding(where={}), frame, axes=["format"])
    assert (row["measured"], row["verdict"]) == (pytest.approx(2.0), "reproduced")


BOUND = "expect: {over: min, at_most: 2}"
LEVEL = f"level: elapsed_s, {BOUND}"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", "`a[0].expect` is missing"),
        ("expct: {}", "`a[0].expct` is not a key here. Did you mean"),
        (BOUND, "needs either"),
        ("level: elapsed_s, expect: {over: mean, at_most: 2}", "`a[0].expect.over`: 'mean'"),
        ("level: elapsed_s, expect: {over: min}", "`a[0]`: `expect` has no bound"),
        (f"where: {{cash: cold}}, {LEVEL}", "has no axis `cash`. Use one of command, format"),
        (f"compare: {{axis: format, baseline: f6}}, {BOUND}", "`compare.candidate` is missing"),
        (f"compare: {{to: old, axis: format}}, {BOUND}", "`compare.axis` excludes `compare.to`"),
        (f"{LEVEL}}}, {{id: x, statement: z, {LEVEL}", "`a[1]`: the id `x` is there twice"),
        (f"level: mb_s, {BOUND}", "`a[0]`: `level`: no metric mb_s"),
        (
            f"compare: {{axis: format, baseline: f6, candidate: f7, metric: mb_s}}, {BOUND}",
            "`a[0]`: `compare.metric`: no metric mb_s",
        ),
    ],
)
def test_read_findings_invalid_is_user_error(tmp_path, keys, expected):
    path = tmp_path / "findings.yaml"
    path.write_text(f"a: [{{id: x, statement: y, {keys}}}]")
    with pytest.raises(UserError, match=f"^{path}: ") as error:
        read_findings(path, "a", AXES)
    assert expected in str(error.value)


def test_read_findings_list_is_user_error(tmp_path):
    path = tmp_path / "findings.yaml"
    path.write_text("[]")
    with pytest.raises(UserError, match="must be a mapping"):
        read_findings(path, "a", AXES)


def test_read_findings_unknown_study_has_none():
    assert read_findings(FINDINGS, "of-my-own", AXES) == []
