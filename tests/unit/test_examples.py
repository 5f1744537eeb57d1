"""The examples at the head of a page: a server before and after changes."""

from dataclasses import replace

import pytest

from project import CONFIG
from unit.report_files import default_study, make_files, results_of
from vcsbench.config.study_reader import load_study
from vcsbench.errors import UserError
from vcsbench.metrics import metric_in
from vcsbench.report.examples import NOT_MEASURED, NOTE, OPEN_NOTE, make_examples
from vcsbench.report.page import build_page, describe_page
from vcsbench.report.results import Results

STUDY = default_study()
EXAMPLE = {
    "table": "elapsed",
    "where": {"access": "svn", "cache": "cold"},
    "columns": {"command": ["log", "export"]},
    "rows": {
        "As it is": {"where": {"packing": "nopack"}},
        "Packed": {"where": {"packing": "pack"}},
        "CPU": {"table": "client-cpu", "where": {"packing": "pack"}},
    },
}


def row(command, packing, value, **where):
    cell = {"command": command, "access": "svn", "cache": "cold", "packing": packing}
    return {**cell, **where, "value": value, "flags": "", "withheld": ""}


def results_with(*elapsed, cpu=(), **changes):
    study = STUDY.model_copy(update={"examples": {"A server": {**EXAMPLE, **changes}}})
    tables = {"elapsed": list(elapsed), "client-cpu": list(cpu)}
    return Results(study=study, order={}, tables=tables)


def test_example_has_the_number_of_each_cell_with_its_unit():
    rows = [row("log", "nopack", 1.571), row("log", "pack", 0.934), row("export", "pack", 12.34)]
    (table,) = make_examples(results_with(*rows, cpu=[row("log", "pack", 81.26)]))
    assert table.title == "A server" and table.heads == ["", "log", "export"]
    assert table.rows == [
        ["As it is", "1.57 s", NOT_MEASURED],
        ["Packed", "0.93 s (1.7x faster)", "12.3 s"],
        ["CPU", "81.3 %", NOT_MEASURED],
    ]


def test_example_has_no_number_where_several_cells_fit():
    rows = [row("log", "nopack", 1.0), row("log", "pack", 2.0), row("export", "nopack", 4.0)]
    rows += [row("log", "pack", 3.0, format="f7"), row("export", "pack", 5.0)]
    (table,) = make_examples(results_with(*rows))
    assert table.rows[1] == ["Packed", NOT_MEASURED, "5.00 s (1.2x slower)"]


@pytest.mark.parametrize(
    ("result", "is_marked"),
    [
        *(("undecided", True), ("bounded", True), ("too small", True), ("", True)),
        *(("equal", False), ("different", False)),
    ],
)
@pytest.mark.parametrize("sides", [("nopack", "pack"), ("pack", "nopack")])
def test_example_marks_a_difference_from_the_row_above_that_is_open(sides, result, is_marked):
    rows = [row("log", "nopack", 1.0), row("log", "pack", 0.98), row("export", "pack", 4.0)]
    results = results_with(*rows)
    compared = row("log", "", 2.0)
    del compared["packing"]
    baseline, candidate = sides
    compared |= {"baseline": baseline, "candidate": candidate, "ratio": 1.02, "result": result}
    # A comparison of another state of the caches is about other cells.
    warm = {**compared, "cache": "hot-os", "result": "undecided"}
    tables = {**results.tables, "nopack-vs-pack": [warm, compared]}
    (table,) = make_examples(replace(results, tables=tables))
    assert table.rows[1] == ["Packed", "0.98 s ~" if is_marked else "0.98 s", "4.00 s"]
    assert table.note == (f"{NOTE} {OPEN_NOTE}" if is_marked else NOTE)


def test_example_of_the_network_is_named_as_its_metric_which_counts_both_directions():
    study = default_study("git-server")
    rows = [item for example in study.examples.values() for item in example["rows"].items()]
    names = {name for name, of_row in rows if of_row.get("table") == "network-bytes"}
    assert names == {metric_in(study.tables["network-bytes"]).title}


@pytest.mark.parametrize("rows", [[], [row("log", "nopack", 1.0)], [row("log", "pack", None)]])
def test_example_with_fewer_than_two_rows_of_numbers_is_left_out(rows):
    assert make_examples(results_with(*rows)) == []


def test_page_shows_example_and_what_carries_over(tmp_path):
    results = results_of(make_files(tmp_path))
    example = {**EXAMPLE, "where": {**EXAMPLE["where"], "format": "f6", "config": "slow"}}
    changes = {"examples": {"A server": example}, "carries_over": ["Not the seconds."]}
    study = results.study.model_copy(update=changes)
    page = describe_page(replace(results, study=study))
    (table,) = page.answers.examples
    before, after = (float(row[1].split()[0]) for row in table.rows[:2])
    # A packed repository takes 0.8 of the time (synthetic.known_seconds).
    assert after / before == pytest.approx(0.8, rel=0.02)
    assert page.answers.carries_over == ["Not the seconds."]
    assert "Not the seconds." in build_page(replace(results, study=study))
    own = describe_page(replace(results, study=study, own_repository="/srv/svn/project"))
    assert own.answers.carries_over == () and own.answers.examples


def test_study_with_an_unknown_value_in_an_example_is_refused(tmp_path):
    text = (CONFIG / "studies" / "deployed-server.yaml").read_text()
    known = 'path_authz: short_circuit, bulk_updates: "off"}'
    path = tmp_path / "deployed.yaml"
    path.write_text(text.replace(known, "path_authz: nothing}"))
    with pytest.raises(UserError, match=r"examples.*path_authz.*nothing"):
        load_study(path)
