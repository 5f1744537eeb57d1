"""The sections "Published findings" and "Your expectations" of a page: verdicts, possible reasons, and rows.

A finding is a published statement with a verdict, an expectation a statement of the user with a verdict.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.effects import has_less_client_work
from vcsbench.advice.labels import case_label, cells_label, times, times_between, value_label
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS
from vcsbench.codes import RangePlace, ReasonCode, Verdict
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.evidence.flags import Flag
from vcsbench.metrics import metric_in
from vcsbench.report.answer_texts import LESS_CLIENT_WORK
from vcsbench.report.answers import shown_flags
from vcsbench.report.card_rows import label_flag, name_flags
from vcsbench.report.charts import FindingDot
from vcsbench.report.finding_tables import find_table, overlaps
from vcsbench.report.grids import Point
from vcsbench.report.results import Results, Rows, unique_values
from vcsbench.report.summary import (
    IN_DIRECTION,
    describe_verdicts,
    is_direction_only,
    name_counted_verdict,
)
from vcsbench.report.table_sections import TableSection
from vcsbench.statistics import comparisons, texts, verdicts
from vcsbench.statistics.comparisons import ComparisonRow
from vcsbench.statistics.expected_range import ExpectedRange, expected_range, range_text
from vcsbench.statistics.verdicts import MixedPart, mixed_parts

MEANINGS = {
    Verdict.REVERSED: "the effect points the other way here",
    Verdict.GONE: "an effect was published, and none worth noting is here",
    Verdict.WEAKER: "the effect is smaller than published",
    Verdict.STRONGER: "the effect is larger than published, or there is one where equality was published",
    Verdict.FAILS: "the measured interval is outside the expected range. A difference that is certainly "
    "below the margin (min_effect_pct) is neither better nor worse",
    Verdict.MIXED: "pairs disagree by the margin or more, each by its own interval: some are better and "
    "others worse, or some below and others above the expected range. Cells: some inside it, others outside",
    Verdict.TOO_SMALL: "process start, connection and waits of 40 ms for delayed acknowledgements can "
    "explain it (see Fixed cost), or its runs are too short",
    Verdict.UNDECIDED: "the interval is partly inside the range, or there is none, or cells "
    "cannot be compared (each row has the reason)",
    Verdict.REPRODUCED: "the interval is inside the range",
    Verdict.HOLDS: "the interval is inside the range",
    Verdict.NOT_MEASURED: "the grid has no such cell, or it was skipped, failed, invalid, not "
    "compared, or not finished so far (each row has the reason)",
}
# By the name under which a verdict is counted (summary.name_counted_verdict).
COUNTED_MEANINGS = {str(verdict): meaning for verdict, meaning in MEANINGS.items()} | {
    IN_DIRECTION: "the statement has no number, and the interval is on its side of 1x, the factor by the "
    "margin or more"
}
# Reasons that are remarks with any verdict.
REMARK_CODES = (ReasonCode.DISAGREEMENT, ReasonCode.UNIT_TIMES)
# Verdicts that possible reasons can explain.
EXPLAINABLE = (Verdict.REVERSED, Verdict.GONE, Verdict.WEAKER, Verdict.STRONGER, Verdict.FAILS)
NO_REASON = "no reason known"
NOTHING_EXPLAINS = "none of the compared conditions explains it"
REPEAT = "Repeat the run on another machine."
# A published 1.2 can be anything from 1.15 to 1.25. The page shows this range if its width is at least this
# share of the value.
NARROW_ROUNDING = 0.1


class ReasonText(NamedTuple):
    """A reason of a verdict in words, and the advice on it.

    `label` is `smaller scale`, and `text` has its facts: `ruby has 13 % of its published revisions`. `action`
    is a sentence, "" without advice. `code` is one of codes.ReasonCode, or NO_REASON.
    """

    code: str
    label: str
    text: str
    action: str = ""


class ReasonLine(NamedTuple):
    """A reason of several findings: its label, `3 weaker, 1 reversed` (`findings`), and what to do."""

    label: str
    findings: str
    action: str


class PairLine(NamedTuple):
    """A pair of a finding: its case, and its factors as texts, "" if unknown.

    A pair is a comparison of two cells. Example: `cold log over svn (ruby)`, `2.1x`, `1.64x`, `1.58x
    to 1.70x`. A line may also be a cell, of a mixed finding about the values of cells. `place` is the place
    of its interval against the expected range, None if the finding is not mixed.
    """

    case: str
    published: str
    measured: str
    interval: str
    place: RangePlace | None = None

    @property
    def place_text(self) -> str:
        return texts.PLACES[self.place] if self.place else ""


@dataclass(frozen=True)
class FindingFacts:
    """A finding as texts, which the index shows. A text is "" if it is unknown."""

    id: str
    statement: str
    verdict: str = Verdict.NOT_MEASURED
    expected: str = ""
    published: str = ""
    measured: str = ""
    interval: str = ""
    # True if it is reproduced, but states only `faster` or `slower`, without a number.
    is_in_direction: bool = False

    @property
    def counted_verdict(self) -> str:
        return name_counted_verdict(self.verdict, self.is_in_direction)


@dataclass(frozen=True, kw_only=True)
class FindingView(FindingFacts):
    """A finding or an expectation as the page shows it.

    A text is "" if it does not apply. `dot` is None if the finding has no measured factor.
    """

    published_interval: str  # the range that the last digits of published numbers leave open
    published_all: str  # the published value over all pairs, if fewer are measured
    ratio: str  # the meaning of the number: `time of f6 ÷ time of f7: above 1x, f7 is faster`
    pairs: str  # the pairs or cells from which the number was computed
    # Each of these pairs, if there are two or more. A mixed finding has also its cells here.
    pair_lines: Sequence[PairLine]
    line_noun: str  # `pairs` or `cells`: the meaning of a line
    is_different: bool  # True for a verdict in EXPLAINABLE
    steps: Sequence[ReasonText]  # the reasons of the verdict; possible causes if it is EXPLAINABLE
    notes: Sequence[str]  # remarks, as sentences
    note: str  # remarks on its runs, such as the labels of flags
    flags: Sequence[str]  # the names of the flags in `note`
    table: str  # the title of the table with its numbers
    anchor: str  # the place of the first of these numbers on the page
    source: str  # the address of the statement, "" if the study has one for all
    dot: FindingDot | None  # its data in the plot of findings


class ComparedSides(NamedTuple):
    """The two values of an axis that a finding compares: `format`, `f6` and `f7`.

    Its number is the metric of the baseline, divided by the metric of the candidate.
    """

    axis: str
    baseline: str
    candidate: str

    @property
    def candidate_label(self) -> str:
        return value_label(self.axis, self.candidate)


@dataclass(frozen=True)
class Finding:
    """A finding or an expectation: its row in the file of verdicts (verdicts.FINDING_COLUMNS), and its entry.

    Example of an entry in the file of findings (`definition`): `{"where": {"command": "log"}, "compare":
    {"axis": "format", "baseline": "f6", "candidate": "f7"}, "expect": {"over": "mean", "at_least": 1.5}}`.
    """

    row: Row
    definition: Row

    @property
    def is_measured(self) -> bool:
        return self.row["verdict"] != Verdict.NOT_MEASURED

    @property
    def is_factor(self) -> bool:
        """Return True for a comparison, whose numbers are factors. Others are in the unit of a metric."""
        return bool(self.definition.get("compare"))

    @property
    def sides(self) -> ComparedSides | None:
        """Return the compared values; None for a finding on one metric, or against a saved baseline."""
        compare = self.definition.get("compare", {})
        if "candidate" not in compare:
            return None
        # Expectations may have numbers, such as 8 clients. All other values of axes are texts.
        return ComparedSides(compare["axis"], str(compare["baseline"]), str(compare["candidate"]))

    @property
    def suffix(self) -> str:
        """Return the text behind a number: `x`, ` s` with its blank, "" for a metric without a unit."""
        return "x" if self.is_factor else f" {metric_in(self.definition).unit}".rstrip()

    def format_number(self, number: object) -> str:
        """Return `0.74x`, `2.31 s` or `88.0 %`, "" for an unknown number."""
        if not words.is_number(number):
            return ""
        return times(number) if self.is_factor else f"{words.significant(number)}{self.suffix}"

    def format_interval(self, low: float | None, high: float | None) -> str:
        """Return `1.80x to 2.2x`, "" for an unknown interval."""
        if low is None or high is None:
            return ""
        if self.is_factor:
            return times_between(low, high)
        ends = [self.format_number(low), self.format_number(high)]
        return " to ".join(unique_values(ends))


def make_finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return published findings, or a user's expectations, as the page shows them: reversed ones first.

    Their verdicts have the order of MEANINGS. Of the reproduced ones, those without a number come last
    (is_direction_only). `rows` has the columns verdicts.FINDING_COLUMNS. `definitions` has the statement
    behind each row by its id: `{"hot-log": {"compare": {...}, "expect": {"at_least": 1.5}}}`.
    """
    named_flags = shown_flags(results)
    findings = [Finding(row, definitions[row["id"]]) for row in rows]
    shares = _start_up_shares_of_cells(results)
    views = [_make_view(results, finding, sections, named_flags, shares) for finding in findings]
    order: list[str] = list(MEANINGS)
    return sorted(views, key=lambda view: (order.index(view.verdict), view.is_in_direction))


def _start_up_shares_of_cells(results: Results) -> dict[str, float]:
    """Return the largest share of start-up (process start, connection) in the valid runs of each cell."""
    shares: dict[str, float] = {}
    for run in results.valid_runs:
        share = run.get("fixed_share")
        if words.is_number(share):
            shares[run["cell"]] = max(share, shares.get(run["cell"], 0.0))
    return shares


def _make_view(
    results: Results,
    finding: Finding,
    sections: Sequence[TableSection],
    named_flags: set[str],
    shares: Mapping[str, float],
) -> FindingView:
    """Return a finding or expectation as the page shows it: texts of its numbers, reasons, flags, and table.

    The view has a link to the first row with its numbers in one of the tables `sections`. `named_flags` are
    the flags that it may name. `shares` has the share of start-up in the time of each cell.
    """
    row = finding.row
    table, where = find_table(finding.definition, results.study.tables)
    # None if the study has no table of this metric, or if the page leaves the table out.
    section = next((section for section in sections if section.name == table), None)
    # The pairs of cells, such as f6 and f7 in the cold log, whose ratios make up the number of a comparison.
    pairs = _select_pairs(finding, section, where, shares) if section else []
    flag_text, flags = _describe_flags(results, finding, named_flags)
    reasons, remarks = split_reasons(row)
    if _differs_in_mean_only(finding, pairs):
        remarks.append("No pair alone is certain; their mean is.")
    # The margin bounds the expected range `equal`.
    margin = results.advice.margin
    facts = _make_facts(finding, margin)
    expected = expected_range(finding.definition["expect"], margin)
    return FindingView(
        # The statement, its verdict and its numbers.
        **asdict(facts),
        published_interval=_describe_rounding(finding),
        published_all=_describe_all_published(finding),
        ratio=_describe_value(finding),
        dot=_make_dot(finding, expected, facts),
        source=finding.definition.get("source", ""),
        # The pairs or cells behind the measured number.
        pairs=_describe_origin(finding, section, pairs),
        pair_lines=_list_parts(finding, section, pairs),
        line_noun="pairs" if finding.is_factor else "cells",
        table=section.title if section else "",
        anchor=_find_anchor(where, section) if section else "",
        # The page prints each reason with a step that the reader can take.
        is_different=row["verdict"] in EXPLAINABLE,
        steps=reasons,
        notes=remarks,
        note=flag_text,
        flags=flags,
    )


def _make_facts(finding: Finding, margin: float) -> FindingFacts:
    """Return the texts of a finding's verdict and numbers. `margin` is the smallest factor worth noting."""
    row, expect = finding.row, finding.definition["expect"]
    # An expected direction is a side of 1x. Its meaning, such as `f7 is faster`, is in FindingView.ratio.
    directions = ("above 1x", "below 1x")
    return FindingFacts(
        id=row["id"],
        statement=row["statement"],
        verdict=row["verdict"],
        expected=range_text(expect, margin, finding.suffix, directions),
        published=finding.format_number(row["published"]),
        measured=finding.format_number(row["measured"]),
        interval=finding.format_interval(row["low"], row["high"]),
        is_in_direction=is_direction_only(row["verdict"], expect),
    )


def _describe_origin(finding: Finding, section: TableSection | None, pairs: Sequence[Point]) -> str:
    """Return the pairs or cells behind a number as text: `3 pairs, 1.9x to 2.1x`, or `least of 12 cells`.

    `pairs` are those in the table `section` (_select_pairs).
    """
    is_mean = finding.definition["expect"].get("over") == "mean"
    # The text of the verdict, `mean of 3 pairs`, hides how far the pairs differ.
    if section and is_mean and len(pairs) > 1:
        return _describe_pairs(finding, section, pairs)
    over: str = finding.row["over"]
    return over


def _list_parts(
    finding: Finding, section: TableSection | None, pairs: Sequence[Point]
) -> list[PairLine]:
    """Return a line for each pair behind a finding's number if there are several; [] for one.

    `pairs` are those in the table `section`. A mixed finding without such pairs has a line for each pair or
    cell in its verdict.
    """
    # [] for a finding that is not mixed.
    parts = _find_mixed_parts(finding)
    if section and len(pairs) > 1:
        return _list_pairs(finding, section, pairs, parts)
    # Cells have no intervals in their table, and the pairs of some findings are in no table.
    return _list_mixed_parts(finding, parts) if parts else []


def _differs_in_mean_only(finding: Finding, pairs: Sequence[Point]) -> bool:
    """Return True if the mean ratio of several pairs differs from 1 for certain, and no single pair does.

    Example: two pairs of cells have the ratios 1.05 (0.99 to 1.11) and 1.06 (0.99 to 1.13), whose intervals
    contain 1. That of their mean, 1.055 (1.01 to 1.10), does not.
    """
    row = finding.row
    is_mean = finding.definition["expect"].get("over") == "mean"
    # A finding is mixed because single pairs do differ.
    if not is_mean or len(pairs) < 2 or row["verdict"] == Verdict.MIXED:
        return False
    low, high = row["low"], row["high"]
    is_mean_certain = words.is_number(low) and words.is_number(high) and not low <= 1 <= high
    if not is_mean_certain:
        return False
    # Each pair has a row (_select_pairs): {} is for mypy only.
    comparisons_of_pairs = [ComparisonRow.of_record(pair.row or {}) for pair in pairs]
    # Without duplicates, a part of the noise is unknown: nothing is certain.
    if any(Flag.NO_DUPLICATES in comparison.flags for comparison in comparisons_of_pairs):
        return False
    # A certain difference of 3 % has the call FASTER, but the result EQUAL, because it is below the margin.
    # So only the call shows that a pair differs for certain.
    return not any(comparisons.is_difference(each.call) for each in comparisons_of_pairs)


def _describe_rounding(finding: Finding) -> str:
    """Return the range that the last digits of a published value leave open: `8.7x to 15x`.

    Published numbers are rounded, and a quotient of two rounded numbers can be far from the true one. The
    result is "" if the range is unknown, or so narrow (NARROW_ROUNDING) that it would not help a reader.
    """
    row = finding.row
    value, low, high = row["published"], row["published_low"], row["published_high"]
    if not value or low is None or high is None or high - low < NARROW_ROUNDING * value:
        return ""
    return finding.format_interval(low, high)


def describe_findings(views: Sequence[FindingView]) -> str:
    """Return the numbers of measured findings and of their verdicts in sentences, "" without a measured one.

    Example: `9 of 19 findings are measured. 4 are reproduced, 2 more in direction only (no number was
    stated). 2 differ: 1 weaker, 1 reversed. 1 is undecided.`
    """
    measured = [view for view in views if view.verdict != Verdict.NOT_MEASURED]
    if not measured:
        return ""
    verb = words.is_or_are(len(measured))
    sentences = [f"{len(measured)} of {words.count_of(len(views), 'finding')} {verb} measured."]
    reproduced = [view for view in measured if view.verdict == Verdict.REPRODUCED]
    if reproduced:
        sentences.append(_describe_reproduced(reproduced))
    verdicts_that_differ = (*EXPLAINABLE, Verdict.MIXED)
    differing = [view.verdict for view in measured if view.verdict in verdicts_that_differ]
    if differing:
        verb = "differs" if len(differing) == 1 else "differ"
        sentences.append(f"{len(differing)} {verb}: {describe_verdicts(differing)}.")
    # The other verdicts: undecided, or too small to compare.
    verdicts_so_far = (Verdict.REPRODUCED, *verdicts_that_differ)
    others = [view.verdict for view in measured if view.verdict not in verdicts_so_far]
    for verdict, number in Counter(others).items():
        sentences.append(f"{number} {words.is_or_are(number)} {verdict}.")
    return " ".join(sentences)


def _describe_reproduced(reproduced: Sequence[FindingView]) -> str:
    """Return the number of reproduced findings in a sentence; those in direction only are counted apart.

    Examples: `4 are reproduced, 2 more in direction only (no number was stated).`, and without a stated
    number `2 are reproduced in direction only (no number was stated).`
    """
    in_direction = sum(view.is_in_direction for view in reproduced)
    with_number = len(reproduced) - in_direction
    remark = "in direction only (no number was stated)"
    if not with_number:
        return f"{in_direction} {words.is_or_are(in_direction)} reproduced {remark}."
    sentence = f"{with_number} {words.is_or_are(with_number)} reproduced"
    if in_direction:
        sentence += f", {in_direction} more {remark}"
    return f"{sentence}."


def _make_dot(finding: Finding, expected: ExpectedRange, facts: FindingFacts) -> FindingDot | None:
    """Return the data of a finding in the plot of findings; None if it has no measured factor above 0."""
    row = finding.row
    # The plot has one axis for all findings, so it has no place for other units than factors.
    if not finding.is_factor or not finding.is_measured:
        return None
    # An undecided finding may have no number (None), for example after runs on two hosts. The axis is
    # logarithmic, so it has no place for 0.
    if not row["measured"]:
        return None
    return FindingDot(
        label=row["statement"],
        right_side=_describe_right_side(finding),
        verdict=facts.counted_verdict,
        # None is an open end: the bar reaches to the end of the axis. `at least 0` counts as open, too.
        expected_low=expected.low if expected.low > 0 else None,
        expected_high=expected.high if math.isfinite(expected.high) else None,
        published=row["published"],
        measured=row["measured"],
        low=row["low"],
        high=row["high"],
        texts={
            "expected": facts.expected,
            "published": facts.published or "not published",
            "measured": facts.measured,
            "interval": facts.interval or "none",
        },
    )


def split_reasons(row: Row) -> tuple[list[ReasonText], list[str]]:
    """Return the reasons of a verdict, and remarks (sentences), both in the order of the row.

    The column `reasons` is a list of verdicts.Reason, the most likely one first. A verdict that differs from
    the published number, such as weaker (EXPLAINABLE), has reasons that may explain this: `smaller scale`
    (EXPLAINING_CODES). All its other entries are remarks. The entries of any other verdict, such as
    undecided, are its reasons, except for facts on pairs and times (REMARK_CODES).
    """
    is_different = row["verdict"] in EXPLAINABLE
    reasons: list[ReasonText] = []
    remarks = []
    for reason in row["reasons"]:
        # The page has the text of this code next to the published value (_describe_all_published).
        if reason.code == ReasonCode.ALL_PUBLISHED:
            continue
        explains_nothing = is_different and reason.code not in verdicts.EXPLAINING_CODES
        if explains_nothing or reason.code in REMARK_CODES:
            remarks.append(f"{texts.reason_text(reason)}.")
            continue
        # cells_label() names cells by the labels of their values: `packed`, not `packing pack`.
        label, facts = texts.reason_words(reason, describe_cells=cells_label)
        action = texts.ACTION_TEXTS.get(reason.code, "")
        reasons.append(ReasonText(reason.code, label, facts, action))
    # A difference that nothing explains gets a reason, too, because its advice is to repeat the run.
    if is_different and not reasons:
        reasons.append(ReasonText(NO_REASON, NO_REASON, NOTHING_EXPLAINS, REPEAT))
    return reasons, remarks


def summarise_reasons(findings: Iterable[tuple[str, Sequence[ReasonText]]]) -> list[ReasonLine]:
    """Return a line for each reason of a verdict, the reason with most findings first.

    `findings` has the verdict and the reasons of each finding. Example of a line: `smaller scale`, `3 weaker,
    1 reversed`, `Measure the repository at a larger scale.`
    """
    verdicts_by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict, reasons in findings:
        # A finding counts once, also with two reasons of one label, such as two smaller repositories.
        for label_and_action in unique_values((reason.label, reason.action) for reason in reasons):
            verdicts_by_reason[label_and_action].append(verdict)
    by_frequency = sorted(verdicts_by_reason.items(), key=lambda item: len(item[1]), reverse=True)
    lines = []
    for (label, action), verdicts_of_reason in by_frequency:
        lines.append(ReasonLine(label, describe_verdicts(verdicts_of_reason), action))
    return lines


def _describe_all_published(finding: Finding) -> str:
    """Return `all 24 pairs: 0.74x`, the published value over all pairs; "" if it adds nothing.

    The column `published` has the value over the pairs that are measured here. If more pairs were published,
    the row has a reason with the value over all pairs. This value adds nothing if both are printed alike.
    """
    published = finding.format_number(finding.row["published"])
    for reason in finding.row["reasons"]:
        # The values of this reason are, for example, {"published": "24 pairs", "value": 0.742}.
        if reason.code == ReasonCode.ALL_PUBLISHED:
            value = finding.format_number(reason.values["value"])
            if value != published:
                return f"all {reason.values['published']}: {value}"
    return ""


def _describe_value(finding: Finding) -> str:
    """Return the meaning of a finding's number.

    - Two values of an axis are compared: `time of f6 ÷ time of f7: above 1x, f7 is faster`.
    - This run is compared with a saved baseline, here `before`: `times, before / now`.
    - Nothing is compared: the title of the metric, such as `Client CPU (table: medians)`.
    """
    metric = metric_in(finding.definition)
    sides = finding.sides
    if sides:
        baseline = value_label(sides.axis, sides.baseline)
        ratio = f"{metric.quantity} {baseline} ÷ {metric.quantity} {sides.candidate_label}"
        return f"{ratio}: above 1x, {_describe_right_side(finding)}"
    # Only a comparison with a saved baseline is a factor without sides.
    if finding.is_factor:
        return str(finding.row["unit"])
    # The number of a finding is a mean over the rounds, as in tables of times (`takes_mean`). All other
    # tables have medians, so a reader finds another number there.
    return metric.title if metric.takes_mean else f"{metric.title} (table: medians)"


def _describe_right_side(finding: Finding) -> str:
    """Return the meaning of a factor above 1: `f7 is faster`, for a saved baseline `this run is lower`."""
    metric = metric_in(finding.definition)
    # `gain` is -1 if a higher value is better, such as requests per second. Above 1x, the baseline is the
    # higher one, so the candidate is lower.
    meaning = f"{metric.words.verb} lower" if metric.gain < 0 else metric.words.is_better
    candidate = finding.sides.candidate_label if finding.sides else "this run"
    return f"{candidate} {meaning}"


def _select_pairs(
    finding: Finding, section: TableSection, where: Row, shares: Mapping[str, float]
) -> list[Point]:
    """Return the pairs of cells in a table from whose ratios the number of a finding was computed.

    A pair is a point of a table that compares, such as f6 with f7 in the cold log. `where` selects those of
    the finding by axis, with a value or a list of values: `{"cache": "cold"}`. `shares` has the share of
    start-up in the time of each cell: it decides which pairs the finding leaves out (_is_too_small_for).
    Return [] for a table that compares nothing, and for a finding without a measured number.
    """
    if not section.compares or not words.is_number(finding.row["measured"]):
        return []
    pairs = []
    for point in section.measured_points:
        has_ratio = point.row is not None and words.is_number(point.row.get("ratio"))
        is_of_finding = has_ratio and overlaps(where, point.keys)
        if is_of_finding and not _is_too_small_for(finding, point, shares):
            pairs.append(point)
    return pairs


def _is_too_small_for(finding: Finding, pair: Point, shares: Mapping[str, float]) -> bool:
    """Return True if a finding leaves out a pair of cells, because start-up can explain its difference.

    Start-up is the time of process start and connection, and `shares` has its share in the time of each cell.
    Example: 1.0 s and 1.1 s with the shares 0.6 and 0.7 have 0.4 s and 0.33 s of work, so only the start-up
    is longer. The number of the finding was computed by the same rule (finding_checks.CellCheck): the page
    must not list a pair that is no part of the number.
    """
    # A comparison with a saved baseline (no `sides`) leaves out no pair. Counts (`exact`) have no start-up.
    if finding.sides is None or metric_in(finding.definition).exact:
        return False
    # The table itself calls the pair too small to compare, because of its start-up or its short runs.
    if pair.is_small:
        return True
    # The shares of the two sides are unknown if the point does not name its two cells. For example, a row of
    # a table by runs is only a part of its cells.
    if pair.row is None or len(pair.cells) != 2:
        return False
    comparison = ComparisonRow.of_record(pair.row)
    baseline_share, candidate_share = (shares.get(cell, math.nan) for cell in pair.cells)
    shares_by_speed = comparisons.start_up_shares(
        comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        baseline=baseline_share,
        candidate=candidate_share,
    )
    # A table tests for a longer start-up of the slower side only if it calls the pair different. A finding
    # has no calls and tests each pair, as if it were different.
    return comparisons.start_up_explains(shares_by_speed, is_difference=True)


def _has_exchanged_sides(finding: Finding, section: TableSection) -> bool:
    """Return True if the table divides the other way round than the finding.

    The finding may compare packed with not packed, and the table not packed with packed. find_table() takes
    only a table of the same two values, so another baseline means exchanged sides.
    """
    return finding.sides is not None and finding.sides.baseline != section.baseline


def _describe_pairs(finding: Finding, section: TableSection, pairs: Sequence[Point]) -> str:
    """Return the number of pairs of a mean, and the range of their ratios: `3 pairs, 1.9x to 2.1x`."""
    ratios = [pair.row["ratio"] for pair in pairs if pair.row]
    if _has_exchanged_sides(finding, section):
        ratios = [1 / ratio for ratio in ratios]
    low, high = times(min(ratios)), times(max(ratios))
    # Ends with the same text are printed once. times_between() would add a digit, which the mean lacks: 2.3x
    # would seem to be outside of `2.26x to 2.28x`.
    if low == high:
        return f"{len(ratios)} pairs, {low}"
    return f"{len(ratios)} pairs, {low} to {high}"


def _find_mixed_parts(finding: Finding) -> list[MixedPart]:
    """Return the pairs or cells of a mixed finding with their places; [] for any other finding."""
    for reason in finding.row["reasons"]:
        if reason.code == ReasonCode.DISAGREEMENT:
            return mixed_parts(reason)
    return []


def _list_mixed_parts(finding: Finding, parts: Sequence[MixedPart]) -> list[PairLine]:
    """Return a line for each pair or cell of a mixed finding, in the order of its verdict."""
    axes = _differing_axes([part.where for part in parts])
    lines = []
    for part in parts:
        line = PairLine(
            case_label(part.where, [ACCESS_AXIS, *axes]),
            published="",
            measured=finding.format_number(part.value),
            interval=finding.format_interval(part.low, part.high),
            place=part.place,
        )
        lines.append(line)
    return lines


def _place_of(keys: Mapping[str, str], parts: Sequence[MixedPart]) -> RangePlace | None:
    """Return the place of the pair with these axis values; None if no part has them."""
    for part in parts:
        if all(keys.get(axis, value) == value for axis, value in part.where.items()):
            return part.place
    return None


def _differing_axes(places: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the axes on which some of the places differ. Any other axis would be alike in each line."""
    return [axis for axis in places[0] if len({place[axis] for place in places}) > 1]


def _list_pairs(
    finding: Finding,
    section: TableSection,
    pairs: Sequence[Point],
    parts: Sequence[MixedPart],
) -> list[PairLine]:
    """Return a line for each of several pairs of a finding, in the order of the table `section`.

    The factors are the finding's, baseline / candidate. If the table divides candidate / baseline, its
    factors are inverted: the published 22.0 % (a ratio of 1.22) becomes 1 / 1.22 = 0.82.

    The pairs of a mixed finding disagree, so each line has the place of its pair against the expected range,
    such as `below`. These places are in `parts`, which is [] for a finding that is not mixed.
    """
    is_exchanged = _has_exchanged_sides(finding, section)
    axes = _differing_axes([pair.keys for pair in pairs])
    lines = []
    for pair in pairs:
        comparison = ComparisonRow.of_record(pair.row or {})
        ratio, low, high = comparison.ratio, comparison.low, comparison.high
        published_ratio = pair.published_ratio
        if is_exchanged:
            ratio = 1 / ratio
            # The reciprocal of the lower end is the upper one.
            low, high = 1 / high, 1 / low
            published_ratio = 1 / published_ratio if published_ratio else None
        line = PairLine(
            # The label names the access and the state of the caches in any case.
            case_label(pair.keys, [ACCESS_AXIS, *axes]),
            published=times(published_ratio) if published_ratio else "",
            measured=times(ratio),
            # An interval is NaN after one round.
            interval=times_between(low, high) if math.isfinite(low) else "",
            place=_place_of(pair.keys, parts),
        )
        lines.append(line)
    return lines


def _describe_flags(
    results: Results, finding: Finding, named_flags: set[str]
) -> tuple[str, list[str]]:
    """Return the remarks on a finding's runs as a text, and the names of the flags in this text.

    Example: `null-log: over svn, the client does less work; not interleaved`, and `["apart"]`. Only flags in
    `named_flags` are named.
    """
    if not finding.is_measured:
        return "", []
    runs = _find_runs(results, finding)
    parts = []
    sides = finding.sides
    # Commands of svnbench (a test program), such as null-log, do less work in the client over svn than over
    # any other access. So their times do not show which access is faster.
    if sides and "svn" in (sides.baseline, sides.candidate):
        commands = [run["command"] for run in runs if has_less_client_work(sides.axis, run)]
        if commands:
            parts.append(f"{' or '.join(unique_values(commands))}: {LESS_CLIENT_WORK}")
    flags = [flag for run in runs for flag in run["flags"].split()]
    # Flags on the place of files on a device do not matter to runs whose files are all in memory.
    is_hot = all(cache_state(run.get("cache")).is_hot for run in runs)
    flag_names = name_flags(flags, named_flags, is_hot)
    parts += [label_flag(name) for name in flag_names]
    return "; ".join(parts), flag_names


def _find_runs(results: Results, finding: Finding) -> list[Row]:
    """Return the valid runs of a finding's cells, and of a comparison the runs of both sides."""
    selected = dict(finding.definition.get("where", {}))
    sides = finding.sides
    if sides:
        selected[sides.axis] = [sides.baseline, sides.candidate]
    # Published numbers can have an axis that this study does not measure. No run has this axis.
    where = {axis: axis_values(value) for axis, value in selected.items() if axis in results.order}
    return [run for run in results.valid_runs if matches_cell(run, where)]


def _find_anchor(where: Row, section: TableSection) -> str:
    """Return the anchor of the first row with a number of a finding: `table-elapsed-log`.

    `where` selects the rows of the finding by axis: `{"cache": "cold"}`, or a list of values. If no row of
    the finding has a number, return the anchor of the table.
    """
    rows = [row for grid in section.grids if section.is_measured for row in grid.rows]
    for row in rows:
        for point in row.points:
            if point and point.value is not None and overlaps(where, point.keys):
                return f"{section.anchor}-{row.slug}"
    return section.anchor
