"""The sections of a page with a study's tables: grids of numbers, legends, keys and downloads."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.config.study import Study
from vcsbench.evidence.same_work import by_reason
from vcsbench.metrics import metric_in
from vcsbench.report.grids import (
    ABSENT,
    COLOUR_STEPS,
    Grid,
    Layout,
    Point,
    colour_of,
    expected_rows,
    has_interval,
    layout_of,
    make_grids,
    matching,
    measured_points,
    numbered_point,
    with_numbers,
)
from vcsbench.report.results import Results, grouped_by, unique, values_in

KEY = {
    "≈": "equal: the difference is below the smallest effect worth noting",
    "~": "undecided: too noisy",
    "s": "mostly start-up, decides nothing (hatched)",
    "=": "the same binaries under two names (A/A test)",
    "?": "too few rounds for an interval",
}


@dataclass(frozen=True)
class PlainTable:
    """A table of texts; a list of texts is folded. Columns from `numbers_from` are aligned right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Sequence[str]]]
    numbers_from: int = 99
    note: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Download:
    """A file of the study: its path next to the page, and its content as a data URL."""

    path: str
    data: str
    name: str


def download(path: str, kind: str, content: bytes, name: str) -> Download:
    """Return the file at a path below the results, of a MIME type, with its content under another name."""
    data = base64.b64encode(content).decode()
    return Download(f"../results/{path}", f"data:{kind};base64,{data}", name)


@dataclass(frozen=True)
class SideBySide:
    """A measured grid and the published one in the same layout; either may be missing."""

    title: str
    measured: Grid | None
    published: Grid | None


@dataclass(frozen=True)
class Legend:
    """The colours of a table from one end to the other: style and the deviation at which each begins."""

    left: str
    swatches: Sequence[tuple[str, str]]
    right: str


@dataclass(frozen=True)
class TableSection:
    """A table of the study.

    `legend` exists if the table compares `baseline` with other values of the axis `compared`. `whole` is the
    published table if the pairs show a part of it, `reduced` the measured numbers reduced as the published
    ones. `withheld` maps reasons to the places without a number, `not_measured` explains a table without any
    number, `axes` identify a number.
    """

    name: str
    anchor: str
    reading: str
    legend: Legend | None
    pairs: Sequence[SideBySide]
    whole: Sequence[Grid]
    reduced: Sequence[Grid]
    not_measured: str
    nothing_published: str
    withheld: Mapping[str, Sequence[str]]
    download: Download | None
    notes: Sequence[str]
    axes: tuple[str, ...]
    compared: str
    baseline: str
    key: Sequence[tuple[str, str]]

    @property
    def compares(self) -> bool:
        """Return True if its values are deviations in per cent."""
        return self.legend is not None


def table_sections(results: Results, distances: Mapping[str, Sequence[str]]) -> list[TableSection]:
    """Return a section per table, featured ones first.

    With a grid, tables without any cell of it are left out. `distances` has sentences by command.
    """
    tables = unique([*results.study.featured_tables, *results.study.tables])
    sections = [_section(results, name, distances) for name in tables]
    measured = [s for s in sections if s.not_measured or any(pair.measured for pair in s.pairs)]
    return measured if results.grid else sections


def _section(results: Results, name: str, distances: Mapping[str, Sequence[str]]) -> TableSection:
    study, definition = results.study, results.study.tables[name]
    layout, rows = layout_of(definition, results.order), results.tables.get(name, [])
    metric, compare = metric_in(definition), definition.get("compare")
    expected = expected_rows(
        definition, list(study.axes), results.grid, results.failures, results.measurements
    )
    points = measured_points(definition, rows, expected)
    published = [
        numbered_point(definition, row, "published", True)
        for row in results.published.get(name, [])
        if words.is_number(row["value"])
    ]

    def grids_of(points: Sequence[Point]) -> list[Grid]:
        return make_grids(points if compare else with_numbers(points, layout, metric.unit), layout)

    # An exact metric without a counter has the same reason in all places.
    reasons = {point.reason for point in points if point.kind != "skipped"}
    missing = reasons.pop() if len(reasons) == 1 and metric.exact else ""
    pairs = _pairs([] if missing else points, published, grids_of, layout, study)
    shown = sum(p.kind == "published" for x in pairs if x.published for p in x.published.points)
    plain = [{**row, "ratio": None} for row in rows if compare and has_interval(row)]
    reduced = [
        numbered_point(definition, r, "measured", False)
        for r in plain
        if words.is_number(r["value"])
    ]
    commands = {study.command_name(row) for row in rows}
    return TableSection(
        name=name,
        anchor=f"table-{words.slug(name)}",
        reading=_reading(definition, bool(reduced), layout.caption(points or published)),
        legend=_legend(definition),
        pairs=pairs,
        whole=grids_of(published) if shown < len(published) else [],
        reduced=grids_of(reduced),
        withheld=by_reason((p.reason, p.keys) for p in points if p.reason and not missing),
        not_measured=missing,
        nothing_published="" if published else _nothing_published(results, name),
        download=csv_download(results, f"tables/{study.name}/{name}.csv"),
        notes=[
            *results.notes.get(name, ()),
            *(text for command, of in distances.items() if command in commands for text in of),
        ],
        axes=layout.axes,
        compared=layout.compared,
        baseline=compare["baseline"] if compare else "",
        key=_key(points, bool(compare)),
    )


def _pairs(
    measured: Sequence[Point],
    published: Sequence[Point],
    grids_of: Callable[[Sequence[Point]], list[Grid]],
    layout: Layout,
    study: Study,
) -> list[SideBySide]:
    if not measured:
        return [SideBySide(grid.title, None, grid) for grid in grids_of(published)]
    theirs = grouped_by(published, lambda point: values_in(point.keys, layout.rest))
    pairs = []
    for grid in grids_of(measured):
        same = theirs.get(tuple(grid.of.values()), [])
        near = matching(same, grid.points, layout, study.axes_of("repositories")) if same else []
        shown = any(point.kind == "published" for point in near)
        pairs.append(SideBySide(grid.title, grid, grids_of(near)[0] if shown else None))
    return pairs


def _reading(definition: Row, is_reduced: bool, caption: str) -> str:
    """Return the meaning of a table's numbers in a sentence or two."""
    metric, reduction = metric_in(definition), definition.get("reduce", "median")
    if not definition.get("compare"):
        text = f"{metric.title}, in {metric.unit}: the {reduction} of all runs."
        return f"{metric.reading if reduction == 'median' else text} {caption}".strip()
    x, y = sides(definition)
    above = "above" if metric.gain > 0 else "below"
    ratio = f"{metric.quantity} {x} ÷ {metric.quantity} {y}"
    text = f"100 {words.TIMES} ({ratio} {words.MINUS} 1), in per cent: "
    text += f"{above} 0, {y} {metric.words.is_better}."
    if is_reduced:
        names = {"median": "medians", "best": "the best runs", "worst": "the worst runs"}
        text += " Measured: the geometric mean of the rounds' ratios, with its 95 % interval."
        text += f" Published: the ratio of {names[reduction]}."
    return f"{text} {caption}".strip()


def sides(definition: Row) -> tuple[str, str]:
    """Return the sides that a table compares: the baseline and its candidates."""
    return definition["compare"]["baseline"], " or ".join(definition["compare"]["candidates"])


def _legend(definition: Row) -> Legend | None:
    if not definition.get("compare"):
        return None
    metric = metric_in(definition)
    left, right = (f"{side} {metric.words[0]}" for side in sides(definition))
    steps = [*(1 / f for f in reversed(COLOUR_STEPS)), *COLOUR_STEPS]
    deviations = [100 * (step - 1) for step in steps]
    swatches = [(colour_of(d, metric.gain), words.percentage(d)) for d in deviations]
    swatches.insert(len(COLOUR_STEPS), ("", ""))
    return Legend(left, swatches[:: metric.gain], right)


def _key(points: Sequence[Point], compares: bool) -> list[tuple[str, str]]:
    """Return the key of a table: each mark and each sign that its points show, with its meaning."""
    marks = {mark for point in points for mark in point.mark}
    kinds = {point.kind for point in points}
    key = [(mark, meaning) for mark, meaning in KEY.items() if mark in marks]
    bar = ("▁", "a bar as long as the number, against the largest of the table")
    key.append(("grey", "no difference is called") if compares else bar)
    key.append(("·", "not in the grid, or not published"))
    key += [text for kind, text in ABSENT.items() if kind in kinds]
    if any(point.deviation for point in points):
        key.append(("† ‡", "a run is over 10 or 20 % from its cell's median (shown on request)"))
    return key


def _nothing_published(results: Results, name: str) -> str:
    if name in results.notes:
        return "A saved baseline has no published numbers."
    if not results.study.published:
        return ""
    if results.study.tables[name].get("published") is False:
        return "The study published nothing for this table."
    return "The published table does not exist yet. Run: make published-tables"


def csv_download(results: Results, path: str) -> Download | None:
    """Return the CSV file of a table as a link next to the page, and as data inside it."""
    if path not in results.texts:
        return None
    name = path.partition("/")[2].replace("/", "-")
    return download(path, "text/csv;charset=utf-8", results.texts[path].encode(), name)
