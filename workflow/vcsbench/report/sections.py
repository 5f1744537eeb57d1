"""The section of each table: its measured grids with the published ones beside them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vcsbench import words
from vcsbench.evidence.samework import by_reason
from vcsbench.report.expected import expected_rows
from vcsbench.report.grids import Grid, Layout, layout_of, make_grids, matching, with_numbers
from vcsbench.report.points import measured_points, published_points
from vcsbench.report.results import Results


@dataclass(frozen=True)
class Download:
    """A file of the study: where it lies beside the page, and the same inside of it."""

    label: str
    path: str
    data: str
    name: str


@dataclass(frozen=True)
class Pair:
    """A measured grid and the published one in the same layout; either may be missing."""

    title: str
    measured: Grid | None
    published: Grid | None


@dataclass(frozen=True)
class TableSection:
    """One table of the study. `whole` is all of the published table where the pairs show a part,
    `withheld` the reasons for which numbers are not shown, each with where they would stand."""

    name: str
    anchor: str
    reading: str
    baseline: str
    candidates: str
    pairs: list[Pair]
    whole: list[Grid]
    nothing_published: str
    withheld: dict[str, list[str]]
    downloads: list[Download]
    notes: Sequence[str] = ()

    @property
    def compares(self) -> bool:
        """Whether its values are deviations in per cent."""
        return bool(self.baseline)


def value_order(results: Results) -> dict[str, list[str]]:
    """Each axis of the study with its values in order: the study's own, or as the published
    numbers and then the grid have them (so servers stand in the order slow, medium, fast)."""
    rows = [row for table in results.published.values() for row in table] + results.grid
    order: dict[str, list[str]] = {}
    for axis, values in results.study.axes.items():
        named = values if isinstance(values, list) else [row.get(axis, "") for row in rows]
        order[axis] = list(dict.fromkeys(filter(None, named)))
    return order


def table_sections(results: Results) -> list[TableSection]:
    """A section per table of the study, in the study's order."""
    order = value_order(results)
    return [
        _section(results, name, definition, layout_of(definition, order))
        for name, definition in results.study.tables.items()
    ]


def _section(
    results: Results, name: str, definition: Mapping[str, Any], layout: Layout
) -> TableSection:
    compare = definition.get("compare") or {}
    expected = expected_rows(
        definition, list(results.study.axes), results.grid, results.failures, results.measurements
    )
    points = measured_points(definition, results.tables.get(name, []), expected)
    measured = make_grids(points, layout)
    published = make_grids(published_points(definition, results.published.get(name, [])), layout)
    pairs, partial = _pairs(measured, published, layout)
    if not compare:
        unit = definition.get("unit", "")
        pairs = [_in_unit(pair, unit) for pair in pairs]
        published = [with_numbers(grid, unit) for grid in published]
    return TableSection(
        name=name,
        anchor=f"table-{words.slug(name)}",
        reading=_reading(name, definition),
        baseline=compare.get("baseline", ""),
        candidates=words.enumeration(compare.get("candidates", [])),
        pairs=pairs,
        whole=published if partial else [],
        withheld=by_reason((point.reason, point.keys) for point in points if point.reason),
        nothing_published=_nothing_published(results, name, bool(published)),
        downloads=downloads(results, f"tables/{results.study.name}/{name}"),
        notes=results.notes.get(name, ()),
    )


def _pairs(
    measured: Sequence[Grid], published: Sequence[Grid], layout: Layout
) -> tuple[list[Pair], bool]:
    """Pair the grids, and say whether the pairs leave out any of the published."""
    if not measured:
        return [Pair(grid.title, None, grid) for grid in published], False
    by_keys = {grid.keys: grid for grid in published}
    partial = bool(by_keys.keys() - {grid.keys for grid in measured})
    pairs = []
    for grid in measured:
        beside = None
        if whole := by_keys.get(grid.keys):
            shared = matching(whole, grid, layout)
            found = sum(1 for point in shared if point.kind == "published")
            partial = partial or found < len(whole.points)
            beside = make_grids(shared, layout)[0] if found else None
        pairs.append(Pair(grid.title, grid, beside))
    return pairs, partial


def _in_unit(pair: Pair, unit: str) -> Pair:
    return replace(
        pair,
        measured=pair.measured and with_numbers(pair.measured, unit),
        published=pair.published and with_numbers(pair.published, unit),
    )


def _reading(name: str, definition: Mapping[str, Any]) -> str:
    compare = definition.get("compare")
    if not compare:
        metric = {
            "elapsed_s": "Elapsed time in seconds, the median of the rounds.",
            "client_cpu_pct": "The client's CPU time, user and system, in per cent of the elapsed "
            "time; from the medians of the rounds.",
        }
        return metric.get(definition["metric"], f"{name}, in {definition.get('unit', 'no unit')}.")
    baseline, candidates = compare["baseline"], " or ".join(compare["candidates"])
    return (
        f"How much longer {baseline} took than {candidates}, in per cent of the latter: "
        f"100 {words.TIMES} (elapsed {baseline} ÷ elapsed {candidates} {words.MINUS} 1). "
        f"Above 0, {candidates} is faster."
    )


def _nothing_published(results: Results, name: str, any_grid: bool) -> str:
    if any_grid:
        return ""
    if name in results.notes:
        return "A saved baseline has nothing published beside it."
    definition = results.study.tables[name]
    if not results.study.published or definition.get("published") is False:
        return "The study published nothing for this table."
    return "The published table has not been made; the target `published` makes it."


def downloads(results: Results, stem: str) -> list[Download]:
    """The CSV and the Markdown of a table as links beside the page, and as data inside of it."""
    kinds = {"csv": ("CSV", "text/csv"), "md": ("Markdown", "text/markdown")}
    found = []
    for ending, (label, kind) in kinds.items():
        text = results.texts.get(f"{stem}.{ending}")
        if text is not None:
            data = base64.b64encode(text.encode()).decode()
            name = f"{stem.partition('/')[2].replace('/', '-')}.{ending}"
            uri = f"data:{kind};charset=utf-8;base64,{data}"
            found.append(Download(label, f"../results/{stem}.{ending}", uri, name))
    return found
