"""The words of the tables, explained where they are first met: in the heading, and in a list below the first
table that has them, for those who do not point at it or read on paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from vcsbench.config.glossary import Glossary
from vcsbench.report.grids import Grid
from vcsbench.report.sections import TableSection


class FirstMet:
    """Remembers which values of axes, and which axes, the tables of a page have had; asked in their order."""

    def __init__(self, glossary: Glossary) -> None:
        self.glossary = glossary
        self.listed: set[str] = set()
        self.marked: set[str] = set()

    def words(self, section: TableSection) -> list[tuple[str, str]]:
        """What a table has that none before it had: each word with its meaning."""
        found: dict[str, str] = {}
        for axis, value in _values_of(section):
            found.setdefault(axis, self.glossary.others.get(axis, ""))
            found[value] = self.glossary.of(axis, value) or found.get(value, "")
        new = [(w, said) for w, said in found.items() if said and w not in self.listed]
        self.listed.update(word for word, _ in new)
        return new

    def marked_up(self, axis: str, text: str) -> Any:
        """A heading, with its meaning in a title where it is the first of them."""
        from markupsafe import Markup

        said = self.glossary.of(axis, text)
        if not said or text in self.marked:
            return text
        self.marked.add(text)
        plain = escape(said.replace("`", ""))
        return Markup(f'<abbr title="{plain}">{escape(text)}</abbr>')


def _values_of(section: TableSection) -> Iterator[tuple[str, str]]:
    """The axes of the grids side by side with the values that stand in them, in the order of reading."""
    for pair in section.pairs:
        for grid in filter(None, (pair.measured, pair.published)):
            yield from _values_in(grid)
    if section.compared:
        yield section.compared, section.baseline


def _values_in(grid: Grid) -> Iterator[tuple[str, str]]:
    yield from ((axis, value) for axis, value in grid.of.items() if axis != "candidate")
    yield from grid.constant
    for level in grid.headings:
        yield from ((heading.axis, heading.text) for heading in level)
    for group in grid.groups:
        yield group.axis, group.title
        yield from ((label.axis, label.text) for row in group.rows for label in row.labels)
