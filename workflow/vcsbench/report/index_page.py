"""The index of the pages in a folder, from the facts in the record of each page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vcsbench.advice.decision import Row
from vcsbench.external import open_regular
from vcsbench.report.findings_section import FindingFacts
from vcsbench.report.rendering import render

INDEX_FILE = "index.html"


@dataclass(frozen=True)
class PageFacts:
    """The facts about a page: texts, numbers, and findings.

    `date` is the time of the last measurement, `2026-11-21T14:05Z`, "" if unknown. `cells` is the number of
    cells of the study, `measured` and `skipped` how many of them have runs or cannot be measured. `failures`
    is the number of cell-rounds that failed.
    """

    study: str
    title: str
    date: str
    host: str
    cells: int
    measured: int
    skipped: int
    failures: int
    findings: list[FindingFacts]


PAGE_FACTS = TypeAdapter(PageFacts)
# By the name of a page's file. The value is None without facts that this version can read.
Entries = dict[str, PageFacts | None]


@dataclass(frozen=True)
class StudyView:
    """A study in the index: the file of its newest page, "" without one, and its published findings."""

    name: str
    title: str
    file: str
    findings: list[FindingFacts]


def make_record(params: Mapping[str, Any], facts: PageFacts) -> dict[str, Any]:
    """Return the record of a page, the content of results/page/<study>.json.

    `params` are the arguments of read_results() with which the page was made.
    """
    return {"params": params, "facts": PAGE_FACTS.dump_python(facts, mode="json")}


def read_entries(folder: Path, records: Path) -> Entries:
    """Return the facts about each page by the name of its file, the last measured page first.

    `records` is the folder with the record of each page (make_record). The facts are None without a record,
    or if another version of vcsbench wrote the record.
    """
    entries: Entries = {}
    for path in sorted(folder.glob("*.html")):
        if path.name != INDEX_FILE:
            entries[path.name] = _read_facts(records / f"{path.stem}.json")
    # Dates such as 2026-11-21T14:05Z sort as texts. The order is reversed, so pages without a date ("") or
    # with unknown facts (None) are last.
    dates = {name: facts.date if facts else "" for name, facts in entries.items()}
    newest_first = sorted(entries, key=lambda name: dates[name], reverse=True)
    return {name: entries[name] for name in newest_first}


def _read_facts(record: Path) -> PageFacts | None:
    try:
        # A read of a pipe would wait. open_regular() raises UserError for a pipe.
        with open(open_regular(record), encoding="utf-8") as file:
            return PAGE_FACTS.validate_python(json.load(file)["facts"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError, ValidationError):
        # The record is missing, damaged, or of another version, which may lack some facts.
        return None


def build_index(entries: Entries, studies: Iterable[tuple[str, str, Sequence[Row]]] = ()) -> str:
    """Return the HTML of the index: a list of the pages, and the published findings of each study.

    `entries` has the newest page first (read_entries). `studies` has the name and the title of each study,
    and its findings: `{"id": "hot-log", "statement": "...", ...}`. Each finding has the verdict of the newest
    page of its study. It is `not measured` without a page, or a verdict there.
    """
    newest: dict[str, tuple[str, PageFacts]] = {}
    for file, facts in entries.items():
        if facts and facts.study not in newest:
            newest[facts.study] = (file, facts)
    views = []
    for name, title, definitions in studies:
        newest_file = ""
        finding_by_id: dict[str, FindingFacts] = {}
        if name in newest:
            newest_file, newest_facts = newest[name]
            finding_by_id = {finding.id: finding for finding in newest_facts.findings}
        findings = []
        for definition in definitions:
            # The default verdict of FindingFacts is `not measured`.
            not_measured = FindingFacts(definition["id"], definition["statement"])
            findings.append(finding_by_id.get(definition["id"], not_measured))
        views.append(StudyView(name, title, newest_file, findings))
    return render("index.html.jinja", {"entries": entries, "studies": views})
