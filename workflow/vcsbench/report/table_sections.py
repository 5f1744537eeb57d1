"""The sections of a page with a study's tables: grids, legends, keys and downloads."""

import base64
import gzip
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.answer_texts import LESS_WORK, has_less_work
from vcsbench.advice.decision import Row, compares_times
from vcsbench.advice.labels import (
    at_least_1,
    case_label,
    change,
    change_between,
    factor,
    seconds,
    value_label,
)
from vcsbench.axes.cache_states import pictograms
from vcsbench.config.study import Study, axis_values
from vcsbench.metrics import DEFAULT, metric_in
from vcsbench.report import grids
from vcsbench.report.grids import Grid, Layout, Point, sides_of
from vcsbench.report.results import (
    Results,
    contradicts_medians,
    grouped_by,
    median_seconds,
    unique_values,
    values_in,
)
from vcsbench.statistics import comparisons
from vcsbench.statistics.baselines import table_name

KEY = {
    "≈": "equal: the difference is shown to be below the smallest effect worth noting",
    "~": "undecided: too noisy",
    "s": "too small to compare: mostly start-up (hatched)",
    "=": "the same binaries under two names (A/A test)",
    "?": "undecided: too few rounds",
    "m": "the medians of both sides differ by another factor: click the number for both",
}
PER_CENT = ("+150", "per cent, as published: cards print it as the factor 2.5x")
# From here on, cards print a factor in place of per cent.
LARGE_PCT = 9.95
BAR = ("▁", "its length is the number's share of the largest one in the table")
GREY = ("grey", "equal or undecided; colours: the scale above, for differences")
NOTHING = ("·", "not in the grid, or not published")
DEVIATION = ("† ‡", "a run is over 10 or 20 % from its cell's median (shown by the switch above)")
CARDS_HAVE_MEANS = "Cards print geometric means: click a number for both."
REDUCTIONS = {"median": "medians", "best": "the best runs", "worst": "the worst runs"}


class PlainTable(NamedTuple):
    """A table of texts; a list of texts is folded. Columns from `numbers_from` are aligned right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Sequence[str]]]
    numbers_from: int = 99
    note: str = ""
    is_folded: bool = False


class Download(NamedTuple):
    """A file next to the page, and its content as a data URL."""

    path: str
    data: str
    name: str


def download(results: Results, path: str, name: str) -> Download | None:
    """Return a file of the results, compressed if its `name` ends with .gz; None without the file."""
    if path not in results.texts:
        return None
    content, kind = results.texts[path].encode(), "text/csv;charset=utf-8"
    if name.endswith(".gz"):
        content, kind = gzip.compress(content, 9, mtime=0), "application/gzip"
    data = base64.b64encode(content).decode()
    return Download(f"../results/{path}", f"data:{kind};base64,{data}", name)


class SideBySide(NamedTuple):
    """A measured and a published grid in the same layout; either may be missing."""

    title: str
    measured: Grid | None
    published: Grid | None


class Legend(NamedTuple):
    """The colours of a table: style, and the deviation at which each begins."""

    left: str
    swatches: Sequence[tuple[str, str]]
    right: str


@dataclass(frozen=True)
class TableSection:
    """A table of the study.

    `legend` exists if it compares `baseline` with values of the axis `compared`. `whole` is the published
    table if the pairs show less of it. `withheld` maps reasons to places without a number.
    """

    name: str
    title: str
    anchor: str
    reading: str
    legend: Legend | None
    pairs: Sequence[SideBySide]
    whole: Sequence[Grid]
    not_measured: str
    nothing_published: str
    withheld: Mapping[str, Sequence[str]]
    download: Download | None
    notes: Sequence[str]
    compared: str
    baseline: str
    key: Sequence[tuple[str, str]]

    @property
    def compares(self) -> bool:
        return self.legend is not None

    @property
    def measured_points(self) -> list[Point]:
        return [p for pair in self.pairs if pair.measured for p in pair.measured.points]

    @property
    def published_points(self) -> list[Point]:
        return [p for pair in self.pairs if pair.published for p in pair.published.points]


def table_sections(results: Results) -> list[TableSection]:
    """Return a section per table, featured ones first, without tables that have no cell in the grid."""
    tables = unique_values([*results.study.featured_tables, *results.study.tables])
    runs = grouped_by(results.measurements, lambda run: run["cell"])
    medians = {cell: median_seconds(of) for cell, of in runs.items()}
    distances = distances_of(results.contexts, results.study)
    sections = [_section(results, name, distances, medians) for name in tables]
    measured = [s for s in sections if s.not_measured or any(pair.measured for pair in s.pairs)]
    return measured if results.grid else sections


def distances_of(contexts: Iterable[Row], study: Study) -> dict[str, list[str]]:
    """Return by command the revisions that it covers, with the reason if the study covers more."""
    texts: dict[str, list[str]] = {}
    for context in contexts:
        first, last = context["working_copy"].get("revisions", (0, 0))
        if not 0 < first < last:
            continue
        name = study.command_name(context["axes"])
        command, repository = study.commands.get(name), context["repository"]
        expected = (command.revisions_behind if command else 0) or 0
        of = f" of {repository['name']}" if repository.get("name") else ""
        range_ = f"from {words.group_digits(first)} to {words.group_digits(last)}"
        text = f"{name}{of} covers {words.count_of(last - first, 'revision')}, {range_}"
        if last - first < expected:
            scale = repository.get("scale") or 1
            why = "has no more" if scale == 1 else f"has scale {scale:g}"
            text += f", not {words.group_digits(expected)}: the repository {why}"
        texts.setdefault(name, []).append(f"{text}.")
    return {name: unique_values(of) for name, of in texts.items()}


def _section(
    results: Results,
    name: str,
    distances: Mapping[str, Sequence[str]],
    medians: Mapping[str, float],
) -> TableSection:
    study, definition = results.study, results.study.tables[name]
    layout, metric = grids.layout_of(definition, results.order), metric_in(definition)
    compare = definition.get("compare")
    is_of_study = bool(study.published) and name not in results.notes
    has_published = is_of_study and definition.get("published", True) is not False
    points = _measured_points(results, name, medians, in_words=not has_published)
    published = [
        grids.numbered_point(definition, row, "published", True)
        for row in results.published.get(name, [])
        if words.is_number(row["value"])
    ]

    def grids_of(points: Sequence[Point]) -> list[Grid]:
        return grids.make_grids(
            points if compare else grids.with_numbers(points, layout, metric.unit), layout
        )

    reasons = {point.reason for point in points if point.kind != "skipped"}
    missing = reasons.pop() if len(reasons) == 1 and metric.exact else ""
    repositories = study.axes_of("repositories")
    pairs = _pairs([] if missing else points, published, grids_of, layout, repositories)
    nothing = "The study published nothing for this table."
    if has_published:
        nothing = "The published table does not exist yet. Run: make published-tables"
    has_cards = bool(compare and compares_times(definition, str(compare.get("axis"))))
    section = TableSection(
        name=name,
        title=title_of(definition),
        anchor=f"table-{words.slug(name)}",
        reading=_reading(definition, layout.caption(points or published), has_published),
        legend=_legend(definition, has_published),
        pairs=pairs,
        whole=[],
        withheld={
            reason: [layout.label(point.keys) for point in of]
            for reason, of in grouped_by(points, lambda point: point.reason).items()
            if reason and not missing
        },
        not_measured=missing,
        nothing_published=nothing if study.published and not published else "",
        download=download(results, f"tables/{study.name}/{name}.csv", f"{study.name}-{name}.csv"),
        notes=_notes(results, name, distances, layout.compared, points),
        compared=layout.compared,
        baseline=compare["baseline"] if compare else "",
        key=_key(points, bool(compare), has_cards and has_published),
    )
    shown = sum(point.kind == "published" for point in section.published_points)
    return replace(section, whole=grids_of(published)) if shown < len(published) else section


def _measured_points(
    results: Results, name: str, medians: Mapping[str, float], in_words: bool
) -> list[Point]:
    study, definition = results.study, results.study.tables[name]
    expected = grids.expected_rows(
        definition, list(study.axes), results.grid, results.failures, results.measurements
    )
    points = grids.measured_points(definition, results.tables.get(name, []), expected, in_words)
    compares_elapsed = definition.get("compare") and metric_in(definition).name == DEFAULT
    if compares_elapsed and not definition.get("by"):
        return [_with_medians(point, medians) for point in points]
    return points


def _with_medians(point: Point, medians: Mapping[str, float]) -> Point:
    """Return a comparison with a sentence and a mark if its cells' medians differ by another factor."""
    times = [medians[cell] for cell in point.cells if cell in medians]
    if not point.row or len(times) != 2 or point.value is None:
        return point
    ratio = grids.ratio_of(point.row)
    if not contradicts_medians(ratio, times):
        return point
    note = (
        f"The medians, {seconds(times[0])} and {seconds(times[1])}, differ by the factor "
        f"{times[0] / times[1]:.2f}. The geometric mean of the rounds' ratios, {ratio:.2f}, uses every run."
    )
    return replace(point, mark=f"{point.mark}m", title=f"{point.title} {note}")


def _notes(
    results: Results,
    name: str,
    distances: Mapping[str, Sequence[str]],
    compared: str,
    points: Sequence[Point],
) -> list[str]:
    commands = {results.study.command_name(row) for row in results.tables.get(name, [])}
    less = unique_values(
        point.keys["command"] for point in points if has_less_work(compared, point.keys)
    )
    return [
        *results.notes.get(name, ()),
        *(text for command, of in distances.items() if command in commands for text in of),
        *([f"{' or '.join(less)}: {LESS_WORK}."] if less else []),
    ]


def _pairs(
    measured: Sequence[Point],
    published: Sequence[Point],
    grids_of: Callable[[Sequence[Point]], list[Grid]],
    layout: Layout,
    repositories: Sequence[str],
) -> list[SideBySide]:
    if not measured:
        return [SideBySide(grid.title, None, grid) for grid in grids_of(published)]
    theirs = grouped_by(published, lambda point: values_in(point.keys, layout.rest))
    pairs = []
    for grid in grids_of(measured):
        same = theirs.get(tuple(grid.of.values()), [])
        near = grids.align_published(same, grid.points, layout, repositories)
        has_published = any(point.kind == "published" for point in near)
        pairs.append(SideBySide(grid.title, grid, grids_of(near)[0] if has_published else None))
    return pairs


def _reading(definition: Row, caption: str, has_published: bool) -> str:
    metric, reduction = metric_in(definition), definition.get("reduce", "median")
    if not definition.get("compare"):
        text = f"{metric.title}, in {metric.unit}: the {reduction} of all runs."
        text = metric.reading if reduction == "median" else text
        text += f" {CARDS_HAVE_MEANS}" if metric.name == DEFAULT else ""
        return f"{text} {caption}".strip()
    x, y = sides_of(definition)
    if not has_published:
        return f"{y} against {x}: the geometric mean of the rounds' ratios. {caption}".strip()
    above = "above" if metric.gain > 0 else "below"
    ratio = f"{metric.quantity} {x} ÷ {metric.quantity} {y}"
    text = f"100 {words.TIMES} ({ratio} {words.MINUS} 1), in per cent: "
    text += f"{above} 0, {y} {metric.words.is_better}."
    text += " Measured: the geometric mean of the rounds' ratios."
    return f"{text} Published: the ratio of {REDUCTIONS[reduction]}. {caption}".strip()


def title_of(definition: Row) -> str:
    """Return `Elapsed time: not packed against packed`."""
    text = metric_in(definition).title
    if not definition.get("compare"):
        reduction = definition.get("reduce", "")
        return f"{text}, {reduction}" if reduction in ("best", "worst") else text
    first, others = sides_of(definition)
    return f"{text}: {first} against {others if others.count(' or ') < 2 else 'others'}"


def _legend(definition: Row, has_published: bool) -> Legend | None:
    if not definition.get("compare"):
        return None
    metric = metric_in(definition)
    left, right = (f"{side} {metric.words[0]}" for side in sides_of(definition))
    swatches = [
        (
            grids.colour_of(100 * (step - 1), metric.gain),
            words.percentage(100 * (step - 1)) if has_published else factor(at_least_1(step)),
        )
        for step in (*(1 / f for f in reversed(grids.COLOUR_STEPS)), *grids.COLOUR_STEPS)
    ]
    swatches.insert(len(grids.COLOUR_STEPS), ("", ""))
    return Legend(left, swatches[:: metric.gain], right)


def _key(points: Sequence[Point], compares: bool, has_cards: bool) -> list[tuple[str, str]]:
    marks = {mark for point in points for mark in point.mark}
    kinds = {point.kind for point in points}
    caches = {point.keys.get("cache", "") for point in points}
    key = [(s, value_label("cache", cache)) for cache, s in pictograms().items() if cache in caches]
    key += [(mark, meaning) for mark, meaning in KEY.items() if mark in marks]
    is_large = any(abs(point.value or 0.0) >= LARGE_PCT for point in points)
    key += [PER_CENT] if has_cards and is_large else []
    key += [GREY] if compares else [BAR]
    key.append(NOTHING)
    key += [text for kind, text in grids.ABSENT.items() if kind in kinds]
    if any(point.deviation for point in points):
        key.append(DEVIATION)
    return key


def overlaps(where: Row, other: Row) -> bool:
    shared = where.keys() & other.keys()
    return all({*axis_values(where[axis])} & {*axis_values(other[axis])} for axis in shared)


def table_of(definition: Row, tables: Mapping[str, Row]) -> tuple[str, Row]:
    """Return the table of a finding's comparison, otherwise of its metric, and its axis values.

    The table may have the sides exchanged. Its name is "" if no table fits.
    """
    where, comparison = dict(definition.get("where") or {}), definition.get("compare") or {}
    if "to" in comparison:
        name = table_name(comparison["to"])
        return (name if name in tables else ""), where
    metric, sides = metric_in(definition), [comparison.get(side) for side in comparisons.SIDES]
    levels = []
    for name, table in tables.items():
        is_same, compare = metric_in(table) is metric, table.get("compare") or {}
        if not compare and (is_same or metric.name in table.get("each", ())):
            levels.append(name)
        if is_same and compare and compare["axis"] == comparison.get("axis"):
            for baseline, candidate in (sides, sides[::-1]):
                if compare["baseline"] == baseline and candidate in compare["candidates"]:
                    return name, {**where, "candidate": candidate}
    if comparison:
        where[comparison["axis"]] = sides
    fitting = (name for name in levels if overlaps(where, tables[name].get("where", {})))
    return next(fitting, next(iter(levels), "")), where


def reversed_table(results: Results, sections: Sequence[TableSection]) -> PlainTable | None:
    """Return the reversed comparisons that no finding covers, the largest first. Return None without any.

    A reversed comparison is a called difference whose published ratio is on the other side by more than
    10 %.
    """
    tables = [table_of(of, results.study.tables) for of in results.definitions.values()]
    rows = []
    for section in (section for section in sections if section.compared):
        covered = [where for name, where in tables if name == section.name]
        published = {(*p.keys.items(),): p.value for p in section.published_points}
        for point in section.measured_points:
            row, value = point.row or {}, published.get((*point.keys.items(),))
            is_called = comparisons.is_difference(row.get("call") or "") and not point.is_small
            if value is None or not is_called or any(overlaps(w, point.keys) for w in covered):
                continue
            was, now = 1 + value / 100, row["ratio"]
            if (was if now < 1 else 1 / was) > 1.1:
                texts = _reversal_texts(results, section, row, point.keys, was)
                rows.append((abs(math.log(now)), texts))
    rows.sort(key=lambda row: -row[0])
    pairs_are = words.count_of(len(rows), "more comparison", "more comparisons")
    title = f"Reversed in the tables: {pairs_are} that no finding covers"
    heads = ["Comparison", "Published", "Measured", "95 % interval"]
    return PlainTable(title, heads, [texts for _, texts in rows], 1) if rows else None


def _reversal_texts(
    results: Results, section: TableSection, row: Row, point_keys: Mapping[str, str], was: float
) -> list[str]:
    keys = {axis: value for axis, value in point_keys.items() if axis != "candidate"}
    first, second = (value_label(section.compared, row[side]) for side in comparisons.SIDES)
    less = f" ({LESS_WORK})" if has_less_work(section.compared, keys) else ""
    names = grids.change_words(metric_in(results.study.tables[section.name]))
    case = f"{case_label(keys, [*keys])}: {second} against {first}{less}"
    interval = change_between(row["low"], row["high"], names)
    return [case, change(was, names), change(row["ratio"], names), interval]
