"""Lay out the points of a table as grids, with the same rows and columns as in the published study.

A point is a number with its place. Its place is a value for each key: the axes, and in a table of comparisons
also CANDIDATE. Some keys are in the rows of a table, some in its columns. The rest gives a grid for each
combination of its values, such as a grid for each repository.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import axis_label, case_label
from vcsbench.config.study import TableDefinition
from vcsbench.metrics import COUNT
from vcsbench.report.results import grouped_by, values_in, values_label, varying

# A table that compares values of the axis `format` has this key in place of the axis. Its values are those
# that are compared with the baseline, such as `f7` and `f8`.
CANDIDATE = "candidate"


class PointKind(StrEnum):
    """The kind of a point, which is also its CSS class if it has no number."""

    MEASURED = "measured"
    PUBLISHED = "published"
    # The cell cannot be measured here, for example for lack of root.
    SKIPPED = "skipped"
    # No round of the cell has a result.
    FAILED = "failed"
    # All results are of other settings, programs, or another version of vcsbench.
    OUTDATED = "outdated"
    # No run has measured the cell so far.
    UNMEASURED = "unmeasured"
    # The cell was measured, but no run counts or its number is withheld for a reason.
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Point:
    """A place of a grid with its number, or with a text that explains why it has none."""

    keys: Mapping[str, str]  # {"command": "log", "cache": "cold", "candidate": "f7"}
    kind: PointKind
    value: float | None = None  # of a comparison: 22.0 per cent for a ratio of 1.22
    text: str = ""  # the printed number, or a word such as `failed`
    title: str = ""  # the sentences that appear under the pointer
    reason: str = ""  # why the number of a measured cell is withheld
    mark: str = ""  # the signs next to the number, such as `=`
    deviation: str = ""  # a sign for runs far from their cell's median
    is_small: bool = False  # True if the times are mostly start-up
    colour: str = ""  # the CSS class of a comparison (table_points.colour_class)
    bar: int | None = None  # the length of a bar in per cent, None for a comparison
    cells: tuple[str, ...] = ()  # the paths of the measured cells, the baseline's first
    row: Row | None = None  # the row of a measured number in the table's CSV file
    # Of a measured point: the published number in the same place, None without one.
    published: Point | None = None

    @property
    def published_ratio(self) -> float | None:
        """Return the published ratio of a measured comparison, such as 1.22 for 22.0 per cent.

        Return None if none was published, and for -100 per cent: the baseline's time was rounded to nothing,
        so there is no factor.
        """
        deviation_pct = self.published.value if self.published else None
        if deviation_pct is None or deviation_pct <= -100:
            return None
        return 1 + deviation_pct / 100


@dataclass(frozen=True)
class Heading:
    """A heading of an axis value (`text`) over `span` columns.

    With `starts_block`, a line separates it from the columns on its left.
    """

    text: str
    span: int
    starts_block: bool
    axis: str


@dataclass(frozen=True)
class Label:
    """An axis value (`text`) in the header of a row.

    It is printed in grey if `is_repeated`, because the row above begins with the same values.
    """

    text: str
    is_repeated: bool
    axis: str


@dataclass(frozen=True)
class GridRow:
    """A row of a grid."""

    group: str  # rows with the same group stand below its heading, "" without groups
    labels: Sequence[Label]
    points: Sequence[Point | None]  # None where the study's grid has no cell
    slug: str  # the end of the row's anchor
    keys: Mapping[str, str]  # the row's axis values


@dataclass(frozen=True)
class Grid:
    """A grid of numbers. A table has one or more."""

    title: str
    headings: Sequence[Sequence[Heading]]  # a line for each column axis
    block_starts: Sequence[bool]  # True for each column that begins a block
    rows: Sequence[GridRow]
    group_axis: str  # the axis of the rows' groups, "" without groups
    constant: Sequence[tuple[str, str]]  # the row axes with only one value, and that value
    grid_keys: Mapping[str, str]  # the values of axes in neither rows nor columns
    column_keys: Sequence[Mapping[str, str]]  # the axis values of each column
    column_labels: Sequence[str]  # for a narrow window without headings: `cold, tuned settings`

    @property
    def points(self) -> list[Point]:
        return [point for row in self.rows for point in row.points if point]


@dataclass(frozen=True)
class Layout:
    """The keys of a table's rows and columns, and the `rest`: the keys that select one of its grids.

    `order` has the values of each key in the order of the study. `compared` is the axis whose values are
    compared (those of the key `candidate`), "" for a table that compares nothing.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rest: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    compared: str = ""

    def row_of(self, point: Point) -> tuple[str, ...]:
        return values_in(point.keys, self.rows)

    def column_of(self, point: Point) -> tuple[str, ...]:
        return values_in(point.keys, self.columns)

    def grid_of(self, point: Point) -> tuple[str, ...]:
        """Return the values that select the grid of a point, such as ("ruby",)."""
        return values_in(point.keys, self.rest)

    def axis_of(self, key: str) -> str:
        return self.compared if key == CANDIDATE else key

    def by_axis(self, keys: Mapping[str, str]) -> dict[str, str]:
        """Return `{"format": "f7"}` for `{"candidate": "f7"}` if the table compares formats."""
        return {self.axis_of(key): value for key, value in keys.items()}

    def place_label(self, keys: Mapping[str, str]) -> str:
        """Return the words for a place: `cold log over svn (ruby, f7)`."""
        values = self.by_axis(keys)
        return case_label(values, list(values))

    def ordered_values(self, points: Iterable[Point], keys: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the different combinations of values that points have for `keys`, in the order of the study.

        Example for the keys cache and access: `[("cold", "http"), ("cold", "svn"), ("hot", "svn")]`. Values
        that `self.order` lacks come last, whole numbers by size and other texts by alphabet.
        """

        def rank(values: tuple[str, ...]) -> list[tuple[int, str]]:
            """Return for each value its position in the order, and a text that decides a tie."""
            ranks = []
            for key, value in zip(keys, values, strict=True):
                # An axis that does not apply to a cell has the value "", which comes first. All values that
                # the order lacks have the same position.
                in_order = ["", *self.order.get(key, ())]
                position = in_order.index(value) if value in in_order else len(in_order)
                # As texts, "10" would come before "9". With zeros in front (nine digits), 9 comes before 10.
                text = value.zfill(9) if value.isdigit() else value
                ranks.append((position, text))
            return ranks

        return sorted({values_in(point.keys, keys) for point in points}, key=rank)

    def caption(self, points: Iterable[Point]) -> str:
        """Return a sentence for the reader of a table: `Rows: access and format; columns: cache.`

        It names the axes of the rows and columns on which the points differ. It is "" if they differ on none.
        """
        keys_of_points = [point.keys for point in points]
        phrases = []
        for direction, keys in (("rows", self.rows), ("columns", self.columns)):
            labels = [axis_label(self.axis_of(key)) for key in varying(keys_of_points, keys)]
            if labels:
                phrases.append(f"{direction}: {words.enumeration(labels)}")
        if not phrases:
            return ""
        caption = "; ".join(phrases)
        # capitalize() would also make later letters small, such as the capital ones of SVNPathAuthz.
        return f"{caption[0].upper()}{caption[1:]}."


@dataclass(frozen=True)
class LeftOut:
    """The numbers of rows and columns that a table leaves out, because no place in them has a number."""

    rows: int = 0
    columns: int = 0

    @property
    def sentence(self) -> str:
        """Return `3 rows and 1 column without a result are left out.`, "" if nothing is left out."""
        counts = {"row": self.rows, "column": self.columns}
        parts = [words.count_of(count, noun) for noun, count in counts.items() if count]
        verb = words.is_or_are(self.rows + self.columns)
        return f"{' and '.join(parts)} without a result {verb} left out." if parts else ""


def make_layout(definition: TableDefinition, order: Mapping[str, Sequence[str]]) -> Layout:
    """Return the layout of a table: its rows and columns from its definition, and all other keys as `rest`.

    `order` maps each axis of the study to its values in order. In a table of comparisons, the key CANDIDATE
    replaces the compared axis. Example: with the axes access, cache, format and repo, the definition
    `{"rows": ["access"], "columns": ["cache"], "compare": {"axis": "format", "baseline": "f6", "candidates":
    ["f7", "f8"]}}` gives the rest ("repo", "candidate"), and a grid for each repository and candidate.
    """
    compare = definition.get("compare")
    compared = compare["axis"] if compare else ""
    keys = [axis for axis in order if axis != compared]
    # This also has the compared axis. That axis is none of the keys, so its values are not used.
    order_of_keys = dict(order)
    # With `by: [run]`, a table has a number for each run. The run is a column of the measurements, and no
    # axis, so it is one more key.
    keys += definition.get("by", [])
    # `each` has names of counts, such as ["reads", "writes"].
    if "each" in definition:
        keys.append(COUNT)
        order_of_keys[COUNT] = definition["each"]
    if compare:
        keys.append(CANDIDATE)
        order_of_keys[CANDIDATE] = compare["candidates"]

    rows, columns = tuple(definition["rows"]), tuple(definition["columns"])
    rest = tuple(key for key in keys if key not in rows and key not in columns)
    return Layout(rows, columns, rest, order_of_keys, compared)


def leave_out_empty(points: Sequence[Point], layout: Layout) -> tuple[list[Point], LeftOut]:
    """Return the points outside of empty rows and columns, and the numbers of empty rows and columns.

    A row or column is empty if no point in it has a number. Each grid of the table is treated by itself,
    because a row may be empty in one grid only. Example: a grid has the rows http and svn, and the columns
    cold and hot. Only the cell with http and cold has a number. So svn and hot are left out.
    """
    remaining = []
    empty_rows = 0
    empty_columns = 0
    for grid in grouped_by(points, layout.grid_of).values():
        with_number = [point for point in grid if point.value is not None]
        filled_rows = {layout.row_of(point) for point in with_number}
        filled_columns = {layout.column_of(point) for point in with_number}
        empty_rows += len({layout.row_of(point) for point in grid} - filled_rows)
        # A grid without any number is left out as a whole. All of its rows are counted already. Its columns
        # would count the same places twice.
        if with_number:
            empty_columns += len({layout.column_of(point) for point in grid} - filled_columns)
        for point in grid:
            if layout.row_of(point) in filled_rows and layout.column_of(point) in filled_columns:
                remaining.append(point)
    return remaining, LeftOut(empty_rows, empty_columns)


def make_grids(points: Sequence[Point], layout: Layout) -> list[Grid]:
    """Return the grids of a table, one for each combination of values of `layout.rest`.

    With the rest ("repo",), each repository has its grid.
    """
    points_by_grid = grouped_by(points, layout.grid_of)
    in_order = layout.ordered_values(points, layout.rest)
    in_title = _titling_keys(points, layout)
    return [_make_grid(points_by_grid[values], layout, in_title) for values in in_order]


def _titling_keys(points: Sequence[Point], layout: Layout) -> list[str]:
    """Return the keys whose values are the title of a grid, such as `repo` for the title `ruby`.

    They are those of `layout.rest` that distinguish the grids of the table. A single grid has all of them.
    """
    distinguishing = varying([point.keys for point in points], layout.rest)
    return distinguishing or list(layout.rest)


def describe_shared(points: Sequence[Point], layout: Layout) -> str:
    """Return `In all: f8, not packed.`: values that all grids share and no title has; "" without any."""
    in_title = _titling_keys(points, layout)
    shared = [key for key in layout.rest if key not in in_title]
    if not points or not shared:
        return ""
    label = _label_keys(points[0], shared, layout)
    return f"In all: {label}." if label else ""


class RowAxes(NamedTuple):
    """The axes of a grid's rows by the way in which they appear.

    - `constant`: each axis with the same value in all rows, and this value. They stand at the grid's corner.
    - `group`: the axis of headings above groups of rows, "" without groups.
    - `labels`: the axes that label each row.
    """

    constant: list[tuple[str, str]]
    group: str
    labels: list[str]


def _make_grid(points: Sequence[Point], layout: Layout, in_title: Sequence[str]) -> Grid:
    """Return the grid of points that differ only in the keys of rows and columns. It needs a point.

    Its title has the values of the keys `in_title`. Example with the title `ruby`, the columns cache and
    config, and the rows format, access and command:

        format: f7       cold         hot
                      slow  fast   slow  fast
        http
          log          1.2   1.1    0.2   0.1
          export       3.1   3.0    0.9   0.8
        svn
          log          1.0   0.9    0.2   0.1
    """
    # The values of each column in order: [("cold", "slow"), ("cold", "fast"), ...].
    column_values = layout.ordered_values(points, layout.columns)
    column_keys = [dict(zip(layout.columns, values, strict=True)) for values in column_values]
    # Headings and labels name the compared axis, such as the format, where keys have CANDIDATE.
    column_axes = [layout.axis_of(key) for key in layout.columns]
    # True for the first column of cold, and of hot: a line separates these blocks of columns.
    block_starts = _find_block_starts(column_values)
    row_axes = _split_row_axes(points, layout)
    return Grid(
        title=_label_keys(points[0], in_title, layout),
        headings=_make_headings(column_values, column_axes, block_starts),
        block_starts=block_starts,
        rows=_make_rows(points, layout, column_values, row_axes),
        group_axis=row_axes.group,
        constant=row_axes.constant,
        # The keys in neither rows nor columns. All points of a grid have the same values of them.
        grid_keys=dict(zip(layout.rest, layout.grid_of(points[0]), strict=True)),
        column_keys=column_keys,
        column_labels=[values_label(layout.by_axis(keys), column_axes) for keys in column_keys],
    )


def _split_row_axes(points: Sequence[Point], layout: Layout) -> RowAxes:
    """Return the axes of a grid's rows by the way in which they appear (example: _make_grid)."""
    axes = [layout.axis_of(key) for key in layout.rows]
    places = [layout.by_axis(point.keys) for point in points]
    varying_axes = varying(places, axes)
    constant = []
    for axis in axes:
        # The same value in all rows, "" if the axis applies to no row.
        value = places[0].get(axis, "")
        if value and axis not in varying_axes:
            constant.append((axis, value))
    # A single axis that varies labels the rows. Of several axes, the first one has the headings of groups.
    if len(varying_axes) > 1:
        return RowAxes(constant, group=varying_axes[0], labels=varying_axes[1:])
    return RowAxes(constant, group="", labels=varying_axes)


def _make_rows(
    points: Sequence[Point],
    layout: Layout,
    column_values: Sequence[tuple[str, ...]],
    row_axes: RowAxes,
) -> list[GridRow]:
    """Return the rows of a grid in order, each with a point per column, None where the study has no cell.

    `points` must not be empty. `column_values` has the values of each column, such as ("cold", "slow"). Rows
    with the same value on the axis `row_axes.group` stand below one heading. This axis is "" without groups.
    """
    point_by_place = {(layout.row_of(point), layout.column_of(point)): point for point in points}
    # All points of a grid have the same values here, such as ("ruby",).
    grid_values = layout.grid_of(points[0])
    rows = []
    values_above: Mapping[str, str] = {}
    for row_values in layout.ordered_values(points, layout.rows):
        keys = dict(zip(layout.rows, row_values, strict=True))
        # `{"access": "svn", "format": "f7"}` for the keys `{"access": "svn", "candidate": "f7"}`.
        values_by_axis = layout.by_axis(keys)
        row = GridRow(
            group=values_by_axis.get(row_axes.group, ""),
            labels=_make_labels(values_by_axis, values_above, row_axes.labels),
            points=[point_by_place.get((row_values, column)) for column in column_values],
            # `ruby-svn-f7` has the values of the grid, too, because rows of other grids may have the same.
            slug=words.slug(" ".join(grid_values + row_values)),
            keys=keys,
        )
        rows.append(row)
        values_above = values_by_axis
    return rows


def _make_labels(
    values: Mapping[str, str], values_above: Mapping[str, str], label_axes: Sequence[str]
) -> list[Label]:
    """Return the labels of a row, grey (`is_repeated`) where the row above has the same values up to there.

    Example with the axes access, command and cache: the row `svn, log, hot` is below `svn, log, cold`, so its
    label `log` is grey. Below `http, log, hot`, it would not be grey, because the access differs.
    """
    axes = list(values)
    labels = []
    for axis in label_axes:
        # An axis that does not apply to the row ("") has no label.
        if values[axis]:
            axes_to_here = axes[: axes.index(axis) + 1]
            is_repeated = values_in(values, axes_to_here) == values_in(values_above, axes_to_here)
            labels.append(Label(values[axis], is_repeated, axis))
    return labels


def _label_keys(point: Point, keys: Sequence[str], layout: Layout) -> str:
    """Return the labels of a point's values on some keys: `ruby, f7`."""
    values = {}
    for key in keys:
        # If a table has only one candidate, the title of the table names it already.
        is_only_candidate = key == CANDIDATE and len(layout.order.get(CANDIDATE, ())) == 1
        if not is_only_candidate:
            values[layout.axis_of(key)] = point.keys.get(key, "")
    return values_label(values, values)


def _find_block_starts(columns: Sequence[tuple[str, ...]]) -> list[bool]:
    """Return for each column whether it begins a block, which a line separates from the columns on its left.

    `columns` has the values of each column: ("cold", "http"). Columns with several values form a block if
    their first value is the same: all `cold` columns are one block. With only one value each, all columns
    are one block.
    """
    starts = [True]
    for previous, column in pairwise(columns):
        starts.append(len(column) > 1 and previous[0] != column[0])
    return starts


def _make_headings(
    columns: Sequence[tuple[str, ...]], axes: Sequence[str], block_starts: Sequence[bool]
) -> list[list[Heading]]:
    """Return a line of headings for each axis of the columns: `cold` stands over `http` and `svn`.

    `columns` has the values of each column in order: [("cold", "http"), ("cold", "svn")]. Columns with the
    same values up to an axis share its heading.
    """
    lines = []
    for depth, axis in enumerate(axes, 1):
        # The numbers of columns by their first values: {("cold",): 2, ("hot",): 1} at the depth 1. Columns
        # with the same first values are next to each other, because the columns are sorted.
        spans = Counter(column[:depth] for column in columns)
        line = []
        first_column = 0
        for values, span in spans.items():
            line.append(Heading(values[-1], span, block_starts[first_column], axis))
            first_column += span
        lines.append(line)
    return lines


def attach_published(
    measured: Sequence[Point], published: Sequence[Point], layout: Layout
) -> list[Point]:
    """Return the measured points, each with the published number of the same place, if there is one.

    The published points have their texts already.
    """
    # Not all keys of a point: the rows of a table that compares nothing also have an empty `candidate`.
    keys = (*layout.rest, *layout.rows, *layout.columns)
    published_by_place = {values_in(point.keys, keys): point for point in published}
    return [
        replace(point, published=published_by_place.get(values_in(point.keys, keys)))
        for point in measured
    ]


def format_numbers(points: Iterable[Point], layout: Layout, unit: str) -> list[Point]:
    """Return the points of a table that compares nothing, with their numbers as texts and bars.

    The numbers of a column have the same decimals: 1.24 and 0.62. The largest number of a grid has a bar of
    100 %. The result is grouped by grid and column, so its order may differ from `points`.
    """
    formatted = []
    for grid in grouped_by(points, layout.grid_of).values():
        largest = max((point.value for point in grid if point.value is not None), default=0.0)
        for column in grouped_by(grid, layout.column_of).values():
            decimals = words.decimals((point.value for point in column), unit)
            formatted += [_format_number(point, decimals, largest) for point in column]
    return formatted


def _format_number(point: Point, decimals: int, largest: float) -> Point:
    if point.value is None:
        return point
    # Counts can all be 0.
    bar = round(100 * point.value / largest) if largest > 0 else 0
    return replace(point, text=words.fixed(point.value, decimals), bar=bar)
