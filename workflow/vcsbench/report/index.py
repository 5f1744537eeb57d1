"""The index of the pages in a folder, with the verdicts on the findings of all studies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.report.page import ASSETS, FINDING_KEYS, render
from vcsbench.report.results import unique
from vcsbench.statistics.contract import DIFFERS, INCONCLUSIVE, NOT_MEASURED, REPRODUCED

# The index reads this part of a page.
HEAD_CHARACTERS = 65536
PREFIX = "vcsbench:"
TEXTS = ("study", "title", "date", "host")
NUMBERS = ("cells", "measured", "skipped", "failures")
VERDICTS = (REPRODUCED, DIFFERS, INCONCLUSIVE, NOT_MEASURED)


class StudyFindings(NamedTuple):
    """A study with its name, title, and findings as their file has them."""

    name: str
    title: str
    findings: Sequence[Row]


@dataclass(frozen=True)
class StudyVerdicts:
    """The verdicts on a study's findings by its report; `file` is "" without a report."""

    study: StudyFindings
    file: str
    findings: Sequence[Row]

    @property
    def counts(self) -> str:
        """Return how many findings have each verdict."""
        return verdict_counts(self.findings)


def verdict_counts(findings: Iterable[Row]) -> str:
    """Return `3 reproduced, 2 differ`, in order, without verdicts that do not occur."""
    counts = Counter(finding["verdict"] for finding in findings)
    plural = {DIFFERS: "differ"}
    texts = [(counts[v], v if counts[v] == 1 else plural.get(v, v)) for v in [*VERDICTS, *counts]]
    return ", ".join(unique(f"{number} {verdict}" for number, verdict in texts if number))


@dataclass(frozen=True)
class Entry:
    """A report: the name of its file and the facts in its head."""

    file: str
    facts: Mapping[str, str]

    @property
    def when(self) -> str:
        """Return the day of the last measurement; "" if nothing was measured."""
        time = words.moment(self.facts["date"])
        return words.day(time) if time else ""

    @property
    def verdicts(self) -> str:
        """Return how many findings have each verdict."""
        return verdict_counts(json.loads(self.facts["findings"]))


class _HeadParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts = {**dict.fromkeys(TEXTS, ""), "findings": "[]"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.facts[name.removeprefix(PREFIX)] = given.get("content") or ""


def read_entries(folder: Path) -> list[Entry]:
    """Return the reports among the folder's HTML files, newest first."""
    entries = []
    for path in sorted(folder.glob("*.html")):
        parser = _HeadParser()
        with path.open(encoding="utf-8", errors="replace") as file:
            parser.feed(file.read(HEAD_CHARACTERS))
        is_report = all(parser.facts.get(name, "").isdigit() for name in NUMBERS)
        if is_report and path.name != "index.html":
            entries.append(Entry(path.name, parser.facts))
    return sorted(entries, key=lambda entry: entry.facts["date"], reverse=True)


def build_index(
    entries: Iterable[Entry], studies: Iterable[StudyFindings] = (), assets: Path = ASSETS
) -> str:
    """Return the index as text: the reports, and the verdicts on the findings of all studies."""
    entries = list(entries)
    by_study = {entry.facts["study"]: entry for entry in entries}
    verdicts = []
    for study in studies:
        entry = by_study.get(study.name)
        known = {row["id"]: row for row in json.loads(entry.facts["findings"])} if entry else {}
        unknown = {**dict.fromkeys(FINDING_KEYS, ""), "verdict": NOT_MEASURED}
        rows = [
            {**unknown, "statement": f["statement"], **known.get(f["id"], {})}
            for f in study.findings
        ]
        verdicts.append(StudyVerdicts(study, entry.file if entry else "", rows))
    findings = [finding for study_ in verdicts for finding in study_.findings]
    model = {
        "entries": entries,
        "studies": verdicts,
        "measured": sum(bool(study.file) for study in verdicts),
        "all": len(findings),
        "counts": verdict_counts(findings),
    }
    return render("index.html.jinja", model, assets)
