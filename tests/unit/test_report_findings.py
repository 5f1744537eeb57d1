"""The section of a page on findings: verdicts, pictures, reasons and the commands that test them."""

import csv
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest

from unit.report_files import DEFINITIONS, results_of
from vcsbench.advice.cards import LESS_WORK
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.report.findings_section import (
    MEANINGS,
    NO_REASON,
    WITH_COMMAND,
    WITHOUT_COMMAND,
    finding_views,
    reason_lines,
)
from vcsbench.report.page import page_of
from vcsbench.report.results import read_results
from vcsbench.report.table_sections import reversed_table, table_sections
from vcsbench.statistics import verdicts
from vcsbench.statistics.verdicts import CELLS, Reason, ReasonTest


@pytest.fixture(scope="module")
def results(whole_study):
    return results_of(whole_study)


NAME = "hot-log-packing-penalty"
LARGER = ReasonTest("fsfs-san-2014", "larger.yaml", "x: 1")
BUILD = ReasonTest("builds", "old.yaml", f"[{CELLS}]", "install it", "{ra: svn}")
VERSION = Reason("newer-version", {"measured": "1.14", "published": "1.9"}, BUILD)
SCALE = Reason("scale", {"subject": "ruby", "share": 10.0}, LARGER)
REASONS = [Reason("reversed"), SCALE, VERSION]
RUN = "make report STUDY={0.study} ARGS='--configfile {0.file}'"
NOT_IN_GRID = Reason("not-in-grid", {"cells": "x"})
REVERSED = {"published": 0.5, "measured": 2.0, "low": 1.8, "high": 2.2, "verdict": "differs"}


def views_of(results, reasons=REASONS, sections=(), **changes):
    why = "; ".join(reason.text for reason in reasons)
    change = {**REVERSED, "why": why, "reasons": reasons, **changes}
    rows = [{**row, **(change if row["id"] == NAME else {})} for row in results.findings]
    return finding_views(results, rows, results.definitions, sections)


def view_of(views):
    return next(view for view in views if view.id == NAME)


def test_findings_have_pictures_units_and_reversed_ones_come_first(results):
    views = views_of(results)
    assert (views[0].id, views[0].verdict) == (NAME, "reversed")
    assert re.findall(r"[\d.]+x", views[0].news) == ["2.0x", "2.0x"]
    values = (views[0].expected, views[0].published, views[0].measured, views[0].interval)
    assert values == ("0.5x to 0.9x", "0.50x", "2.0x", "1.80x to 2.2x")
    assert re.search("not packed ÷ .*: above 1x, packed is faster$", views[0].ratio)
    level = next(view for view in views if view.id == "hot-fast-log-client-bound")
    assert (level.expected, level.ratio) == ("at least 80 %", "Client CPU")
    assert all("<svg" in view.picture for view in views if view.measured)
    verdicts = [view.verdict for view in views]
    assert verdicts == sorted(verdicts, key=[*MEANINGS].index)
    of_axis = re.findall(r">([\d.]+x)<", view_of(views).picture)
    assert {*of_axis} == {"0.5x", "0.7x", "1x", "1.5x", "2x"}
    ours = {view.id: view.is_ours for view in views}
    assert ours["cache-size-no-help-cold"] and not ours["cold-log-packing-f6"]
    view = view_of(views_of(results, [replace(VERSION, test=None)]))
    assert [step.command for step in view.steps] == [""]
    assert (view.verdict, view.news) == ("differs", "")
    older = view_of(views_of(results, (), why="some cause"))
    assert older.notes == ["some cause."]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.742, "0.74x"), (11.34, "11x"), (0.672, ""), (None, "")]
)
def test_published_value_of_all_pairs_is_apart_from_that_of_the_measured(results, value, shown):
    of_all = Reason("all-published", {"published": "24 pairs", "value": value, "shown": "x"})
    reasons = [] if value is None else [of_all]
    view = view_of(views_of(results, reasons, published=0.674))
    assert (view.published, view.published_all.split(": ")[-1]) == ("0.67x", shown)


@pytest.mark.parametrize(
    ("expect", "expected"),
    [({"at_least": 0}, "at least 0x"), ({"at_most": 2000000}, "at most 2000000x")],
)
def test_expected_range_that_ends_at_zero_is_in_words(results, expect, expected):
    row = next(row for row in results.findings if row["id"] == NAME)
    definitions = {NAME: {**results.definitions[NAME], "expect": expect}}
    (view,) = finding_views(results, [row], definitions, [])
    assert view.expected == expected


@pytest.mark.parametrize("verdict", ["reversed", "differs"])
def test_finding_that_differs_without_a_known_reason_reports_that(results, verdict):
    view = view_of(views_of(results, [Reason("reversed")] * (verdict == "reversed")))
    assert (view.verdict, [step.code for step in view.steps]) == (verdict, [NO_REASON])
    (line,) = reason_lines([(view.verdict, view.steps)])
    assert line.tests == [(WITHOUT_COMMAND[NO_REASON], "")]


def test_reasons_of_a_finding_have_commands_with_the_arguments_of_the_run(results):
    timed = replace(results, account={"taken_s": 900.0})
    scale, version = view_of(views_of(timed)).steps
    assert (scale.code, scale.before) == ("scale", "")
    assert scale.command == f"echo 'x: 1' >larger.yaml && {RUN.format(LARGER)}"
    assert scale.takes == "up to 60 min"
    assert (version.code, version.before) == ("newer-version", "install it")
    assert version.command == f"echo '[{{ra: svn}}]' >old.yaml && {RUN.format(BUILD)}"
    given = replace(results, provenance={"command": "vcsbench run --configfile 'my b.yaml'"})
    for step, file in zip(view_of(views_of(given)).steps, ("larger.yaml", "old.yaml"), strict=True):
        words = shlex.split(step.command)
        assert words[-1] == f"ARGS=--configfile 'my b.yaml' --configfile {file}"
    few = views_of(given, [Reason("low-n", {"n": 4, "needed": 5})], verdict="")
    (step,) = view_of(few).steps
    assert re.findall(r"\d", step.text) == ["4", "5"]
    assert shlex.split(step.command)[-1].endswith("--config rounds=5")


def test_reason_lines_join_tests_that_differ_in_their_cells(results):
    other = replace(VERSION, test=replace(BUILD, cells="{ra: http}"))
    views = [view_of(views_of(results, [reason])) for reason in (VERSION, other)]
    (line,) = reason_lines([(view.verdict, view.steps) for view in views])
    ((action, command),) = line.tests
    assert action.startswith("install it") and line.findings == "2 differ"
    assert command == f"echo '[{{ra: svn}}, {{ra: http}}]' >old.yaml && {RUN.format(BUILD)}"


def test_reason_lines_begin_with_the_fewest_rounds(results):
    reasons = [Reason("needs-rounds", {"n": 5, "needed": n}) for n in (33, 188, 6)]
    views = [view_of(views_of(results, [reason], verdict="inconclusive")) for reason in reasons]
    (line,) = reason_lines([(view.verdict, view.steps) for view in views])
    assert [command.rpartition("=")[2] for _, command in line.tests] == ["6'", "33'", "188'"]


def test_command_of_a_strangers_test_writes_one_file_only(tmp_path):
    hostile = ReasonTest("s", "a; touch b.yaml", "'; touch c; '<cells>", cells="$(touch d)")
    subprocess.run(["sh", "-c", hostile.command("true")], cwd=tmp_path, check=True)
    (file,) = tmp_path.iterdir()
    assert (file.name, file.read_text()) == (hostile.file, "'; touch c; '$(touch d)\n")


UNKNOWN = {"code": "x", "values": {}, "test": None}


@pytest.mark.parametrize("text", ["x", "[1]", json.dumps([UNKNOWN]), '[{"code": "low-n"}]'])
def test_results_with_damaged_reasons_are_refused(results, whole_study, tmp_path, text):
    shutil.copytree(whole_study.results, tmp_path / "results")
    path = tmp_path / "results/findings/fsfs-san-2014.csv"
    rows = [*csv.DictReader(path.open())]
    rows[0]["reasons"] = text
    with path.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(UserError, match="csv: reasons: "):
        read_results(results.study, tmp_path / "results", DEFINITIONS, results.order)


def test_finding_without_cells_has_the_command_that_adds_them(results, tmp_path):
    study, value = results.study.name, "fast"
    include = [{"command": "log", "config": "slow"}]
    made = {"command": "vcsbench run", "config": {"grid": {study: {"include": include}}}}
    changed = replace(results, provenance=made)
    definition = {**results.definitions[NAME], "where": {"command": "log", "config": [value]}}
    row = {**results.findings[0], "id": NAME, "verdict": "", "reasons": [NOT_IN_GRID]}
    # Two findings on the same cells.
    view, _ = finding_views(changed, [row, row], {NAME: definition}, [])
    (step,) = view.steps
    assert step.text.startswith("log, tuned settings, not packed or packed")
    (line,) = reason_lines([(view.verdict, view.steps)])
    assert line.tests[0][1] == step.command
    make, _, run = step.command.partition(" && ")
    subprocess.run(["sh", "-c", make], cwd=tmp_path, check=True)
    part = {"command": ["log"], "config": [value], "packing": ["nopack", "pack"]}
    assert read_yaml(tmp_path / "more.yaml") == {"grid": {study: {"include": [*include, part]}}}
    assert shlex.split(run) == ["make", "report", f"STUDY={study}", "ARGS=--configfile more.yaml"]


@pytest.mark.parametrize(("builds", "can_add"), [({"trunk": {}}, False), ({"patch": {}}, True)])
def test_finding_on_a_build_has_a_command_only_if_it_is_configured(results, builds, can_add):
    config = {"grid": {results.study.name: {"include": []}}, "builds": builds}
    order = {**results.order, "build": ["trunk", "patch"]}
    changed = replace(
        results, provenance={"command": "vcsbench run", "config": config}, order=order
    )
    definition = {**results.definitions[NAME], "where": {"build": ["patch"]}}
    row = {**results.findings[0], "id": NAME, "verdict": "", "reasons": [NOT_IN_GRID]}
    (view,) = finding_views(changed, [row], {NAME: definition}, [])
    assert bool(view.steps[0].command) == can_add


def test_each_reason_of_a_verdict_has_something_to_do():
    causes = {"reversed", "all-published", "not-compared", "crosses-bound"}
    in_row = {"no-metric", "not-counted", "skipped", "other-work", "work-unknown", "saved-rounds"}
    codes = verdicts.SENTENCES.keys() - causes - in_row
    assert codes == WITH_COMMAND.keys() | WITHOUT_COMMAND.keys() - {NO_REASON}


COLD_LOG, PACKED = {"command": "log", "cache": "cold"}, {"packing": "pack"}
SLOWER = {"ratio": 0.8, "call": "slower"}


@pytest.mark.parametrize(
    ("sides", "slower", "text"),
    [
        (("f6", "f7"), {}, "6 pairs, 2.0x"),
        (("f6", "f7"), PACKED, "6 pairs, 0.80x to 2.0x, mixed: f7 faster in 3, slower in 3"),
        # The table has the sides exchanged.
        (("f7", "f6"), PACKED, "6 pairs, 0.50x to 1.25x, mixed: f6 slower in 3, faster in 3"),
    ],
)
def test_median_of_pairs_that_disagree_is_mixed(results, sides, slower, text):
    def change(row):
        is_slower = slower and (slower | COLD_LOG).items() <= row.items()
        return SLOWER if is_slower else {"ratio": 2.0}

    rows = [{**row, **change(row)} for row in results.tables["f6-vs-f7"]]
    changed = replace(results, tables={**results.tables, "f6-vs-f7": rows})
    compare = dict(zip(("axis", "baseline", "candidate"), ("format", *sides), strict=True))
    definition = {"where": COLD_LOG, "compare": compare, "expect": {"over": "median"}}
    found = [{**results.findings[0], "id": "x", "why": ""}]
    (view,) = finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert view.of == text


def test_comparisons_with_less_work_are_marked_in_card_and_finding(results):
    rows, runs = (
        [{**row, "command": "null-log"} for row in rows if row["command"] == "log"]
        for rows in (results.tables["http-vs-ra"], results.measurements)
    )
    card = next(card for card in results.advice.cards if card.question.axis == "ra")
    cases = [replace(case, where={**case.where, "command": "null-log"}) for case in card.cases]
    advice = replace(results.advice, cards=[replace(card, cases=cases)])
    tables = {**results.tables, "http-vs-ra": rows}
    changed = replace(results, measurements=runs, tables=tables, advice=advice)
    compare = {"axis": "ra", "baseline": "http", "candidate": "svn"}
    where = {"command": "null-log"}
    definition = {"where": where, "compare": compare, "expect": {"over": "median"}}
    found = [{**results.findings[0], "id": "x", "why": ""}]
    (view,) = finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert view.note == f"null-log: {LESS_WORK}"
    (card_view,) = page_of(replace(changed, findings=[]))["cards"]
    assert all(row.note.endswith(LESS_WORK) for row in card_view.rows)


def test_comparison_that_was_published_as_slower_is_in_the_table_of_reversals(results):
    slower = {"value": -50.0, "ratio": 0.5, "low": None, "high": None}
    published = [row | slower for row in results.tables["f6-vs-f7"][:2]]
    changed = replace(results, published={**results.published, "f6-vs-f7": published})
    sections = table_sections(changed)
    table = reversed_table(replace(changed, definitions={}), sections)
    found = [row[1:3] for row in table.rows if "f7 against f6" in row[0]]
    assert found == [["2.0x slower", "2.0x faster"]] * 2
    without = replace(results, published={})
    assert reversed_table(without, table_sections(without)) is None
