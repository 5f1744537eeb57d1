"""Verdicts on the findings of the studies, on published and on synthetic measured numbers."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from project import ROOT
from unit.study_grid import published_numbers
from unit.synthetic import finding, level, rows_frame
from vcsbench.config.definitions import read_definitions
from vcsbench.run.study_params import StudyParams
from vcsbench.statistics import verdicts
from vcsbench.statistics.aggregation import (
    MEAN,
    by_cell,
    by_round,
    half_of_last_digit,
    read_published,
)
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, classify_call
from vcsbench.statistics.difference_reasons import possible_reasons, reasons_of_difference
from vcsbench.statistics.estimates import geometric_mean_interval, interval
from vcsbench.statistics.evaluations import Conditions, EvaluationContext
from vcsbench.statistics.expected_range import expected_range, range_text
from vcsbench.statistics.finding_checks import make_check
from vcsbench.statistics.finding_verdicts import judge_value
from vcsbench.statistics.findings import (
    aggregate_rounds,
    evaluate_expectations,
    evaluate_findings,
    make_context,
)
from vcsbench.statistics.noise import Noise
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.variances import Variance, sum_variances

AXES = ["command", "format"]
LOGS = {"command": ["log", "null-log"]}


def measured(ratios, commands=("log",)):
    """Return measurements whose f6 takes `ratios` times its f7 in rounds 1, 2, 3, ..."""
    rows = [
        {"command": command, "format": value, "round": number, "elapsed_s": elapsed}
        for command in commands
        for number, ratio in enumerate(ratios, start=1)
        for value, elapsed in (("f6", ratio * number), ("f7", 1.0 * number))
    ]
    return rows_frame(rows, user_s=0.3)


TWICE = measured([2.0] * 5)
TWICE_BOTH = measured([2.0] * 5, LOGS["command"])


def scaled(ratio):
    """Return measurements with this ratio in five slightly different rounds."""
    return measured([ratio * factor for factor in (1.0, 1.01, 0.99, 1.0, 1.02)])


def row_of(check, frame, context=None):
    return evaluate_findings([check], AXES, None, frame, context).iloc[0]


def verdict_on(frame, context=None, **changes):
    row = row_of(finding(**changes), frame, context)
    return row["verdict"], codes_in(row)


def codes_in(row):
    return [reason["code"] for reason in json.loads(row["reasons"])]


FINDING_COUNTS = {
    "fsfs-san-2014": 19,
    "fsfs-ssd-2014": 10,
    "server-prototype-2010": 9,
    "working-copy-2012": 5,
    "tree-building-2007": 4,
}


@pytest.mark.parametrize(("name", "count"), FINDING_COUNTS.items())
def test_findings_hold_on_published_numbers(name, count):
    study = StudyParams(name, ROOT, None)
    rows = evaluate_findings(study.findings, study.axes, published_numbers(name), None, by=study.by)
    assert list(rows) == verdicts.FINDING_COLUMNS and len(rows) == count
    for check, value in zip(study.findings, rows["published"], strict=True):
        assert expected_range(check["expect"], DEFAULT_LIMITS.margin).contains(value), check["id"]
    assert set(rows["verdict"]) == {"not measured"}
    assert rows[["measured", "low", "high"]].isna().all(axis=None)


def test_published_value_has_interval_of_its_last_digits(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("command,format,elapsed_s\nlog,f6,2.4\nlog,f7,0.2\n")
    published = read_published([path], AXES)
    row = evaluate_findings([finding()], AXES, published, None).iloc[0]
    ends = (row["published_low"], row["published"], row["published_high"])
    assert ends == pytest.approx((2.35 / 0.25, 12.0, 2.45 / 0.15))
    cpu = pd.DataFrame({"command": ["log"], "format": ["f7"], "client_cpu_pct": [84.0]})
    cpu = cpu.assign(client_cpu_pct_rounding=0.5)
    row = evaluate_findings([CPU], AXES, cpu, None).iloc[0]
    assert (row["published_low"], row["published_high"]) == (83.5, 84.5)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        *(("0.2", 0.05), ("13", 0.5), ("422.10", 0.005), ("", math.nan)),
        *(("1e-3", 0.0005), ("1.5e3", 50), ("2E2", 50), ("1.50e-3", 0.000005)),
    ],
)
def test_half_of_last_digit(text, half):
    assert half_of_last_digit(text) == pytest.approx(half, nan_ok=True)


@pytest.mark.parametrize(
    ("ratios", "verdict", "codes"),
    [
        ([2.0, 2.01, 1.99, 2.0, 2.02], "reproduced", []),
        ([1.0, 1.01, 0.99, 1.0, 1.02], "gone", []),
        ([0.98, 0.99, 0.97, 0.98, 1.0], "gone", []),
        ([1.2, 1.21, 1.19, 1.2, 1.22], "weaker", []),
        ([0.5, 0.51, 0.49, 0.5, 0.51], "reversed", []),
        ([3.0, 3.01, 2.99, 3.0, 3.02], "stronger", []),
        ([1.7, 1.9, 1.75, 1.85, 1.802], "undecided", ["on-bound"]),
        ([1.0], "undecided", ["few-rounds"]),
    ],
)
def test_evaluate_findings_known_ratios_have_verdicts(ratios, verdict, codes):
    assert verdict_on(measured(ratios)) == (verdict, codes)


@pytest.mark.parametrize(
    ("expect", "ratio", "verdict"),
    [
        ({"direction": "faster"}, 1.2, "reproduced"),
        ({"direction": "faster"}, 1.03, "gone"),
        ({"direction": "faster"}, 0.8, "reversed"),
        # The other side is faster by less than the margin.
        ({"direction": "faster"}, 0.92, "gone"),
        ({"direction": "slower"}, 0.8, "reproduced"),
        ({"direction": "slower"}, 0.97, "gone"),
        ({"direction": "slower"}, 1.09, "gone"),
        ({"direction": "slower"}, 1.2, "reversed"),
        ({"direction": "equal"}, 1.03, "reproduced"),
        ({"direction": "equal"}, 1.54, "stronger"),
        ({"direction": "not faster"}, 0.5, "reproduced"),
        ({"direction": "not faster"}, 1.03, "reproduced"),
        ({"direction": "not faster"}, 1.4, "reversed"),
        # "f7 costs up to 7 percent more" states that f6 is the faster one, and no effect beyond the margin.
        ({"at_least": 0.93, "at_most": 1.0}, 1.2, "reversed"),
        ({"at_least": 0.93, "at_most": 1.0}, 1.03, "reversed"),
        ({"at_least": 0.93, "at_most": 1.0}, 0.8, "stronger"),
        ({"at_least": 1.0, "at_most": 1.07}, 0.8, "reversed"),
        ({"at_least": 1.0, "at_most": 1.07}, 1.2, "stronger"),
        ({"at_least": 1}, 0.8, "reversed"),
        ({"at_most": 1}, 1.2, "reversed"),
        ({"at_least": 1.05, "at_most": 1.25}, 1.02, "weaker"),
        ({"at_least": 0.5, "at_most": 0.95}, 0.98, "weaker"),
        ({"at_least": 0.5, "at_most": 0.9}, 0.98, "gone"),
        # No difference is stated.
        ({"at_least": 0.95, "at_most": 1.05}, 0.8, "stronger"),
        ({"at_least": 0.95, "at_most": 1.05}, 1.2, "stronger"),
        ({"at_least": 1, "at_most": 1}, 0.8, "stronger"),
    ],
)
def test_finding_has_verdict_by_its_side_of_1(expect, ratio, verdict):
    assert verdict_on(scaled(ratio), expect={"over": "mean", **expect})[0] == verdict


@pytest.mark.parametrize(
    ("expect", "text"),
    [
        ({"at_least": 1.5, "at_most": 3.5}, "1.5x to 3.5x"),
        ({"at_least": 84}, "at least 84x"),
        ({"at_most": 0.87}, "at most 0.87x"),
        ({"direction": "equal"}, "equal within 10 %"),
        ({"direction": "not faster"}, "not faster"),
    ],
)
def test_range_text_of_bounds_and_directions(expect, text):
    assert range_text(expect, DEFAULT_LIMITS.margin, "x") == text


def test_published_findings_have_two_bounds_or_direction():
    # A share has no upper bound, and these statements ("more than 800 MB/s") have no published pair.
    open_ended = {"hot-fast-log-client-bound", "many-clients-throughput"}
    open_ended.add("many-clients-compressed-throughput")
    found = {
        check["id"]
        for study in FINDING_COUNTS
        for check in StudyParams(study, ROOT, None).findings
        if len(check["expect"].keys() & {"at_least", "at_most"}) == 1
    }
    assert found == open_ended


def test_published_findings_about_versions_have_their_numbers():
    definitions = read_definitions(str(ROOT / "config/published/findings.yaml"))
    versions = {}
    for checks in definitions.values():
        for check in checks:
            match = re.match(r"(Since|Before) (?:git )?(\d+\.\d+)", check["statement"])
            keys = {"Since": "since", "Before": "until"}
            expected = {keys[match[1]]: match[2]} if match else {}
            assert {key: check[key] for key in keys.values() if key in check} == expected
            if match:
                versions[check["id"]] = expected
    assert versions == {
        "access-rules-are-not-scanned": {"since": "1.10"},
        "multi-pack-bitmap-server-cpu": {"since": "2.44"},
        "multi-pack-bitmap-one-pack": {"until": "2.44"},
    }


def test_mean_of_two_ratios_is_the_same_from_both_sides():
    # In each round one pair is 4 times as fast, and the other one half as fast.
    pairs = zip(LOGS["command"], ([4.0, 0.5, 4.0, 0.5], [0.5, 4.0, 0.5, 4.0]), strict=True)
    frame = pd.concat([measured(ratios, commands=[name]) for name, ratios in pairs])
    assert row_of(finding(where=LOGS), frame)["measured"] == pytest.approx(math.sqrt(2))
    turned = {"axis": "format", "baseline": "f7", "candidate": "f6"}
    row = row_of(finding(where=LOGS, compare=turned), frame)
    assert row["measured"] == pytest.approx(1 / math.sqrt(2))


def test_evaluate_findings_inconclusive_has_needed_rounds():
    row = row_of(finding(), measured([1.75, 1.95, 1.8, 1.9, 1.85]))
    half = math.log(row["high"] / row["measured"])
    needed = math.ceil(5 * (half / math.log(row["measured"] / 1.8)) ** 2)
    assert 10 < needed < 30
    reason = {"code": "needs-rounds", "values": {"needed": needed, "n": 5}}
    assert (row["verdict"], json.loads(row["reasons"])) == ("undecided", [reason])
    # The larger room of an interval that is wider on one side.
    wide = replace(interval(0.0, 0.05, 8.0, 5), low=0.5, high=1.1)
    between = {"expect": {"at_least": 0.6}}
    verdict, (why,) = judge_value({**finding(), **between}, wide, DEFAULT_LIMITS)
    needed = math.ceil(5 * (math.log(0.5) / math.log(0.6)) ** 2)
    assert (why.code, why.values["needed"], needed) == ("needs-rounds", needed, 10)
    # A bound of a value that is no ratio may be 0.
    level_ = interval(1.0, 1.0, 8.0, 5, is_ratio=False)
    verdict, (why,) = judge_value({"expect": {"at_least": 0}}, level_, DEFAULT_LIMITS)
    needed = math.ceil(5 * (1.0 - level_.low) ** 2)
    assert (why.code, why.values["needed"], needed) == ("needs-rounds", needed, 27)
    # A saved baseline gets no more rounds, whatever the current side gets.
    saved = {**finding(), "compare": {"to": "old"}}
    verdict, (why,) = judge_value(saved, interval(math.log(1.85), 0.03, 8.0, 5), DEFAULT_LIMITS)
    assert (verdict, why.code) == ("undecided", "saved-rounds")


@pytest.mark.parametrize("direction", ["faster", "slower"])
@pytest.mark.parametrize("ratio", [1.005, 1 / 1.005])
def test_ratio_near_1_needs_the_rounds_after_which_its_effect_is_gone(direction, ratio):
    near_1 = interval(math.log(ratio), 0.05, 8.0, 5)
    check = finding(expect={"over": "mean", "direction": direction})
    verdict, (why,) = judge_value(check, near_1, DEFAULT_LIMITS)
    # The half width is 0.115 in logarithms, and the nearer end of the margin is 0.09 away.
    half = math.log(near_1.high / near_1.value)
    needed = math.ceil(5 * (half / (math.log(1.1) - math.log(1.005))) ** 2)
    assert (verdict, why.code) == ("undecided", "needs-rounds")
    assert (why.values["needed"], needed) == (9, 9)
    # A range of numbers without an effect has no margin that counts.
    neutral = finding(expect={"over": "mean", "at_least": 1.0})
    _, (why,) = judge_value(neutral, near_1, DEFAULT_LIMITS)
    assert why.code == "on-bound"


@pytest.mark.parametrize(
    ("expect", "low", "high", "verdict"),
    [
        ({"direction": "faster"}, 1.03, 1.09, "gone"),
        ({"at_least": 1.2}, 1.03, 1.09, "gone"),
        # The effect may be 12 %, but tables count a certain 6 % as equal.
        ({"direction": "faster"}, 1.01, 1.12, "gone"),
        ({"at_least": 1.2}, 1.01, 1.12, "weaker"),
    ],
)
def test_effect_is_gone_if_the_whole_interval_is_below_the_margin(expect, low, high, verdict):
    value = replace(interval(math.log(1.06), 0.01, 8.0, 5), low=low, high=high)
    check = finding(expect={"over": "mean", **expect})
    assert judge_value(check, value, DEFAULT_LIMITS).verdict == verdict


@pytest.mark.parametrize(
    ("direction", "value", "low", "high", "verdict"),
    [
        # Certain, but below the margin: equal in tables.
        ("faster", 1.08, 1.05, 1.12, "gone"),
        ("faster", 0.93, 0.89, 0.96, "gone"),
        ("slower", 1 / 1.08, 1 / 1.12, 1 / 1.05, "gone"),
        # Shown to be below the margin.
        ("faster", 1.01, 0.97, 1.05, "gone"),
        # Different in tables: certain, and by the margin or more.
        ("faster", 1.12, 1.02, 1.23, "reproduced"),
        ("faster", 0.89, 0.82, 0.97, "reversed"),
        ("slower", 0.89, 0.82, 0.97, "reproduced"),
        ("slower", 1.12, 1.02, 1.23, "reversed"),
        # Nearly equal or undecided in tables.
        ("faster", 1.08, 0.98, 1.19, "undecided"),
        ("slower", 1.2, 0.9, 1.6, "undecided"),
    ],
)
def test_direction_has_the_verdict_of_the_class_in_tables(direction, value, low, high, verdict):
    estimate = replace(interval(math.log(value), 0.01, 8.0, 5), low=low, high=high)
    check = finding(expect={"over": "mean", "direction": direction})
    assert judge_value(check, estimate, DEFAULT_LIMITS).verdict == verdict
    # A table counts the same ratio, if the same interval decides.
    call = "faster" if low > 1 else "slower" if high < 1 else ""
    result = classify_call(call, value, DEFAULT_LIMITS)
    if call:
        assert (result == "different") == (verdict in ("reproduced", "reversed"))


@pytest.mark.parametrize(("ratio", "verdict"), [(1.05, "reproduced"), (1.005, "gone")])
def test_direction_of_counts_has_no_margin(ratio, verdict):
    """As in tables, 5 % fewer calls are fewer, and half a per cent is equal."""
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7", "metric": "read_calls"}
    check = finding(compare=compare, expect={"over": "mean", "direction": "faster"})
    is_f6 = TWICE["format"] == "f6"
    frame = TWICE.assign(read_calls=np.where(is_f6, 1000 * ratio, 1000))
    assert row_of(check, frame)["verdict"] == verdict


@pytest.mark.parametrize(("sd", "verdict"), [(0.01, "reproduced"), (0.06, "undecided")])
def test_evaluate_findings_interval_contains_duplicate_variance(sd, verdict):
    frame = measured([2.0, 2.02, 1.98, 2.0, 2.01])
    noise = Noise(duplicates=Variance(sd**2, 20))
    row = row_of(finding(), frame, EvaluationContext(noise=lambda metric, statistic: noise))
    assert row["verdict"] == verdict
    assert row["high"] / row["measured"] > math.exp(2 * sd)
    none = EvaluationContext(noise=lambda metric, statistic: Noise())
    assert verdict_on(frame, none) == ("reproduced", ["no-duplicates"])


def codes_of(ratio, published, check=None, repo="ruby", cache="cold", **facts):
    """Return the codes of the reasons of a verdict; ruby has a smaller scale than published.

    `facts` has the columns of all cells, such as their versions."""
    scales = {"ruby": 0.1304, "bsd": 1.0}
    context = EvaluationContext(scales=scales, published=published, cells=pd.DataFrame(facts))
    axes = [*AXES, "repo", "cache"]
    rounds = aggregate_rounds(scaled(ratio).assign(repo=repo, cache=cache), axes, [])
    check = make_check(check or finding(), axes)
    ours = check.evaluate(rounds, context)
    reasons = [*ours.reasons, *reasons_of_difference(check, ours, rounds, context)]
    return [reason.code for reason in reasons]


NEUTRAL = finding(expect={"over": "mean", "at_least": 0.95, "at_most": 1.05})
PENALTY = finding(expect={"over": "mean", "at_least": 0.5, "at_most": 0.9})
CPU = level("client_cpu_pct", "mean", at_least=90)


@pytest.mark.parametrize(
    ("check", "ratio", "cache", "storage", "codes"),
    [
        # A weaker effect: less work, faster reads. Warm caches do not read.
        (finding(), 1.2, "cold", "virtual disk", ["other-storage", "scale"]),
        (finding(), 1.2, "hot-os", "virtual disk", ["scale"]),
        (finding(), 1.2, "cold", "SSD", ["other-storage", "scale"]),
        (finding(), 1.2, "cold", "spinning disk", ["scale"]),
        (PENALTY, 0.95, "cold", "SSD", ["other-storage", "scale"]),
        # A stronger one: neither is slower than a spinning disk.
        (finding(), 3.0, "cold", "virtual disk", ["same-machine"]),
        (PENALTY, 0.4, "cold", "virtual disk", ["same-machine"]),
        (NEUTRAL, 1.4, "cold", "SSD", ["same-machine"]),
        # A reversed one is not less of the same.
        (finding(), 0.7, "cold", "SSD", ["other-storage"]),
        (PENALTY, 1.4, "hot-server", "SSD", []),
        (CPU, 2.0, "cold", "SSD", ["other-storage", "scale"]),
    ],
)
def test_possible_reasons_explain_the_direction(check, ratio, cache, storage, codes):
    published = Conditions(1, "", "spinning disk", "another machine")
    assert codes_of(ratio, published, check, cache=cache, storage_kind=[storage]) == codes


@pytest.mark.parametrize(
    ("cold_s", "codes"),
    [
        # Warm results take half of the published time, cold ones a thirtieth or a half of it.
        (30.0, ["faster-storage", "newer-version"]),
        (2.0, ["newer-version", "other-storage"]),
    ],
)
def test_reasons_are_ranked_by_how_much_less_time_cold_results_take(cold_s, codes):
    frame = pd.concat([scaled(1.2).assign(cache="cold"), scaled(1.2).assign(cache="hot-os")])
    seconds = {"cold": cold_s, "hot-os": 2.0}
    published = pd.concat(
        measured([2.0]).assign(cache=cache, elapsed_s=lambda rows, s=s: rows["elapsed_s"] * s)
        for cache, s in seconds.items()
    )
    cells = pd.DataFrame({"client_version": ["1.14.2"], "storage_kind": ["SSD"]})
    context = EvaluationContext(published=Conditions(1, "1.9", "spinning disk"), cells=cells)
    check = finding(where={"command": ["log"], "cache": "cold"})
    row = evaluate_findings([check], [*AXES, "cache"], published, frame, context).iloc[0]
    assert codes_in(row) == codes
    reasons = json.loads(row["reasons"])
    if "faster-storage" in codes:
        # 30 s against 2 s published, and equal times here.
        assert reasons[0]["values"]["cold"] / reasons[0]["values"]["warm"] == pytest.approx(15)


STATISTIC_RATIOS = {"median": 2.0, "best": 1.5, "worst": 3.0}


def published_statistics(command, factor=1.0):
    """Return published times with a row for each statistic. f6 takes `factor` times STATISTIC_RATIOS."""
    frames = [
        measured([factor * ratio], [command]).assign(statistic=statistic)
        for statistic, ratio in STATISTIC_RATIOS.items()
    ]
    return pd.concat(frames)


@pytest.mark.parametrize(
    ("where", "published"), [({}, 2.0), ({"statistic": "best"}, 1.5), ({"statistic": "worst"}, 3.0)]
)
def test_evaluate_findings_published_value_is_the_median_by_default(where, published):
    check = finding(where={"command": ["log", "export"], **where})
    theirs = pd.concat([published_statistics("log"), published_statistics("export", factor=2.0)])
    row = evaluate_findings([check], AXES, theirs, TWICE, by=["statistic"]).iloc[0]
    # Only the log is measured here.
    assert row["published"] == pytest.approx(published)
    assert (row["measured"], codes_in(row)) == (pytest.approx(2.0), ["all-published"])
    alone = evaluate_findings([check], AXES, theirs, None, by=["statistic"]).iloc[0]
    assert alone["published"] == pytest.approx(published * math.sqrt(2))


def test_reasons_use_published_times_of_the_statistic_of_the_finding():
    """By the medians, the cold log shrank 15 times as much as the warm one, by the best runs as much."""
    frame = pd.concat([scaled(1.2).assign(cache="cold"), scaled(1.2).assign(cache="hot-os")])
    seconds = {("median", "cold"): 30.0, ("median", "hot-os"): 2.0}
    seconds |= {("best", "cold"): 2.0, ("best", "hot-os"): 2.0}
    frames = []
    for (statistic, cache), factor in seconds.items():
        rows = measured([2.0]).assign(statistic=statistic, cache=cache)
        frames.append(rows.assign(elapsed_s=factor * rows["elapsed_s"]))
    published = pd.concat(frames)
    cells = pd.DataFrame({"storage_kind": ["SSD"]})
    context = EvaluationContext(published=Conditions(1, "1.9", "spinning disk"), cells=cells)
    axes = [*AXES, "cache"]
    for where, code in (({}, "faster-storage"), ({"statistic": "best"}, "other-storage")):
        check = finding(where={"command": ["log"], "cache": "cold", **where})
        verdict = evaluate_findings([check], axes, published, frame, context, by=["statistic"])
        assert codes_in(verdict.iloc[0]) == [code]


@pytest.mark.parametrize(
    ("version", "measured", "is_newer"),
    [
        ("1.9", ["1.14.2"], True),
        ("1.14", ["1.14.5"], False),
        ("1.9", ["1.8.19"], False),
        ("", ["1.14.2"], False),
        ("1.9", [], False),
        ("1.9", ["unknown"], False),
    ],
)
def test_possible_reasons_name_newer_version(version, measured, is_newer):
    found = codes_of(1.2, Conditions(1, version), repo="bsd", client_version=measured)
    assert found == ["newer-version"] * is_newer
    assert codes_of(2.0, Conditions(1, version), client_version=measured) == []  # reproduced


@pytest.mark.parametrize(
    ("since", "versions", "verdict"),
    [
        ("2.44", ["2.39.5"], "not measured"),
        ("2.44", ["2.39.5", "2.47.1"], "not measured"),
        ("2.44", ["2.44.0"], "reproduced"),
        # 2.9 is older than 2.44.
        ("2.9", ["2.44.0"], "reproduced"),
        ("2.44", ["2.9.1"], "not measured"),
        ("2.44", [], "reproduced"),
    ],
)
def test_finding_about_a_newer_version_is_not_measured(since, versions, verdict):
    frame = measured([2.0, 2.02, 1.98, 2.0, 2.01])
    context = EvaluationContext(cells=pd.DataFrame({"client_version": versions}))
    row = row_of({**finding(), "since": since}, frame, context)
    assert row["verdict"] == verdict
    assert ("old-version" in codes_in(row)) is (verdict == "not measured")


@pytest.mark.parametrize(
    ("until", "versions", "verdict"),
    [
        ("2.44", ["2.39.5"], "reproduced"),
        ("2.44", ["2.39.5", "2.47.1"], "not measured"),
        # The version of the key is the first one that the statement is not about.
        ("2.44", ["2.43.9"], "reproduced"),
        ("2.44", ["2.44.0"], "not measured"),
        # 2.9 is older than 2.44.
        ("2.9", ["2.44.0"], "not measured"),
        ("2.44", ["2.9.1"], "reproduced"),
        ("2.44", [], "reproduced"),
        ("2.44", ["of the future"], "reproduced"),
    ],
)
def test_finding_about_an_older_version_is_not_measured(until, versions, verdict):
    frame = measured([2.0, 2.02, 1.98, 2.0, 2.01])
    context = EvaluationContext(cells=pd.DataFrame({"server_version": versions}))
    row = row_of({**finding(), "until": until}, frame, context)
    assert row["verdict"] == verdict
    assert ("too-new-version" in codes_in(row)) is (verdict == "not measured")


@pytest.mark.parametrize(("command", "code"), [("null-log", ""), ("log", "old-version")])
def test_finding_about_a_newer_version_ignores_old_versions_of_other_cells(command, code):
    frame = measured([2.0, 2.02, 1.98, 2.0, 2.01], LOGS["command"])
    is_old = frame["command"] == command
    frame = frame.assign(client_version=np.where(is_old, "2.39.5", "2.47.1"), scale=1.0)
    settings = StudySettings({axis: [] for axis in AXES}, [], ["command"], {}, DEFAULT_LIMITS)
    row = row_of({**finding(), "since": "2.44"}, frame, make_context(frame, [], settings))
    assert row["verdict"] == ("not measured" if code else "reproduced")
    # No cell was measured twice, so noise has a remark of its own.
    assert codes_in(row) == [code or "no-duplicates"]


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        # The log on the disk is weaker. Only the export was measured in RAM.
        ("virtual disk", ["no-duplicates", "other-storage"]),
        # A slower storage than published does not explain that.
        ("spinning disk", ["no-duplicates"]),
    ],
)
def test_possible_reasons_name_the_storage_of_the_cells_of_the_finding(kind, codes):
    disk = scaled(1.2).assign(storage_kind=kind, scale=1.0)
    frame = pd.concat([disk, disk.assign(command="export", storage_kind="RAM")])
    settings = StudySettings({axis: [] for axis in AXES}, [], ["command"], {}, DEFAULT_LIMITS)
    context = make_context(frame, [], settings, Conditions(1, "", "SSD"))
    row = row_of(finding(), frame, context)
    assert (row["verdict"], codes_in(row)) == ("weaker", codes)
    reasons = {reason["code"]: reason["values"] for reason in json.loads(row["reasons"])}
    assert reasons.get("other-storage", {}).get("measured", kind) == kind


def test_shrinkage_is_of_the_pairs_of_the_finding():
    """The log shrank as much with cold caches as with warm ones, and cells without a pair by more."""
    frame = pd.concat([scaled(1.2).assign(cache="cold"), scaled(1.2).assign(cache="hot-os")])
    published = pd.concat(measured([2.0]).assign(cache=cache) for cache in ("cold", "hot-os"))
    # The cold export was measured and published with f6 only.
    export = [each.query("cache == 'cold'").assign(command="export") for each in (frame, published)]
    alone = [each.query("format == 'f6'") for each in export]
    slow = alone[1].assign(elapsed_s=1000.0)
    cells = pd.DataFrame({"storage_kind": ["SSD"]})
    context = EvaluationContext(published=Conditions(1, "", "spinning disk"), cells=cells)
    check = finding(where={"command": ["log", "export"], "cache": "cold"})
    axes = [*AXES, "cache"]
    both = pd.concat([frame, alone[0]])
    row = evaluate_findings([check], axes, pd.concat([published, slow]), both, context).iloc[0]
    assert codes_in(row) == ["other-storage"]


@pytest.mark.parametrize(
    ("system", "accesses", "expected"),
    [
        ("Windows", ["http", "svn"], ["other-system"]),
        *(("Windows", accesses, []) for accesses in (["http", "file"], ["http", ""], [""], None)),
        *((system, ["http"], []) for system in ("Linux", "")),
    ],
)
def test_possible_reasons_of_servers_name_another_system(system, accesses, expected):
    rows = pd.DataFrame({} if accesses is None else {"access": accesses})
    context = EvaluationContext(published=Conditions(1, system=system))
    assert [r.code for r in possible_reasons("weaker", rows, "", context)] == expected


def test_generated_repository_in_place_of_a_real_history_is_a_reason():
    published = Conditions(**StudyParams("fsfs-ssd-2014", ROOT, None).conditions)
    rows = pd.DataFrame({"repo": ["ruby"], "cache": ["hot"]})
    # Only generated repositories have a scale.
    for scales, expected in (({"ruby": 1.0}, ["generated"]), ({}, [])):
        context = EvaluationContext(scales=scales, published=published)
        assert [r.code for r in possible_reasons(None, rows, "repo", context)] == expected


@pytest.mark.parametrize(("log", "expected"), [(1.3, ["fewer-cells"]), (1.9, [])])
def test_evaluate_findings_published_value_is_of_the_measured_cells(log, expected):
    theirs = pd.concat([measured([log]), measured([2.5], ["export"])])
    expect = {"over": "mean", "at_least": 1.8, "at_most": 2.3}
    check = finding(where={"command": ["log", "export"]}, expect=expect)
    row = evaluate_findings([check], AXES, theirs, scaled(1.2)).iloc[0]
    assert (row["verdict"], row["published"]) == ("weaker", pytest.approx(log))
    assert codes_in(row) == ["all-published", *expected]
    over_all = json.loads(row["reasons"])[0]["values"]
    assert over_all["value"] == pytest.approx(math.sqrt(log * 2.5))


@pytest.mark.parametrize(
    ("grid", "code"),
    [
        ({"f6": ""}, "not-in-grid"),
        ({"f6": "", "f7": "no httpd here"}, "skipped"),
        ({"f6": "", "f7": ""}, "no-result"),
    ],
)
def test_evaluate_findings_without_pair_is_not_measured(grid, code):
    rows = [{"command": "log", "format": fmt, "skip": skip} for fmt, skip in grid.items()]
    row = row_of(finding(), TWICE.query("format == 'f6'"), EvaluationContext(grid=rows))
    assert (row["verdict"], codes_in(row)) == ("not measured", [code])
    assert math.isnan(row["measured"])
    assert verdict_on(TWICE, where={"command": "export"})[0] == "not measured"


@pytest.mark.parametrize("metric", ["elapsed_s", "read_calls"])
def test_evaluate_findings_sides_of_different_rounds_have_the_reason(metric):
    # The last three rounds of f6 failed, and the first two of f7.
    frame = TWICE[(TWICE["format"] == "f6") == (TWICE["round"] <= 2)]
    frame = frame.assign(read_calls=frame["elapsed_s"])
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7", "metric": metric}
    check = finding(compare=compare)
    row = row_of(check, frame)
    assert (row["verdict"], codes_in(row)) == ("not measured", ["no-shared-round"])
    # Both sides were measured, so an expectation is undecided.
    allowed = {**check, "allow_not_measured": True}
    row = evaluate_expectations([allowed], AXES, frame, EvaluationContext()).iloc[0]
    assert (row["verdict"], row["passes"]) == ("undecided", "no")
    # Without a count of f7, the metric was not counted.
    one_sided = frame.assign(read_calls=frame["read_calls"].where(frame["format"] == "f6"))
    if metric == "read_calls":
        assert codes_in(row_of(check, one_sided)) == ["not-counted"]


def test_evaluate_findings_partial_grid_has_reason():
    partial = TWICE_BOTH.query("command == 'log' or format == 'f6'")
    where = {"command": ["log", "null-log", "export"]}
    cells = [(c, f) for c in where["command"] for f in ("f6", "f7")]
    grid = [{"cell": f"{c}/{f}", "command": c, "format": f, "skip": ""} for c, f in cells]
    others = [{**grid[0], "cell": "log/f6~2"}, {**grid[0], "cell": "dump/f6", "command": "dump"}]
    context = EvaluationContext(grid=[*grid, *others])
    assert verdict_on(partial, context, where=where) == ("reproduced", ["partial"])
    whole = EvaluationContext(grid=grid[:4])
    assert verdict_on(TWICE_BOTH, whole, where=where) == ("reproduced", [])


def test_evaluate_findings_cells_without_a_value_are_not_counted():
    uncounted = TWICE_BOTH["command"] == "null-log"
    frame = TWICE_BOTH.assign(user_s=TWICE_BOTH["user_s"].mask(uncounted))
    row = row_of(level("client_cpu_pct", "max", at_most=80), frame)
    assert row["over"] == "greatest of 2 cells"
    theirs = pd.concat([measured([2.0]), measured([math.nan], ["null-log"])])
    row = evaluate_findings([finding(where=LOGS)], AXES, theirs, TWICE).iloc[0]
    assert (row["published"], row["verdict"], codes_in(row)) == (2.0, "reproduced", [])


def test_evaluate_findings_greatest_is_of_means_with_joint_intervals():
    ratios = [2.0, 2.2, 2.1, 1.9, 2.0], [1.0, 4.0, 3.0, 3.0, 3.0]
    first, second = map(measured, ratios)
    frame = pd.concat([first, second.assign(command="null-log")])
    row = row_of(finding(where=LOGS, expect={"over": "max", "at_least": 1.0}), frame)
    # Two intervals at 97.5 % hold together in 95 of 100 cases.
    tests = [stats.ttest_1samp(np.log(of), 0) for of in ratios]
    intervals = [test.confidence_interval(0.975) for test in tests]
    ends = [max(i.low for i in intervals), max(i.high for i in intervals)]
    expected = np.exp([np.log(ratios[1]).mean(), *ends])
    assert row[["measured", "low", "high"]].tolist() == pytest.approx(expected.tolist())
    # Levels have the intervals of means, which end at 0.
    cells = [[100 * 0.4 / (slower * n) for n in range(1, 6)] for slower in (2, 1)]
    tests = [stats.ttest_1samp(of, 0).confidence_interval(0.975) for of in cells]
    row = row_of(level("client_cpu_pct", "min", at_least=80), TWICE)
    expected = [np.mean(cells[0]), max(0.0, min(i.low for i in tests)), min(i.high for i in tests)]
    assert row[["measured", "low", "high"]].tolist() == pytest.approx(expected)


SECONDS = [1.0, 2.0, 4.0, 2.0, 3.0]


def seconds_frame(**columns):
    """Return the measurements of one cell that takes SECONDS in its rounds."""
    rows = [
        {"command": "log", "format": "f7", "round": number, "elapsed_s": elapsed}
        for number, elapsed in enumerate(SECONDS, start=1)
    ]
    return rows_frame(rows, **columns)


def test_level_of_times_is_the_geometric_mean_of_tables():
    frame, logs = seconds_frame(), np.log(SECONDS)
    check = level("elapsed_s", "max", at_most=9)
    row = row_of(check, frame)
    ends = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    expected = np.exp([logs.mean(), ends.low, ends.high])
    assert row[["measured", "low", "high"]].tolist() == pytest.approx(expected.tolist())
    cell = by_cell(by_round(frame, AXES, MEAN), AXES, MEAN).iloc[0]
    assert row["measured"] == pytest.approx(cell["elapsed_s"])
    # The variance of duplicates is that of a ratio of two cells, and one cell has half of it.
    noise = Noise(duplicates=Variance(0.04, 20))
    noisy = row_of(check, frame, EvaluationContext(noise=lambda metric, statistic: noise))
    total = sum_variances([Variance(stats.sem(logs) ** 2, 4), Variance(0.02, 20)])
    wide = interval(logs.mean(), math.sqrt(total.variance), total.degrees, 5)
    assert (noisy["low"], noisy["high"]) == pytest.approx((wide.low, wide.high))


def test_level_of_cpu_times_with_a_0_is_the_mean():
    # A 0 has no logarithm.
    frame = seconds_frame(user_s=[0.0, 0.02, 0.04, 0.02, 0.02])
    row = row_of(level("user_s", "max", at_most=1), frame)
    assert (row["measured"], row["verdict"]) == (pytest.approx(0.02), "reproduced")


def test_undecided_level_of_times_needs_rounds_by_its_logarithms():
    mean = geometric_mean_interval(np.log(SECONDS))
    verdict, (why,) = judge_value({"expect": {"at_most": 3}}, mean, DEFAULT_LIMITS)
    half = math.log(mean.high / mean.value)
    needed = math.ceil(5 * (half / math.log(3 / mean.value)) ** 2)
    assert (verdict, why.code) == ("undecided", "needs-rounds")
    assert (why.values["needed"], needed) == (21, 21)


def test_evaluate_findings_incomplete_round_and_invalid_runs_are_excluded():
    frame = measured([2.0] * 6, commands=LOGS["command"])
    first = frame["round"] == 1
    lacking = first & (frame["command"] == "null-log") & (frame["format"] == "f7")
    frame.loc[first & (frame["command"] == "log"), "elapsed_s"] = [900.0, 1.0]
    check = finding(where=LOGS, expect={"over": "mean", "at_least": 1.8})
    row = row_of(check, frame[~lacking])
    assert (row["measured"], row["verdict"]) == (pytest.approx(2.0), "reproduced")
    frame = measured([2.0] * 5 + [50.0])
    frame.loc[frame["round"] == 6, "flags"] = "restarted"
    assert row_of(finding(), frame)["measured"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("over", "value", "verdict", "codes"),
    [("mean", math.nan, "undecided", ["incomplete"]), ("min", 2.0, "reproduced", [])],
)
def test_evaluate_findings_without_complete_round_has_no_mean(over, value, verdict, codes):
    frame = measured([2.0] * 12, commands=LOGS["command"])
    is_even = frame["round"] % 2 == 0
    frame = frame[is_even == (frame["command"] == "log")]
    row = row_of(finding(where=LOGS, expect={"over": over, "at_least": 1.8}), frame)
    assert (row["verdict"], codes_in(row)) == (verdict, codes)
    assert row["measured"] == pytest.approx(value, nan_ok=True)


def test_incomplete_mean_has_the_reasons_of_left_out_pairs():
    frame = measured([2.0] * 12, commands=[*LOGS["command"], "export"])
    is_even = frame["round"] % 2 == 0
    is_small = frame["command"] == "export"
    frame = frame[is_small | (is_even == (frame["command"] == "log"))]
    frame = frame.assign(fixed_share=np.where(frame["command"] == "export", 0.9, 0.1))
    where = {"command": [*LOGS["command"], "export"]}
    assert verdict_on(frame, where=where) == ("undecided", ["incomplete", "fixed-cost"])


def test_context_of_has_the_noise_of_the_cells_of_its_findings():
    frame = measured([2.0, 2.1, 1.9]).assign(run=1.0, scale=1.0)
    both = pd.concat([frame, frame.assign(run=2.0, elapsed_s=frame["elapsed_s"] * 3)])
    order = {axis: [] for axis in AXES}
    settings = StudySettings(order, ["run"], ["command"], {}, DEFAULT_LIMITS)
    context = make_context(both, [], settings)
    keys = {("log", value, run) for value in ("f6", "f7") for run in "12"}
    assert set(context.noise("elapsed_s", "mean").cells) == keys


@pytest.mark.parametrize("by", ["format", "round"])
def test_evaluate_findings_different_hosts_are_inconclusive(by):
    on_new = {"format": TWICE["format"] == "f7", "round": TWICE["round"] > 3}[by]
    frame = TWICE.assign(host=np.where(on_new, "new", "old"))
    for check in (finding(), level("elapsed_s", "max", at_most=80)):
        row = row_of(check, frame)
        assert row["verdict"] == "undecided" and math.isnan(row["measured"])
        assert codes_in(row) == ["hosts-differ"] and "new, old" in row["reasons"]


@pytest.mark.parametrize(
    ("expect", "verdict"), [({"direction": "faster"}, "fails"), ({"at_least": 1.0}, "holds")]
)
def test_expectation_of_a_direction_fails_below_the_margin(expect, verdict):
    check = finding(expect={"over": "mean", **expect})
    row = evaluate_expectations([check], AXES, scaled(1.03), EvaluationContext()).iloc[0]
    assert row["low"] > 1 and row["verdict"] == verdict


def places_in(row):
    """Return the place of each cell or pair of a mixed finding, by its command."""
    (reason,) = [each for each in json.loads(row["reasons"]) if each["code"] == "disagreement"]
    return {part["where"]["command"]: part["place"] for part in reason["values"]["parts"]}


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((1.0, 4.5), "mixed"),
        # Not certainly below 1.5 by the margin, or not certainly above 3.5.
        ((1.45, 4.5), "reproduced"),
        ((1.0, 3.7), "reproduced"),
        # Both differ, but none is above the range.
        ((1.0, 2.5), "reproduced"),
        ((1.5, 4.5), "reproduced"),
    ],
)
def test_pairs_below_and_above_the_range_are_mixed(ratios, verdict):
    expect = {"over": "mean", "at_least": 1.5, "at_most": 3.5}
    check = finding(where=LOGS, expect=expect)
    names = LOGS["command"]
    frame = pd.concat(
        scaled(ratio).assign(command=name) for name, ratio in zip(names, ratios, strict=True)
    )
    row = row_of(check, frame)
    assert row["verdict"] == verdict
    if verdict == "mixed":
        assert places_in(row) == {"log": "below", "null-log": "above"}


def cpu_frame(rounds=5, **shares):
    """Return measurements of commands whose client takes these shares of a second, in per cent."""
    rows = [
        {
            "command": command,
            "format": "f7",
            "round": number,
            "elapsed_s": 1.0,
            # Further 0.1 s are the system's.
            "user_s": share / 100 - 0.1 + 0.001 * (number % 2),
        }
        for command, share in shares.items()
        for number in range(1, rounds + 1)
    ]
    frame = rows_frame(rows, user_s=[row["user_s"] for row in rows])
    return frame.assign(work=frame["command"])


@pytest.mark.parametrize(
    ("shares", "over", "verdict"),
    [
        ((98, 99, 97, 46), "mean", "mixed"),
        # Outside, but by less than the margin of 10 %.
        ((98, 99, 97, 80), "mean", "reproduced"),
        # No cell is inside.
        ((60, 62, 61, 46), "mean", "weaker"),
        # A statement about the greatest or the least does not claim that all are alike.
        ((98, 99, 97, 46), "max", "reproduced"),
        ((98, 99, 97, 46), "min", "weaker"),
    ],
)
def test_levels_inside_and_outside_the_range_are_mixed(shares, over, verdict):
    names = ["a", "b", "c", "d"]
    frame = cpu_frame(**dict(zip(names, shares, strict=True)))
    check = level("client_cpu_pct", over, where={"command": names}, at_least=84)
    row = row_of(check, frame)
    assert row["verdict"] == verdict
    if verdict == "mixed":
        assert row["measured"] == pytest.approx(85, abs=0.1)
        assert places_in(row) == {"a": "inside", "b": "inside", "c": "inside", "d": "below"}
    # A single round has no interval, so nothing is certain.
    once = row_of(check, frame[frame["round"] == 1])
    assert (once["verdict"], codes_in(once)) == ("undecided", ["few-rounds"])
    # An expectation is about the mean.
    rows = evaluate_expectations([check], AXES, frame, EvaluationContext())
    assert rows["verdict"][0] in ("holds", "fails")


def test_pair_with_one_round_of_a_mixed_finding_is_open():
    frames = [scaled(3.0), scaled(0.7).assign(command="null-log"), scaled(1.0).assign(command="x")]
    where = {"command": ["log", "null-log", "x"]}
    frame = pd.concat(frames)
    one_round = frame[(frame["command"] != "x") | (frame["round"] == 1)]
    row = row_of(finding(where=where), one_round)
    assert (row["verdict"], places_in(row)["x"]) == ("mixed", "open")
    parts = json.loads(row["reasons"])[0]["values"]["parts"]
    assert [part["low"] is None for part in parts] == [False, False, True]


def test_place_of_an_interval_against_the_expected_range():
    expected = expected_range({"over": "mean", "at_least": 1.5, "at_most": 3.5}, 1.1)
    intervals = [(1.5, 3.5), (1.0, 1.49), (3.6, 4.0), (1.4, 1.6), (1.0, 4.0), (math.nan, math.nan)]
    places = [expected.place_of(*ends) for ends in intervals]
    assert places == ["inside", "below", "above", "open", "open", "open"]


PUBLISHED_ENDS = {
    "cold-packed-f7-log-block-read": "at_most",
    "cold-log-packing-f7": "at_least at_most",
    "cold-log-packing-f6": "at_most",
    "block-read-helps-cold-pack": "at_most",
    "hot-fast-log-client-bound": "at_least",
    "svn-fast-export-hot": "at_least at_most",
    "prototype-verify": "at_most",
    "hot-export-throughput": "at_most",
    "prototype-verify-opens": "at_most",
    "prototype-verify-reads": "at_most",
    "exclusive-locking-checkout": "at_most",
}


def test_bounds_from_published_numbers_include_their_last_digits():
    """A bound is the smallest or largest published pair or cell, with the rounding of its numbers."""
    checked = {}
    for name in FINDING_COUNTS:
        study = StudyParams(name, ROOT, None)
        for check in study.findings:
            ends = PUBLISHED_ENDS.get(check["id"], "").split()
            if not ends:
                continue
            least, greatest = [
                evaluate_findings(
                    [{**check, "expect": {**check["expect"], "over": over}}],
                    study.axes,
                    published_numbers(name),
                    None,
                    by=study.by,
                ).iloc[0]
                for over in ("min", "max")
            ]
            low, high = least["published_low"], greatest["published_high"]
            if "at_least" in ends:
                assert low * 0.99 < check["expect"]["at_least"] <= low, check["id"]
            if "at_most" in ends:
                assert high <= check["expect"]["at_most"] < high * 1.02, check["id"]
            checked[check["id"]] = " ".join(ends)
    assert checked == PUBLISHED_ENDS


def test_mixed_finding_has_the_times_of_each_revision():
    cells = [
        scaled(ratio).assign(command=command, cache=cache, repo="ruby")
        for command, ratio in (("log", 3.0), ("null-log", 0.7))
        for cache in ("cold", "hot-os")
    ]
    frame = pd.concat(cells)
    theirs = pd.concat(cells).query("round == 1").drop(columns="flags")
    # Published for 12,000 revisions, measured for 6,000.
    published = Conditions(1, revisions={"ruby": 12000})
    context = EvaluationContext(published=published)
    check = finding(where={**LOGS, "cache": "cold"})
    axes = [*AXES, "repo", "cache"]
    row = evaluate_findings([check], axes, theirs, frame, context).iloc[0]
    reasons = {each["code"]: each["values"] for each in json.loads(row["reasons"])}
    assert (row["verdict"], list(reasons)) == ("mixed", ["disagreement", "unit-times"])
    assert reasons["unit-times"]["unit"] == "revision"
    cold, warm = (reasons["unit-times"]["seconds"][state] for state in ("cold", "warm"))
    mean_of_round_1 = math.sqrt(math.sqrt(3.0 * 0.7))
    assert cold[0] == warm[0] == pytest.approx(mean_of_round_1 / 12000)
    # Times of the rounds 1 to 5 are multiples of 1 to 5.
    assert cold[1] == pytest.approx(cold[0] * 2 * math.factorial(5) ** 0.2, rel=0.01)
    # A reproduced finding needs no such line.
    twice = pd.concat([measured([2.0] * 5).assign(cache="cold", repo="ruby")])
    alike = twice.query("round == 1").drop(columns="flags")
    log = finding(where={"command": "log", "cache": "cold"})
    row = evaluate_findings([log], axes, alike, twice, context).iloc[0]
    assert (row["verdict"], codes_in(row)) == ("reproduced", [])


def test_evaluate_findings_pairs_that_disagree_are_mixed():
    check = finding(where=LOGS, expect={"over": "mean", "at_least": 1.8})
    mixed = pd.concat([scaled(3.0), scaled(0.7).assign(command="null-log")])
    row = row_of(check, mixed)
    # More rounds do not settle the disagreement.
    assert row["verdict"] == "mixed" and "needs-rounds" not in codes_in(row)
    # An expectation of a user holds or fails.
    rows = evaluate_expectations([check], AXES, mixed, EvaluationContext())
    assert rows["verdict"].tolist() == ["fails"]
