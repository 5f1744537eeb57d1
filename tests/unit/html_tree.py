"""An HTML page as a tree of elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(["col", "meta", "link", "br", "hr", "img", "input", "path", "use"])


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the whole text with single spaces."""
        parts = [c if isinstance(c, str) else c.text for c in self.children]
        return " ".join("".join(parts).split())

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    def __iter__(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements with a tag, and with all attributes and the class `class_`, if given."""
        style = attributes.pop("class_", None)
        return [
            element
            for element in self
            if element.tag == tag
            and (style is None or style in element.classes)
            and all(element.attributes.get(name) == value for name, value in attributes.items())
        ]

    def by_id(self, name: str) -> Element:
        return next(element for element in self if element.attributes.get("id") == name)


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Element:
    """Return the tree of a page. The page must close each element that it opens."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert len(builder.open) == 1, f"<{builder.open[-1].tag}> is never closed"
    return builder.root


def grids(tree: Element, table: str, kind: str) -> list[Element]:
    """Return the grids of a table; `kind` is Measured or Published."""
    shown = tree.by_id(f"table-{table}").all("figure", class_="grid")
    return [f.all("table")[0] for f in shown if f.all("b")[0].text == kind]


def rows(grid: Element) -> dict[str, list[Element]]:
    """Return the cells of a grid by row: `http nopack f6`."""
    cells = {}
    for body in grid.all("tbody"):
        group = next((th.text for th in body.all("th", scope="rowgroup")), "")
        for row in body.all("tr"):
            if head := row.all("th", scope="row"):
                cells[f"{group} {head[0].text}".strip()] = row.all("td")
    return cells
