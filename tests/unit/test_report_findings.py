"""The section of a page on findings: verdicts, pictures, reasons and the commands that test them."""

import json
import re
import shlex
import subprocess
from dataclasses import replace

import pytest
import yaml

from unit.report_files import results_of
from vcsbench.config.validation import read_yaml
from vcsbench.report.finding_steps import NO_REASON, Step, share_commands
from vcsbench.report.findings_section import (
    MEANINGS,
    finding_views,
    summary_of,
)
from vcsbench.report.quality_section import APART_NOTE
from vcsbench.report.table_sections import table_sections


@pytest.fixture(scope="module")
def results(whole_study):
    return results_of(whole_study)


NAME = "hot-log-packing-penalty"
LARGER = "make x && make report STUDY=fsfs-san-2014 ARGS='--configfile larger.yaml'"
BUILDS = "make y && make report STUDY=builds ARGS='--configfile old.yaml'"
WHY = (
    f"reversed: packed; smaller scale: 0.1 (to test: `{LARGER}`); "
    f"newer Subversion: 1 (to test: install it, `{BUILDS}`)"
)
REVERSED = {"published": 0.5, "measured": 2.0, "low": 1.8, "high": 2.2, "verdict": "differs"}


def views_of(results, why=WHY, sections=(), **changes):
    change = {**REVERSED, "why": why, **changes}
    rows = [{**row, **(change if row["id"] == NAME else {})} for row in results.findings]
    return finding_views(results, rows, results.definitions, sections)


def view_of(views):
    return next(view for view in views if view.id == NAME)


def test_findings_have_pictures_units_and_reversed_ones_come_first(results):
    views = views_of(results)
    assert (views[0].id, views[0].verdict) == (NAME, "reversed")
    assert re.findall(r"[\d.]+x", views[0].news) == ["2.0x", "2.0x"]
    values = (views[0].expected, views[0].published, views[0].measured, views[0].interval)
    assert values == ("0.50x to 0.90x", "0.50x", "2.00x", "1.80x to 2.20x")
    text = views[0].ratio
    assert re.search("not packed ÷ .*: above 1x, packed is faster .here packed 2.0x faster", text)
    level = next(view for view in views if view.id == "hot-fast-log-client-bound")
    assert (level.expected, level.ratio) == ("at least 80.0%", "Client CPU")
    assert all("<svg" in view.picture for view in views if view.measured)
    assert [view.rank for view in views] == sorted(view.rank for view in views)
    view = view_of(views_of(results, "newer Subversion: 1"))
    assert [step.command for step in view.steps] == [""] and "; " in view.steps[0].text
    assert (view.verdict, view.news) == ("differs", "")


def test_pictures_of_findings_have_numbers_on_their_axis(results):
    picture = view_of(views_of(results)).picture
    assert re.findall(r">([\d.]+x)<", picture) == ["0.5x", "0.7x", "1x", "1.5x", "2x"]


@pytest.mark.parametrize(
    ("expect", "expected"), [({"at_least": 0}, "at least 0x"), ({"at_most": 0}, "at most 0x")]
)
def test_expected_range_that_ends_at_zero_is_in_words(results, expect, expected):
    row = next(row for row in results.findings if row["id"] == NAME)
    definitions = {NAME: {**results.definitions[NAME], "expect": expect}}
    (view,) = finding_views(results, [row], definitions, [])
    assert view.expected == expected


def test_reasons_of_a_finding_have_commands_with_the_arguments_of_the_run(results):
    timed = replace(results, account={"taken_s": 900.0})
    scale, version = view_of(views_of(timed)).steps
    assert (scale.label, scale.before, scale.command) == ("smaller scale", "", LARGER)
    assert scale.text.startswith("0.1; ") and scale.text.endswith("60 min")
    assert (version.label, version.before, version.command) == (
        *("newer Subversion", "install it", BUILDS),
    )
    assert version.text.startswith("1; ")
    given = replace(results, provenance={"command": "vcsbench run --configfile 'my b.yaml'"})
    for (_, _, _, command), file in zip(
        view_of(views_of(given)).steps, ("larger.yaml", "old.yaml"), strict=True
    ):
        words = shlex.split(command)
        assert words[-1] == f"ARGS=--configfile 'my b.yaml' --configfile {file}"
    few = views_of(given, "too few rounds: 4 measured, `rounds: 5` allows a verdict", verdict="")
    (step,) = view_of(few).steps
    assert re.findall(r"\d", step.text) == ["4", "5"]
    assert shlex.split(step.command)[-1].endswith("--config rounds=5")


# The seconds of (elapsed, client, server) are of not packed and of packed.
@pytest.mark.parametrize(
    ("access", "nopack", "pack", "expected"),
    [
        ("", (0.7, 0.1, 0.5), (0.3, 0.1, 0.1), ["server", "0.50 s", "0.10 s", "6 pairs"]),
        # Access by file has no server.
        ("file", (0.7, 0.1, 0.5), (0.3, 0.1, 0.1), ["server", "0.50 s", "0.10 s", "4 of 6 pairs"]),
        ("", (0.7, 0.4, 0.1), (0.3, 0.1, 0.1), ["client", "0.40 s", "0.10 s", "6 pairs"]),
        # The part that differs most is larger on the faster side.
        ("", (0.70, 0.40, 0.29), (0.68, 0.35, 0.26), ["client", "0.40 s", "0.35 s", "6 pairs"]),
        ("", (0.70, 0.02, 0.66), (0.66, 0.32, 0.30), ["server", "0.66 s", "0.30 s", "6 pairs"]),
        ("", (0.60, 0.1, 0.1), (0.70, 0.1, 0.5), []),
        # No part has half of the difference.
        ("", (0.90, 0.3, 0.3), (0.60, 0.2, 0.2), []),
        # The client computes while the server does, so waiting is unknown.
        ("", (0.7, 0.4, 0.4), (0.3, 0.4, 0.4), []),
    ],
)
def test_finding_that_differs_names_the_part_with_most_of_the_difference(
    results, access, nopack, pack, expected
):
    times = {"nopack": nopack, "pack": pack}
    runs = [
        {**run, "elapsed_s": elapsed, "user_s": client, "system_s": 0.0, "server_cpu_s": of}
        for run in results.measurements
        for elapsed, client, server in [times[run["packing"]]]
        for of in [None if run["ra"] == access else server]
    ]
    changed = replace(results, measurements=runs)
    notes = view_of(views_of(changed, sections=table_sections(changed, {}))).notes
    assert len(notes) == bool(expected)
    assert re.findall(r"client|server|[\d.]+ s|(?:\d of )?\d pairs", "".join(notes)) == expected


@pytest.mark.parametrize("value", ["medium", "fast"])
def test_finding_without_cells_has_the_command_that_adds_them(results, value, tmp_path):
    study = results.study.name
    include = [{"command": "log", "config": "slow"}]
    made = {"command": "vcsbench run", "config": {"grid": {study: {"include": include}}}}
    changed = replace(results, provenance=made)
    definition = {**results.definitions[NAME], "where": {"command": "log", "config": [value]}}
    row = {**results.findings[0], "id": NAME, "verdict": "", "why": "not in the grid: x"}
    (view,) = finding_views(changed, [row], {NAME: definition}, [])
    (step,) = view.steps
    label = {"medium": "256 MB cache", "fast": "tuned settings"}[value]
    assert step.text.startswith(f"log, {label}, not packed or packed")
    assert ("left out" in step.text) == (step.command != "")
    if value not in results.order["config"]:
        assert step.command == ""
        return
    make, _, run = step.command.partition(" && ")
    subprocess.run(["sh", "-c", make], cwd=tmp_path, check=True)
    part = {"command": ["log"], "config": [value], "packing": ["nopack", "pack"]}
    assert read_yaml(tmp_path / "more.yaml") == {"grid": {study: {"include": [*include, part]}}}
    assert shlex.split(run) == ["make", "report", f"STUDY={study}", "ARGS=--configfile more.yaml"]


def test_findings_that_lack_cells_share_a_command_that_adds_all_of_them(results):
    study, values = results.study.name, ("slow", "fast")
    blocks = [{"rounds": 2}]
    changed = replace(
        results,
        provenance={"config": {"grid": {study: {"include": []}}}},
        account={"spent_s": {"measuring": 5000.0, "waiting": 1.0}, "blocks": blocks},
        grid=[cell for cell in results.grid if cell["command"] != "log"],
    )
    definition = results.definitions[NAME]
    definitions = {
        value: {**definition, "where": {"command": "log", "config": value}} for value in values
    }
    row = {**results.findings[0], "verdict": "", "why": "not in the grid: x"}
    views = finding_views(changed, [{**row, "id": value} for value in values], definitions, [])
    steps, (shared,) = share_commands([view.steps for view in views])
    assert [step.command for of in steps for step in of] == ["", ""]
    content = json.loads(shlex.split(shared.command)[2])["grid"][study]["include"]
    assert [part["config"] for part in content] == [["slow"], ["fast"]]
    assert shared.text.startswith("2 findings; ") and " up to " in shared.text
    alone, none = share_commands([views[0].steps])
    assert (alone, none) == ([[*views[0].steps]], [])


def older(cells):
    content = (
        f"{{builds: {{old: {{prefix: /x}}, new: {{}}}}, grid: {{builds: {{include: [{cells}]}}}}}}"
    )
    return Step(
        "newer Subversion", "1; support", "install it", f"echo '{content}' >old.yaml && run"
    )


def rounds(number):
    return Step(
        "more rounds", f"{number} in all", "", f"make report ARGS='--config rounds={number}'"
    )


def test_findings_share_one_command_with_the_cells_or_the_rounds_of_all():
    log, export = "{command: [log], ra: [svn]}", "{command: [export], ra: [http]}"
    findings = [[older(log), rounds(7)], [older(export)], [older(log), rounds(60)], [rounds(15)]]
    steps, (version, more) = share_commands(findings)
    assert not any(step.command for of in steps for step in of)
    assert [step.text for step in steps[0]] == ["1 (command above)", "7 in all (command above)"]
    content, file = shlex.split(version.command)[1:3]
    assert yaml.safe_load(content)["grid"]["builds"]["include"] == [
        {"command": ["log"], "ra": ["svn"]},
        {"command": ["export"], "ra": ["http"]},
    ]
    assert (file, version.before) == (">old.yaml", "install it")
    assert version.text == "3 findings; support" and more.text.startswith("3 findings; ")
    assert more.command == rounds(7).command


def test_reasons_with_the_same_command_share_it():
    scale, cost = (Step(label, "x", "", LARGER) for label in ("smaller scale", "mostly fixed cost"))
    _, (shared,) = share_commands([[scale], [cost]])
    assert shared == Step("smaller scale and mostly fixed cost", "2 findings", "", LARGER)


def test_bound_of_a_statement_without_a_number_is_ours(results):
    ours = {view.id: view.is_ours for view in views_of(results)}
    assert ours["cache-size-no-help-cold"] and not ours["cold-log-packing-f6"]


def test_summary_has_the_number_and_the_reasons_of_each_verdict(results):
    views = views_of(results)
    lines = {line.verdict: line for line in summary_of(views)}
    assert sum(line.number for line in lines.values()) == len(views)
    assert list(lines) == [verdict for verdict in MEANINGS if verdict in lines]
    assert re.findall(r"\w+ \w+ \(\d\)", lines["reversed"].why) == [
        "smaller scale (1)", "newer Subversion (1)",
    ]  # fmt: skip
    assert lines["not measured"].why.endswith(f" ({lines['not measured'].number})")


@pytest.mark.parametrize("verdict", ["reversed", "differs"])
def test_finding_that_differs_without_a_known_reason_reports_that(results, verdict):
    why = "reversed: packed" if verdict == "reversed" else ""
    view = view_of(views_of(results, why))
    assert (view.verdict, [step.label for step in view.steps]) == (verdict, [NO_REASON])
    (line,) = summary_of([view])
    assert line.why == f"{NO_REASON} (1)"


@pytest.mark.parametrize(
    ("sides", "text"),
    [
        (("f6", "f7"), ", mixed: 1 slower, 5 faster"),
        # The table has the sides exchanged.
        (("f7", "f6"), "pairs 0.50x to 1.25x, mixed: 1 faster, 5 slower"),
    ],
)
def test_median_of_pairs_that_disagree_is_mixed_and_has_their_range(results, sides, text):
    where = {"command": "log", "cache": "cold"}
    change = {"ratio": 0.8, "call": "slower"}
    first = next(r for r in results.tables["f6-vs-f7"] if where.items() <= r.items())
    rows = [{**r, **change} if r is first else r for r in results.tables["f6-vs-f7"]]
    sections = table_sections(replace(results, tables={**results.tables, "f6-vs-f7": rows}), {})
    compare = dict(zip(("axis", "baseline", "candidate"), ("format", *sides), strict=True))
    definition = {"where": where, "compare": compare, "expect": {"over": "median"}}
    found = [{**results.findings[0], "id": "x", "why": ""}]
    (view,) = finding_views(results, found, {"x": definition}, sections)
    assert text in view.of
    least = {"x": {**definition, "expect": {"over": "min"}}}
    (view,) = finding_views(results, found, least, sections)
    assert "mixed" not in view.of


@pytest.mark.parametrize(
    ("cache", "apart", "is_noted"),
    [
        ("cold", {"pack": 9}, True),
        ("cold", {"pack": 1}, False),
        ("cold", {"pack": 9, "nopack": 9}, False),
        # Reads from memory do not depend on the position.
        ("hot-os", {"pack": 9}, False),
    ],
)
def test_finding_has_a_note_if_the_copies_of_one_side_lie_apart(results, cache, apart, is_noted):
    runs = [
        {**r, "flags": "apart" if int(r["round"]) <= apart.get(r["packing"], 0) else ""}
        for r in results.measurements
    ]
    changed = replace(results, measurements=runs)
    compare = {"axis": "packing", "baseline": "nopack", "candidate": "pack"}
    where = {"command": "log", "cache": cache}
    definition = {"where": where, "compare": compare, "expect": {"over": "median"}}
    found = [{**results.findings[0], "id": "x", "why": "", "verdict": "reproduced"}]
    (view,) = finding_views(changed, found, {"x": definition}, table_sections(changed, {}))
    assert view.of
    assert (APART_NOTE in view.notes) == is_noted
