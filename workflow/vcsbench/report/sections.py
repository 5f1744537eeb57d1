"""The section of each table: its measured grids with the published ones beside them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.evidence.same_work import by_reason
from vcsbench.metrics import metric_in
from vcsbench.report import colours
from vcsbench.report.distances import distances, told_of
from vcsbench.report.grids import Grid, Layout, Point, layout_of, make_grids, matching, with_numbers
from vcsbench.report.points import (
    measured_points,
    not_measured,
    published_points,
    reduced_points,
)
from vcsbench.report.readings import direction, key_of, reading, reading_of_measured, sides
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
    where the pairs show a part, `reduced` the measured numbers once more, made as the published ones are,
    where that is another reduction; `withheld` are the reasons for which numbers are not shown, each with
    where they would stand; `not_measured` is why there is no number at all. `compared` is the axis that it
    compares, if any, and `baseline` that one's value."""

    name: str
    anchor: str
    reading: str
    legend: Legend | None
    pairs: list[SideBySide]
    whole: list[Grid]
    reduced: list[Grid]
    not_measured: str
    nothing_published: str
    withheld: dict[str, list[str]]
    downloads: list[Download]
    notes: Sequence[str] = ()
    # What tells its numbers apart, in the order in which a number is named.
    axes: tuple[str, ...] = ()
    compared: str = ""
    baseline: str = ""
    key: Sequence[tuple[str, str]] = ()

    @property
    def compares(self) -> bool:
        """Whether its values are deviations in per cent."""
        return self.legend is not None


def table_sections(results: Results) -> list[TableSection]:
    """A section per table of the study, those that lead first; where there is a grid, of the tables that it
    has cells of, or of which it is known why there is no number."""
    over = distances(results.contexts, results.study)
    found = [_section(results, name, over) for name in results.tables_in_order]
    measured = [s for s in found if s.not_measured or any(pair.measured for pair in s.pairs)]
    return measured if results.grid else found


def _section(results: Results, name: str, over: Mapping[str, Sequence[str]]) -> TableSection:
    """The section of a table; `over` has what is said of the commands in it (distances)."""
    study, definition = results.study, results.study.tables[name]
    layout = layout_of(definition, results.order)
    points = _measured(results, name)
    whole = published_points(definition, results.published.get(name, []))

    def grids_of(points: Sequence[Point]) -> list[Grid]:
        grids = make_grids(points, layout)
        if definition.get("compare"):
            return grids
        return [with_numbers(grid, metric_in(definition).unit) for grid in grids]

    missing = not_measured(definition, points)
    measured, published = grids_of([] if missing else points), grids_of(whole)
    pairs = _pairs(measured, published, grids_of, layout, study.axes_of("repositories"))
    reduced = grids_of(_reduced(results, name))
    shown = sum(_count(pair.published.points) for pair in pairs if pair.published)
    return TableSection(
        name=name,
        anchor=f"table-{words.slug(name)}",
        reading=_reading(definition, bool(reduced), layout.told(points or whole)),
        legend=_legend(definition),
        pairs=pairs,
        whole=published if shown < sum(len(grid.points) for grid in published) else [],
        reduced=reduced,
        withheld=by_reason((p.reason, p.keys) for p in points if p.reason and not missing),
        not_measured=missing,
        nothing_published=_nothing_published(results, name, bool(published)),
        downloads=downloads(results, f"tables/{study.name}/{name}"),
        notes=[
            *results.notes.get(name, ()),
            *told_of(results.tables.get(name, []), study, over),
        ],
        axes=(*layout.rest, *layout.rows, *layout.columns),
        compared=layout.compared,
        baseline=(definition.get("compare") or {}).get("baseline", ""),
        key=key_of(definition, points),
    )


def _pairs(
    measured: Sequence[Grid],
    published: Sequence[Grid],
    grids_of: Callable[[Sequence[Point]], list[Grid]],
    layout: Layout,
    own: Sequence[str],
) -> list[SideBySide]:
    by_keys = {grid.keys: grid for grid in published}

    def beside(grid: Grid) -> Grid | None:
        shared = matching(by_keys[grid.keys], grid, layout, own) if grid.keys in by_keys else []
        return grids_of(shared)[0] if _count(shared) else None

    pairs = [SideBySide(grid.title, grid, beside(grid)) for grid in measured]
    return pairs or [SideBySide(grid.title, None, grid) for grid in published]


def _measured(results: Results, name: str) -> list[Point]:
    axes, definition = list(results.study.axes), results.study.tables[name]
    wanted = wanted_rows(definition, axes, results.grid, results.failures, results.measurements)
    return measured_points(definition, results.tables.get(name, []), wanted)


def _reading(definition: Mapping[str, Any], reduced: bool, told: str) -> str:
    said = reading_of_measured(definition) if reduced else ""
    return " ".join(filter(None, [reading(definition), said, told]))


def _reduced(results: Results, name: str) -> list[Point]:
    definition = results.study.tables[name]
    if not definition.get("compare"):
        return []
    return reduced_points(definition, results.tables.get(name, []))


def _legend(definition: Mapping[str, Any]) -> Legend | None:
    if not definition.get("compare"):
        return None
    ends = [f"{side} {metric_in(definition).words[0]}" for side in sides(definition)]
    return Legend(ends[0], colours.legend(direction(definition)), ends[1])


def _count(points: Iterable[Point]) -> int:
    return sum(point.kind == "published" for point in points)


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
    """Return the CSV file of a table as a link next to the page, and as data inside it."""
    name, path = stem.partition("/")[2].replace("/", "-"), f"{stem}.csv"
    if path not in results.texts:
        return []
    content = results.texts[path].encode()
    return [download("CSV", path, "text/csv;charset=utf-8", content, f"{name}.csv")]
