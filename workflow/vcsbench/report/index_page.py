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

INDEX = "index.html"
# The facts are before the style sheet, so no page is read to its end.
HEAD_CHARACTERS = 65536
FACTS = re.compile(r'<meta name="vcsbench:facts" content="([^"]*)">')


@dataclass(frozen=True)
class PageFacts:
    """The facts in the head of a page: texts, numbers of cells, and findings. `date` is "" if unknown."""

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


@dataclass(frozen=True)
class StudyView:
    """A study in the index: the file of its newest page, "" without one, and its published findings."""

    name: str
    title: str
    file: str
    findings: list[FindingFacts]


def read_entries(folder: Path) -> dict[str, PageFacts | None]:
    """Return the facts of each page in a folder by its file, the newest one first.

    They are None if another version wrote them in another form. A file without facts is no page.
    """
    entries: dict[str, PageFacts | None] = {}
    for path in sorted(folder.glob("*.html")):
        if path.name == INDEX:
            continue
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            match = FACTS.search(file.read(HEAD_CHARACTERS))
        if not match:
            continue
        try:
            entries[path.name] = PAGE_FACTS.validate_json(unescape(match[1]))
        except ValidationError:
            entries[path.name] = None

    def date(entry: tuple[str, PageFacts | None]) -> str:
        _, facts = entry
        return facts.date if facts else ""

    return dict(sorted(entries.items(), key=date, reverse=True))


def build_index(
    entries: dict[str, PageFacts | None], studies: Iterable[tuple[str, str, Sequence[Row]]] = ()
) -> str:
    """Return the index. `studies` are the name, the title and the findings of each study."""
    newest: dict[str, tuple[str, PageFacts]] = {}
    for file, facts in entries.items():
        if facts and facts.study not in newest:
            newest[facts.study] = (file, facts)
    views = []
    for name, title, definitions in studies:
        file = ""
        measured: dict[str, FindingFacts] = {}
        if name in newest:
            file, facts = newest[name]
            measured = {finding.id: finding for finding in facts.findings}
        findings = []
        for definition in definitions:
            # A finding that the page does not have is not measured yet.
            not_measured = FindingFacts(definition["id"], definition["statement"])
            findings.append(measured.get(definition["id"], not_measured))
        views.append(StudyView(name, title, file, findings))
    return render("index.html.jinja", {"entries": entries, "studies": views})
