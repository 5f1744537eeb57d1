"""A user's expectations: their files, verdicts, and the output and exit codes of `check`."""

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from project import CONFIG
from unit.synthetic import rows_frame
from vcsbench.__main__ import main
from vcsbench.config.definitions import read_expectations
from vcsbench.config.study_reader import load_study
from vcsbench.errors import UserError
from vcsbench.files import read_rows
from vcsbench.statistics import check
from vcsbench.statistics.evaluations import EvaluationContext
from vcsbench.statistics.findings import evaluate_expectations, unmeasured_expectations
from vcsbench.statistics.verdicts import EXPECTATION_COLUMNS

AXES = {"command": ["log", "export"], "repo": None, "cache": ["cold", "hot"]}
LEVEL = {"level": "elapsed_s", "expect": {"over": "max", "at_most": 2.0}}


def expectation(name="hot-log", **changes):
    return {"id": name, "statement": "Fast.", "where": {"command": "log"}, **LEVEL, **changes}


def measured(times, repo="mine"):
    rows = [{"round": number, "elapsed_s": time} for number, time in enumerate(times, 1)]
    return rows_frame(rows, command="log", repo=repo, cache="hot")


def rows_of(check, frame):
    return evaluate_expectations([check], list(AXES), frame, EvaluationContext())


FAST, SLOW, MIXED = [1.0, 1.1] * 2 + [1.0], [3.0, 3.1] * 2 + [3.0], [1.0, 3.1] * 2 + [1.0]
UNSURE, UNMEASURED = {"allow_inconclusive": True}, {"allow_not_measured": True}
EXPORT = {"where": {"command": "export"}}


@pytest.mark.parametrize(
    ("times", "changes", "verdict", "passes"),
    [
        (FAST, {}, "holds", "yes"),
        (SLOW, {}, "fails", "no"),
        (SLOW, UNSURE, "fails", "no"),
        (MIXED, {}, "undecided", "no"),
        (MIXED, UNSURE, "undecided", "yes"),
        (MIXED, UNMEASURED, "undecided", "no"),
        ([1.0], EXPORT, "not measured", "no"),
        ([1.0], {**EXPORT, **UNMEASURED}, "not measured", "yes"),
    ],
)
def test_evaluate_expectations_has_verdict_and_passes(times, changes, verdict, passes):
    rows = rows_of(expectation(**changes), measured(times))
    assert list(rows) == EXPECTATION_COLUMNS
    assert (rows["verdict"][0], rows["passes"][0]) == (verdict, passes)


def test_evaluate_expectations_without_repo_uses_all():
    frame = pd.concat([measured([1.0] * 5), measured([3.0] * 5, repo="other")])
    assert rows_of(expectation(), frame)["measured"][0] == pytest.approx(3.0), "the slowest"
    mine = expectation(where={"command": "log", "repo": "mine"})
    assert rows_of(mine, frame)["measured"][0] == pytest.approx(1.0)
    assert unmeasured_expectations("b", [expectation()])["passes"].tolist() == ["no"]


REASONS = json.dumps([{"code": "other-work", "values": {"detail": "1 revision against 2"}}])
ROW = {"study": "a", "statement": "Fast | small.", "low": "1.0", "high": "1.5", "unit": "s"}
ROW |= {"measured": "1.2", "expected": "at most 2.0", "reasons": "[]", "passes": "yes"}
GOOD = {**ROW, "id": "good", "verdict": "holds"}
ALLOWED = {**ROW, "id": "allowed", "verdict": "undecided", "reasons": REASONS}
BAD = {**ROW, "id": "bad", "verdict": "fails", "measured": "3", "passes": "no"}
UNDECIDED = {**ALLOWED, "id": "undecided", "passes": "no"}
NONE = {**ROW, "id": "none", "study": "b", "verdict": "not measured"}
NONE |= {"measured": "", "passes": "no"}


def run_check(folder, *rows):
    with (folder / "check.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["study", *EXPECTATION_COLUMNS])
        writer.writeheader()
        writer.writerows(rows)
    return check.main([str(folder / "check.csv")])


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([GOOD, ALLOWED], 0),
        ([GOOD, BAD, UNDECIDED], check.EXIT_FAILS),
        ([GOOD, UNDECIDED], check.EXIT_UNDECIDED),
        ([GOOD, NONE], check.EXIT_UNDECIDED),
        ([], 1),
    ],
)
def test_check_exit_code_follows_verdicts(tmp_path, rows, code):
    assert (check.EXIT_FAILS, check.EXIT_UNDECIDED) == (3, 4)
    assert run_check(tmp_path, *rows) == code


def test_check_has_junit_and_markdown(tmp_path):
    run_check(tmp_path, GOOD, BAD, UNDECIDED, NONE)
    rows = read_rows(tmp_path / "check.csv", "")
    suites = ElementTree.fromstring(check.junit(rows))
    counts = [[s.get(key) for key in ("name", "tests", "failures", "errors")] for s in suites]
    assert counts == [["a", "3", "1", "1"], ["b", "1", "0", "1"]]
    good, bad, undecided = suites[0]
    assert [part.tag for part in good] == ["system-out"]
    assert (bad[0].tag, undecided[0].tag) == ("failure", "error")
    assert undecided[0].text == "other work: 1 revision against 2"
    assert re.search(r": 3\.00 \(1\.00 to 1\.50\) s,.* 2\.0$", bad[0].get("message"))
    lines = check.markdown(rows).splitlines()
    assert lines[0].startswith("**1 of 4 ")
    assert lines[4].startswith("| ✓ holds | Fast \\| small. (`a` `good`) | at most 2.0 | 1.20 ")


def test_markdown_statement_of_several_lines_is_one_row():
    row = {**GOOD, "statement": "The log\n  is | fast.\n"}
    *_, separator, last = check.markdown([row]).splitlines()
    assert separator == "| --- | --- | --- | --- |"
    assert last.startswith("| ✓ holds | The log is \\| fast. (`a` `good`) | at most 2.0 | 1.20 ")


BOUND = "expect: {over: max, at_most: 2}"
LEVEL_TEXT = f"level: elapsed_s, {BOUND}"
OTHER = f"a: [{{id: other, statement: y, {LEVEL_TEXT}}}]"
COMPARE = "compare: {axis: cache, baseline: cold"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("id: x", "`a[0].expect`"),
        ("id: x, level: elapsed_s, expect: {over: min}", "`a[0].expect`"),
        ("id: x, level: elapsed_s, expect: {over: min, at_least: 2, at_most: 1}", "`a[0].expect`"),
        (f"id: x, {COMPARE}}}, {BOUND}", "`a[0].compare`: `candidate`"),
        (f"id: x, {COMPARE}, candidate: cold}}, {BOUND}", "`a[0].compare`"),
        (f"id: x, {COMPARE}, candidate: warm}}, {BOUND}", "no value 'warm'"),
        (f"id: x, compare: {{to: older}}, {BOUND}", "'older' of this study (old, new)"),
        (f"id: x, where: {{cash: cold}}, {LEVEL_TEXT}", "'cash'"),
        (f"id: x, where: {{cache: hot-os}}, {LEVEL_TEXT}", "no value 'hot-os'"),
        (f"id: x, level: mb_s, {BOUND}", "`a[0].level`"),
        (f"id: x, level: counts, {BOUND}", "`a[0].level`"),
        (f"id: x, until: new, {LEVEL_TEXT}", "`a[0].until`"),
        (f"id: x, since: '2.44', until: '2.44', {LEVEL_TEXT}", "`a[0]`: `since` is not before"),
        (f"id: other, {LEVEL_TEXT}", "`a[0]`: the id `other`"),
    ],
)
def test_read_expectations_invalid_is_user_error(tmp_path, keys, expected):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(OTHER)
    second.write_text(f"a: [{{statement: y, {keys}}}]")
    with pytest.raises(UserError, match=f"^{second}: ") as error:
        read_expectations([first, second], "a", AXES, ["old", "new"])
    assert expected in str(error.value)
    assert read_expectations([first], "of-my-own", AXES) == []


@pytest.mark.parametrize("keys", ["to: old}", "to: older}, allow_not_measured: true"])
def test_read_expectations_saved_or_allowed_baseline_is_valid(tmp_path, keys):
    path = tmp_path / "my.yaml"
    path.write_text(f"a: [{{id: x, statement: y, compare: {{{keys}, {BOUND}}}]")
    (check,) = read_expectations([path], "a", AXES, ["old"])
    assert check["compare"]["to"] in keys


@pytest.mark.parametrize(("action", "code"), [("plan", 1), ("doctor", 2)])
@pytest.mark.parametrize(("key", "name"), [("expectations", "none.yaml"), ("baselines", "none")])
def test_missing_expectations_and_baselines_are_refused_before_a_run(
    action, code, key, name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)  # main() changes the folder
    monkeypatch.setenv("VCSBENCH_COMMAND", "")
    Path("my.yaml").write_text(f"{key}: [{name}]")
    assert main([action, "--configfile", "my.yaml"]) == code
    assert capsys.readouterr().err.startswith(f"{tmp_path}/my.yaml: `{key}`: no ")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        (f"fsfs: [{{id: x, statement: y, {LEVEL_TEXT}}}]", "`fsfs`"),
        # Values of axes are known in the whole workflow only.
        (
            f"fsfs-san-2014: [{{id: x, statement: y, where: {{repo: rubi}}, {LEVEL_TEXT}}}]",
            "`fsfs-san-2014[0]`: `repo`",
        ),
    ],
)
def test_plan_unknown_name_in_expectation_is_refused(keys, key, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VCSBENCH_COMMAND", "")
    path = tmp_path / "bad.yaml"
    path.write_text(keys)
    Path("my.yaml").write_text(f"expectations: [{path}]")
    assert main(["plan", "--configfile", "my.yaml"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{path}: ") and key in error


@pytest.mark.parametrize("content", [b"\xff\n", b"study,id\na,b\n", b'"' + b"x" * 200_000, None])
def test_check_damaged_or_missing_file_is_one_sentence(tmp_path, capsys, content):
    path = tmp_path / "check.csv"
    if content is not None:
        path.write_bytes(content)
    assert check.main([str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{path}: ") and "`make check`" in error and error.count("\n") == 1


def test_read_expectations_default_examples_are_valid(tmp_path):
    lines = (CONFIG / "expectations.yaml").read_text().splitlines()
    path = tmp_path / "expectations.yaml"
    path.write_text("\n".join(line[1:] for line in lines if line.startswith(("#f", "#  "))))
    axes = load_study(CONFIG / "studies" / "fsfs-san-2014.yaml").axes
    known = {a: v if isinstance(v, list) else None for a, v in axes.items()}
    examples = read_expectations([path], "fsfs-san-2014", known)
    assert [example["id"] for example in examples] == ["hot-log-under-2s", "packing-does-not-hurt"]
