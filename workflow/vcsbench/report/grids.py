"""Grids: the points of a table laid out in rows and columns, as the published tables were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any

from vcsbench import words
from vcsbench.advice.labels import axis_label
from vcsbench.metrics import COUNT
from vcsbench.report.records import (
    Item,
    Record,
    distinct,
    grouped_by,
    name_of,
    values_of,
    varying,
)


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
    deviation: str = ""  # the mark of runs far from their cell's median
    is_small: bool = False  # mostly fixed cost
    colour: str = ""
    bar: float | None = None  # per cent of the cell's width
    # What it is measured from: of a comparison the baseline's, the candidate's.
    cells: tuple[str, ...] = ()
    row: Record | None = None  # the measured row of the table that it stands for


@dataclass(frozen=True)
class Heading:
    """A heading over `span` columns, a value of `axis`; `first` where a new block of columns begins."""

    text: str
    span: int = 1
    first: bool = False
    axis: str = ""


@dataclass(frozen=True)
class Label:
    """One axis value in a row's header; `repeated` where the row above has the same."""

    text: str
    repeated: bool
    width: int  # characters of the widest label of this axis in the grid
    axis: str = ""


@dataclass(frozen=True)
class Row:
    """A row's header, and its points with None where the grid has no cell. `name` has the values of
    the axes that it and its grid stand for, `of` those of its own, by axis."""

    labels: list[Label]
    points: list[Point | None]
    name: tuple[str, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The end of its anchor's name."""
        return words.slug(" ".join(self.name))


@dataclass(frozen=True)
class Group:
    """The rows that share the value of the first row axis, which is `axis`."""

    title: str
    rows: list[Row]
    axis: str = ""


@dataclass(frozen=True)
class Grid:
    """One grid: `keys` are the values of the axes that are in neither rows nor columns, `of` the same by
    axis, `across` those of each column."""

    title: str
    keys: tuple[str, ...]
    headings: list[list[Heading]]
    starts: list[bool]  # whether a new block of columns begins at each column
    groups: list[Group]
    constant: list[tuple[str, str]]  # the row axes that have one value, with it
    of: Mapping[str, str] = field(default_factory=dict)
    across: Sequence[Mapping[str, str]] = ()

    @property
    def wide(self) -> bool:
        """Whether there are too many columns to put another grid beside it."""
        return len(self.starts) > 5

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]

    @property
    def points(self) -> list[Point]:
        """All points of the grid."""
        return [point for row in self.rows for point in row.points if point]


@dataclass(frozen=True)
class Layout:
    """Which axes go down, across, and into grids of their own; and the order of their values."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rest: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    compared: str = ""  # the axis that `candidate` is of

    def axis_of(self, key: str) -> str:
        """The axis that a key's values are of."""
        return self.compared if key == "candidate" else key

    def sort_key(self, axes: Sequence[str]) -> Callable[[tuple[str, ...]], list[tuple[int, str]]]:
        """A key that sorts tuples of the axes' values in the study's order, others last, numbers by size."""
        ranks = [{value: i for i, value in enumerate(["", *self.order.get(a, ())])} for a in axes]
        return lambda values: [
            (rank.get(value, len(rank)), value.zfill(9) if value.isdigit() else value)
            for rank, value in zip(ranks, values, strict=True)
        ]

    def sheets(
        self, items: Iterable[Item], keys: Callable[[Item], Record]
    ) -> Iterator[tuple[str, tuple[str, ...], list[Item]]]:
        """Items, of which `keys` gives the axis values, by those of the remaining axes in the study's order:
        what they are called, the values, the items. The name leaves out a single candidate, which the
        table's has."""
        parts = grouped_by(items, lambda item: values_of(keys(item), self.rest))
        only = len(self.order.get("candidate", ())) == 1
        said = [axis for axis in self.rest if axis != "candidate" or not only]
        for values in sorted(parts, key=self.sort_key(self.rest)):
            yield name_of(keys(parts[values][0]), said), values, parts[values]

    def told(self, points: Iterable[Point]) -> str:
        """What its rows and its columns are, of the axes that have several values among the points."""
        found, said = [point.keys for point in points], []
        for name, axes in (("Rows", self.rows), ("columns", self.columns)):
            named = [
                axis_label(self.compared if axis == "candidate" else axis)
                for axis in varying(found, axes)
            ]
            said += [f"{name}: {words.enumeration(named)}"] if named else []
        return "; ".join(said).capitalize() + "." if said else ""


def layout_of(definition: Mapping[str, Any], order: Mapping[str, Sequence[str]]) -> Layout:
    """The layout of a study's table; `order` has the study's axes and their values in order."""
    compare = definition.get("compare")
    keys = [axis for axis in order if not compare or axis != compare["axis"]]
    keys += definition.get("by", [])
    if "each" in definition:
        keys.append(COUNT)
        order = {**order, COUNT: definition["each"]}
    order = dict(order)
    if compare:
        keys.append("candidate")
        order["candidate"] = compare["candidates"]
    rows, columns = tuple(definition["rows"]), tuple(definition["columns"])
    rest = tuple(key for key in keys if key not in rows and key not in columns)
    return Layout(rows, columns, rest, order, compare["axis"] if compare else "")


def make_grids(points: Iterable[Point], layout: Layout) -> list[Grid]:
    """Lay points out: one grid per combination of the remaining axes, in the study's order."""
    sheets = layout.sheets(points, lambda point: point.keys)
    return [_grid(title, keys, found, layout) for title, keys, found in sheets]


def _grid(title: str, keys: tuple[str, ...], points: list[Point], layout: Layout) -> Grid:
    names, columns = (
        sorted({values_of(point.keys, axes) for point in points}, key=layout.sort_key(axes))
        for axes in (layout.rows, layout.columns)
    )
    places = {values_of(p.keys, layout.rows + layout.columns): p for p in points}
    several = [i for i, values in enumerate(zip(*names, strict=True)) if len({*values}) > 1]
    constant = [
        (axis, names[0][i])
        for i, axis in enumerate(layout.rows)
        if i not in several and names[0][i]
    ]
    grouping = several[:1] if len(several) > 1 else []
    inner = several[len(grouping) :]
    widths = {i: max(len(name[i]) for name in names) for i in inner}
    groups = []
    for group, members in groupby(names, lambda name: "".join(name[i] for i in grouping)):
        rows: list[Row] = []
        above: tuple[str, ...] = ()
        for name in members:
            labels = [
                Label(
                    name[i],
                    i != inner[-1] and above[: i + 1] == name[: i + 1],
                    widths[i],
                    layout.axis_of(layout.rows[i]),
                )
                for i in inner
            ]
            of = dict(zip(layout.rows, name, strict=True))
            rows.append(Row(labels, [places.get(name + c) for c in columns], keys + name, of))
            above = name
        grouped = "".join(layout.axis_of(layout.rows[i]) for i in grouping)
        groups.append(Group(group, rows, grouped))
    of = dict(zip(layout.rest, keys, strict=True))
    axes = [layout.axis_of(axis) for axis in layout.columns]
    across = [dict(zip(layout.columns, column, strict=True)) for column in columns]
    return Grid(title, keys, *_headings(columns, axes), groups, constant, of, across)


def _headings(
    columns: Sequence[tuple[str, ...]], axes: Sequence[str]
) -> tuple[list[list[Heading]], list[bool]]:
    """The rows of headings, equal neighbours joined, and where blocks of the first axis begin."""
    starts = [
        i == 0 or (len(column) > 1 and column[0] != columns[i - 1][0])
        for i, column in enumerate(columns)
    ]
    levels = []
    for depth in range(1, len(columns[0]) + 1):
        paths = [column[:depth] for column in columns]
        spans = grouped_by(range(len(paths)), paths.__getitem__)
        axis = axes[depth - 1] if axes else ""
        levels.append(
            [Heading(path[-1], len(at), starts[at[0]], axis) for path, at in spans.items()]
        )
    return levels, starts


def matching(
    published: Grid, measured: Grid, layout: Layout, own: Sequence[str] = ()
) -> list[Point]:
    """The published points in the same rows and columns as a measured grid's, with a blank one where nothing
    was published. Of an axis in `own`, the values of which are the user's names, those of the same name or,
    without any, all.
    """
    named = (*layout.rest, *layout.rows, *layout.columns)
    places = {values_of(point.keys, named): point for point in published.points}
    foreign: dict[str, list[str]] = {}
    for axis in own:
        theirs, ours = (
            distinct(point.keys.get(axis, "") for point in grid.points)
            for grid in (published, measured)
        )
        if not {*theirs} & {*ours}:
            foreign[axis] = theirs
    wanted: dict[tuple[str, ...], dict[str, str]] = {}
    for point in measured.points:
        for values in product(*(foreign.get(axis, [value]) for axis, value in point.keys.items())):
            keys = dict(zip(point.keys, values, strict=True))
            wanted[values_of(keys, named)] = keys
    return [
        places.get(place, Point(keys, "unpublished", text="·", title="not published"))
        for place, keys in wanted.items()
    ]


def with_numbers(grid: Grid, unit: str) -> Grid:
    """The grid with its values as text, a column's all to the same number of decimals, and with a
    bar as long as the value is against the grid's largest."""
    largest = max((p.value for p in grid.points if p.value is not None), default=0.0)
    places = [
        words.decimals((point and point.value for point in column), unit)
        for column in zip(*(row.points for row in grid.rows), strict=True)
    ]

    def written(point: Point | None, digits: int) -> Point | None:
        if point is None or point.value is None:
            return point
        bar = 100 * point.value / largest if largest > 0 else 0.0
        return replace(point, text=words.fixed(point.value, digits), bar=round(bar, 1))

    def filled(row: Row) -> Row:
        return replace(row, points=list(map(written, row.points, places)))

    groups = [replace(group, rows=list(map(filled, group.rows))) for group in grid.groups]
    return replace(grid, groups=groups)
