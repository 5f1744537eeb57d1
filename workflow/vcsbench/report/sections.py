"""The section of each table: its measured grids with the published ones beside them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vcsbench import words
from vcsbench.evidence.samework import by_reason
from vcsbench.metrics import metric_in
from vcsbench.report import colours
from vcsbench.report.grids import Grid, Point, layout_of, make_grids, matching, with_numbers
from vcsbench.report.points import measured_points, published_points
from vcsbench.report.readings import direction, reading, sides
from vcsbench.report.results import Results
from vcsbench.report.wanted import wanted_rows


@dataclass(frozen=True)
class Download:
    """A file of the study: where it lies beside the page, and the same inside of it."""

    label: str
    path: str
    data: str
    name: str


def download(label: str, path: str, kind: str, content: bytes, name: str) -> Download:
    """The file at a path below the results, of a MIME type, and its `content` under another name."""
    data = base64.b64encode(content).decode()
    return Download(label, f"../results/{path}", f"data:{kind};base64,{data}", name)


@dataclass(frozen=True)
class SideBySide:
    """A measured grid and the published one in the same layout; either may be missing."""

    title: str
    measured: Grid | None
    published: Grid | None


@dataclass(frozen=True)
class Legend:
    """What the colours of a table say, from one end to the other."""

    left: str
    swatches: list[colours.Swatch]
    right: str


@dataclass(frozen=True)
class TableSection:
    """One table of the study. `legend` is there for one that compares, `whole` is all of the published table
    where the pairs show a part, `withheld` are the reasons for which numbers are not shown, each with where
    they would stand."""

    name: str
    anchor: str
    reading: str
    legend: Legend | None
    pairs: list[SideBySide]
    whole: list[Grid]
    nothing_published: str
    withheld: dict[str, list[str]]
    downloads: list[Download]
    notes: Sequence[str] = ()

    @property
    def compares(self) -> bool:
        """Whether its values are deviations in per cent."""
        return self.legend is not None


def table_sections(results: Results) -> list[TableSection]:
    """A section per table of the study, those that lead first."""
    return [_section(results, name) for name in results.tables_in_order]


def _section(results: Results, name: str) -> TableSection:
    study, definition = results.study, results.study.tables[name]
    layout = layout_of(definition, results.order)
    wanted = wanted_rows(
        definition, list(study.axes), results.grid, results.failures, results.measurements
    )
    points = measured_points(definition, results.tables.get(name, []), wanted)
    whole = published_points(definition, results.published.get(name, []))

    def grids_of(points: Sequence[Point]) -> list[Grid]:
        grids = make_grids(points, layout)
        if definition.get("compare"):
            return grids
        return [with_numbers(grid, metric_in(definition).unit) for grid in grids]

    measured, published = grids_of(points), grids_of(whole)
    matched = partial(matching, layout=layout, own=study.axes_of("repositories"))
    pairs, lacking = _side_by_side(measured, published, matched, grids_of)
    return TableSection(
        name=name,
        anchor=f"table-{words.slug(name)}",
        reading=" ".join(filter(None, [reading(definition), layout.told(points or whole)])),
        legend=_legend(definition),
        pairs=pairs,
        whole=published if lacking else [],
        withheld=by_reason((point.reason, point.keys) for point in points if point.reason),
        nothing_published=_nothing_published(results, name, bool(published)),
        downloads=downloads(results, f"tables/{study.name}/{name}"),
        notes=results.notes.get(name, ()),
    )


def _legend(definition: Mapping[str, Any]) -> Legend | None:
    if not definition.get("compare"):
        return None
    ends = [f"{side} {metric_in(definition).words[0]}" for side in sides(definition)]
    return Legend(ends[0], colours.legend(direction(definition)), ends[1])


def _side_by_side(
    measured: Sequence[Grid],
    published: Sequence[Grid],
    matched: Callable[[Grid, Grid], list[Point]],
    grids_of: Callable[[list[Point]], list[Grid]],
) -> tuple[list[SideBySide], bool]:
    """Pair the grids, and say whether the pairs leave out any of the published."""
    if not measured:
        return [SideBySide(grid.title, None, grid) for grid in published], False
    by_keys = {grid.keys: grid for grid in published}
    lacking = bool(by_keys.keys() - {grid.keys for grid in measured})
    pairs = []
    for grid in measured:
        beside = None
        if whole := by_keys.get(grid.keys):
            shared = matched(whole, grid)
            found = sum(1 for point in shared if point.kind == "published")
            lacking = lacking or found < len(whole.points)
            beside = grids_of(shared)[0] if found else None
        pairs.append(SideBySide(grid.title, grid, beside))
    return pairs, lacking


def _nothing_published(results: Results, name: str, any_grid: bool) -> str:
    if any_grid:
        return ""
    if name in results.notes:
        return "A saved baseline has nothing published beside it."
    if not results.study.published:
        return ""
    if results.study.tables[name].get("published") is False:
        return "The study published nothing for this table."
    return "The published table has not been made; the target `published` makes it."


def downloads(results: Results, stem: str) -> list[Download]:
    """The CSV and the Markdown of a table as links beside the page, and as data inside of it."""
    name = stem.partition("/")[2].replace("/", "-")
    return [
        download(
            label, path, f"{kind};charset=utf-8", results.texts[path].encode(), f"{name}.{end}"
        )
        for end, label, kind in (("csv", "CSV", "text/csv"), ("md", "Markdown", "text/markdown"))
        if (path := f"{stem}.{end}") in results.texts
    ]
