"""The index: a line for each report in a folder, from what the reports say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from vcsbench import words
from vcsbench.report.rendering import ASSETS, render

# A page's facts stand at its beginning, before its style.
HEAD_CHARACTERS = 16384
PREFIX = "vcsbench:"


@dataclass(frozen=True)
class Entry:
    """One report: its file's name and what its head says (see page.facts); `when` is "" if nothing
    has been measured."""

    file: str
    study: str
    title: str
    date: str
    host: str
    cells: int
    measured: int
    skipped: int
    failures: int

    @property
    def when(self) -> str:
        """The day of the last measurement."""
        time = words.moment(self.date)
        return words.day(time) if time else ""


def read_entries(folder: Path) -> list[Entry]:
    """The reports among the folder's HTML files, the latest first; other pages are left out."""
    paths = sorted(path for path in folder.glob("*.html") if path.name != "index.html")
    entries = [entry for path in paths if (entry := read_entry(path))]
    return sorted(entries, key=lambda entry: entry.date, reverse=True)


def read_entry(path: Path) -> Entry | None:
    """What a page says of itself, or None where it is no report."""
    with path.open(encoding="utf-8", errors="replace") as file:
        reader = _Facts()
        reader.feed(file.read(HEAD_CHARACTERS))
    facts = reader.facts
    numbers = ("cells", "measured", "skipped", "failures")
    if not all(facts.get(name, "").isdigit() for name in numbers):
        return None
    return Entry(
        file=path.name,
        study=facts.get("study", ""),
        title=facts.get("title", ""),
        date=facts.get("date", ""),
        host=facts.get("host", ""),
        cells=int(facts["cells"]),
        measured=int(facts["measured"]),
        skipped=int(facts["skipped"]),
        failures=int(facts["failures"]),
    )


class _Facts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.facts[name.removeprefix(PREFIX)] = given.get("content") or ""


def build_index(entries: Iterable[Entry], assets: Path = ASSETS) -> str:
    """The index page as text, with the entries in their order."""
    return render("index.html.jinja", {"entries": list(entries)}, assets)
