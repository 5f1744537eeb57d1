"""The index of the pages in a folder."""

import json
import re
from dataclasses import replace

import pytest

from unit.html_tree import parse
from unit.report_files import default_study, order_of
from vcsbench.records import complete_context
from vcsbench.report.index_page import build_index, make_record, read_entries
from vcsbench.report.page import describe_page
from vcsbench.report.results import Results

STUDY = default_study()
VERDICTS = {"one": "reproduced", "two": "weaker", "three": "weaker"}


def reported(day, study=STUDY, verdicts=()):
    """Return results of a cell with a run, a failed round, and findings of the given verdicts by id."""
    cell = {"cell": "log/svn", **dict.fromkeys(study.axes, ""), "command": "log", "skip": ""}
    row = {"statement": "It is fast.", "published": 3, "measured": 2.5, "low": 2.1, "high": 2.9}
    row |= {"published_low": 2.5, "published_high": 3.5}
    row |= {"over": "least of 8 cells", "reasons": []}
    start = f"2026-11-{day:02}T07:00:00Z"
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7"}
    return Results(
        study=study,
        order=order_of(study, {}),
        grid=[cell, {**cell, "cell": "log/http", "skip": "no httpd"}],
        measurements=[{"cell": "log/svn", "round": 1.0, "elapsed_s": None, "flags": ""}],
        failures=[{"cell": "log/svn", "round": 2.0, "reason": "it broke"}],
        findings=[{**row, "id": name, "verdict": verdicts[name]} for name in verdicts],
        definitions={name: {"compare": compare, "expect": {"at_least": 2}} for name in verdicts},
        contexts=[complete_context({"host": {"name": "<b>here"}, "started_at": start})],
    )


def write(folder, name, results):
    """Write a page, whose content the index does not read, and its record."""
    (folder / "page").mkdir(exist_ok=True)
    (folder / f"{name}.html").write_text("<html></html>")
    record = make_record({"baselines": []}, describe_page(results).facts)
    (folder / "page" / f"{name}.json").write_text(json.dumps(record))


def entries_of(folder):
    return read_entries(folder, folder / "page")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with three pages, an HTML file without a record, and an older index."""
    folder = tmp_path_factory.mktemp("reports")
    pages = {
        "a": reported(20, verdicts=VERDICTS),
        "b": reported(21, default_study("fsfs-ssd-2014")),
        "c": Results(STUDY, order_of(STUDY, {})),
    }
    for name, results in pages.items():
        write(folder, name, results)
    (folder / "notes.html").write_text("<html><head><title>no report</title></head></html>")
    (folder / "index.html").write_text("an older index")
    return folder


def test_read_entries_has_the_pages_of_a_folder_newest_first(folder):
    dates = [(file, facts and facts.date) for file, facts in entries_of(folder).items()]
    assert dates == [
        ("b.html", "2026-11-21T07:00Z"),
        ("a.html", "2026-11-20T07:00Z"),
        ("c.html", ""),
        ("notes.html", None),
    ]


@pytest.mark.parametrize(
    "change",
    [{"findings": 3}, {"findings": [3]}, {"findings": [{}]}, {"cells": "x"}, "{}", "{", "[" * 5000],
)
def test_page_with_facts_of_another_form_is_listed_without_them(folder, tmp_path, change):
    content = change
    if isinstance(change, dict):
        record = json.loads((folder / "page" / "a.json").read_text())
        content = json.dumps({**record, "facts": {**record["facts"], **change}})
    (tmp_path / "other.html").write_text("<html></html>")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "other.json").write_text(content)
    entries = entries_of(tmp_path)
    assert entries == {"other.html": None}
    links = [link.attributes["href"] for link in parse(build_index(entries)).all("a")]
    assert links == ["other.html"]


def test_index_counts_findings_with_a_direction_only_apart(tmp_path):
    results = reported(20, verdicts={"one": "reproduced", "two": "reproduced"})
    direction = {"expect": {"direction": "faster"}}
    definitions = {**results.definitions, "two": {**results.definitions["two"], **direction}}
    write(tmp_path, "a", replace(results, definitions=definitions))
    known = [{"id": name, "statement": f"{name}."} for name in ("one", "two")]
    tree = parse(build_index(entries_of(tmp_path), [(STUDY.name, "Formats", known)]))
    counts = "1 reproduced, 1 reproduced in direction only"
    # At the head, in the row of the report, and above the findings of the study.
    assert tree.text.count(counts) == 3
    one, two = tree.all("tbody")[1].all("tr")
    assert (one.all("td")[0].text, two.all("td")[0].text) == (
        "reproduced",
        "reproducedin direction",
    )


def test_page_of_an_earlier_version_has_no_findings_with_a_direction_only(folder, tmp_path):
    record = json.loads((folder / "page" / "a.json").read_text())
    for finding in record["facts"]["findings"]:
        assert finding.pop("is_in_direction") is False
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "a.json").write_text(json.dumps(record))
    (tmp_path / "a.html").write_text("<html></html>")
    (entry,) = entries_of(tmp_path).values()
    assert [finding.is_in_direction for finding in entry.findings] == [False] * 3


def test_index_lists_reports_and_the_verdicts_of_all_studies(folder):
    known = [{"id": name, "statement": f"{name}."} for name in (*VERDICTS, "four")]
    other = ("never-2001", "Never", [{"id": "x", "statement": "It was not."}])
    tree = parse(build_index(entries_of(folder), [(STUDY.name, "Formats", known), other]))
    cells = [cell.text for cell in tree.all("tbody")[0].all("tr")[1].all("td")]
    assert (cells[1], cells[2], cells[-1]) == ("20 November 2026", "<b>here", "1")
    assert re.findall(r"\d+", " ".join(cells[3:-1])) == ["1", "2", "1", "21"]
    (total,) = re.findall(r"of 5 published[^.]*?measured", tree.text)
    assert re.findall(r"\d+", total) == ["5", "1", "2", "2"]
    links = [link.attributes["href"] for link in tree.all("a")]
    assert "a.html#finding-two" in links and "a.html#finding-four" not in links
    assert "make report STUDY=never-2001" in tree.text
    numbers = [cell.text for cell in tree.all("tbody")[1].all("tr")[0].all("td")[-3:]]
    assert numbers == ["at least 2x", "3.0x", "2.5x2.1x to 2.9x"]
