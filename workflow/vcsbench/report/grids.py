"""Grids: the points of a table laid out in rows and columns, as the published tables were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from vcsbench import words


@dataclass(frozen=True)
class Point:
    """One place of a grid. `keys` are its axis values; `value` is None where there is no number and
    `text` stands instead.

    `kind` is `measured` or `published`; without a number `skipped`, `failed`, `withheld` (measured,
    but no run counts) or `unpublished`.
    """

    keys: Mapping[str, str]
    kind: str
    value: float | None = None
    text: str = ""
    title: str = ""
    reason: str = ""  # why a number is withheld
    mark: str = ""
    colour: str = ""
    bar: float | None = None  # per cent of the cell's width


@dataclass(frozen=True)
class Heading:
    """A heading over `span` columns; `first` where a new block of columns begins."""

    text: str
    span: int = 1
    first: bool = False


@dataclass(frozen=True)
class Label:
    """One axis value in a row's header; `repeated` where the row above has the same."""

    text: str
    repeated: bool
    width: int  # characters of the widest label of this axis in the grid


@dataclass(frozen=True)
class Row:
    """A row's header, and its points with None where the grid has no cell. `name` has the values of
    the axes that it and its grid stand for."""

    labels: list[Label]
    points: list[Point | None]
    name: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The end of its anchor's name."""
        return words.slug(" ".join(self.name))


@dataclass(frozen=True)
class Group:
    """The rows that share the value of the first row axis."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Grid:
    """One grid: `keys` are the values of the axes that are in neither rows nor columns."""

    title: str
    keys: tuple[str, ...]
    headings: list[list[Heading]]
    groups: list[Group]
    starts: list[bool]  # whether a new block of columns begins at each column
    constant: list[tuple[str, str]] = field(default_factory=list)

    @property
    def wide(self) -> bool:
        """Whether there are too many columns to put another grid beside it."""
        return len(self.starts) > 5

    @property
    def points(self) -> list[Point]:
        """All points of the grid."""
        rows = [row for group in self.groups for row in group.rows]
        return [point for row in rows for point in row.points if point]


@dataclass(frozen=True)
class Layout:
    """Which axes go down, across, and into grids of their own; and the order of their values."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rest: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    compared: str = ""  # the axis that `candidate` is of

    def sort_key(self, axes: Sequence[str]) -> Callable[[tuple[str, ...]], list[tuple[int, str]]]:
        """A key that sorts tuples of the axes' values in the study's order, others last, numbers by size."""
        ranks = [{value: i for i, value in enumerate(["", *self.order.get(a, ())])} for a in axes]
        return lambda values: [
            (rank.get(value, len(rank)), value.zfill(9) if value.isdigit() else value)
            for rank, value in zip(ranks, values, strict=True)
        ]

    def told(self, points: Iterable[Point]) -> str:
        """What its rows and its columns are, of the axes that have several values among the points."""
        found = list(points)
        said = []
        for name, axes in (("Rows", self.rows), ("columns", self.columns)):
            varying = [a for a in axes if len({point.keys.get(a, "") for point in found}) > 1]
            named = [self.compared if axis == "candidate" else axis for axis in varying]
            said += [f"{name}: {words.enumeration(named)}"] if named else []
        return "; ".join(said).capitalize() + "." if said else ""

    def is_only_candidate(self, axis: str) -> bool:
        """Whether an axis is a compared one with a single candidate, which the table's name has."""
        return axis == "candidate" and len(self.order.get(axis, ())) == 1


def layout_of(definition: Mapping[str, Any], order: Mapping[str, Sequence[str]]) -> Layout:
    """The layout of a study's table; `order` has the study's axes and their values in order."""
    compare = definition.get("compare")
    keys = [axis for axis in order if not compare or axis != compare["axis"]]
    keys += definition.get("by", [])
    order = dict(order)
    if compare:
        keys.append("candidate")
        order["candidate"] = compare["candidates"]
    rows, columns = tuple(definition["rows"]), tuple(definition["columns"])
    rest = tuple(key for key in keys if key not in rows and key not in columns)
    return Layout(rows, columns, rest, order, compare["axis"] if compare else "")


def make_grids(points: Iterable[Point], layout: Layout) -> list[Grid]:
    """Lay points out: one grid per combination of the remaining axes, in the study's order."""
    sheets: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        sheets.setdefault(_values(point, layout.rest), []).append(point)
    ordered = sorted(sheets, key=layout.sort_key(layout.rest))
    grids = []
    for keys in ordered:
        said = [
            value
            for axis, value in zip(layout.rest, keys, strict=True)
            if value and not layout.is_only_candidate(axis)
        ]
        grids.append(_grid(" ".join(said), keys, sheets[keys], layout))
    return grids


def _grid(title: str, keys: tuple[str, ...], points: list[Point], layout: Layout) -> Grid:
    columns = sorted(
        {_values(p, layout.columns) for p in points}, key=layout.sort_key(layout.columns)
    )
    names = sorted({_values(p, layout.rows) for p in points}, key=layout.sort_key(layout.rows))
    places = {(_values(p, layout.rows), _values(p, layout.columns)): p for p in points}
    varying = [i for i in range(len(layout.rows)) if len({name[i] for name in names}) > 1]
    constant = [
        (axis, names[0][i])
        for i, axis in enumerate(layout.rows)
        if i not in varying and names and names[0][i]
    ]
    grouping = varying[:1] if len(varying) > 1 else []
    inner = varying[len(grouping) :]
    widths = {i: max(len(name[i]) for name in names) for i in inner}
    groups: list[Group] = []
    above: tuple[str, ...] | None = None
    for name in names:
        group = name[grouping[0]] if grouping else ""
        if not groups or groups[-1].title != group:
            groups.append(Group(group, []))
            above = None
        row = [places.get((name, column)) for column in columns]
        labels = _labels(name, above, inner, widths)
        groups[-1].rows.append(Row(labels, row, (*keys, *name)))
        above = name
    headings, starts = _headings(columns)
    return Grid(title, keys, headings, groups, starts, constant)


def _labels(
    name: tuple[str, ...],
    above: tuple[str, ...] | None,
    axes: Sequence[int],
    widths: Mapping[int, int],
) -> list[Label]:
    labels = []
    same = above is not None
    for i in axes:
        same = same and above is not None and above[i] == name[i]
        labels.append(Label(name[i], same and i != axes[-1], widths[i]))
    return labels


def _headings(columns: Sequence[tuple[str, ...]]) -> tuple[list[list[Heading]], list[bool]]:
    """The rows of headings, equal neighbours joined, and where blocks of the first axis begin."""
    levels: list[list[Heading]] = []
    starts = [
        i == 0 or (len(column) > 1 and column[0] != columns[i - 1][0])
        for i, column in enumerate(columns)
    ]
    for depth in range(len(columns[0]) if columns else 0):
        level: list[Heading] = []
        for i, column in enumerate(columns):
            if i and column[: depth + 1] == columns[i - 1][: depth + 1]:
                level[-1] = replace(level[-1], span=level[-1].span + 1)
            else:
                level.append(Heading(column[depth], 1, starts[i]))
        levels.append(level)
    return levels, starts


def _values(point: Point, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(point.keys.get(axis, "") for axis in axes)


def matching(
    published: Grid, measured: Grid, layout: Layout, own: Sequence[str] = ()
) -> list[Point]:
    """The published points in the same rows and columns as a measured grid's, with a blank one where nothing
    was published. Of an axis in `own`, the values of which are the user's names, those of the same name or,
    without any, all.
    """
    named = (*layout.rest, *layout.rows, *layout.columns)
    places = {_values(point, named): point for point in published.points}
    foreign: dict[str, list[str]] = {}
    for axis in own:
        theirs = list(dict.fromkeys(point.keys.get(axis, "") for point in published.points))
        if not {point.keys.get(axis, "") for point in measured.points} & {*theirs}:
            foreign[axis] = theirs
    wanted: dict[tuple[str, ...], dict[str, str]] = {}
    for point in measured.points:
        for values in product(*(foreign.get(axis, [value]) for axis, value in point.keys.items())):
            keys = dict(zip(point.keys, values, strict=True))
            wanted[tuple(keys.get(axis, "") for axis in named)] = keys
    return [
        places.get(place, Point(keys, "unpublished", text="·", title="not published"))
        for place, keys in wanted.items()
    ]


def with_numbers(grid: Grid, unit: str) -> Grid:
    """The grid with its values as text, a column's all to the same number of decimals, and with a
    bar as long as the value is against the grid's largest."""
    largest = max((p.value for p in grid.points if p.value is not None), default=0.0)
    rows = [row for group in grid.groups for row in group.rows]
    places = [
        words.decimals((p.value for p in column if p and p.value is not None), unit)
        for column in zip(*(row.points for row in rows), strict=True)
    ]

    def written(point: Point | None, digits: int) -> Point | None:
        if point is None or point.value is None:
            return point
        bar = 100 * point.value / largest if largest > 0 else 0.0
        return replace(point, text=words.fixed(point.value, digits), bar=round(bar, 1))

    groups = [
        replace(
            group,
            rows=[
                replace(
                    row, points=[written(p, d) for p, d in zip(row.points, places, strict=True)]
                )
                for row in group.rows
            ],
        )
        for group in grid.groups
    ]
    return replace(grid, groups=groups)
