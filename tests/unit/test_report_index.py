"""The index lists the reports of a folder from what they say of themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unit.html_tree import parse
from unit.report_files import default_study, order_of
from vcsbench.report.index import Studied, build_index, read_entries
from vcsbench.report.page import build_page
from vcsbench.report.results import Results

FOUND = [
    {"id": "", "statement": "It is.", **dict.fromkeys(("published", "measured", "low", "high"))}
    | {"expected": "", "verdict": verdict, "reason": ""}
    for verdict in ("differs", "", "differs")
]


def results(day: int, failures: int = 0, name: str = "fsfs-san-2014") -> Results:
    axes = dict.fromkeys([*default_study(name).axes], "")
    cell = {"cell": "log/svn", **axes, "command": "log", "repo": "ruby", "skip": ""}
    run = {"cell": "log/svn", "round": 1.0, "elapsed_s": None, "flags": ""}
    study = default_study(name)
    return Results(
        study=study,
        order=order_of(study, {}),
        grid=[cell, {**cell, "cell": "log/http", "skip": "no httpd"}],
        measurements=[run],
        failures=[
            {"cell": "log/svn", "round": 2.0 + n, "reason": "it broke"} for n in range(failures)
        ],
        findings=FOUND,
        contexts=[{"host": {"name": "<b>here"}, "started_at": f"2026-11-{day:02}T07:00:00Z"}],
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fsfs-san-2014.html").write_text(build_page(results(20, failures=3)))
    (tmp_path / "fsfs-ssd-2014.html").write_text(build_page(results(21, name="fsfs-ssd-2014")))
    (tmp_path / "never.html").write_text(
        build_page(Results(default_study(), order_of(default_study(), {})))
    )
    (tmp_path / "notes.html").write_text("<html><head><title>no report</title></head></html>")
    (tmp_path / "index.html").write_text("an older index")
    return tmp_path


def test_reports_are_listed_the_latest_first(folder: Path) -> None:
    entries = read_entries(folder)
    assert [entry.file for entry in entries] == [
        "fsfs-ssd-2014.html",
        "fsfs-san-2014.html",
        "never.html",
    ]
    assert [entry.when for entry in entries] == ["21 November 2026", "20 November 2026", ""]


def test_each_line_has_title_date_host_verdicts_cells_and_failures(folder: Path) -> None:
    tree = parse(build_index(read_entries(folder)))
    line = tree.all("tbody")[0].all("tr")[1].all("td")
    assert line[0].all("a")[0].attributes["href"] == "fsfs-san-2014.html"
    assert line[0].all("a")[0].text == default_study().title
    assert [cell.text for cell in line[1:]] == [
        "20 November 2026",
        "<b>here",
        "2 differ, 1 not measured",
        "1 of 21 cannot be measured",
        "3",
    ]
    assert "bad" in line[5].classes
    assert "not yet" in tree.text


def test_empty_folder_has_an_index(tmp_path: Path) -> None:
    tree = parse(build_index(read_entries(tmp_path)))
    assert "There is no report yet." in tree.text


def test_it_opens_with_what_became_of_the_findings_of_all_studies(tmp_path: Path) -> None:
    row = {
        "statement": "It is fast.",
        "expected": ">= 2",
        "published": 3,
        "measured": 2.5,
        "low": 2.1,
    }
    row |= {"high": 2.9, "unit": "times", "over": "least of 8 cells", "why": ""}
    reported = replace(
        results(20),
        findings=[
            {**row, "id": "one", "verdict": "reproduced"},
            {**row, "id": "two", "verdict": "differs"},
            {**row, "id": "three", "verdict": "differs"},
        ],
    )
    (tmp_path / "fsfs-san-2014.html").write_text(build_page(reported))
    known = [{"id": name, "statement": f"{name}."} for name in ("one", "two", "three", "four")]
    other = Studied("never-2001", "Never", [{"id": "x", "statement": "It was never measured."}])
    studies = [Studied("fsfs-san-2014", "Formats", known), other]
    tree = parse(build_index(read_entries(tmp_path), studies))
    assert "of 5 published findings 1 reproduced, 2 differ, 2 not measured" in tree.text
    links = [link.attributes["href"] for link in tree.all("a")]
    assert "fsfs-san-2014.html#finding-two" in links
    assert "1 finding, not measured yet: make report STUDY=never-2001" in tree.text
    first = tree.all("tbody")[1]
    expected, published, measured = first.all("tr")[0].all("td")[-3:]
    assert (expected.text, published.text) == (">= 2", "3.00")
    assert measured.text.startswith("2.50") and measured.text.endswith("2.10 to 2.90")
