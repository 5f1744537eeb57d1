"""Lay out the points of a table as grids, with the same rows and columns as in the published study.

A point is a number with its place. Its place is a value for each key: the axes, and in a table of comparisons
also CANDIDATE. Some keys are in the rows of a table, some in its columns. The rest gives a grid for each
combination of its values, such as a grid for each repository.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, product

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import axis_label, case_label, value_label
from vcsbench.config.study import TableDefinition
from vcsbench.metrics import COUNT
from vcsbench.report.results import grouped_by, unique_values, values_in, values_label, varying

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
    # The cell was measured, but no run counts or its number is withheld for a reason.
    WITHHELD = "withheld"
    # The study has no published number for a measured cell.
    UNPUBLISHED = "unpublished"


@dataclass(frozen=True)
class Point:
    """A place of a grid with its number, or with a text that explains why it has none.

    `keys` has the axis values of the place. `value` is None without a number. For a comparison it is the
    ratio as a deviation from 1: 22.0 per cent for 1.22. `text` is printed, `title` appears under the pointer.
    `reason` is why the number of a measured cell is withheld, "" for any other point.

    `mark` has the signs next to the number, such as `≈`, and `deviation` a sign for runs far from their
    cell's median. `is_small` points are mostly start-up. `colour` is the CSS class of a comparison
    (table_points.colour_class). `bar` is the length of a bar in per cent, None for a comparison.

    `cells` has the paths of the measured cells, the baseline's first. `row` is the row of the table's CSV
    file, None if it has none.
    """

    keys: Mapping[str, str]
    kind: PointKind
    value: float | None = None
    text: str = ""
    title: str = ""
    reason: str = ""
    mark: str = ""
    deviation: str = ""
    is_small: bool = False
    colour: str = ""
    bar: int | None = None
    cells: tuple[str, ...] = ()
    row: Row | None = None


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
    """A row of a grid. `points` has None where the grid of cells has no cell.

    Rows with the same `group` stand below a heading of their own, "" without groups. `slug` is the end of
    the row's anchor, `keys` has the row's axis values.
    """

    group: str
    labels: Sequence[Label]
    points: Sequence[Point | None]
    slug: str
    keys: Mapping[str, str]


@dataclass(frozen=True)
class Grid:
    """A grid of numbers. `headings` has a line for each column axis.

    `block_starts` is True for each column that begins a block. `group_axis` is the axis of the rows' groups,
    "" without groups. `constant` has the row axes with only one value, and that value. `sheet_keys` has the
    values of axes in neither rows nor columns, `column_keys` the axis values of each column. `column_labels`
    name the columns in a narrow window, which has no place for headings: `cold, tuned settings`.
    """

    title: str
    headings: Sequence[Sequence[Heading]]
    block_starts: Sequence[bool]
    rows: Sequence[GridRow]
    group_axis: str
    constant: Sequence[tuple[str, str]]
    sheet_keys: Mapping[str, str]
    column_keys: Sequence[Mapping[str, str]]
    column_labels: Sequence[str]

    @property
    def points(self) -> list[Point]:
        return [point for row in self.rows for point in row.points if point]


@dataclass(frozen=True)
class Layout:
    """The keys of a table's rows and columns, and the `rest`: the keys that select one of its grids.

    `order` has the values of each key in the order of the study. `compared` is the axis of the values of
    the key `candidate`, "" for a table that compares nothing.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rest: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    compared: str = ""

    def axis_of(self, key: str) -> str:
        return self.compared if key == CANDIDATE else key

    def place_label(self, keys: Mapping[str, str]) -> str:
        """Return the words for a place: `cold log over svn (ruby, f7)`."""
        values = {self.axis_of(key): value for key, value in keys.items()}
        return case_label(values, list(values))

    def ordered_values(self, points: Iterable[Point], keys: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the different combinations of values that points have for `keys`, in the order of the study.

        Example for the keys cache and access: `[("cold", "http"), ("cold", "svn"), ("hot", "svn")]`. Values
        that the order lacks come last, whole numbers by size and other texts by alphabet.
        """
        ranks_of_keys = []
        for key in keys:
            # "" is first: the axis does not apply to the cell.
            values_in_order = ["", *self.order.get(key, ())]
            ranks_of_keys.append({value: rank for rank, value in enumerate(values_in_order)})

        def sort_key(values: tuple[str, ...]) -> list[tuple[int, str]]:
            """Return the rank of each value. The text only decides between values that the order lacks."""
            parts = []
            for ranks, value in zip(ranks_of_keys, values, strict=True):
                rank = ranks.get(value, len(ranks))
                # With zeros in front, 9 comes before 10.
                text = value.zfill(9) if value.isdigit() else value
                parts.append((rank, text))
            return parts

        different = {values_in(point.keys, keys) for point in points}
        return sorted(different, key=sort_key)

    def caption(self, points: Iterable[Point]) -> str:
        """Return the axes that vary: `Rows: access and format; columns: cache.`, "" if none does."""
        keys_of_points = [point.keys for point in points]
        phrases = []
        for direction, keys in (("rows", self.rows), ("columns", self.columns)):
            labels = [axis_label(self.axis_of(key)) for key in varying(keys_of_points, keys)]
            if labels:
                phrases.append(f"{direction}: {words.enumeration(labels)}")
        if not phrases:
            return ""
        return f"{'; '.join(phrases).capitalize()}."


@dataclass(frozen=True)
class LeftOut:
    """The numbers of rows and columns that a table leaves out, because no place in them has a number."""

    rows: int = 0
    columns: int = 0

    @property
    def sentence(self) -> str:
        """Return `3 rows and 1 column without a result are left out.`, "" if nothing is left out."""
        parts = []
        if self.rows:
            parts.append(words.count_of(self.rows, "row"))
        if self.columns:
            parts.append(words.count_of(self.columns, "column"))
        if not parts:
            return ""
        verb = "is" if self.rows + self.columns == 1 else "are"
        return f"{' and '.join(parts)} without a result {verb} left out."


def make_layout(definition: TableDefinition, order: Mapping[str, Sequence[str]]) -> Layout:
    """Return the layout of a table: its rows and columns from its definition, the other keys as the rest.

    `order` maps each axis of the study to its values in order. The compared axis of a table is replaced by
    the key CANDIDATE.
    """
    compare = definition.get("compare")
    compared = compare["axis"] if compare else ""
    order_of_keys = dict(order)
    keys = [axis for axis in order if axis != compared]
    keys += definition.get("by", [])
    if "each" in definition:
        # A table of several counts has them side by side, as if they were an axis.
        keys.append(COUNT)
        order_of_keys[COUNT] = definition["each"]
    if compare:
        keys.append(CANDIDATE)
        order_of_keys[CANDIDATE] = compare["candidates"]

    rows, columns = tuple(definition["rows"]), tuple(definition["columns"])
    rest = tuple(key for key in keys if key not in rows and key not in columns)
    return Layout(rows, columns, rest, order_of_keys, compared)


def leave_out_empty(points: Sequence[Point], layout: Layout) -> tuple[list[Point], LeftOut]:
    """Return the points outside of empty rows and columns, and how many of both are left out.

    A row or column is empty if no point in it has a number. This is decided for each grid of the table.
    """
    shown = []
    empty_rows = 0
    empty_columns = 0
    for sheet in grouped_by(points, lambda point: values_in(point.keys, layout.rest)).values():
        rows = {values_in(point.keys, layout.rows) for point in sheet}
        columns = {values_in(point.keys, layout.columns) for point in sheet}
        numbers = [point for point in sheet if point.value is not None]
        filled_rows = {values_in(point.keys, layout.rows) for point in numbers}
        filled_columns = {values_in(point.keys, layout.columns) for point in numbers}
        empty_rows += len(rows) - len(filled_rows)
        # A grid without any number is left out with all its rows, which is all that readers need to know.
        if numbers:
            empty_columns += len(columns) - len(filled_columns)
        for point in sheet:
            is_in_filled_row = values_in(point.keys, layout.rows) in filled_rows
            is_in_filled_column = values_in(point.keys, layout.columns) in filled_columns
            if is_in_filled_row and is_in_filled_column:
                shown.append(point)
    return shown, LeftOut(empty_rows, empty_columns)


def make_grids(points: Sequence[Point], layout: Layout) -> list[Grid]:
    """Return a grid for each combination of values of the keys that are in neither rows nor columns."""
    sheets = grouped_by(points, lambda point: values_in(point.keys, layout.rest))
    return [
        _make_grid(sheets[values], layout) for values in layout.ordered_values(points, layout.rest)
    ]


def _make_grid(points: Sequence[Point], layout: Layout) -> Grid:
    """Return the grid of points that differ only in the keys of rows and columns.

    An axis of the rows that has one value stands at the corner. Of several others, the first one becomes a
    heading above groups of rows. The remaining ones label the rows.
    """
    row_values = layout.ordered_values(points, layout.rows)
    column_values = layout.ordered_values(points, layout.columns)
    row_axes = [layout.axis_of(key) for key in layout.rows]
    column_axes = [layout.axis_of(key) for key in layout.columns]
    block_starts = _find_block_starts(column_values)

    # The positions of the row axes with more than one value in this grid.
    varying_positions = []
    for position, values_of_axis in enumerate(zip(*row_values, strict=True)):
        if len({*values_of_axis}) > 1:
            varying_positions.append(position)
    # The first axis groups the rows, if another one distinguishes the rows of a group.
    group_position = varying_positions[0] if len(varying_positions) > 1 else None
    label_positions = [position for position in varying_positions if position != group_position]

    # An axis with only one value stands once at the corner of the grid, not in each row.
    constant = []
    for position, axis in enumerate(row_axes):
        value = row_values[0][position]
        if value and position not in varying_positions:
            constant.append((axis, value))

    # The place of a point: its values of the row keys, followed by its values of the column keys.
    point_at = {values_in(point.keys, layout.rows + layout.columns): point for point in points}
    sheet_values = values_in(points[0].keys, layout.rest)
    rows = []
    values_above: tuple[str, ...] = ()
    for values in row_values:
        row = GridRow(
            group="" if group_position is None else values[group_position],
            labels=_make_labels(values, values_above, label_positions, row_axes),
            points=[point_at.get(values + of_column) for of_column in column_values],
            slug=words.slug(" ".join(sheet_values + values)),
            keys=dict(zip(layout.rows, values, strict=True)),
        )
        rows.append(row)
        values_above = values
    return Grid(
        title=_make_title(points[0], layout),
        headings=_make_headings(column_values, column_axes, block_starts),
        block_starts=block_starts,
        rows=rows,
        group_axis="" if group_position is None else row_axes[group_position],
        constant=constant,
        sheet_keys=dict(zip(layout.rest, sheet_values, strict=True)),
        column_keys=[dict(zip(layout.columns, values, strict=True)) for values in column_values],
        column_labels=[_label_column(values, column_axes) for values in column_values],
    )


def _make_labels(
    values: Sequence[str],
    values_above: Sequence[str],
    positions: Sequence[int],
    axes: Sequence[str],
) -> list[Label]:
    """Return the labels of a row: its values at some `positions`, with their axes.

    A label is repeated (printed in grey) if all values up to it equal the values of the row above
    (`values_above`, () for the first row).
    """
    labels = []
    for position in positions:
        # The last label distinguishes a row from the row above, so it is never grey.
        is_last = position == positions[-1]
        is_same = values[: position + 1] == values_above[: position + 1]
        labels.append(Label(values[position], is_same and not is_last, axes[position]))
    return labels


def _make_title(point: Point, layout: Layout) -> str:
    """Return the values that all points of a grid share, from one of its points: `ruby, f7`."""
    values = {}
    for key in layout.rest:
        # The only candidate is in the title of the table.
        is_only_candidate = key == CANDIDATE and len(layout.order.get(CANDIDATE, ())) == 1
        if not is_only_candidate:
            values[layout.axis_of(key)] = point.keys.get(key, "")
    return values_label(values, values)


def _label_column(values: Sequence[str], axes: Sequence[str]) -> str:
    """Return the values of a column in words: `cold, tuned settings`."""
    texts = []
    for axis, value in zip(axes, values, strict=True):
        if value:
            texts.append(value_label(axis, value))
    return ", ".join(texts)


def _find_block_starts(columns: Sequence[tuple[str, ...]]) -> list[bool]:
    """Return for each column whether it begins a block.

    Columns with several values form a block if their first value is the same: all `cold` columns are one
    block. With only one value each, only the first column begins a block.
    """
    starts = [True]
    for left, column in pairwise(columns):
        starts.append(len(column) > 1 and left[0] != column[0])
    return starts


def _make_headings(
    columns: Sequence[tuple[str, ...]], axes: Sequence[str], block_starts: Sequence[bool]
) -> list[list[Heading]]:
    """Return a line of headings for each axis, from the values of the columns in order.

    Columns with the same values up to an axis share its heading: `cold` stands over `http` and `svn`.
    """
    lines = []
    for depth, axis in enumerate(axes, 1):
        # The columns are sorted, so that those with the same first values are next to each other.
        spans = Counter(column[:depth] for column in columns)
        line = []
        start = 0
        for values, span in spans.items():
            line.append(Heading(values[-1], span, block_starts[start], axis))
            start += span
        lines.append(line)
    return lines


def align_published(
    published: Sequence[Point],
    measured: Sequence[Point],
    layout: Layout,
    repository_axes: Sequence[str],
) -> list[Point]:
    """Return the published points in the places of the measured ones, so that both grids look alike.

    A place without a published number gets a point with the text `·`. `repository_axes` are the axes whose
    values are names of repositories. If none of the measured repositories was published, each measured place
    gives a place for each published repository.
    """
    # By axis: the published repositories, if the user measured only other ones, such as his own.
    published_names: dict[str, list[str]] = {}
    for axis in repository_axes:
        names = unique_values(point.keys.get(axis, "") for point in published)
        measured_names = {point.keys.get(axis, "") for point in measured}
        if measured_names.isdisjoint(names):
            published_names[axis] = names

    keys_of_place = (*layout.rest, *layout.rows, *layout.columns)
    published_at = {values_in(point.keys, keys_of_place): point for point in published}
    aligned: dict[tuple[str, ...], Point] = {}
    for point in measured:
        # The possible values of each key: only a repository can have several.
        values_of_keys = [published_names.get(key, [value]) for key, value in point.keys.items()]
        for values in product(*values_of_keys):
            keys = dict(zip(point.keys, values, strict=True))
            blank = Point(keys, PointKind.UNPUBLISHED, text="·", title="not published")
            place = values_in(keys, keys_of_place)
            aligned[place] = published_at.get(place, blank)
    return list(aligned.values())


def format_numbers(points: Iterable[Point], layout: Layout, unit: str) -> list[Point]:
    """Return points of a table that compares nothing, with their numbers as texts and bars.

    The numbers of a column have the same decimals: 1.24 and 0.62. The largest number of a grid has a bar of
    100 %. The points are grouped by grid and column, no longer in the order in which they came.
    """
    formatted = []
    for sheet in grouped_by(points, lambda point: values_in(point.keys, layout.rest)).values():
        largest = max((point.value for point in sheet if point.value is not None), default=0.0)
        columns = grouped_by(sheet, lambda point: values_in(point.keys, layout.columns))
        for column in columns.values():
            decimals = words.decimals((point.value for point in column), unit)
            for point in column:
                if point.value is None:
                    formatted.append(point)
                    continue
                # Counts can all be 0.
                bar = round(100 * point.value / largest) if largest > 0 else 0
                formatted.append(replace(point, text=words.fixed(point.value, decimals), bar=bar))
    return formatted
