"""The index: a line for each report in a folder, from what the reports say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from vcsbench import words
from vcsbench.report.rendering import ASSETS, render

# A page's facts stand at its beginning, before its style.
HEAD_CHARACTERS = 16384
PREFIX = "vcsbench:"
TEXTS = ("study", "title", "date", "host")
NUMBERS = ("cells", "measured", "skipped", "failures")


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
        self.facts = dict.fromkeys(TEXTS, "")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.facts[name.removeprefix(PREFIX)] = given.get("content") or ""


def build_index(entries: Iterable[Entry], assets: Path = ASSETS) -> str:
    """The index page as text, with the entries in their order."""
    return render("index.html.jinja", {"entries": list(entries)}, assets)
