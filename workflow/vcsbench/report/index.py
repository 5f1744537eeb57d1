"""The index: what became of the findings of all studies, and a line for each report in a folder, from what
the reports say of themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import words
from vcsbench.report.rendering import ASSETS, render

# A page's facts stand at its beginning, before its style.
HEAD_CHARACTERS = 65536
PREFIX = "vcsbench:"
TEXTS = ("study", "title", "date", "host")
NUMBERS = ("cells", "measured", "skipped", "failures")
FINDINGS = "findings"
NOT_MEASURED, DIFFERS = "not measured", "differs"
# Of a finding that no report tells of.
UNTOLD = {
    **dict.fromkeys(("id", "expected", "published", "measured", "interval", "of"), ""),
    "verdict": NOT_MEASURED,
}
# In the order in which they are told.
VERDICTS = ("reproduced", DIFFERS, "inconclusive", NOT_MEASURED)


class Studied(NamedTuple):
    """A study with findings: its name, title, and the findings as their file has them."""

    name: str
    title: str
    findings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Became:
    """What became of a study's findings, by its report; `file` is that report's, "" where there is none."""

    study: Studied
    file: str
    findings: list[dict[str, str]]

    @property
    def counts(self) -> str:
        """Return how many findings have each verdict."""
        return counts_of(Counter(finding["verdict"] for finding in self.findings))


def counts_of(counts: Mapping[str, int]) -> str:
    """`3 reproduced, 2 differ`: verdicts in order, without those of which there is none."""
    plural = {**dict.fromkeys(VERDICTS), DIFFERS: "differ"}
    return ", ".join(
        f"{number} {verdict if number == 1 else plural[verdict] or verdict}"
        for verdict in VERDICTS
        if (number := counts.get(verdict, 0))
    )


@dataclass(frozen=True)
class Entry:
    """One report: its file's name and what its head says (see page.facts)."""

    file: str
    facts: Mapping[str, str]

    @property
    def when(self) -> str:
        """The day of the last measurement; "" if nothing has been measured."""
        time = words.moment(self.facts["date"])
        return words.day(time) if time else ""

    @property
    def verdicts(self) -> str:
        """How many findings there are of each verdict; "" without any."""
        return counts_of(Counter(one["verdict"] for one in json.loads(self.facts[FINDINGS])))


def read_entries(folder: Path) -> list[Entry]:
    """The reports among the folder's HTML files, the latest first; other pages are left out."""
    paths = sorted(path for path in folder.glob("*.html") if path.name != "index.html")
    entries = [entry for path in paths if (entry := read_entry(path))]
    return sorted(entries, key=lambda entry: entry.facts["date"], reverse=True)


def read_entry(path: Path) -> Entry | None:
    """What a page says of itself, or None where it is no report."""
    reader = _Facts()
    with path.open(encoding="utf-8", errors="replace") as file:
        reader.feed(file.read(HEAD_CHARACTERS))
    if not all(reader.facts.get(name, "").isdigit() for name in NUMBERS):
        return None
    return Entry(path.name, reader.facts)


class _Facts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts = {**dict.fromkeys(TEXTS, ""), FINDINGS: "[]"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.facts[name.removeprefix(PREFIX)] = given.get("content") or ""


def became(studies: Iterable[Studied], entries: Iterable[Entry]) -> list[Became]:
    """What became of the findings of each study, in their order: as its report says, or not measured."""
    by_study = {entry.facts["study"]: entry for entry in entries}
    found = []
    for study in studies:
        entry = by_study.get(study.name)
        known = {one["id"]: one for one in json.loads(entry.facts[FINDINGS])} if entry else {}
        findings = [
            {**UNTOLD, "statement": finding["statement"], **known.get(finding["id"], {})}
            for finding in study.findings
        ]
        found.append(Became(study, entry.file if entry else "", findings))
    return found


def build_index(
    entries: Iterable[Entry], studies: Iterable[Studied] = (), assets: Path = ASSETS
) -> str:
    """The index page as text: what became of the studies' findings, and the entries in their order."""
    entries = list(entries)
    told = became(studies, entries)
    counts = Counter(finding["verdict"] for one in told for finding in one.findings)
    model = {
        "entries": entries,
        "studies": told,
        "measured": sum(bool(one.file) for one in told),
        "all": sum(counts.values()),
        "counts": counts_of(counts),
    }
    return render("index.html.jinja", model, assets)
