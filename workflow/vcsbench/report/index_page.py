"""The index of the pages in a folder, from the facts in the head of each page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from vcsbench.advice.decision import Row
from vcsbench.external import open_regular
from vcsbench.report.findings_section import FindingFacts
from vcsbench.report.rendering import render

INDEX_FILE = "index.html"
# The facts are before the style sheet, so no page is read to its end.
HEAD_CHARACTERS = 65536
FACTS_PATTERN = re.compile(r'<meta name="vcsbench:facts" content="([^"]*)">')


@dataclass(frozen=True)
class PageFacts:
    """The facts in the head of a page: texts, numbers, and findings.

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
# By the name of a page's file. The value is None if another version of vcsbench wrote the facts.
Entries = dict[str, PageFacts | None]


@dataclass(frozen=True)
class StudyView:
    """A study in the index: the file of its newest page, "" without one, and its published findings."""

    name: str
    title: str
    file: str
    findings: list[FindingFacts]


def read_entries(folder: Path) -> Entries:
    """Return the facts in the head of each page by the name of its file, the last measured page first.

    A page is the report of a study as an HTML file. Example: `{"builds.html": PageFacts(...)}` for a `folder`
    with one page, {} for an empty one. The facts are None if another version of vcsbench wrote them. A file
    without facts is no page of vcsbench, so it is left out.
    """
    entries: Entries = {}
    for path in sorted(folder.glob("*.html")):
        if path.name == INDEX_FILE:
            continue
        # open_regular() returns a descriptor. It raises UserError for a pipe, at which a read would wait.
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            match = FACTS_PATTERN.search(file.read(HEAD_CHARACTERS))
        if not match:
            continue
        # The facts are JSON in an HTML attribute. Another version may lack a field (ValidationError).
        try:
            entries[path.name] = PAGE_FACTS.validate_json(unescape(match[1]))
        except ValidationError:
            entries[path.name] = None
    # Dates such as 2026-11-21T14:05Z sort as texts. The order is reversed, so pages without a date ("") or
    # with unknown facts (None) are last.
    dates = {name: facts.date if facts else "" for name, facts in entries.items()}
    newest_first = sorted(entries, key=lambda name: dates[name], reverse=True)
    return {name: entries[name] for name in newest_first}


def build_index(entries: Entries, studies: Iterable[tuple[str, str, Sequence[Row]]] = ()) -> str:
    """Return the HTML of the index: a list of the pages, and the published findings of each study.

    A page is the report of a study. `entries` has the facts of each page by its file, the newest page first.
    They are None for a page of another version of vcsbench. `studies` has the name and the title of each
    study, and its findings (published statements): `{"id": "hot-log", "statement": "...", ...}`. Each finding
    has the verdict of the newest page of its study. It is `not measured` without a page, or a verdict there.
    """
    # By study: the file and the facts of its newest page, the first one with known facts.
    newest: dict[str, tuple[str, PageFacts]] = {}
    for file, facts in entries.items():
        if facts and facts.study not in newest:
            newest[facts.study] = (file, facts)
    views = []
    for name, title, definitions in studies:
        # A study without a page has no file, and no measured findings.
        newest_file = ""
        finding_by_id: dict[str, FindingFacts] = {}
        if name in newest:
            newest_file, newest_facts = newest[name]
            finding_by_id = {finding.id: finding for finding in newest_facts.findings}
        findings = []
        for definition in definitions:
            # For a finding without a verdict: by default, FindingFacts has `not measured`.
            not_measured = FindingFacts(definition["id"], definition["statement"])
            findings.append(finding_by_id.get(definition["id"], not_measured))
        views.append(StudyView(name, title, newest_file, findings))
    return render("index.html.jinja", {"entries": entries, "studies": views})
