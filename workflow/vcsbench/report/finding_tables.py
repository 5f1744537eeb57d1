"""Find the table of each finding, and the reversed comparisons in tables that no finding covers."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Pair, Row, compares
from vcsbench.advice.effects import has_less_client_work
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition, axis_values
from vcsbench.metrics import Metric, metric_in
from vcsbench.report.answer_texts import LESS_CLIENT_WORK
from vcsbench.report.grids import CANDIDATE
from vcsbench.report.results import Results, grouped_by
from vcsbench.report.table_sections import PlainTable, TableSection
from vcsbench.statistics.baselines import table_name
from vcsbench.statistics.comparisons import ComparisonRow

# A published difference below 10 % on the other side may have been noise.
REVERSED_FACTOR = 1.1
# A card names so many comparisons whose published results are the opposite.
MAX_OPPOSITES = 2


@dataclass(frozen=True)
class Reversal:
    """A comparison with a measured difference, whose published ratio is on the other side of 1.

    Example: published 1.2 (the candidate was faster), measured 0.8 (it is slower). A ratio is time of the
    baseline / time of the candidate.
    """

    section: TableSection
    keys: Mapping[str, str]  # its place in the table: {"command": "log", "candidate": "f7"}
    comparison: ComparisonRow
    published_ratio: float

    @property
    def row_key(self) -> tuple[str, ...]:
        """Return what the comparisons of a row have in common: table, command, caches, sides, direction."""
        keys = (self.keys.get(COMMAND_AXIS, ""), self.keys.get(CACHE_AXIS, ""))
        comparison = self.comparison
        direction = "above 1" if comparison.ratio > 1 else "below 1"
        return (self.section.name, *keys, comparison.baseline, comparison.candidate, direction)

    def is_of(self, axis: str, pair: Pair, where: Mapping[str, str]) -> bool:
        """Return True if it compares the two values of a pair in the same case, such as {"command": "log"}.

        The table may have the sides exchanged. `where` has the values of the case's axes.
        """
        sides = {self.comparison.baseline, self.comparison.candidate}
        if self.section.compared != axis or sides != set(pair.sides):
            return False
        # An axis that the table lacks, or that does not apply to the case (""), fits any value.
        return all(self.keys.get(name, value) == value for name, value in where.items() if value)

    def describe(self, value: str, shown: Sequence[str]) -> str:
        """Return the case with the published and the measured result of `value`, one of the compared values.

        Example: `cold log over svn (f7): 1.6x slower then, 2.9x faster here`. `shown` are the axes that
        distinguish the cases of a card.
        """
        published, measured = self.published_ratio, self.comparison.ratio
        # Both ratios belong to the candidate.
        if value == self.comparison.baseline:
            published, measured = 1 / published, 1 / measured
        # The access is named also if all cases have the same one: a reader may have another.
        case = labels.case_label(self.keys, [ACCESS_AXIS, *shown])
        return f"{case}: {labels.change(published)} then, {labels.change(measured)} here"


def overlaps(where: Row, other: Row) -> bool:
    """Return True if some cell can fit both selections, which map axes to a value or a list of values.

    `{"format": ["f6", "f7"]}` overlaps `{"format": "f7", "cache": "cold"}`: an axis that only one of them
    names separates nothing.
    """
    for axis in where.keys() & other.keys():
        if {*axis_values(where[axis])}.isdisjoint(axis_values(other[axis])):
            return False
    return True


def find_table(
    definition: Row, tables: Mapping[str, TableDefinition]
) -> tuple[str, dict[str, object]]:
    """Return the name of the table that shows a finding's numbers, and which of its rows do, by axis.

    `definition` is the finding's entry in its file: `{"where": {"cache": "cold"}, "compare": {"axis":
    "format", "baseline": "f6", "candidate": "f7"}, ...}`. The result is then `("f6-vs-f7", {"cache": "cold",
    "candidate": "f7"})`. The name is "" if no table shows the numbers.
    """
    where = dict(definition.get("where", {}))
    # {} for a finding on the values of cells, such as "takes at most 2 s", which compares nothing.
    compare = definition.get("compare", {})
    # An expectation can compare this run with a saved baseline (`to`), which has its own table.
    if "to" in compare:
        name = table_name(compare["to"])
        return (name if name in tables else ""), where

    metric = metric_in(definition)
    # The best table compares the same two values by the same metric, whichever cells it selects.
    for name, table in tables.items():
        candidate = _find_candidate(compare, table)
        if candidate and metric_in(table) is metric:
            return name, {**where, CANDIDATE: candidate}

    # The next best table has the metric of each cell. A comparison needs the cells of both of its values.
    sides = {compare["axis"]: [compare["baseline"], compare["candidate"]]} if compare else {}
    cells = {**where, **sides}
    return _find_table_of_cells(metric, cells, tables), cells


def _find_table_of_cells(metric: Metric, cells: Row, tables: Mapping[str, TableDefinition]) -> str:
    """Return the name of the first table with a metric of these cells, and without comparisons; "" for none.

    `cells` selects by axis: `{"cache": "cold", "format": ["f6", "f7"]}`. If no table has these cells, a table
    with the metric of other cells is better than none.
    """
    names = []
    for name, table in tables.items():
        # A table with the key `each` shows several metrics side by side.
        has_metric = metric_in(table) is metric or metric.name in table.get("each", ())
        if has_metric and "compare" not in table:
            names.append(name)
    names_with_cells = [name for name in names if overlaps(cells, tables[name].get("where", {}))]
    choices = names_with_cells or names
    return choices[0] if choices else ""


def _find_candidate(compare: Row, table: TableDefinition) -> str:
    """Return the candidate of a table that compares the same two values as a finding, "" for another table.

    The table may have the sides exchanged: then its candidate is the baseline of the finding.
    """
    table_compare = table.get("compare")
    if not table_compare or table_compare["axis"] != compare.get("axis"):
        return ""
    # Expectations may have numbers, such as 8 clients. The values of tables are texts.
    baseline, candidate = str(compare["baseline"]), str(compare["candidate"])
    if baseline == table_compare["baseline"] and candidate in table_compare["candidates"]:
        return candidate
    if candidate == table_compare["baseline"] and baseline in table_compare["candidates"]:
        return baseline
    return ""


def make_reversed_table(results: Results, sections: Sequence[TableSection]) -> PlainTable | None:
    """Return a table of reversed comparisons, the largest measured factor first; None without any.

    A comparison is reversed if it has the opposite result of the published one: `1.3x slower` was published,
    and `1.2x faster` is measured. Comparisons of a finding are left out, because its verdict is about them.
    Several comparisons can share a row (Reversal.row_key).
    """
    reversals = _find_reversals_without_finding(results, sections)
    if not reversals:
        return None
    # By its logarithm, a ratio of 1/2 is as large as one of 2.
    reversals.sort(key=lambda reversal: -abs(math.log(reversal.comparison.ratio)))
    rows = grouped_by(reversals, lambda reversal: reversal.row_key).values()
    # Other results may be the opposite of a smaller published difference (REVERSED_FACTOR).
    published = f"a published difference above {100 * (REVERSED_FACTOR - 1):.0f} %"
    singular = f"reversed result that belongs to no finding ({published})"
    plural = f"reversed results that belong to no finding ({published})"
    return PlainTable(
        title=words.count_of(len(reversals), singular, plural),
        heads=["Comparison", "Published", "Measured", "95 % interval"],
        rows=[_reversal_texts(results, members) for members in rows],
        numbers_from=1,  # All columns but the first are aligned right.
    )


def _find_reversals_without_finding(
    results: Results, sections: Sequence[TableSection]
) -> list[Reversal]:
    """Return the reversed comparisons of all tables that belong to no finding.

    A comparison belongs to a finding if both have the same table, and the finding selects its row: `{"cache":
    "cold"}` selects `{"command": "log", "cache": "cold", "candidate": "f7"}`.
    """
    selections_by_table: defaultdict[str, list[Row]] = defaultdict(list)
    for definition in results.definitions.values():
        name, where = find_table(definition, results.study.tables)
        selections_by_table[name].append(where)
    reversals = []
    for section in sections:
        selections = selections_by_table[section.name]
        for reversal in _find_reversals(section):
            if not any(overlaps(where, reversal.keys) for where in selections):
                reversals.append(reversal)
    return reversals


def find_opposites(results: Results, sections: Sequence[TableSection]) -> list[Reversal]:
    """Return the reversed comparisons of all tables from which the cards are made."""
    reversals = []
    for section in sections:
        definition = results.study.tables.get(section.name)
        if definition and section.compared and compares(definition, section.compared):
            reversals += _find_reversals(section)
    return reversals


def describe_opposites(card: Card, reversals: Sequence[Reversal]) -> str:
    """Return a sentence on the comparisons of a card whose published results are the opposite, or "".

    Example: `The published result is the opposite: f7, cold log: 1.6x slower then, 2.9x faster here.` Of
    several comparisons, the first MAX_OPPOSITES are named: `The published results of 13 comparisons are the
    opposite: ...; ...; and 11 more.`
    """
    axis = card.question.axis
    texts = []
    for case in card.counted_cases:
        for pair in case.pairs:
            # The answer's value is "", which no comparison has, if the answer recommends nothing.
            value = card.answer.value if card.answer.value in pair.sides else pair.candidate
            for reversal in reversals:
                if reversal.is_of(axis, pair, case.where):
                    text = reversal.describe(value, card.shown)
                    texts.append(f"{labels.value_label(axis, value)}, {text}")
    if not texts:
        return ""
    shown = "; ".join(texts[:MAX_OPPOSITES])
    if len(texts) == 1:
        return f"The published result is the opposite: {shown}."
    rest = len(texts) - MAX_OPPOSITES
    more = f"; and {rest} more" if rest > 0 else ""
    return f"The published results of {len(texts)} comparisons are the opposite: {shown}{more}."


def _find_reversals(section: TableSection) -> list[Reversal]:
    """Return the reversed comparisons of a table, [] for a table that compares nothing.

    A ratio is time of the baseline / time of the candidate: above 1, the candidate is faster. Example: the
    study published 1.22 (as 22.0 %), and 0.8 is measured. The measured difference must be certain, and that
    of a time at least the margin (Result.DIFFERENT). The published one must be above REVERSED_FACTOR (1.1).
    """
    if not section.compared:
        return []
    reversals = []
    for point in section.measured_points:
        published_ratio = point.published_ratio
        # A place without a measured number has no row.
        if point.row is None or published_ratio is None:
            continue
        comparison = ComparisonRow.of_record(point.row)
        # A certain difference below the margin counts as equal in all answers, so it is no opposite.
        if comparison.result != Result.DIFFERENT:
            continue
        # How many times as fast as the other side the study found the side that is slower here. It is below 1
        # if this side was slower in the study, too.
        is_candidate_slower = comparison.ratio < 1
        published_factor = published_ratio if is_candidate_slower else 1 / published_ratio
        if published_factor > REVERSED_FACTOR:
            reversals.append(Reversal(section, point.keys, comparison, published_ratio))
    return reversals


def _reversal_texts(results: Results, reversals: Sequence[Reversal]) -> list[str]:
    """Return a row of reversed comparisons: their case, both results, and the interval of the measured one.

    Example: `["cold log over svn (ruby): f7 against f6", "1.3x slower", "1.2x faster", "1.10x to 1.3x
    faster"]`. The row of several comparisons has only the values that they have in common, and ranges of
    their results: `cold export: file against http (4 cases)`, `3.5x to 4.3x faster`.
    """
    # All reversals of a row are of the same table, so they have the same keys.
    first = reversals[0]
    axis = first.section.compared
    places = [reversal.keys for reversal in reversals]
    where = {
        key: value
        for key, value in first.keys.items()
        if key != CANDIDATE and all(place[key] == value for place in places)
    }
    baseline = labels.value_label(axis, first.comparison.baseline)
    candidate = labels.value_label(axis, first.comparison.candidate)
    case = f"{labels.case_label(where, list(where))}: {candidate} against {baseline}"
    if len(reversals) > 1:
        case += f" ({len(reversals)} cases)"
    # Some commands of svnbench do less work over one of the compared accesses, so the result needs a remark.
    if has_less_client_work(axis, where):
        case += f" ({LESS_CLIENT_WORK})"
    change_words = metric_in(results.study.tables[first.section.name]).change_words
    published = [reversal.published_ratio for reversal in reversals]
    measured = [reversal.comparison.ratio for reversal in reversals]
    low = min(reversal.comparison.low for reversal in reversals)
    high = max(reversal.comparison.high for reversal in reversals)
    # The measured ratios of a row are on the same side of 1 (row_key), and the published ones on the other.
    return [
        case,
        labels.change_between(min(published), max(published), change_words),
        labels.change_between(min(measured), max(measured), change_words),
        labels.change_between(low, high, change_words),
    ]
