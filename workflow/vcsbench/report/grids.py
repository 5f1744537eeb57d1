"""The grids of a page: the rows of tables as points, laid out as in the published study."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import (
    axis_label,
    case_label,
    change,
    change_between,
    detectable_text,
    value_label,
)
from vcsbench.codes import Call, WhyUndecided
from vcsbench.config.study import matches_cell
from vcsbench.evidence.flags import INVALID
from vcsbench.evidence.same_work import OTHER, UNKNOWN
from vcsbench.metrics import COUNT, Metric, metric_in
from vcsbench.plan.grid import originals
from vcsbench.plan.result_state import OUTDATED
from vcsbench.report.results import (
    Rows,
    grouped_by,
    unique_values,
    values_in,
    values_label,
    varying,
)
from vcsbench.statistics import comparisons, texts

# In this order. Deviations are hidden until the reader asks for them.
MARKS = {"same-binaries": "=", "low-n": "?"}
DEVIATIONS = {"outlier-20": "‡", "outlier-10": "†"}
CALL_MARKS = {Call.EQUAL: "≈", Call.BOUNDED: "~", Call.UNDECIDED: "~", Call.TOO_SMALL: "s"}
ABSENT = {
    "skipped": ("n/a", "cannot be measured here"),
    "failed": ("failed", "no round has a result"),
    "outdated": ("outdated", "measured with other settings, programs, or another version"),
    "withheld": ("left out", "invalid runs or other work: point at it for the reason"),
}
CORRECTED = (
    "The interval is of this number alone. The call is corrected for all comparisons of its table, "
    "because some are far out by chance."
)
# The factors at which the next colour begins: 10 % shows, and 10 times does not drown it.
COLOUR_STEPS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Point:
    """A place of a grid. Without a number, `value` is None and `text` explains.

    `kind` is `measured` or `published`; without a number `skipped`, `failed`, `outdated`, `withheld`
    (measured, but no run counts) or `unpublished`. `deviation` marks runs far from their cell's median,
    `bar` is in per cent, `cells` has the measured cells (baseline first).
    """

    keys: Mapping[str, str]
    kind: str
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


class Heading(NamedTuple):
    """A heading of an axis value over `span` columns; `first` if a block of columns begins there."""

    text: str
    span: int
    first: bool
    axis: str


class Label(NamedTuple):
    """An axis value in a row's header; `repeated` if the row above has the same."""

    text: str
    repeated: bool
    axis: str


class GridRow(NamedTuple):
    """A row; `points` has None where the grid has no cell, `slug` is the end of its anchor.

    `group` is the value of the first row axis that varies, "" if only one does.
    """

    group: str
    labels: Sequence[Label]
    points: Sequence[Point | None]
    slug: str
    of: Mapping[str, str]


@dataclass(frozen=True)
class Grid:
    """A grid. `starts` marks columns at which a block begins, `constant` has row axes with one value.

    `group_axis` is the axis of the rows' groups. `of` has the values of the other axes, `across` the axis
    values of each column.
    """

    title: str
    headings: Sequence[Sequence[Heading]]
    starts: Sequence[bool]
    rows: Sequence[GridRow]
    group_axis: str
    constant: Sequence[tuple[str, str]]
    of: Mapping[str, str]
    across: Sequence[Mapping[str, str]]

    @property
    def points(self) -> list[Point]:
        return [point for row in self.rows for point in row.points if point]


@dataclass(frozen=True)
class Layout:
    """The axes in rows, in columns, and the rest, with a grid per value; the order of their values.

    `compared` is the axis of the values of `candidate`.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    rest: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    compared: str = ""

    def axis_of(self, key: str) -> str:
        return self.compared if key == "candidate" else key

    def label(self, keys: Mapping[str, str]) -> str:
        named = {self.axis_of(key): value for key, value in keys.items()}
        return case_label(named, [*named])

    def ordered(self, points: Iterable[Point], axes: Sequence[str]) -> list[tuple[str, ...]]:
        ranks = [{value: i for i, value in enumerate(["", *self.order.get(a, ())])} for a in axes]

        def rank(values: tuple[str, ...]) -> list[tuple[int, str]]:
            pairs = zip(ranks, values, strict=True)
            return [(r.get(v, len(r)), v.zfill(9) if v.isdigit() else v) for r, v in pairs]

        return sorted({values_in(point.keys, axes) for point in points}, key=rank)

    def caption(self, points: Iterable[Point]) -> str:
        keys, phrases = [point.keys for point in points], []
        for name, axes in (("rows", self.rows), ("columns", self.columns)):
            named = [axis_label(self.axis_of(axis)) for axis in varying(keys, axes)]
            phrases += [f"{name}: {words.enumeration(named)}"] if named else []
        return f"{'; '.join(phrases).capitalize()}." if phrases else ""


def layout_of(definition: Row, order: Mapping[str, Sequence[str]]) -> Layout:
    compare, order = definition.get("compare") or {}, dict(order)
    keys = [axis for axis in order if axis != compare.get("axis")] + definition.get("by", [])
    if "each" in definition:
        keys.append(COUNT)
        order[COUNT] = definition["each"]
    if compare:
        keys.append("candidate")
        order["candidate"] = compare["candidates"]
    rows, columns = tuple(definition["rows"]), tuple(definition["columns"])
    rest = tuple(key for key in keys if key not in rows and key not in columns)
    return Layout(rows, columns, rest, order, compare.get("axis", ""))


def make_grids(points: Iterable[Point], layout: Layout) -> list[Grid]:
    points = list(points)
    sheets = grouped_by(points, lambda point: values_in(point.keys, layout.rest))
    return [_grid(sheets[keys], layout) for keys in layout.ordered(points, layout.rest)]


def _grid(points: Sequence[Point], layout: Layout) -> Grid:
    names, columns = (layout.ordered(points, axes) for axes in (layout.rows, layout.columns))
    row_axes = [layout.axis_of(axis) for axis in layout.rows]
    places = {values_in(p.keys, layout.rows + layout.columns): p for p in points}
    rest = values_in(points[0].keys, layout.rest)
    several = [i for i, values in enumerate(zip(*names, strict=True)) if len({*values}) > 1]
    grouping, inner = (several[:1], several[1:]) if len(several) > 1 else ([], several)
    rows = [
        GridRow(
            group="".join(name[i] for i in grouping),
            labels=[
                Label(name[i], i != inner[-1] and above[: i + 1] == name[: i + 1], row_axes[i])
                for i in inner
            ],
            points=[places.get(name + column) for column in columns],
            slug=words.slug(" ".join(rest + name)),
            of=dict(zip(layout.rows, name, strict=True)),
        )
        for above, name in pairwise([(), *names])
    ]
    has_one = len(layout.order.get("candidate", ())) == 1
    titles = {
        layout.axis_of(axis): points[0].keys.get(axis, "")
        for axis in layout.rest
        if axis != "candidate" or not has_one
    }
    first = names[0]
    constant = [(a, first[i]) for i, a in enumerate(row_axes) if i not in several and first[i]]
    return Grid(
        values_label(titles, titles),
        *_headings(columns, [layout.axis_of(axis) for axis in layout.columns]),
        rows,
        "".join(row_axes[i] for i in grouping),
        constant,
        dict(zip(layout.rest, rest, strict=True)),
        [dict(zip(layout.columns, column, strict=True)) for column in columns],
    )


def _headings(
    columns: Sequence[tuple[str, ...]], axes: Sequence[str]
) -> tuple[list[list[Heading]], list[bool]]:
    pairs = pairwise([(), *columns])
    starts = [not left or (len(axes) > 1 and left[0] != column[0]) for left, column in pairs]
    levels = []
    for depth, axis in enumerate(axes, 1):
        spans = grouped_by(range(len(columns)), lambda n: columns[n][:depth])  # noqa: B023
        levels.append(
            [Heading(path[-1], len(at), starts[at[0]], axis) for path, at in spans.items()]
        )
    return levels, starts


def align_published(
    published: Sequence[Point],
    measured: Sequence[Point],
    layout: Layout,
    repositories: Sequence[str],
) -> list[Point]:
    """Return the published points in the places of the measured ones, blank if nothing was published.

    `repositories` are axes with the user's names: if no name is shared, all published ones are shown.
    """
    axes = (*layout.rest, *layout.rows, *layout.columns)
    places = {values_in(point.keys, axes): point for point in published}
    aligned: dict[tuple[str, ...], Point] = {}
    foreign: dict[str, list[str]] = {}
    for axis in repositories:
        theirs = unique_values(point.keys.get(axis, "") for point in published)
        if {*theirs}.isdisjoint(point.keys.get(axis, "") for point in measured):
            foreign[axis] = theirs
    for point in measured:
        for values in product(*(foreign.get(axis, [value]) for axis, value in point.keys.items())):
            keys = dict(zip(point.keys, values, strict=True))
            place = values_in(keys, axes)
            blank = Point(keys, "unpublished", text="·", title="not published")
            aligned[place] = places.get(place, blank)
    return [*aligned.values()]


def with_numbers(points: Iterable[Point], layout: Layout, unit: str) -> list[Point]:
    """Return the points with text and bar. The numbers of a column have the same decimals."""
    made = []
    for sheet in grouped_by(points, lambda point: values_in(point.keys, layout.rest)).values():
        largest = max((p.value for p in sheet if p.value is not None), default=0.0)
        columns = grouped_by(sheet, lambda point: values_in(point.keys, layout.columns))
        for column in columns.values():
            places = words.decimals((point.value for point in column), unit)
            for point in column:
                if point.value is not None:
                    bar = round(100 * point.value / largest) if largest > 0 else 0
                    point = replace(point, text=words.fixed(point.value, places), bar=bar)
                made.append(point)
    return made


def has_interval(row: Row) -> bool:
    return words.is_number(row.get("ratio")) and words.is_number(row.get("low"))


def ratio_of(row: Row) -> float:
    return float(row["ratio"] if has_interval(row) else 1 + row["value"] / 100)


def change_words(metric: Metric) -> tuple[str, str]:
    """Return the words for a ratio above 1 and below 1 after a factor: `faster`, `less often`."""
    more, less = (w if metric.words.verb else w.partition(" ")[2] for w in metric.change_words)
    return more, less


def percent(ratio: float) -> str:
    """Return a ratio in per cent with its sign: `+7.2`, `+118`."""
    deviation = 100 * (ratio - 1)
    return words.percentage(deviation, 0 if abs(deviation) >= 9.95 else 1)


def colour_of(deviation: float, gain: int) -> str:
    """Return the style of a deviation in per cent: `x3` for a better baseline, `y3` for a better candidate.

    `gain` is 1 if a ratio above 1 is good for the candidate. "" for about the same.
    """
    ratio = 1 + deviation / 100
    size = math.exp(abs(math.log(ratio))) if ratio > 0 else math.inf
    step = bisect_right(COLOUR_STEPS, size + 1e-9)
    return f"{'y' if (ratio > 1) == (gain > 0) else 'x'}{step}" if step else ""


@dataclass(frozen=True)
class ExpectedRow:
    """A row that the grid requires of a table. `flags` are the flags of its cells' invalid runs."""

    keys: Mapping[str, str]
    cells: tuple[str, ...] = ()
    skip: str = ""
    failures: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    is_outdated: bool = False


def measured_points(
    definition: Row, rows: Rows, expected: Sequence[ExpectedRow], in_words: bool = False
) -> list[Point]:
    """Return the points of a table. `in_words` prints a ratio as cards do, not as it was published."""
    names = list(expected[0].keys) if expected else []
    measured = grouped_by(
        rows, lambda row: tuple(row[name] for name in names or comparisons.keys_of(row))
    )
    found: list[tuple[ExpectedRow, Row | None]] = []
    for place in expected:
        found += [(place, row) for row in measured.pop(tuple(place.keys.values()), [None])]
    others = (row for of in measured.values() for row in of)
    found += [(ExpectedRow(comparisons.keys_of(row)), row) for row in others]
    return [
        _numbered(definition, row, place, in_words)
        if row is not None and words.is_number(row["value"])
        else _absent(place, row)
        for place, row in found
    ]


def _numbered(definition: Row, row: Row, expected: ExpectedRow, in_words: bool) -> Point:
    flags, compares = row["flags"].split(), bool(definition.get("compare"))
    flagged = [f"Flagged {words.enumeration(flags)}."] if flags else []
    call = row.get("call", "")
    mark = CALL_MARKS.get(call, "")
    if compares and _comparison(row).why_undecided == WhyUndecided.FEW_ROUNDS:
        mark = ""
    differs = comparisons.is_difference(call)
    point = numbered_point(definition, row, "measured", differs)
    if compares:
        ratio, changes = ratio_of(row), change_words(metric_in(definition))
        point = replace(point, text=change(ratio, changes) if in_words else percent(ratio))
    return replace(
        point,
        mark=mark + "".join(sign for flag, sign in MARKS.items() if flag in flags),
        deviation=next((sign for flag, sign in DEVIATIONS.items() if flag in flags), ""),
        is_small=call == Call.TOO_SMALL,
        title=" ".join([*number_sentences(row, definition), *expected.failures, *flagged]),
        # A row of a table by runs is not all of a cell.
        cells=() if definition.get("by") else expected.cells,
        row=row,
    )


def numbered_point(definition: Row, row: Row, kind: str, differs: bool) -> Point:
    if not definition.get("compare"):
        return Point(comparisons.keys_of(row), kind, row["value"])
    value = 100 * (ratio_of(row) - 1)
    colour = colour_of(value, metric_in(definition).gain) if differs else "same"
    return Point(comparisons.keys_of(row), kind, value, text=words.percentage(value), colour=colour)


def _absent(expected: ExpectedRow, row: Row | None) -> Point:
    keys = comparisons.keys_of(row) if row else expected.keys
    if expected.skip:
        title = f"not measured: {expected.skip}"
        return Point(keys, "skipped", text=ABSENT["skipped"][0], title=title)
    if expected.failures and row is None and not expected.flags:
        kind, title = "failed", "; ".join(expected.failures)
        if expected.is_outdated:
            kind, title = "outdated", texts.OUTDATED
        return Point(keys, kind, text=kind, title=title)
    flags = row["flags"].split() if row is not None else expected.flags
    if row is None or not row.get("withheld"):
        why = f"flagged {words.enumeration(flags)}" if flags else "no run of it counts"
        return Point(keys, "withheld", text="left out", title=f"{why}; see Flags")
    short = {UNKNOWN: "unknown", OTHER: "other work"}
    text = next((short[flag] for flag in flags if flag in short), "left out")
    why = texts.withheld_text(row["withheld"].split(), row.get("detail") or "")
    return Point(keys, "withheld", text=text, title=why, reason=why)


def _comparison(row: Row) -> comparisons.ComparisonRow:
    return comparisons.ComparisonRow.of_record(row)


def sides_of(definition: Row) -> tuple[str, str]:
    compare = definition["compare"]
    first, *others = (
        value_label(compare["axis"], value)
        for value in (compare["baseline"], *compare["candidates"])
    )
    return first, " or ".join(others)


def number_sentences(row: Row, definition: Row) -> list[str]:
    """Return a number in words, with its rounds, its interval and its call."""
    metric, rounds = metric_in(definition), words.count_of(int(row["n"] or 0), "round")
    over = "counted once" if metric.once else f"over {rounds}"
    if not definition.get("compare"):
        reduction = definition.get("reduce", "median")
        of = over if metric.once else f"the {reduction} {over}"
        return [f"{words.with_unit(row['value'], metric.unit)}, {of}."]
    candidate = value_label(definition["compare"]["axis"], row["candidate"])
    quotient = f"{metric.quantity} {sides_of(definition)[0]} ÷ {metric.quantity} {candidate}"
    ratio, changes = ratio_of(row), change_words(metric)
    comparison = _comparison(row)
    text, number = f"{candidate}: {change(ratio, changes)}", words.significant(ratio)
    if not has_interval(row):
        return [f"{text}, {over}; too few for an interval. {quotient} = {number}."]
    if comparison.call and comparisons.is_difference(comparison.call):
        more, less = metric.change_words
        calls = [f"{candidate} {metric.words.verb}{more if ratio > 1 else less}."]
    elif comparison.why_undecided:
        calls = [f"Undecided: {texts.UNDECIDED[comparison.why_undecided]}."]
    else:
        calls = [f"{texts.CALLS[comparison.call or Call.UNDECIDED]}.".capitalize()]
    if comparison.is_exact:
        exact = over if metric.once else f"exact: all {rounds} count the same"
        return [f"{text}, {exact}. {quotient} = {number}.", *calls]
    interval = change_between(row["low"], row["high"], changes)
    text = f"{text} (95 % interval {interval}), over {rounds}. {quotient} = {number}."
    is_open = comparison.call in (Call.BOUNDED, Call.UNDECIDED)
    if is_open and not row["low"] <= 1 <= row["high"]:
        calls.append(CORRECTED)
    if words.is_number(row.get("detectable")):
        calls.append(f"The smallest detectable difference is {detectable_text(row['detectable'])}.")
    return [text, *calls]


def expected_rows(
    definition: Row, axes: Sequence[str], grid: Rows, failures: Rows, measurements: Rows
) -> list[ExpectedRow]:
    """Return the rows that the cells of a grid make in a study's table, in the grid's order.

    `grid` has cell, the axes, skip; `failures` cell, round, reason; `measurements` cell, flags.
    """
    failed = grouped_by(failures, lambda failure: failure["cell"])
    runs = grouped_by(measurements, lambda run: run["cell"])
    where = definition.get("where", {})
    selected = [cell for cell in originals(grid) if matches_cell(cell, where)]
    expected = []
    for keys, cells in _rows_of_grid(definition.get("compare") or {}, axes, selected):
        names = tuple(cell["cell"] for cell in cells)
        skip = next((cell["skip"] for cell in cells if cell["skip"]), "")
        lost = [failure for name in names for failure in failed.get(name, [])]
        reasons = tuple(f"round {failure['round']:.0f}: {failure['reason']}" for failure in lost)
        flags = {f for name in names for run in runs.get(name, []) for f in run["flags"].split()}
        is_old = bool(lost) and all(failure["reason"] == OUTDATED for failure in lost)
        invalid = tuple(sorted(flags & INVALID))
        expected.append(ExpectedRow(keys, names, skip, reasons, invalid, is_old))
    return expected


def _rows_of_grid(
    compare: Row, axes: Sequence[str], grid: Rows
) -> Iterator[tuple[dict[str, str], list[Row]]]:
    compared = compare.get("axis", "")
    by_axes = {values_in(cell, axes): cell for cell in grid}
    for cell in grid:
        keys = {axis: cell[axis] for axis in axes if axis != compared}
        if compared not in axes:
            yield keys | ({"candidate": compare["candidates"][0]} if compare else {}), [cell]
        elif cell[compared] in compare["candidates"]:
            partner = by_axes.get(values_in({**cell, compared: compare["baseline"]}, axes))
            if partner:
                yield keys | {"candidate": cell[compared]}, [partner, cell]
