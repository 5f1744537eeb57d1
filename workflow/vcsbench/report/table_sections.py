"""The sections of a page with a study's tables: grids, legends, keys of signs, notes and downloads."""

import base64
import gzip
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row, compares
from vcsbench.advice.effects import has_less_client_work
from vcsbench.advice.labels import at_least_1, factor, value_label
from vcsbench.axes.cache_states import pictograms
from vcsbench.config.study import Study, TableDefinition
from vcsbench.metrics import metric_in
from vcsbench.report import grids, table_points
from vcsbench.report.answer_texts import LESS_CLIENT_WORK
from vcsbench.report.expected_rows import expected_rows
from vcsbench.report.grids import Grid, Layout, Point, PointKind
from vcsbench.report.results import Results, unique_values
from vcsbench.statistics.comparisons import MEDIAN

MARK_MEANINGS = {
    "=": "equal: surely below the smallest effect worth noting",
    "≈": "nearly equal: a test bounds the difference at 1.5 times the smallest effect worth noting",
    "?": "undecided: it may be larger",
    "s": "too small to compare: start-up can explain it, or runs are short (hatched)",
    "a": "the same binaries under two names (A/A test)",
    "n": "fewer rounds than min_rounds (flag low-n); one round decides no comparison",
}
# Entries of a table's key: a sign and its meaning.
PER_CENT_KEY = ("+150", "per cent: the factor 2.5x")
# From here on (a ratio of about 1.1), cards print a factor in place of per cent, so the key explains both.
LARGE_PCT = 9.95
BAR_KEY = ("▁", "a longer bar is a larger number")
GREY_KEY = ("grey", "equal or undecided; colours: the scale above, for differences")
NOTHING_KEY = ("·", "not in the grid")
PUBLISHED_KEY = ("1.2 / 3.4", "measured, and below it in small the published number of this place")
DEVIATION_KEY = (
    "† ‡",
    "a run is over 10 or 20 % from its cell's median (shown by the switch above)",
)
PUBLISHED_MEDIANS = "Published numbers are medians."
REDUCTIONS = {MEDIAN: "medians", "best": "the best runs", "worst": "the worst runs"}


@dataclass(frozen=True)
class PlainTable:
    """A table of texts. A field with a list of texts shows only their number until a reader unfolds it.

    Columns from the index `numbers_from` on are aligned right, none if it is None. With `is_folded` the
    reader sees only the title and the number of rows.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Sequence[str]]]
    numbers_from: int | None = None
    note: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Download:
    """A file that a reader can save: its path seen from the page, its content as a data URL, and a name."""

    path: str
    data: str
    name: str


@dataclass(frozen=True)
class Swatch:
    """A colour of a legend: its CSS class (`x3`), and the number at which it begins (`-17`), as text.

    Both are "" for the middle, where both sides are about the same.
    """

    style: str
    edge: str


@dataclass(frozen=True)
class Legend:
    """The colours of a table in one line, from a better baseline to a better candidate.

    `left` and `right` are the texts at both ends: `f6 faster` and `f7 faster`.
    """

    left: str
    swatches: Sequence[Swatch]
    right: str


@dataclass(frozen=True)
class TableSection:
    """A table of the study. Texts are "" if they do not apply."""

    name: str
    title: str
    anchor: str  # its place on the page
    reading: str  # explains its numbers
    legend: Legend | None  # of a table that compares
    # The measured numbers, each with the published one of its place. Without a result, the published numbers.
    grids: Sequence[Grid]
    is_measured: bool
    published_in_full: Sequence[Grid]  # the published table, if the grids show only a part of it
    not_measured: str  # why the whole table has no number
    nothing_published: str  # a sentence
    is_unpublished: bool  # True if the study has published numbers, but no such table
    left_out: str  # the number of rows and columns without a result
    # By reason: the measured places without a number, such as `cold log over svn (ruby, f7)`.
    withheld: Mapping[str, Sequence[str]]
    download: Download | None
    notes: Sequence[str]
    compared: str  # the axis of which it compares the value `baseline` with other ones
    baseline: str
    key: Sequence[tuple[str, str]]  # the signs in the table with their meanings

    @property
    def compares(self) -> bool:
        return self.legend is not None

    @property
    def measured_points(self) -> list[Point]:
        return [point for grid in self.grids for point in grid.points] if self.is_measured else []

    @property
    def published_points(self) -> list[Point]:
        """Return the published numbers in the places of measured ones."""
        return [point.published for point in self.measured_points if point.published]


def make_download(results: Results, path: str, name: str) -> Download | None:
    """Return a CSV file of the results, None without the file. It is compressed if `name` ends with .gz.

    `path` is below the folder `results`, and `name` is the name under which a reader saves the file.
    """
    if path not in results.texts:
        return None
    content = results.texts[path].encode()
    media_type = "text/csv;charset=utf-8"
    if name.endswith(".gz"):
        # gzip would store the present time, and the same results are to give the same page.
        content = gzip.compress(content, 9, mtime=0)
        media_type = "application/gzip"
    data = base64.b64encode(content).decode()
    return Download(f"../results/{path}", f"data:{media_type};base64,{data}", name)


def table_sections(results: Results) -> list[TableSection]:
    """Return the sections of the page with the study's tables, featured tables first.

    A table has no section if the study's grid has none of its cells. If the file of the grid is missing, all
    tables have a section.
    """
    study = results.study
    sections = []
    for name in unique_values([*study.featured_tables, *study.tables]):
        section = _make_section(results, name)
        # A table with cells has a number, a row that is left out, or a reason why it has no number at all.
        has_cells = section.is_measured or section.left_out or section.not_measured
        if has_cells or not results.grid:
            sections.append(section)
    return sections


def distance_notes(contexts: Sequence[Row], study: Study) -> dict[str, list[str]]:
    """Return sentences on the revisions that each command on working copies covers, by command.

    Example: `{"update-1000": ["update-1000 of ruby covers 1,000 revisions, from 951 to 1,951."]}`.
    """
    notes: defaultdict[str, list[str]] = defaultdict(list)
    for context in contexts:
        # The revisions of the working copy before and after the command. A checkout begins at 0. Both are
        # equal if a small repository has no old revision to update from.
        first, last = context["working_copy"].get("revisions", (0, 0))
        if 0 < first < last:
            command = study.command_name(context["axes"])
            notes[command].append(_distance_sentence(context, study, command))
    return {command: unique_values(sentences) for command, sentences in notes.items()}


def _distance_sentence(context: Row, study: Study, command: str) -> str:
    """Return a sentence on the revisions that a command covers, with the reason if the study covers more.

    Example: `update-1000 of ruby covers 50 revisions, from 951 to 1,001, not 1,000: the repository has scale
    0.05.`
    """
    first, last = context["working_copy"]["revisions"]
    covered = last - first
    repository = context["repository"]
    subject = f"{command} of {repository['name']}" if repository.get("name") else command
    revisions = words.count_of(covered, "revision")
    start, end = words.group_digits(first), words.group_digits(last)
    sentence = f"{subject} covers {revisions}, from {start} to {end}"
    definition = study.commands.get(command)
    expected = definition.revisions_behind if definition else None
    if not expected or covered >= expected:
        return f"{sentence}."
    # At a scale below 1, the repository has only a part of the published revisions. A user's own repository
    # has no scale.
    scale = repository.get("scale")
    is_reduced = scale not in (None, 1)
    reason = f"has scale {scale:g}" if is_reduced else "has no more"
    return f"{sentence}, not {words.group_digits(expected)}: the repository {reason}."


class SectionPoints(NamedTuple):
    """The points of a section. A point is a place of the table with its number, or with a reason for none.

    - `measured`: the points of this run, [] if all lack a number for the same reason (`not_measured`).
    - `shown`: the measured points outside of empty rows and columns (`left_out` is a sentence on these).
    - `published`: the points of the published table, [] if the study has not published it.
    - `in_grids`: the shown points, each with the published number of its place. If there are none, the
      published points.
    """

    measured: list[Point]
    not_measured: str
    shown: list[Point]
    left_out: str
    published: list[Point]
    in_grids: list[Point]


def _make_section(results: Results, name: str) -> TableSection:
    """Return the section of the table `name`, with its measured and published numbers in the same grids."""
    study = results.study
    definition = study.tables[name]
    compare = definition.get("compare")
    layout = grids.make_layout(definition, results.order)
    has_published = _has_published(results, name)
    # A point is a place with its number. `shown` are the measured points that are not in an empty row or
    # column. `in_grids` are these with the published numbers of their places, or only published points.
    points = _collect_points(results, name, layout, has_published)
    return TableSection(
        name=name,
        title=make_title(definition),
        anchor=f"table-{words.slug(name)}",
        reading=_join_readings(study, definition, layout, points.in_grids, has_published),
        legend=_make_legend(definition, has_published) if compare else None,
        grids=grids.make_grids(points.in_grids, layout),
        is_measured=bool(points.shown),
        published_in_full=_make_published_grids(points, layout),
        not_measured=points.not_measured,
        nothing_published=_why_nothing_published(study, points.published, has_published),
        is_unpublished=study.published is not None and not points.published and not has_published,
        left_out=points.left_out,
        withheld=_list_withheld(points.measured, layout),
        download=make_download(
            results,
            path=f"tables/{study.name}/{name}.csv",
            name=f"{study.name}-{name}.csv",
        ),
        notes=_make_notes(results, name, layout.compared, points.measured),
        compared=layout.compared,
        baseline=compare["baseline"] if compare else "",
        key=_make_key(points.in_grids, definition, has_published),
    )


def _has_published(results: Results, name: str) -> bool:
    """Return True if the study has published the table `name`. The file of its numbers may be missing."""
    definition = results.study.tables[name]
    # The keys of `notes` are tables against a saved baseline, of which the study has published none.
    is_of_study = name not in results.notes
    return results.study.published is not None and is_of_study and definition.get("published", True)


def _collect_points(
    results: Results, name: str, layout: Layout, has_published: bool
) -> SectionPoints:
    """Return the points of the table `name`: measured, shown, published, and in the grids."""
    definition = results.study.tables[name]
    # A table with published numbers prints ratios as published, in per cent.
    all_points = _make_measured_points(results, name, prints_factors=not has_published)
    # If all cells lack a number for the same reason, a sentence with this reason replaces the grids.
    not_measured = _why_not_measured(all_points, definition)
    measured = [] if not_measured else all_points
    filled, left_out = grids.leave_out_empty(measured, layout)
    shown = _with_texts(filled, definition, layout)
    published_rows = results.published.get(name, [])
    published = _with_texts(
        table_points.published_points(definition, published_rows), definition, layout
    )
    return SectionPoints(
        measured=measured,
        not_measured=not_measured,
        shown=shown,
        left_out=left_out.sentence,
        published=published,
        # A run without results shows the published numbers alone.
        in_grids=grids.attach_published(shown, published, layout) or published,
    )


def _with_texts(points: list[Point], definition: TableDefinition, layout: Layout) -> list[Point]:
    """Return the points with their numbers as texts. The points of a comparison have them already."""
    if "compare" in definition:
        return points
    return grids.format_numbers(points, layout, metric_in(definition).unit)


def _join_readings(
    study: Study,
    definition: TableDefinition,
    layout: Layout,
    points: Sequence[Point],
    has_published: bool,
) -> str:
    """Return the text above the grids: on the numbers, on rows and columns, and on values of all grids."""
    # By default, published numbers of repeated runs are medians. A single run has no median.
    is_repeated = study.published is not None and study.published.rounds > 1
    # Each text is "" if it does not apply.
    readings = [
        _make_reading(definition, has_published, is_repeated),
        layout.caption(points),
        grids.describe_shared(points, layout),
    ]
    return " ".join(text for text in readings if text)


def _make_published_grids(points: SectionPoints, layout: Layout) -> list[Grid]:
    """Return the grids of the published table if the grids of the section lack some of its numbers.

    The section may lack points of another repository, for example. Return [] if it shows all of them.
    """
    attached = [point.published for point in points.in_grids if point.published]
    if points.shown and len(attached) < len(points.published):
        return grids.make_grids(points.published, layout)
    return []


def _list_withheld(points: Sequence[Point], layout: Layout) -> dict[str, list[str]]:
    """Return the places of withheld numbers by their reason, such as `cold log over svn (ruby, f7)`."""
    withheld: defaultdict[str, list[str]] = defaultdict(list)
    for point in points:
        if point.reason:
            withheld[point.reason].append(layout.place_label(point.keys))
    return withheld


def _make_measured_points(results: Results, name: str, prints_factors: bool) -> list[Point]:
    """Return the points of this run's table `name`, in the order of the rows that the grid should give.

    A row that the table's file lacks gives a point with the reason. A ratio is printed in per cent (`+22`),
    or with `prints_factors` as a factor (`1.2x faster`).
    """
    definition = results.study.tables[name]
    expected = expected_rows(
        definition,
        list(results.study.axes),
        grid=results.grid,
        failures=results.failures,
        measurements=results.measurements,
    )
    rows = results.tables.get(name, [])
    return table_points.measured_points(definition, rows, expected, prints_factors)


def _why_not_measured(points: Sequence[Point], definition: TableDefinition) -> str:
    """Return the reason why no cell of a table of counts has a number, such as a missing strace.

    Return "" if some cell has a number, if the reasons differ, and for other tables. Cells that cannot be
    measured here do not count.
    """
    if not metric_in(definition).exact:
        return ""
    # A point with a number has the reason "". So a common reason of all points is "" or the one to return.
    reasons = {point.reason for point in points if point.kind != PointKind.SKIPPED}
    return reasons.pop() if len(reasons) == 1 else ""


def _why_nothing_published(study: Study, published: Sequence[Point], has_published: bool) -> str:
    """Return a sentence if the study has published numbers, but none in this table; otherwise "".

    `has_published` is True if the study published this table. Without points, only the file is then missing.
    """
    if study.published is None or published:
        return ""
    if has_published:
        return "The published table does not exist yet. Run: make published-tables"
    return "The study published nothing for this table."


def _make_notes(results: Results, name: str, compared: str, points: Sequence[Point]) -> list[str]:
    """Return the notes on the table `name`, [] if it needs none.

    They are on the saved baseline that it compares with, on the numbers of revisions that its updates cover,
    and on accesses that it compares by svnbench. `compared` is the axis that it compares, "" without one.
    """
    notes = list(results.notes.get(name, ()))
    commands = {results.study.command_name(row) for row in results.tables.get(name, [])}
    for command, sentences in distance_notes(results.contexts, results.study).items():
        if command in commands:
            notes += sentences
    # svnbench, a test program of Subversion, has commands such as null-log. Over svn, its client does less
    # work than over http. So a table that compares these accesses by such commands needs a note.
    less_work = unique_values(
        point.keys["command"] for point in points if has_less_client_work(compared, point.keys)
    )
    if less_work:
        notes.append(f"{' or '.join(less_work)}: {LESS_CLIENT_WORK}.")
    return notes


def _make_reading(definition: TableDefinition, has_published: bool, is_repeated: bool) -> str:
    """Return the reading of a table: the text above it that explains its numbers.

    `has_published` is True for a table with published numbers. If the study repeated its runs
    (`is_repeated`), these are medians, otherwise single runs.
    """
    if "compare" in definition:
        return _make_reading_of_ratios(definition, has_published, is_repeated)
    metric = metric_in(definition)
    # Such as `best`. It is "" for the default statistic of the metric, which `metric.reading` names:
    # `Elapsed seconds, geometric mean of the rounds.`
    reduction = _special_reduction(definition)
    if reduction:
        # The best and the worst run are taken over all rounds together.
        reduced = "the rounds" if reduction == MEDIAN else "all runs"
        return f"{metric.title}, in {metric.unit}: the {reduction} of {reduced}."
    # Measured times are means, and published times of repeated runs are medians. Counts are medians in both.
    if has_published and is_repeated and metric.takes_mean:
        return f"{metric.reading} {PUBLISHED_MEDIANS}"
    return metric.reading


def _make_reading_of_ratios(
    definition: TableDefinition, has_published: bool, is_repeated: bool
) -> str:
    """Return the reading of a comparison: `f7 against f6: the geometric mean of the rounds' ratios.`

    With published numbers, the table has per cent: `100 x (time of f6 ÷ time of f7 - 1), in per cent: above
    0, f7 is faster. Measured: the geometric mean of the rounds' ratios. Published: the ratio of medians.`
    """
    metric = metric_in(definition)
    baseline, candidates = table_points.side_labels(definition)
    if not has_published:
        return f"{candidates} against {baseline}: the geometric mean of the rounds' ratios."
    # Such as `time of f6 ÷ time of f7`.
    quotient = f"{metric.quantity} {baseline} ÷ {metric.quantity} {candidates}"
    # Above 0, the baseline has the higher value. For a time (gain 1), the candidate then is better. For a
    # throughput (gain -1), the candidate is better below 0.
    side = "above" if metric.gain > 0 else "below"
    reduction = definition.get("reduce", MEDIAN)
    reduced_values = REDUCTIONS[reduction] if is_repeated else "single runs"
    # The label of three or more candidates, `others`, does not fit the verb.
    better_side = "the other value" if candidates == table_points.OTHERS else candidates
    return (
        f"100 {words.TIMES_SIGN} ({quotient} {words.MINUS_SIGN} 1), in per cent: "
        f"{side} 0, {better_side} {metric.words.is_better}. "
        "Measured: the geometric mean of the rounds' ratios. "
        f"Published: the ratio of {reduced_values}."
    )


def make_title(definition: TableDefinition) -> str:
    """Return `Elapsed time: not packed against packed`, or `Elapsed time, best`."""
    title = metric_in(definition).title
    if "compare" not in definition:
        reduction = _special_reduction(definition)
        return f"{title}, {reduction}" if reduction else title
    baseline, candidates = table_points.side_labels(definition)
    return f"{title}: {baseline} against {candidates}"


def _special_reduction(definition: TableDefinition) -> str:
    """Return how a table reduces the runs of a cell to one number, "" for the default of its metric.

    The statistics are `median`, `best` and `worst`. A median is the default of counts, but not of times.
    """
    reduction = definition.get("reduce", "")
    is_default = reduction == MEDIAN and not metric_in(definition).takes_mean
    return "" if is_default else reduction


def _make_legend(definition: TableDefinition, has_published: bool) -> Legend:
    """Return the legend of a comparison: a line of colours between the labels of both sides.

    Each colour has the number at which it begins, seen from the middle, where numbers have no colour. With
    published numbers, tables print per cent, and so does the legend. Otherwise both print factors:

        f6 faster  -75   -50   -33   -17   -9     -5     (middle)  +5     +10    +20   +50 ... f7 faster
        f6 faster  4.0x  2.0x  1.5x  1.2x  1.10x  5.0 %  (middle)  5.0 %  1.10x  1.2x  1.5x ... f7 faster
    """
    metric = metric_in(definition)
    baseline, candidates = table_points.side_labels(definition)
    steps = table_points.COLOUR_STEPS
    # As ratios baseline / candidate: from 1/4 to 1/1.05, and from 1.05 to 4.
    ratios_below_1 = [1 / step for step in reversed(steps)]
    swatches = []
    for ratio in [*ratios_below_1, *steps]:
        deviation_pct = 100 * (ratio - 1)
        edge = words.percentage(deviation_pct) if has_published else factor(at_least_1(ratio))
        swatches.append(Swatch(table_points.colour_class(deviation_pct, metric.gain), edge))
    # The middle stands for ratios from 1/1.05 to 1.05.
    swatches.insert(len(ratios_below_1), Swatch("", ""))
    # The left end is for a better baseline. For a time, its ratios are below 1, as above. For a throughput
    # (gain -1), where a higher value is better, they are above 1.
    if metric.gain < 0:
        swatches.reverse()
    better = metric.words.better_in_short
    return Legend(f"{baseline} {better}", swatches, f"{candidates} {better}")


def _make_key(
    points: Sequence[Point], definition: TableDefinition, has_published: bool
) -> list[tuple[str, str]]:
    """Return the signs that occur in a table with their meanings: `("=", "equal: ...")`."""
    caches = {point.keys.get("cache", "") for point in points}
    signs = pictograms().items()
    key = [(sign, value_label("cache", cache)) for cache, sign in signs if cache in caches]
    # Each character of `mark` is a mark.
    marks = {mark for point in points for mark in point.mark}
    key += [(mark, meaning) for mark, meaning in MARK_MEANINGS.items() if mark in marks]
    if "compare" in definition:
        if _has_per_cent_in_place_of_factor(points, definition, has_published):
            key.append(PER_CENT_KEY)
        key.append(GREY_KEY)
    else:
        key.append(BAR_KEY)
    key.append(NOTHING_KEY)
    if any(point.published for point in points):
        key.append(PUBLISHED_KEY)
    kinds = {point.kind for point in points}
    absent_texts = table_points.ABSENT_TEXTS.items()
    key += [text_and_meaning for kind, text_and_meaning in absent_texts if kind in kinds]
    if any(point.deviation for point in points):
        key.append(DEVIATION_KEY)
    return key


def _has_per_cent_in_place_of_factor(
    points: Sequence[Point], definition: TableDefinition, has_published: bool
) -> bool:
    """Return True if a comparison prints a number such as `+150` that a card of the page prints as `2.5x`.

    Tables print per cent if they have published numbers. Cards print factors from LARGE_PCT on.
    """
    # Only a table that compares elapsed times belongs to a card.
    has_card = compares(definition, definition["compare"]["axis"])
    is_large = any(abs(point.value or 0.0) >= LARGE_PCT for point in points)
    return has_card and has_published and is_large
